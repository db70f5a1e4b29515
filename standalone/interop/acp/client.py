"""The official Python SDK as an editor of flock."""

import asyncio
import os
import sys
from pathlib import Path

import acp
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

BINARY = os.environ["FLOCK_BINARY"]
WORK = Path(os.environ["FLOCK_WORK"])
LIMIT = 120


class Editor:
    """Keeps what it is shown, and answers questions as it was told."""

    def __init__(self, option=None):
        self.option = option
        self.updates = []
        self.questions = []

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append((tool_call, options))
        if self.option is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.option))

    def on_connect(self, _):
        pass

    def of(self, kind):
        return [update for update in self.updates if update.session_update == kind]

    def text(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.of(kind))


class Connected:
    def __init__(self, editor, *args):
        self.editor = editor
        self.spawned = acp.stdio.spawn_agent_process(
            editor, BINARY, "acp", *args, env=dict(os.environ), transport_kwargs={"limit": 1 << 24}
        )

    async def __aenter__(self):
        flock, _ = await self.spawned.__aenter__()
        answer = await flock.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert answer.protocol_version == 1 and answer.agent_info.name == "flock", answer
        return flock

    async def __aexit__(self, *error):
        return await self.spawned.__aexit__(*error)


def block(text):
    return [acp.text_block(text)]


async def conversation():
    editor = Editor()
    async with Connected(editor, "--agent", "coder") as flock:
        session = (await flock.new_session(cwd=str(WORK))).session_id
        ended = await flock.prompt(session_id=session, prompt=block("write it"))
        assert ended.stop_reason == "end_turn", ended
        assert editor.text() == "I write it.\n\nDone.", editor.text()
        assert editor.text("agent_thought_chunk") == "it is small"
        call = editor.of("tool_call")[0]
        assert call.kind == "edit", call
        assert call.locations[0].path.endswith("/a.txt"), call
        done = editor.of("tool_call_update")[-1]
        # That the file is new is known only from the result.
        assert done.status == "completed" and [one.new_text for one in done.content if one.type == "diff"] == ["one\n"], done
        assert "compact" in [one.name for one in editor.of("available_commands_update")[0].available_commands]
        running = asyncio.create_task(flock.prompt(session_id=session, prompt=block("go on for ever")))
        while "begins" not in editor.text():
            await asyncio.sleep(0.01)
        await flock.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        await flock.set_session_mode(session_id=session, mode_id="readonly")
        await flock.set_session_mode(session_id=session, mode_id="supervised")
        listed = await flock.list_sessions()
        assert session in [one.session_id for one in listed.sessions], listed
    editor = Editor()
    async with Connected(editor, "--agent", "coder") as flock:
        await flock.load_session(cwd=str(WORK), session_id=session)
        assert editor.text("user_message_chunk").startswith("write it"), editor.updates
    return session


async def permissions():
    for option, state, ran in [(None, "waiting", False), ("deny", "denied", False), ("approve", "done", True)]:
        editor = Editor(option)
        word = {None: "first", "deny": "second", "approve": "third"}[option]
        async with Connected(editor, "--agent", "sysadmin") as flock:
            session = (await flock.new_session(cwd=str(WORK))).session_id
            ended = await flock.prompt(session_id=session, prompt=block(f"do the {word}"))
            assert ended.stop_reason == "end_turn", ended
            call, options = editor.questions[0]
            assert word in call.title and [one.kind for one in options] == ["allow_once", "reject_once"], call
        has_run = (WORK / "ran.txt").exists() and word in (WORK / "ran.txt").read_text()
        assert has_run == ran, (option, state)


async def errors():
    async with Connected(Editor(), "--agent", "nobody") as flock:
        try:
            await flock.new_session(cwd=str(WORK))
        except acp.RequestError as error:
            assert "flock list" in str(error), error
        else:
            raise AssertionError("there is no such agent")


async def main():
    for check in [conversation, permissions, errors]:
        await asyncio.wait_for(check(), LIMIT)
        print(f"  ok: {check.__name__}")


sys.exit(asyncio.run(main()))
