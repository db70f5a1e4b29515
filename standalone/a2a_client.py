"""Checks a running gateway with the official A2A client, in both versions. Usage: a2a_client.py PORT

A2A_TOKEN is a token of `flock token add` with the rights a2a and read for orchestrator and coder.
"""

import asyncio
import os
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

port = int(sys.argv[1])
home = f"http://127.0.0.1:{port}"
token = os.environ["A2A_TOKEN"]
passed = failed = 0


def check(name, ok, seen=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"{'ok   ' if ok else 'FAIL '} {name}" + ("" if ok else f": {seen!r}"))


async def raises(kind, call):
    try:
        await call
    except kind as error:
        return error
    except Exception as error:
        return print(f"      instead: {error!r}")
    return None


def http(bearer=token):
    return httpx.AsyncClient(headers={"Authorization": f"Bearer {bearer}"}, timeout=60)


def ask(text, **more):
    part = more.pop("part", Part(text=text))
    at_once = more.pop("at_once", False)
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[part], **more)
    request = SendMessageRequest(message=message)
    request.configuration.return_immediately = at_once
    return request


async def last_task(client, request):
    """The task that a message without a stream is answered with."""
    task = None
    async for event in client.send_message(request):
        task = event.task
    return task


def text_of(task):
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def client_of(card, version, streaming, bearer=token):
    """A client that knows only this version of the agent."""
    known = type(card)()
    known.CopyFrom(card)
    del known.supported_interfaces[:]
    known.supported_interfaces.extend(i for i in card.supported_interfaces if i.protocol_version == version)
    return ClientFactory(ClientConfig(httpx_client=http(bearer), streaming=streaming)).create(known)


async def is_working(client, task):
    for _ in range(600):
        now = await client.get_task(GetTaskRequest(id=task.id))
        if now.status.state == TaskState.TASK_STATE_WORKING:
            return True
        await asyncio.sleep(0.05)
    return False


async def turns(agent):
    async with http() as api:
        return (await api.get(f"{home}/api/sessions", params={"agent": agent})).json()["turns"]


async def version_checks(card, version):
    def named(name):
        return f"{version}: {name}"

    client, streaming = client_of(card, version, False), client_of(card, version, True)

    task = await last_task(client, ask("hello", context_id="a-context"))
    check(named("a message is answered"), text_of(task) == "Hello from here.", task)
    check(named("its task is completed"), task.status.state == TaskState.TASK_STATE_COMPLETED, task)
    check(named("it is in its context"), task.context_id == "a-context", task)
    got = await client.get_task(GetTaskRequest(id=task.id))
    check(named("a task can be fetched"), text_of(got) == text_of(task) and got.id == task.id, got)
    check(named("its history has the message"), got.history[0].parts[0].text == "hello", got)

    events = [event async for event in streaming.send_message(ask("hello"))]
    kinds = [event.WhichOneof("payload") for event in events]
    check(named("a stream begins with the task"), kinds[0] == "task", kinds)
    check(named("a stream has the answer"), "artifact_update" in kinds, kinds)
    last = events[-1].status_update.status.state
    check(named("a stream ends with the final state"), last == TaskState.TASK_STATE_COMPLETED, events[-1])

    task = await last_task(client, ask("ask me"))
    check(named("an agent asks back"), task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task)
    check(named("what it asks is said"), task.status.message.parts[0].text == "Which colour?", task.status)
    task = await last_task(client, ask("blue", task_id=task.id, context_id=task.context_id))
    check(named("the reply goes on in the task"), text_of(task) == "Blue it is.", task)

    task = await last_task(client, ask("go slowly", at_once=True))
    check(named("a client need not wait"), task.status.state != TaskState.TASK_STATE_COMPLETED, task)
    check(named("its turn runs"), await is_working(client, task), task)
    seen = streaming.subscribe(SubscribeToTaskRequest(id=task.id))
    first = await anext(seen)
    check(named("a task can be followed again"), first.task.id == task.id, first)
    gone = await client.cancel_task(CancelTaskRequest(id=task.id))
    check(named("a task is cancelled"), gone.status.state == TaskState.TASK_STATE_CANCELED, gone)
    check(named("its turn has ended"), await turns("coder") == [], await turns("coder"))
    rest = [event async for event in seen]
    ends = [event.status_update.status.state for event in rest]
    check(named("who follows it is told"), ends[-1:] == [TaskState.TASK_STATE_CANCELED], rest)
    error = await raises(TaskNotCancelableError, client.cancel_task(CancelTaskRequest(id=task.id)))
    check(named("a task is cancelled once"), error is not None)
    error = await raises(TaskNotFoundError, client.get_task(GetTaskRequest(id="nothing")))
    check(named("an unknown task is not found"), error is not None)
    error = await raises(TaskNotFoundError, last_task(client, ask("hello", task_id="nothing")))
    check(named("a message to an unknown task is refused"), error is not None)
    error = await raises(UnsupportedOperationError, last_task(client, ask("hello", task_id=task.id)))
    check(named("a message to an ended task is refused"), error is not None)
    file = Part(url="file:///etc/passwd", media_type="text/plain")
    refused = ContentTypeNotSupportedError if version == "1.0" else Exception
    error = await raises(refused, last_task(client, ask("", part=file)))
    check(named("a file is refused"), error is not None and "files are not taken" in str(error), error)
    wrong = client_of(card, version, False, "wrong")
    error = await raises(A2AClientError, last_task(wrong, ask("hello")))
    check(named("a wrong token is refused"), error is not None and "401" in str(error), error)


async def main():
    resolver = A2ACardResolver(http(), home)
    entry = await resolver.get_agent_card()
    check("the home's card is the orchestrator's", entry.supported_interfaces[0].url.endswith("/orchestrator"), entry)
    card = await A2ACardResolver(http(), f"{home}/flock/a2a/coder").get_agent_card()
    check("an agent has a card", card.name == "coder", card)
    versions = [interface.protocol_version for interface in card.supported_interfaces]
    check("a card names both versions", versions == ["1.0", "0.3"], versions)
    check("a card says how to be let in", card.security_schemes["bearer"].HasField("http_auth_security_scheme"), card)
    check("a card has skills", all(skill.id and skill.name for skill in entry.skills) and len(entry.skills), entry)
    unknown = A2ACardResolver(http(), f"{home}/flock/a2a/nobody")
    check("an unknown agent has none", await raises(Exception, unknown.get_agent_card()) is not None)
    stranger = A2ACardResolver(http("wrong"), f"{home}/flock/a2a/coder")
    check("a card needs the token", await raises(Exception, stranger.get_agent_card()) is not None)
    for version in ["1.0", "0.3"]:
        await version_checks(card, version)


asyncio.run(main())
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
