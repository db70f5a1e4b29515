#!/usr/bin/env python3
"""A stand-in for Discord on loopback, for tests: the REST API v10, the gateway, the attachments.

    discord_server.py FOLDER [--port N] [--state FILE]

It writes its port to FOLDER/port when it listens. With --state a restart knows everything but the gateway's sessions, as
Discord itself does. `/_control/…` is for tests alone: discord_control.py has it.
"""

import argparse
import asyncio
import base64
import json
import os
import re
import signal
import time
import traceback

from aiohttp import web

import discord_channels  # noqa: F401  (each of these adds its routes)
import discord_commands  # noqa: F401
import discord_interactions  # noqa: F401
import discord_messages  # noqa: F401
import discord_webhooks  # noqa: F401
from discord_api import ROUTES, Call, Form, Refusal, answer, unauthorized
from discord_compose import LARGEST, signature
from discord_control import Control
from discord_gateway import connect
from discord_hub import Hub
from discord_limits import VIA, Limits
from discord_world import World

LARGEST_REQUEST = 120 << 20
MAJOR = ("channel", "guild", "webhook", "token", "interaction")
USER_AGENT = re.compile(r"DiscordBot \(\S+,? \S+\)")
WORDS = {"@me", "@original"}


class Server:
    """Answers requests, and keeps what a test asks about them."""

    def __init__(self, world):
        self.world = world
        self.hub = Hub(world)
        self.limits = Limits()
        self.control = Control(self)
        self.requests = []

    def app(self):
        app = web.Application(client_max_size=LARGEST_REQUEST)
        for route in ROUTES:
            path = re.sub(r"{(\w+)}", r"{\1:[^/]+}", route.path)
            for version in ("v9", "v10"):
                app.router.add_route(route.method, f"/api/{version}{path}", self.serving(route))
            if route.auth == "token":
                app.router.add_route(route.method, f"/api{path}", self.serving(route))
        app.router.add_get("/attachments/{channel}/{id}/{name}", self.attachment)
        app.router.add_route("*", "/_control/{what}", self.control.answer)
        app.router.add_get("/", self.gateway)
        app.router.add_route("*", "/{tail:.*}", self.nothing)
        return app

    def serving(self, route):
        async def serve(request):
            return await self.answer(request, route)

        return serve

    async def gateway(self, request):
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return await self.nothing(request)
        fault = self.control.fault_for(request)
        if fault:
            return self.control.faulty(request, fault) or web.Response(status=444)
        return await connect(self.hub, request)

    async def nothing(self, request):
        """An address that Discord does not have, or not with this method."""
        return await self.answer(request, None)

    async def answer(self, request, route):
        seen = {
            "method": request.method, "path": request.path, "query": request.query_string, "at": time.time(), "bot": None,
            "route": route and route.name, "status": None, "agent": request.headers.get("User-Agent"),
        }
        self.requests.append(seen)
        taken = {}
        try:
            fault = self.control.fault_for(request)
            if fault and fault.get("delay"):
                await asyncio.sleep(fault["delay"])
                fault = fault if fault.get("status") else None
            if fault and fault.get("after") != "after":
                response = self.control.faulty(request, fault, route)
            else:
                response = await self.handled(request, route, seen, taken)
                if fault:
                    response = self.control.faulty(request, fault, route)
        except Refusal as refusal:
            headers = getattr(refusal, "headers", {})
            response = answer(refusal.body, status=refusal.status, headers={**VIA, **taken, **headers})
        except Exception:
            traceback.print_exc()
            response = answer({"message": "500: Internal Server Error", "code": 0}, status=500, headers=VIA)
        seen["status"] = response.status if response is not None else 0
        self.limits.refused(seen["status"], response is not None and response.headers.get("X-RateLimit-Scope"))
        return response if response is not None else web.Response(status=444)

    async def handled(self, request, route, seen, taken):
        """The answer of a route. `taken` gets the headers of its rate limit, which a refusal has too."""
        if self.limits.banned():
            # This answer is Cloudflare's, not Discord's: no JSON, and no `Via`.
            headers = {"Retry-After": str(int(self.limits.banned()) + 1)}
            return web.Response(status=429, text="error code: 1015", headers=headers)
        if route is None:
            known = any(re.fullmatch(re.sub(r"{\w+}", "[^/]+", one.path), path_of(request)) for one in ROUTES)
            raise Refusal(405, 0, "405: Method Not Allowed") if known else Refusal(404, 0, "404: Not Found")
        if route.auth == "bot" and not USER_AGENT.match(request.headers.get("User-Agent", "")):
            raise Refusal(403, 40333, "internal network error")
        bot = self.bot_of(request, route)
        seen["bot"] = bot and bot["name"]
        args = dict(request.match_info)
        major = tuple(args.get(name) for name in MAJOR)
        taken.update(self.limits.take(route, major, bot["id"] if bot else request.remote))
        check_ids(args)
        body, files = await self.body_of(request)
        if isinstance(body, list) and not route.path.endswith("/commands"):
            raise Refusal(400, 50109, "The request body contains invalid JSON.")
        call = Call(self.world, self.hub, bot, args, dict(request.query), body, files, route, self.limits)
        result = await route.handler(call)
        headers = {**taken, **VIA}
        if result is None:
            return web.Response(status=204, headers=headers)
        status = 201 if route.method == "POST" and route.path.endswith(("/threads", "}/channels")) else 200
        return answer(result, status=status, headers=headers)

    def bot_of(self, request, route):
        """The bot that asks. The header must be `Bot TOKEN`; a path that has a token needs none."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        app = self.world.app_with(token) if kind == "Bot" else None
        if route.auth == "token":
            return None
        if not app:
            raise unauthorized()
        return app

    async def body_of(self, request):
        """The body and its files: JSON, or a form whose `payload_json` is JSON."""
        kind = request.content_type
        if not request.can_read_body:
            return {}, {}
        if kind == "multipart/form-data":
            return await form_of(request)
        if kind != "application/json":
            raw = await request.read()
            if not raw:
                return {}, {}
            raise Refusal(400, 50035, "Expected \"Content-Type\" header to be one of {'application/json'}.")
        return parsed(await request.read()), {}

    async def attachment(self, request):
        """The content of a file, while its address holds."""
        file, query = self.world.store.get("files", request.match_info["id"]), request.query
        self.requests.append({"method": "GET", "path": request.path, "at": time.time(), "route": "attachment", "status": 200})
        until = query.get("ex", "0")
        fresh = re.fullmatch(r"[0-9a-f]+", until) and int(until, 16) > time.time()
        if not file or not fresh or query.get("hm") != signature(request.path, until):
            self.requests[-1]["status"] = 404
            return web.Response(status=404, text="This content is no longer available.")
        data = base64.b64decode(file["data"]) or bytes(file.get("length", 0))
        return web.Response(body=data, content_type=file["type"].split(";")[0], headers={"Content-Disposition": "attachment"})


def path_of(request):
    return re.sub(r"^/api(/v\d+)?", "", request.path)


def parsed(data):
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        raise Refusal(400, 50109, "The request body contains invalid JSON.") from None
    if not isinstance(body, (dict, list)):
        raise Refusal(400, 50109, "The request body contains invalid JSON.")
    return body


async def form_of(request):
    """A form's `payload_json` and `files[n]`. A file that is too large is refused when all is read."""
    body, files, too_large = {}, {}, False
    async for part in await request.multipart():
        name, data = part.name or "", bytearray()
        async for piece in part:
            if len(data) <= LARGEST:
                data += piece
        if name == "payload_json":
            body.update(parsed(bytes(data)))
        elif part.filename is not None:
            number = re.fullmatch(r"files\[(\d+)\]", name)
            key = number[1] if number else str(len(files))
            files[key] = {"name": part.filename, "type": part.headers.get("Content-Type", "application/octet-stream"), "data": bytes(data)}
            too_large = too_large or len(data) > LARGEST
        else:
            body[name] = data.decode()
    if too_large:
        raise Refusal(413, 40005, "Request entity too large")
    return body, files


def check_ids(args):
    form = Form({})
    for name, value in args.items():
        if name not in ("token", "emoji") and value not in WORDS and not value.isdigit():
            form.fail(f"{name}_id", "NUMBER_TYPE_COERCE", f"Value \"{value}\" is not snowflake.")
    form.close()


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--state")
    chosen = options.parse_args()
    world = World(chosen.state)
    server = Server(world)
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1, handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", chosen.port, reuse_address=True)
    await site.start()
    port = runner.addresses[0][1]
    world.address = f"http://127.0.0.1:{port}"
    ends = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, ends.set)
    written = os.path.join(chosen.folder, "port")
    with open(written + ".new", "w") as file:
        file.write(str(port))
    os.replace(written + ".new", written)
    await ends.wait()
    for socket in list(server.hub.sockets):
        socket.cut()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
