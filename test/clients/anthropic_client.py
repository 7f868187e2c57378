"""Anthropic's SDK for Python."""
import anthropic
from rows import CITY, QUESTION, SCRIPTED, TARGETS, URL, case, check, raises, told

CLIENT = "anthropic (Python)"
client = anthropic.Anthropic(base_url=URL, api_key="unused", max_retries=0)
TOOL = {"name": "get_weather", "input_schema": CITY}


def messages(model):
    answer = client.messages.create(model=model, messages=QUESTION, max_tokens=8, system="Be brief.")
    check(answer.content[0].text and answer.stop_reason and answer.usage.output_tokens > 0, "it has text", answer)


def stream(model):
    with client.messages.stream(model=model, messages=QUESTION, max_tokens=8) as events:
        text = "".join(events.text_stream)
        answer = events.get_final_message()
    check(text == answer.content[0].text and answer.stop_reason, "text and end", (text, answer))


def count(model):
    check(client.messages.count_tokens(model=model, messages=QUESTION).input_tokens > 5, "it counts")


def models(model):
    check(model in [m.id for m in client.models.list()], "the list has it")
    check(client.models.retrieve(model).id == model, "it is found by its name")


def is_call(answer):
    call = next(b for b in answer.content if b.type == "tool_use")
    check(call.input == {"city": "Paris"} and answer.stop_reason == "tool_use", "it calls", answer)


def tools():
    is_call(client.messages.create(model=SCRIPTED, max_tokens=60, messages=told("tool"), tools=[TOOL]))


def tools_stream():
    with client.messages.stream(model=SCRIPTED, max_tokens=60, messages=told("tool"), tools=[TOOL]) as events:
        is_call(events.get_final_message())


def ask(script, model=SCRIPTED, **more):
    return client.messages.create(model=model, max_tokens=8, messages=told(script), **more)


def read(script):
    with client.messages.stream(model=SCRIPTED, max_tokens=8, messages=told(script)) as events:
        events.get_final_message()


for target in TARGETS:
    cases = {"messages": messages, "messages stream": stream, "list and retrieve models": models}
    if not target["chatOnly"]:
        cases["count tokens"] = count
    for name, run in cases.items():
        case(CLIENT, name, target["model"], lambda run=run: run(target["model"]))

for name, run in {
    "messages tools": tools,
    "messages tools stream": tools_stream,
    "400 of the engine": lambda: raises(anthropic.BadRequestError, lambda: ask("400"), 400),
    "401 of the engine": lambda: raises(anthropic.AuthenticationError, lambda: ask("401"), 401),
    "404 for a model that is not there": lambda: raises(anthropic.NotFoundError, lambda: ask("x", "nope"), 404),
    "429 of the engine": lambda: raises(anthropic.RateLimitError, lambda: ask("429"), 429),
    "500 of the engine": lambda: raises(anthropic.InternalServerError, lambda: ask("500"), 500),
    "503 of the engine": lambda: raises(anthropic.InternalServerError, lambda: ask("503"), 503),
    "a stream that breaks": lambda: raises(anthropic.APIError, lambda: read("broken")),
    "an error in a stream": lambda: raises(anthropic.APIError, lambda: read("error-event")),
    "a timeout": lambda: raises(anthropic.APITimeoutError, lambda: ask("hang", timeout=0.3)),
}.items():
    case(CLIENT, name, SCRIPTED, run)
