"""Clients in Python with tools of their own against a running gateway, named by OPENAI_BASE_URL and OPENAI_API_KEY."""

import json
import os
import sys
import traceback

URL, TOKEN = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
WEATHER = {"Oslo": "mild", "Rome": "hot"}
# No client is to ask anybody but the gateway, not even for its own news.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LANGSMITH_TRACING="false", DO_NOT_TRACK="1")
passed = failed = 0


def check(name, ok, seen=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"{'ok   ' if ok else 'FAIL '} {name}" + ("" if ok else f": {seen!r}"[:3000]))


def part(name):
    """Runs a function as the checks of one client; what it raises is a failure."""

    def run(checks):
        try:
            checks()
        except Exception:
            check(f"{name} gets to its end", False, traceback.format_exc())

    return run


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": PARAMETERS}


@part("openai")
def chat_completions():
    import openai

    client = openai.OpenAI(max_retries=0, timeout=60)
    tools = [{"type": "function", "function": FUNCTION}]

    def answered(call):
        return {"role": "tool", "tool_call_id": call.id, "content": WEATHER[json.loads(call.function.arguments)["city"]]}

    messages = [{"role": "user", "content": "two cities"}]
    first = client.chat.completions.create(model="coder", messages=messages, tools=tools).choices[0]
    check("openai: the answer ends with calls", first.finish_reason == "tool_calls" and len(first.message.tool_calls) == 2, first)
    messages += [first.message, *map(answered, first.message.tool_calls)]
    last = client.chat.completions.create(model="coder", messages=messages, tools=tools).choices[0]
    check("openai: the results are read", last.message.content == "It is: hot" and last.finish_reason == "stop", last)
    # Streamed, put together by the client's own helper.
    messages = [{"role": "user", "content": "two cities"}]
    with client.chat.completions.stream(model="coder", messages=messages, tools=tools) as stream:
        final = stream.get_final_completion().choices[0]
    check("openai: a stream has the same calls", [call.function.arguments for call in final.message.tool_calls] ==
          ['{"city":"Oslo"}', '{"city":"Rome"}'] and final.message.content == "I look.", final)
    messages += [final.message, *map(answered, final.message.tool_calls)]
    text = "".join(
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(model="coder", messages=messages, tools=tools, stream=True)
    )
    check("openai: a stream goes on with the results", text == "It is: hot", text)
    for what, wrong in {
        "missing": messages[:-1],
        "doubled": [*messages, messages[-1]],
        "unknown": [*messages[:-1], {"role": "tool", "tool_call_id": "call_1", "content": "x"}],
    }.items():
        try:
            client.chat.completions.create(model="coder", messages=wrong, tools=tools)
            check(f"openai: {what} results are BadRequestError", False)
        except openai.BadRequestError as error:
            check(f"openai: {what} results are BadRequestError", error.param == "messages", error)
    try:
        own = [{"type": "function", "function": {**FUNCTION, "name": "exec"}}]
        client.chat.completions.create(model="coder", messages=messages[:1], tools=own)
        check("openai: the name of an own tool is refused", False)
    except openai.BadRequestError as error:
        check("openai: the name of an own tool is refused", error.code == "tool_name_taken", error)
    # A client that gets no answer sends the same again.
    once = {"Idempotency-Key": "interop-1"}
    messages = [{"role": "user", "content": "the weather"}]
    ids = [
        client.chat.completions.create(model="coder", messages=messages, tools=tools, extra_headers=once)
        .choices[0].message.tool_calls[0].id
        for _ in range(2)
    ]
    check("openai: a repeat under a key has the same call", ids[0] == ids[1], ids)
    strict = [{"type": "function", "function": {**FUNCTION, "strict": True}}]
    messages = [{"role": "user", "content": "wrong arguments"}]
    first = client.chat.completions.create(model="coder", messages=messages, tools=strict).choices[0]
    check("openai: strict hands out only what fits", first.message.tool_calls[0].function.arguments == '{"city":"Oslo"}', first)


