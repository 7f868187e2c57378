"""LiteLLM's SDK: pip install litellm; python litellm_chat.py"""

import json
import os
import urllib.request

# What a model costs is looked up in a list that is fetched otherwise.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import litellm  # noqa: E402

url = os.environ.get("CGN_URL", "http://127.0.0.1:8080") + "/v1"
key = os.environ.get("CGN_API_KEY", "unused")
model = os.environ.get("CGN_MODEL")
if not model:
    request = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request) as reply:
        model = json.load(reply)["data"][0]["id"]

answer = litellm.completion(
    # "hosted_vllm" is LiteLLM's word for an endpoint with OpenAI's API that is your own.
    model=f"hosted_vllm/{model}",
    api_base=url,
    api_key=key,
    max_tokens=32,
    messages=[{"role": "user", "content": "Name a colour."}],
)
print(answer.choices[0].message.content, answer.usage.prompt_tokens)
