"""A stand-in for Slack on loopback: slack_server.py FOLDER [--state FILE] [--port PORT]

It writes its port to FOLDER/port when it listens, and to FOLDER/workspace.json the ids and tokens of its workspace. It
speaks Slack's Web API below /api/, Socket Mode, file upload and download; /_control/ is for tests (slack_control.py).
It is written from Slack's documentation and refuses what Slack refuses.
"""

import argparse
import asyncio
import base64
import collections
import contextlib
import json
import os
import signal
import time

from aiohttp import web

import slack_channels  # noqa: F401 (adds its methods)
import slack_chat  # noqa: F401
import slack_control
import slack_files
import slack_messages as messages
import slack_people  # noqa: F401
import slack_web
from slack_events import Events
from slack_interact import Interact
from slack_limits import Limits
from slack_socket import Socket
from slack_state import State

ROUTES = {"upload": "upload", "files-pri": "download", "actions": "response_url", "link": "socket"}
NOT_FOUND = "<!DOCTYPE html><html><head><title>Not found | Slack</title></head><body>There's been a glitch…</body></html>"


class Slack:
    """All parts of the stand-in, and what happens to channels."""

    def __init__(self, path=None):
        self.state, self.limits, self.base = State(path), Limits(), ""
        self.socket, self.faults, self.requests, self.count = Socket(self), [], collections.deque(maxlen=100_000), 0
        self.events, self.interact = Events(self), Interact(self)
        if not self.state.tables["team"]:
            self.state.make_team("Flock Test")

    def page(self, call, things, default, most):
        """A page of a list, and the cursor of the next one, which is empty at the end."""
        limit, start = call.number("limit", default, most), 0
        if call.text("cursor"):
            try:
                start = int(base64.b64decode(call.text("cursor"), validate=True).decode().removeprefix("next:"))
            except ValueError:
                raise slack_web.SlackError("invalid_cursor") from None
        end = start + limit
        cursor = base64.b64encode(f"next:{end}".encode()).decode() if end < len(things) else ""
        return things[start:end], cursor

    def keep(self, channel):
        self.state.put("channel", channel["id"], channel)

    def join(self, channel, user, inviter=None):
        if user in channel["members"]:
            return
        channel["members"].append(user)
        self.keep(channel)
        if channel["kind"] in ("public", "private"):
            more = {"inviter": inviter} if inviter else {}
            messages.notice(self, channel, user, "channel_join", f"<@{user}> has joined the channel", **more)
            self.events.membership(channel, user, True, inviter)

    def leave(self, channel, user):
        if user in channel["members"]:
            messages.notice(self, channel, user, "channel_leave", f"<@{user}> has left the channel")
            self.events.membership(channel, user, False)
            channel["members"].remove(user)
            self.keep(channel)

    def rename(self, channel, name, user):
        old, channel["name"] = channel["name"], name
        self.keep(channel)
        text = f'has renamed the channel from "{old}" to "{name}"'
        messages.notice(self, channel, user, "channel_name", text, old_name=old, name=name)
        self.events.channel(channel, "rename")

    def set_topic(self, channel, topic, user):
        channel["topic"] = topic
        self.keep(channel)
        messages.notice(self, channel, user, "channel_topic", f"set the channel topic: {topic}", topic=topic)

    def archive(self, channel, is_archived, user):
        if is_archived:
            messages.notice(self, channel, user, "channel_archive", "archived the channel")
        channel["archived"] = is_archived
        self.keep(channel)
        self.events.channel(channel, "archive" if is_archived else "unarchive", user)
        if not is_archived:
            messages.notice(self, channel, user, "channel_unarchive", "un-archived the channel")

    @web.middleware
    async def watch(self, request, handler):
        """Notes each request of Slack's own API, and has it meet the faults that were asked for."""
        first, _, rest = request.path.strip("/").partition("/")
        if first == "_control":
            return await handler(request)
        route = rest if first == "api" else ROUTES.get(first, request.path)
        self.count += 1
        note = {
            "number": self.count, "at": time.time(), "method": request.method, "path": request.path, "route": route,
            "status": None, "error": None, "unknown": False, "fault": None,
        }  # fmt: skip
        self.requests.append(note)
        fault = slack_control.next_fault(self, route)
        if fault:
            note["fault"] = fault["after"]
            await asyncio.sleep(fault.get("delay", 0))
            if fault["after"] == "before":
                return self.fail(request, fault, note)
        try:
            response = await handler(request)
        except web.HTTPException as other:
            response = other
        note.update(
            status=response.status, error=request.get("error"), odd=request.get("odd", []),
            unknown=request.get("unknown", False), args=request.get("args", {}),
        )  # fmt: skip
        if fault:
            # It has taken effect; the answer is lost.
            request.transport.abort()
        if isinstance(response, web.HTTPException):
            raise response
        return response

    def fail(self, request, fault, note):
        note["status"] = fault["status"]
        if not fault["status"]:
            request.transport.abort()
            return web.Response(status=500)
        if fault["status"] == 429:
            headers = {"Retry-After": str(fault["retryAfter"])}
            return slack_web.answer(request, {"ok": False, "error": "ratelimited"}, 429, headers)
        if fault["status"] == 200 or "error" in fault:
            note["error"] = fault.get("error", "internal_error")
            return slack_web.answer(request, {"ok": False, "error": note["error"]}, fault["status"])
        return web.Response(status=fault["status"], text="<html><body>upstream error</body></html>", content_type="text/html")

    async def not_found(self, request):
        request["unknown"] = True
        return web.Response(status=404, text=NOT_FOUND, content_type="text/html")

    def application(self):
        def of(function):
            async def run(request):
                return await function(self, request)

            return run

        app = web.Application(middlewares=[self.watch], client_max_size=1 << 30)
        app.router.add_route("GET", "/api/{method}", of(slack_web.call))
        app.router.add_route("POST", "/api/{method}", of(slack_web.call))
        app.router.add_get("/link/", self.socket.serve)
        app.router.add_post("/upload/v1/{ticket}", of(slack_files.upload))
        app.router.add_get("/files-pri/{place}/{name:.+}", of(slack_files.download))
        app.router.add_post("/actions/{key:.+}", self.interact.answer)
        app.router.add_get("/", of(slack_files.login))
        app.router.add_route("*", "/_control/{name}", of(slack_control.handle))
        app.router.add_route("*", "/{rest:.*}", self.not_found)
        return app


async def main(folder, path, port):
    slack = Slack(path)
    runner = web.AppRunner(slack.application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    slack.base = f"http://127.0.0.1:{port}"
    with open(f"{folder}/workspace.json", "w") as file:
        json.dump(slack.state.describe(next(iter(slack.state.tables["team"]))), file)
    with open(f"{folder}/port.new", "w") as file:
        file.write(str(port))
    os.rename(f"{folder}/port.new", f"{folder}/port")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    slack.socket.drop("abort", "", 0)
    await runner.cleanup()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--state")
    options.add_argument("--port", type=int, default=0)
    chosen = options.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(chosen.folder, chosen.state, chosen.port))