@part("openai responses")
def responses():
    import openai

    client = openai.OpenAI(max_retries=0, timeout=60)
    tools = [{"type": "function", **FUNCTION}]

    def outputs(response):
        return [
            {"type": "function_call_output", "call_id": item.call_id, "output": WEATHER[json.loads(item.arguments)["city"]]}
            for item in response.output
            if item.type == "function_call"
        ]

    first = client.responses.create(model="coder", input="two cities", tools=tools)
    kinds = [item.type for item in first.output]
    check("responses: calls are items", kinds == ["message", "mcp_call", "function_call", "function_call"], first)
    last = client.responses.create(model="coder", input=outputs(first), tools=tools, previous_response_id=first.id)
    check("responses: outputs continue a response", last.output_text == "It is: hot", last)
    with client.responses.stream(model="coder", input="the weather", tools=tools, store=False) as stream:
        deltas = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        first = stream.get_final_response()
    check("responses: a stream has the arguments", "".join(deltas) == '{"city":"Oslo"}', deltas)
    whole = [{"role": "user", "content": "the weather"}, *first.output, *outputs(first)]
    last = client.responses.create(model="coder", input=whole, tools=tools, store=False)
    check("responses: a client may keep the conversation", last.output_text == "It is: mild", last)
    gone = client.responses.create(model="coder", input="the weather", tools=tools)
    last = client.responses.create(model="coder", input="never mind", previous_response_id=gone.id)
    check("responses: a new message goes on without the output", last.output_text == "As you like.", last)


@part("langchain")
def langchain():
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    called = []

    @tool
    def weather(city: str) -> str:
        """The weather of a city."""
        called.append(city)
        return WEATHER[city]

    class Report(BaseModel):
        """A report."""

        city: str
        degrees: int

    for name, more in {"chat completions": {}, "responses": {"use_responses_api": True}}.items():
        model = ChatOpenAI(model="coder", base_url=URL, api_key=TOKEN, max_retries=0, timeout=60, **more)
        called.clear()
        agent = create_agent(model, [weather])
        done = agent.invoke({"messages": [{"role": "user", "content": "one after the other"}]})
        check(f"langchain: an agent runs its tools, {name}", called == ["Oslo", "Rome"], done)
        check(f"langchain: and has the answer, {name}", done["messages"][-1].text == "It is: hot", done["messages"][-1])
        pieces = model.bind_tools([weather]).stream("two cities")
        whole = next(pieces)
        for piece in pieces:
            whole += piece
        check(f"langchain: a stream has its calls, {name}", [call["args"]["city"] for call in whole.tool_calls] == ["Oslo", "Rome"], whole)
        made = model.with_structured_output(Report, method="function_calling").invoke("structured, please")
        check(f"langchain: structured output by a forced call, {name}", made == Report(city="Oslo", degrees=7), made)


@part("litellm")
def litellm():
    import litellm as lite

    lite.telemetry = False
    tools = [{"type": "function", "function": FUNCTION}]
    ask = dict(model="openai/coder", api_base=URL, api_key=TOKEN, tools=tools, num_retries=0, timeout=60)
    messages = [{"role": "user", "content": "two cities"}]
    first = lite.completion(messages=messages, **ask).choices[0]
    check("litellm: the answer ends with calls", first.finish_reason == "tool_calls", first)
    messages.append(first.message)
    for call in first.message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": WEATHER[json.loads(call.function.arguments)["city"]]})
    last = lite.completion(messages=messages, **ask).choices[0]
    check("litellm: the results are read", last.message.content == "It is: hot", last)
    chunks = list(lite.completion(messages=messages[:1], stream=True, **ask))
    built = lite.stream_chunk_builder(chunks).choices[0].message
    check("litellm: a stream has the calls", len(built.tool_calls) == 2 and built.content == "I look.", built)


@part("pydantic-ai")
def pydantic_ai():
    from pydantic import BaseModel
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class Record(BaseModel):
        city: str
        degrees: int

    provider = OpenAIProvider(base_url=URL, api_key=TOKEN)
    for name, kind in {"chat completions": OpenAIChatModel, "responses": OpenAIResponsesModel}.items():
        called = []

        def weather(city: str) -> str:
            """The weather of a city."""
            called.append(city)
            return WEATHER[city]

        agent = Agent(kind("coder", provider=provider), tools=[weather])
        done = agent.run_sync("one after the other")
        check(f"pydantic-ai: an agent runs its tools, {name}", called == ["Oslo", "Rome"] and done.output == "It is: hot", (called, done))
        # Its output is a call of a tool, which it demands with `required`.
        agent = Agent(kind("coder", provider=provider), tools=[weather], output_type=Record)
        done = agent.run_sync("as a record")
        check(f"pydantic-ai: the output is a record, {name}", done.output == Record(city="Oslo", degrees=7), done)


@part("llm")
def llm():
    import llm as package
    from llm.default_plugins.openai_models import Chat

    called = []

    def weather(city: str) -> str:
        """The weather of a city."""
        called.append(city)
        return WEATHER[city]

    model = Chat("coder", model_name="coder", api_base=URL, supports_tools=True)
    model.key = TOKEN
    for stream in (False, True):
        called.clear()
        text = model.chain("one after the other", tools=[package.Tool.function(weather)], stream=stream).text()
        check(f"llm: a chain runs its tools (stream={stream})", called == ["Oslo", "Rome"] and text.endswith("It is: hot"), (called, text))


print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
