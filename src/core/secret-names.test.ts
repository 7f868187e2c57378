import { describe, expect, it } from "vitest";
import { isSecretName, isSecretVariable } from "./secret-names.ts";

// Flags and variables were judged by two lists, and HF_TOKEN in [engine].env by none: it was printed.
describe("isSecretName", () => {
  it.each([
    ...["--api-key", "--hf-token", "--admin-api-key", "--ssl-keyfile-password", "--api_key", "-password", "apiKey"],
    ...["HF_TOKEN", "HF_TOKEN_2", "MY_API_KEY", "DB_PASSWORD", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "TOKEN"],
    ...["HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEYS", "SECRET_KEY_BASE", "DB_PASSWORD_PROD", "MY_API_KEY_PROD"],
    ...["GOOGLE_CREDENTIALS", "MYSQL_PWD", "DB_PASS", "REDIS_PASSWD", "APIKEY", "API_KEY1", "VLLM_API_KEY"],
  ])("isSecretName() is true for %s", (name) => {
    expect(isSecretName(name)).toBe(true);
  });

  it.each([
    ...["TOKENIZERS_PARALLELISM", "VLLM_MAX_TOKENS", "VLLM_V1_MAX_NUM_BATCHED_TOKENS", "MONKEY", "PWD", "OLDPWD"],
    ...["KEYBOARD", "--api-key-file", "API_KEY_FILE", "AWS_ACCESS_KEY_ID", "EOS_TOKEN", "BYTES_PER_TOKEN", "BYPASS"],
    ...["--ssl-keyfile", "--max-num-batched-tokens", "--tokenizer", "TOKEN_BUDGET", "PUBLIC_KEY", "secret_from"],
    ...["PYTHONHASHSEED", "CUDA_VISIBLE_DEVICES", "COMPASS", "SECRETARY", "block_size_tokens", ""],
  ])("isSecretName() is false for %s", (name) => {
    expect(isSecretName(name)).toBe(false);
  });
});

describe("isSecretVariable", () => {
  it("isSecretVariable() sees a password in an address, whatever the name", () => {
    expect(isSecretVariable("LMCACHE_REMOTE_URL", "redis://:hunter2@db:6379")).toBe(true);
    expect(isSecretVariable("LMCACHE_REMOTE_URL", "redis://db:6379")).toBe(false);
    expect(isSecretVariable("HF_TOKEN", "")).toBe(false);
  });
});
