"""A stand-in for Telegram's Bot API on loopback: telegram_server.py FOLDER [--state FILE] [--port PORT].

It writes its port to FOLDER/port. Bots use `/bot<token>/<method>` and `/file/bot<token>/<path>`, as at api.telegram.org.
Tests play people and cause faults under `/_control/`, see telegram_control.py. It needs aiohttp.

It answers as Telegram's documentation and the source of its Bot API server (github.com/tdlib/telegram-bot-api) say, and
refuses what they refuse. With `--state` the state is written when the program is ended by SIGTERM, and read at the start.
"""

import argparse
import asyncio
import inspect
import json
import os
import re
import signal
import time
import warnings

from aiohttp import BadContentDispositionHeader, web

import telegram_chats
import telegram_control
import telegram_methods
from telegram_call import Call
from telegram_limits import Limits
from telegram_updates import Conflict
from telegram_world import Refusal, World

METHODS = {**telegram_chats.METHODS, **telegram_methods.METHODS}
LARGEST_UPLOAD = 50 << 20
TOKEN = re.compile(r"[1-9][0-9]{0,16}:[A-Za-z0-9_-]{20,60}")


class Lost(Exception):
    """The connection is to be closed without an answer."""


def answer(status, body, retry_after=None):
    headers = {"Retry-After": str(retry_after)} if retry_after else None
    return web.Response(status=status, headers=headers, content_type="application/json", text=json.dumps(body))


def refused(code, description, **parameters):
    body = {"ok": False, "error_code": code, "description": description}
    if parameters:
        body["parameters"] = parameters
    return answer(code, body, parameters.get("retry_after"))


