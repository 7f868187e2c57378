"""LangChain: pip install langchain-openai; python langchain_chat.py"""

import os

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from openai import OpenAI

url = os.environ.get("CGN_URL", "http://127.0.0.1:8080") + "/v1"
key = os.environ.get("CGN_API_KEY", "unused")
model = os.environ.get("CGN_MODEL") or OpenAI(base_url=url, api_key=key).models.list().data[0].id

chat = ChatOpenAI(base_url=url, api_key=key, model=model, max_tokens=32)
# A system message that stays the same, and comes first, is what re-use of the cache lives on.
system = SystemMessage("You are brief.")
for question in ["Name a colour.", "Name a fruit."]:
    answer = chat.invoke([system, HumanMessage(question)])
    print(answer.content, answer.usage_metadata["input_token_details"])
