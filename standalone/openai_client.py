"""Checks a running gateway with the official OpenAI client. Usage: openai_client.py PORT CONFIG"""

import json
import sys

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

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
