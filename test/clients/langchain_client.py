"""LangChain with its OpenAI package, as agents use it."""
import openai
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from rows import CITY, EMBEDDER, SCRIPTED, TARGETS, URL, case, check, raises

CLIENT = "LangChain"


def llm(model, **more):
    return ChatOpenAI(base_url=f"{URL}/v1", api_key="unused", model=model, max_retries=0, **more)


ASKED = [SystemMessage("Be brief."), HumanMessage("Name a colour in one word.")]


def invoke(model):
    answer = llm(model, max_tokens=8).invoke(ASKED)
    check(answer.content and answer.usage_metadata["input_tokens"] > 0, "it has text and usage", answer)


def stream(model):
    whole = None
    for chunk in llm(model, max_tokens=8, stream_usage=True).stream(ASKED):
        whole = chunk if whole is None else whole + chunk
    check(whole.content and whole.usage_metadata["output_tokens"] > 0, "it has text and usage", whole)


def responses(model):
    answer = llm(model, max_tokens=16, use_responses_api=True).invoke(ASKED)
    check(answer.text, "it has text", answer)


def structured(model):
    schema = {"title": "place", "description": "a place", **CITY}
    answer = llm(model, max_tokens=60, temperature=0).with_structured_output(schema, method="json_schema").invoke(ASKED)
    check("city" in answer, "it keeps to the schema", answer)


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


def agent_turn():
    bound = llm(SCRIPTED).bind_tools([get_weather])
    asked = [HumanMessage("Please [[tool]].")]
    answer = bound.invoke(asked)
    check(answer.tool_calls[0]["args"] == {"city": "Paris"}, "it calls", answer)
    result = ToolMessage(get_weather.invoke(answer.tool_calls[0]["args"]), tool_call_id=answer.tool_calls[0]["id"])
    done = llm(SCRIPTED).invoke([HumanMessage("Please answer."), answer, result])
    check(done.content == "Hello to you.", "it goes on after the result", done)


def tools_stream():
    whole = None
    for chunk in llm(SCRIPTED).bind_tools([get_weather]).stream([HumanMessage("Please [[tool]].")]):
        whole = chunk if whole is None else whole + chunk
    check(whole.tool_calls[0]["args"] == {"city": "Paris"}, "it calls", whole)


def embeddings(model):
    vectors = OpenAIEmbeddings(
        base_url=f"{URL}/v1", api_key="unused", model=model, check_embedding_ctx_length=False
    ).embed_documents(["a cat", "a dog"])
    check(len(vectors) == 2 and len(vectors[0]) > 100, "two vectors", len(vectors))


for target in TARGETS:
    cases = {"invoke": invoke, "stream": stream, "responses": responses}
    if target["real"]:
        cases["structured output"] = structured
    for name, run in cases.items():
        case(CLIENT, name, target["model"], lambda run=run: run(target["model"]))

if EMBEDDER:
    case(CLIENT, "embeddings", EMBEDDER, lambda: embeddings(EMBEDDER))
for name, run in {
    "a call and its result": agent_turn,
    "tools stream": tools_stream,
    "429 of the engine": lambda: raises(openai.RateLimitError, lambda: llm(SCRIPTED).invoke("Please [[429]]."), 429),
    "404 for a model that is not there": lambda: raises(openai.NotFoundError, lambda: llm("nope").invoke("x"), 404),
}.items():
    case(CLIENT, name, SCRIPTED, run)
