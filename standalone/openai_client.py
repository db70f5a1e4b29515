"""Checks a running gateway with the official OpenAI client. Usage: openai_client.py PORT CONFIG"""

import json
import sys
import urllib.request

import openai

port, config = int(sys.argv[1]), json.load(open(sys.argv[2]))
url = f"http://127.0.0.1:{port}/v1"
client = openai.OpenAI(base_url=url, api_key=config["gateway"]["auth"]["token"], max_retries=0, timeout=60)
passed = failed = 0


def check(name, ok, seen=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"{'ok   ' if ok else 'FAIL '} {name}" + ("" if ok else f": {seen!r}"))


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    except Exception as error:
        return print(f"      instead: {error!r}")
    return None


models = [model.id for model in client.models.list()]
check("models are the agents", "orchestrator" in models and "sysadmin" in models, models)

hello = [{"role": "user", "content": "hello"}]
answer = client.chat.completions.create(model="orchestrator", messages=hello)
check("an answer has text", bool(answer.choices[0].message.content), answer)
check("an answer has a role", answer.choices[0].message.role == "assistant", answer)
check("an answer says why it ended", answer.choices[0].finish_reason == "stop", answer)
check("an answer counts tokens", answer.usage is not None and answer.usage.total_tokens >= 0, answer)
check("an answer has id and time", answer.id.startswith("chatcmpl") and answer.created > 1_600_000_000, answer)

chunks = list(
    client.chat.completions.create(
        model="flock/orchestrator", messages=hello, stream=True, stream_options={"include_usage": True}
    )
)
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
check("streaming says the same", text == answer.choices[0].message.content, text)
check("streaming has one id", len({c.id for c in chunks}) == 1, [c.id for c in chunks])
ends = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
check("streaming says why it ended, once", ends == ["stop"], ends)
check("streaming ends with usage", chunks[-1].usage is not None and not chunks[-1].choices, chunks[-1])

key = "agent:orchestrator:flock:main:openai-check"
headers = {"X-OpenClaw-Session-Key": key}
parts = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
answer = client.chat.completions.create(model="openclaw/orchestrator", messages=parts, extra_headers=headers)
check("a session is spoken to by its key", bool(answer.choices[0].message.content), answer)

error = raises(openai.NotFoundError, lambda: client.chat.completions.create(model="nobody", messages=hello))
check("an unknown agent is NotFoundError", error is not None and "nobody" in str(error), error)
wrong = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
check("a wrong token is AuthenticationError", raises(openai.AuthenticationError, wrong.models.list) is not None)
tools = [{"type": "function", "function": {"name": "exec", "parameters": {"type": "object", "properties": {}}}}]
error = raises(
    openai.BadRequestError,
    lambda: client.chat.completions.create(model="orchestrator", messages=hello, tools=tools),
)
check("a tool with the name of an agent's own is BadRequestError", error is not None and error.param == "tools", error)
error = raises(
    openai.BadRequestError,
    lambda: client.chat.completions.create(model="sysadmin", messages=hello, extra_headers=headers),
)
check("another agent's session is BadRequestError", error is not None, error)
error = raises(openai.BadRequestError, lambda: client.chat.completions.create(model="orchestrator", messages=[]))
check("no messages is BadRequestError", error is not None, error)

# What is not there is read as such, however much was sent.
for size in (10, 3 << 20):
    error = raises(openai.NotFoundError, lambda: client.embeddings.create(model="coder", input="x" * size))
    check(f"a missing path is NotFoundError after {size} bytes", error is not None and "/v1/models" in str(error), error)

# The Responses API.
first = client.responses.create(model="coder", input="hello", metadata={"case": "7"})
check("a response has text", first.output_text == "Hello from here." and first.status == "completed", first)
check("it counts tokens and repeats metadata", first.usage.total_tokens >= 0 and first.metadata == {"case": "7"}, first)
check("it can be read again", client.responses.retrieve(first.id) == first, first.id)
second = client.responses.create(model="coder", input="look around", previous_response_id=first.id)
kinds = [item.type for item in second.output]
check("the agent's own calls are items", kinds == ["mcp_call", "message"], second)
events = list(client.responses.create(model="coder", input="look around", previous_response_id=second.id, stream=True))
check("a stream ends with the response", events[-1].type == "response.completed", [event.type for event in events])
text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
check("its pieces are its text", text == events[-1].response.output_text == "Seen.", events[-1])
with client.responses.stream(model="coder", input="hello") as stream:
    check("the client's own reader of streams agrees", stream.get_final_response().output_text == "Hello from here.")
