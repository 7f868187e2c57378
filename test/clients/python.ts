import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Row } from "./cases.ts";
import type { ClientFleet } from "./fleet.ts";

/** Of examples/, as their users run them. */
const EXAMPLES = ["openai_python.py", "langchain_chat.py", join("litellm", "litellm_chat.py")];

const SCRIPTS = ["openai_client.py", "anthropic_client.py", "langchain_client.py"];

/** The Python clients, each a script of its own; they write a row a line. */
export async function runPython(python: string, fleet: ClientFleet): Promise<Row[]> {
  const { url, targets, scripted, embedder } = fleet;
  const given = JSON.stringify({ url, targets, scripted, embedder });
  const rows: Row[] = [];
  for (const script of SCRIPTS) {
    const file = join(import.meta.dirname, script);
    if (!existsSync(file)) throw new Error(`There is no ${file}`);
    rows.push(...(await runScript(python, file, given)));
  }
  for (const name of EXAMPLES) rows.push(await runExample(python, name, url));
  return rows;
}

async function runExample(python: string, name: string, url: string): Promise<Row> {
  const file = join(import.meta.dirname, "..", "..", "examples", name);
  const env = { ...process.env, NO_PROXY: "*", CGN_URL: url, CGN_API_KEY: "unused" };
  const { code, out, err } = await runFile(python, [file], env);
  const ok = code === 0 && out.trim() !== "";
  return { client: "examples", name, model: "", ok, said: ok ? "" : err.slice(-2_000) };
}

async function runScript(python: string, file: string, given: string): Promise<Row[]> {
  const env = { ...process.env, NO_PROXY: "*", OPENAI_API_KEY: "unused", ANTHROPIC_API_KEY: "unused" };
  const { code, out, err } = await runFile(python, [file, given], env);
  const rows = out
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Row);
  if (code !== 0 || rows.length === 0) {
    rows.push({ client: file.split("/").at(-1)!, name: "runs", model: "", ok: false, said: err.slice(-2_000) });
  }
  return rows;
}

async function runFile(
  python: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const child = spawn(python, [...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
  const code = await new Promise<number>((resolve) => {
    child.on("error", (e) => {
      err += e.message;
      resolve(1);
    });
    child.on("close", (c) => resolve(c ?? 1));
  });
  return { code, out, err };
}
