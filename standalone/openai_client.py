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
tools = [{"type": "function", "function": {"name": "x", "parameters": {"type": "object", "properties": {}}}}]
error = raises(
    openai.BadRequestError,
    lambda: client.chat.completions.create(model="orchestrator", messages=hello, tools=tools),
)
check("a client's own tools are BadRequestError", error is not None, error)
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
error = raises(openai.NotFoundError, lambda: client.responses.create(model="coder", input="hello"))
check("the Responses API is said not to be there", error is not None and "Responses API" in str(error), error)


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