shape = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
shape = {"format": {"type": "json_schema", "name": "answer", "schema": shape}}
told = client.responses.create(model="coder", input="which colour?", text=shape)
check("a response has the form of its schema", json.loads(told.output_text) == {"colour": "blue"}, told)
error = raises(openai.BadRequestError, lambda: client.responses.create(model="coder", input="x", previous_response_id=first.id))
check("only the newest can be continued", error is not None and error.code == "response_already_continued", error)
error = raises(
    openai.BadRequestError,
    lambda: client.responses.create(model="coder", input="x", tools=[{"type": "web_search"}]),
)
check("tools that OpenAI would run are BadRequestError", error is not None and error.param == "tools", error)
unkept = client.responses.create(model="coder", input="hello", store=False)
error = raises(openai.NotFoundError, lambda: client.responses.retrieve(unkept.id))
check("what is not stored is NotFoundError", error is not None and error.code == "response_not_found", error)
client.responses.delete(told.id)
error = raises(openai.NotFoundError, lambda: client.responses.retrieve(told.id))
check("what was deleted, too", error is not None, error)


# A client's retries never run a turn again that did something.
def fetched(path):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    request.add_header("Authorization", f"Bearer {config['gateway']['auth']['token']}")
    return json.load(urllib.request.urlopen(request))


def posted(text):
    return [said for said in fetched("/api/channels/dev/messages")["messages"] if text in said["content"]]


retrying = openai.OpenAI(base_url=url, api_key=config["gateway"]["auth"]["token"], max_retries=3, timeout=60)
# What is posted differs: an agent's second post of the same words is refused.
for streamed, asked, said in ((False, "post and fail", "posted by"), (True, "stream and fail", "streamed by")):
    error = raises(
        openai.APIStatusError,
        lambda: list(
            retrying.chat.completions.create(
                model="coder", messages=[{"role": "user", "content": asked}], stream=streamed
            )
        ),
    )
    check(f"a turn that did something fails with 424 (stream={streamed})", getattr(error, "status_code", 0) == 424, error)
    check("the error names its turn", error is not None and bool(error.body.get("turn")), getattr(error, "body", None))
    check("it ran exactly once", len(posted(said)) == 1, posted("a turn that fails"))

once = {"Idempotency-Key": "openai-check-1"}
answers = [client.chat.completions.create(model="coder", messages=hello, extra_headers=once) for _ in range(3)]
check("a key makes three requests one turn", len({answer.id for answer in answers}) == 1, answers)
other = [{"role": "user", "content": "something else"}]
error = raises(
    openai.UnprocessableEntityError,
    lambda: client.chat.completions.create(model="coder", messages=other, extra_headers=once),
)
check("another request under the key is UnprocessableEntityError", error is not None, error)

# The form and the end of an answer.
schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def asked(text, **more):
    return client.chat.completions.create(model="coder", messages=[{"role": "user", "content": text}], **more)


answer = asked("which colour?", response_format=form)
check("an answer has the form of its schema", json.loads(answer.choices[0].message.content) == {"colour": "blue"}, answer)
text = "".join(c.choices[0].delta.content or "" for c in asked("which colour?", response_format=form, stream=True))
check("a streamed one, too", json.loads(text) == {"colour": "blue"}, text)
answer = asked("which colour?", response_format={"type": "json_object"})
check("an answer is a JSON object", json.loads(answer.choices[0].message.content) == {"colour": "blue"}, answer)
error = raises(
    openai.BadRequestError, lambda: asked("hello", response_format={"type": "json_schema", "json_schema": {"name": "x"}})
)
check("a form without a schema is BadRequestError", error is not None and error.param == "response_format", error)
answer = asked("count", stop=["STOP"])
check("stop ends an answer", answer.choices[0].message.content == "one two three ", answer)
answer = asked("count", max_tokens=2)
check("max_tokens ends an answer", answer.choices[0].finish_reason == "length", answer)
check("max_tokens cuts its text", answer.choices[0].message.content == "one two ", answer)
for name, value in {"logprobs": True, "n": 2, "modalities": ["text", "audio"]}.items():
    error = raises(openai.BadRequestError, lambda: asked("hello", **{name: value}))
    check(f"{name} is refused by name", error is not None and error.param == name, error)

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
