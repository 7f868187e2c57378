"""OpenAI's SDK for Python."""
import json

import openai
from rows import CITY, EMBEDDER, QUESTION, SCRIPTED, TARGETS, URL, case, check, raises, told

CLIENT = "openai (Python)"
client = openai.OpenAI(base_url=f"{URL}/v1", api_key="unused", max_retries=0)
chats = client.chat.completions
FUNCTION = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}


def chat(model):
    answer = chats.create(model=model, messages=QUESTION, max_tokens=8)
    check(answer.choices[0].message.content and answer.usage.prompt_tokens > 0, "it has text and usage", answer)


def stream(model):
    text, usages = "", []
    for chunk in chats.create(
        model=model, messages=QUESTION, max_tokens=8, stream=True, stream_options={"include_usage": True}
    ):
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        usages += [chunk.usage] if chunk.usage else []
    check(text and usages and usages[-1].completion_tokens > 0, "it has text and usage", (text, usages))


def responses(model):
    answer = client.responses.create(model=model, input="Name a colour.", max_output_tokens=8)
    check(answer.output_text and answer.usage.input_tokens > 0, "it has text and usage", answer)


def responses_stream(model):
    text = ""
    with client.responses.stream(model=model, input="Name a colour.", max_output_tokens=8) as events:
        for event in events:
            text += event.delta if event.type == "response.output_text.delta" else ""
    check(text, "it has text")


def models(model):
    check(model in [m.id for m in client.models.list()], "the list has it")
    check(client.models.retrieve(model).id == model, "it is found by its name")


def completions(model):
    check(client.completions.create(model=model, prompt="One, two,", max_tokens=4).choices[0].text, "it has text")


def structured(model):
    schema = {"name": "place", "schema": CITY, "strict": True}
    kept = {"type": "json_schema", "json_schema": schema}
    answer = chats.create(model=model, messages=QUESTION, max_tokens=60, temperature=0, response_format=kept)
    check("city" in json.loads(answer.choices[0].message.content), "it keeps to the schema", answer)


def two_choices(model):
    answer = chats.create(model=model, messages=QUESTION, max_tokens=3, n=2, logprobs=True, top_logprobs=2)
    check([c.index for c in answer.choices] == [0, 1], "two choices", answer)
    check(all(len(t.top_logprobs) == 2 for c in answer.choices for t in c.logprobs.content), "log probabilities", answer)


def is_call(call):
    check(call.function.name == "get_weather" and json.loads(call.function.arguments)["city"] == "Paris", "it calls", call)


def tools():
    answer = chats.create(model=SCRIPTED, messages=told("tool"), tools=[FUNCTION])
    is_call(answer.choices[0].message.tool_calls[0])


def tools_stream():
    with chats.stream(model=SCRIPTED, messages=told("tool"), tools=[FUNCTION]) as events:
        for _ in events:
            pass
        is_call(events.get_final_completion().choices[0].message.tool_calls[0])


def extra_body():
    answer = chats.create(model=SCRIPTED, messages=told("echo"), seed=7, extra_body={"cache_salt": "s", "guided_json": CITY})
    got = json.loads(answer.choices[0].message.content)
    check(got["cache_salt"] == "s" and got["guided_json"] == CITY and got["seed"] == 7, "all members reach the engine", got)


def transcription():
    answer = client.audio.transcriptions.create(model=SCRIPTED, file=("a.wav", b"\x07" * 200_000))
    check(answer.text.startswith("scripted heard 200"), "the form came whole", answer)


def embeddings(model):
    answer = client.embeddings.create(model=model, input=["a cat", "a dog"])
    check(len(answer.data) == 2 and len(answer.data[0].embedding) > 100, "two vectors", len(answer.data))


def ask(script, **more):
    return chats.create(model=more.pop("model", SCRIPTED), messages=told(script), **more)


def read(stream):
    for _ in stream:
        pass


for target in TARGETS:
    for name, run in {
        "chat": chat,
        "stream": stream,
        "responses": responses,
        "responses stream": responses_stream,
        "list and retrieve models": models,
    }.items():
        case(CLIENT, name, target["model"], lambda run=run: run(target["model"]))
    if not target["real"]:
        continue
    for name, run in {
        "completions": completions,
        "structured output": structured,
        "n = 2 and log probabilities": two_choices,
    }.items():
        case(CLIENT, name, target["model"], lambda run=run: run(target["model"]))

if EMBEDDER:
    case(CLIENT, "embeddings", EMBEDDER, lambda: embeddings(EMBEDDER))
for name, run in {
    "tools": tools,
    "tools stream": tools_stream,
    "all members reach the engine": extra_body,
    "audio to text": transcription,
    "400 of the engine": lambda: raises(openai.BadRequestError, lambda: ask("400"), 400),
    "401 of the engine": lambda: raises(openai.AuthenticationError, lambda: ask("401"), 401),
    "404 for a model that is not there": lambda: raises(openai.NotFoundError, lambda: ask("x", model="nope"), 404),
    "429 of the engine": lambda: raises(openai.RateLimitError, lambda: ask("429"), 429),
    "500 of the engine": lambda: raises(openai.InternalServerError, lambda: ask("500"), 500),
    "503 of the engine": lambda: raises(openai.InternalServerError, lambda: ask("503"), 503),
    "501 for an endpoint that is not there": lambda: raises(
        openai.InternalServerError, lambda: client.with_options(max_retries=2).moderations.create(model=SCRIPTED, input="x"), 501
    ),
    "a stream that breaks": lambda: raises(openai.APIError, lambda: read(ask("broken", stream=True))),
    "an error in a stream": lambda: raises(openai.APIError, lambda: read(ask("error-event", stream=True))),
    "an error in a stream of responses": lambda: raises(
        openai.APIError, lambda: read(client.responses.create(model=SCRIPTED, input="[[broken]]", stream=True))
    ),
    "a timeout": lambda: raises(openai.APITimeoutError, lambda: ask("hang", timeout=0.3)),
}.items():
    case(CLIENT, name, SCRIPTED, run)