class Server:
    def __init__(self, state):
        self.world, self.limits = World(state), Limits()
        self.requests, self.faults, self.polls = [], [], set()

    # Parameters.

    async def parameters(self, request):
        """Parameters from the address and the body, as text, and uploaded files."""
        args, files = dict(request.query), {}
        kind = request.headers.get("Content-Type", "").lower()
        if request.method == "POST" and kind.startswith("multipart/form-data"):
            left = LARGEST_UPLOAD
            async for part in await request.multipart():
                content = bytearray()
                while chunk := await part.read_chunk(1 << 16):
                    content += chunk
                    if len(content) > left:
                        raise Refusal(413, "Request Entity Too Large")
                left -= len(content)
                named = disposition(part.headers.get("Content-Disposition", ""))
                if "filename" not in named:
                    args[named["name"]] = content.decode(errors="replace")
                else:
                    mime = part.headers.get("Content-Type", "application/octet-stream")
                    files[named["name"]] = (named["filename"], mime, bytes(content))
        elif request.method == "POST" and "application/x-www-form-urlencoded" in kind:
            args.update(await request.post())
        elif request.method == "POST" and "application/json" in kind:
            args.update(from_json(await request.read()))
        # The parameters in a body of any other type are not seen at all.
        return args, files

    # Faults that a test asked for.

    def fault(self, route, args):
        for one in self.faults:
            if one["route"].lower() in (route, "*") and one.get("channel") in (None, args.get("chat_id")):
                one["times"] -= 1
                if one["times"] <= 0:
                    self.faults.remove(one)
                return one
        return None

    @staticmethod
    def broken(fault):
        """The answer of a fault; without a status the connection is closed."""
        status = fault.get("status")
        if not status or fault["after"] == "after":
            raise Lost
        if status == 429:
            seconds = fault.get("retryAfter", 1)
            raise Refusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
        raise Refusal(status, fault.get("description") or {
            500: "Internal Server Error", 502: "Bad Gateway", 401: "Unauthorized", 403: "Forbidden"}.get(status, "Bad Request"))

    # Requests.

    async def bot_request(self, request):
        route = request.match_info["method"].lower()
        seen = {"method": request.method, "path": f"/bot***/{request.match_info['method']}", "route": route, "bot": None,
                "known": route in METHODS, "status": 0, "at": time.time()}
        self.requests.append(seen)
        try:
            response = await self.called(request, route, seen)
        except Refusal as error:
            response = refused(error.code, error.description, **error.parameters)
        except Lost:
            if request.transport:
                request.transport.abort()
            return web.Response()
        seen["status"] = response.status
        return response

    async def called(self, request, route, seen):
        if request.method not in ("GET", "POST"):
            raise Refusal(405, "Method Not Allowed")
        token = request.match_info["token"]
        if not TOKEN.fullmatch(token):
            raise Refusal(404, "Not Found")
        args, files = await self.parameters(request)
        if not all(utf8(one) for one in args.values()):
            raise Refusal(400, "Bad Request: strings must be encoded in UTF-8")
        seen["args"] = {name: value[:500] for name, value in args.items()}
        fault = self.fault(route, args)
        if fault and fault.get("delay"):
            await asyncio.sleep(fault["delay"])
        if fault and fault["after"] == "before" and (fault.get("status") or not fault.get("delay")):
            self.broken(fault)
        bot = self.world.bot_of(token)
        if not bot:
            raise Refusal(401, "Unauthorized")
        seen["bot"] = bot["username"]
        if route not in METHODS:
            raise Refusal(404, "Not Found: method not found" if route else "Not Found")
        result = await self.run(METHODS[route], Call(self.world, self.limits, bot, args, files), request)
        if fault and fault["after"] == "after":
            self.broken(fault)
        if not self.world.bot_of(token):
            raise Refusal(401, "Unauthorized")
        return answer(200, {"ok": True, "result": result})

    async def run(self, method, call, request):
        result = method(call)
        if not inspect.isawaitable(result):
            return result
        # Only getUpdates waits.
        self.polls.add(request.transport)
        try:
            return await result
        except Conflict as error:
            await self.world.updates[call.bot["id"]].pause_before_conflict(self.world)
            raise Refusal(409, str(error)) from None
        finally:
            self.polls.discard(request.transport)

    async def file_request(self, request):
        """A download: as long as the file exists, for its own bot's token, and up to the limit of getFile."""
        seen = {"method": request.method, "path": f"/file/bot***/{request.match_info['path']}", "route": "file", "bot": None,
                "known": True, "status": 404, "at": time.time()}
        self.requests.append(seen)
        bot = self.world.bot_of(request.match_info["token"])
        fault = self.fault("file", {})
        try:
            if fault:
                self.broken(fault)
            if not bot:
                raise Refusal(401, "Unauthorized")
            seen["bot"] = bot["username"]
            file = next((one for one in self.world.files.values() if one["path"] == request.match_info["path"]), None)
            if not file or file["size"] > telegram_methods.LARGEST_DOWNLOAD:
                raise Refusal(404, "Not Found")
        except Refusal as error:
            seen["status"] = error.code
            return refused(error.code, error.description, **error.parameters)
        except Lost:
            request.transport.abort()
            return web.Response()
        seen["status"] = 200
        content = file["content"] if file["content"] is not None else bytes(file["sends"])
        return web.Response(body=content, content_type="application/octet-stream")

    async def unknown(self, request):
        self.requests.append({"method": request.method, "path": request.path, "route": "", "bot": None, "known": False,
                              "status": 404, "at": time.time()})
        return refused(404, "Not Found")

    def application(self):
        app = web.Application(client_max_size=LARGEST_UPLOAD + (1 << 20))
        telegram_control.Control(self).routes(app)
        app.router.add_route("*", "/file/bot{token}/{path:.*}", self.file_request)
        app.router.add_route("*", "/bot{token}/{method:[^/]*}", self.bot_request)
        app.router.add_route("*", "/{path:.*}", self.unknown)
        return app


def disposition(header):
    """The fields of a part's header, read as simply as Telegram does: split at each `;`, whether quoted or not.

    aiohttp refuses what grammy sends, a file name with blanks and without quotes.
    """
    kind, *fields = header.split(";")
    fields = [[side.strip() for side in one.split("=", 1)] for one in fields if "=" in one]
    named = {name: value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value for name, value in fields}
    if kind.strip() != "form-data":
        raise Refusal(400, "Bad Request: expected form-data content disposition")
    if not named.get("name"):
        raise Refusal(400, "Bad Request: field name in multipart/form-data not found")
    return named


def utf8(text):
    """Says if a text has no lone surrogates, which JSON can carry."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def from_json(body):
    """The fields of a JSON body as text. What is not a text stays JSON, `null` too; a broken body has no fields."""
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(fields, dict):
        return {}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--state")
    options.add_argument("--port", type=int, default=0)
    options = options.parse_args()
    warnings.simplefilter("ignore", BadContentDispositionHeader)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    server = Server(options.state)
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", options.port, backlog=1024)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    with open(f"{options.folder}/port.new", "w") as file:
        file.write(str(port))
    os.rename(f"{options.folder}/port.new", f"{options.folder}/port")
    await ended.wait()
    server.world.save()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
