"""OpenAI's Python SDK: pip install openai; python openai_python.py"""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("CGN_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("CGN_API_KEY", "unused"),
)
model = os.environ.get("CGN_MODEL") or client.models.list().data[0].id

stream = client.chat.completions.create(
    model=model,
    max_tokens=32,
    messages=[{"role": "user", "content": "Name a colour."}],
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
    if chunk.usage:
        print(f"\n{chunk.usage.prompt_tokens} prompt tokens, {chunk.usage.completion_tokens} generated")
