"""Bare requests and websockets that no library would make: Discord refuses them with its codes."""

import asyncio
import json
import time
import zlib

import aiohttp
import zstandard

from checking import check, until
from discord_driving import PATIENCE

RIGHTS = ["MANAGE_CHANNELS", "MANAGE_WEBHOOKS"]
GUILDS, MEMBERS, MESSAGES, CONTENT = 1 << 0, 1 << 1, 1 << 9, 1 << 15


class Api:
    """Bare requests of one bot, with no regard to rate limits."""

    def __init__(self, server, token):
        self.server = server
        self.token = token

    def ask(self, method, path, body=None, **headers):
        headers = {"Authorization": f"Bot {self.token}", **{key.replace("_", "-"): value for key, value in headers.items()}}
        return self.server.ask(method, f"/api/v10{path}", body, headers)

    def refused(self, name, method, path, body, status, code, within="", **headers):
        got, _, answer = self.ask(method, path, body, **headers)
        said = answer.get("code") if isinstance(answer, dict) else None
        check(f"refused: {name}", (got, said) == (status, code) and within in json.dumps(answer), (got, answer))


def rest_refusals(server):
    made = server.control("bot", name="bare", intents=["MESSAGE_CONTENT"], permissions=RIGHTS)
    other = server.control("bot", name="other", permissions=["ADMINISTRATOR"])
    server.control("limits", off=True)
    api = Api(server, made["token"])
    id = server.control("channel", name="bare")["id"]
    hidden = server.control("channel", name="hidden", private=True)["id"]
    there, guild = f"/channels/{id}/messages", server.look("world")["guild"]
    api.refused("no token", "GET", "/users/@me", None, 401, 0, Authorization="")
    api.refused("a token without `Bot`", "GET", "/users/@me", None, 401, 0, Authorization=made["token"])
    api.refused("a token as `Bearer`", "GET", "/users/@me", None, 401, 0, Authorization=f"Bearer {made['token']}")
    api.refused("a request that does not say who it is", "GET", "/users/@me", None, 403, 40333, User_Agent="curl/8")
    api.refused("an address that there is not", "GET", "/strange", None, 404, 0)
    api.refused("a method that there is not", "PUT", "/users/@me", {}, 405, 0)
    api.refused("a body of another type", "POST", there, {"content": "a"}, 400, 50035, "Content-Type", Content_Type="text/plain")
    api.refused("an id that is none", "GET", "/channels/general", None, 400, 50035, "snowflake")
    api.refused("a channel that there is not", "POST", "/channels/1/messages", {"content": "a"}, 404, 10003)
    api.refused("a channel that is hidden", "GET", f"/channels/{hidden}/messages", None, 403, 50001)
    api.refused("a server that there is not", "GET", "/guilds/1", None, 404, 10004)
    api.refused("a message that there is not", "PATCH", f"{there}/1", {"content": "a"}, 404, 10008)
    said = server.say("ann", "mine", channel="bare")["id"]
    api.refused("an edit of another's message", "PATCH", f"{there}/{said}", {"content": "a"}, 403, 50005)
    api.refused("a deletion of another's message", "DELETE", f"{there}/{said}", None, 403, 50013)
    api.refused("101 messages of history", "GET", f"{there}?limit=101", None, 400, 50035, "NUMBER_TYPE_MAX")
    api.refused("a nonce of 26 characters", "POST", there, {"content": "a", "nonce": "n" * 26}, 400, 50035, "nonce")
    reply = {"content": "a", "message_reference": {"message_id": "1"}}
    api.refused("an answer to nothing", "POST", there, reply, 400, 50035, "REPLIES_UNKNOWN_MESSAGE")
    both = {"parse": ["users"], "users": [said]}
    api.refused("mentions parsed and listed", "POST", there, {"content": "a", "allowed_mentions": both}, 400, 50035, "EXCLUSIVE")
    api.refused("eleven embeds", "POST", there, {"embeds": [{"title": "a"}] * 11}, 400, 50035, "embeds")
    long = [{"description": "x" * 4000}, {"description": "x" * 2001}]
    api.refused("6,001 characters of embeds", "POST", there, {"embeds": long}, 400, 50035, "MAX_EMBED_SIZE_EXCEEDED")
    button = {"type": 2, "style": 1, "label": "a", "custom_id": "a"}
    for name, rows in (
        ("six rows", [{"type": 1, "components": [{**button, "custom_id": str(at)}]} for at in range(6)]),
        ("six buttons in a row", [{"type": 1, "components": [{**button, "custom_id": str(at)} for at in range(6)]}]),
        ("a button outside a row", [button]),
        ("a custom id of 101 characters", [{"type": 1, "components": [{**button, "custom_id": "a" * 101}]}]),
        ("a custom id twice", [{"type": 1, "components": [button, button]}]),
        ("a label of 81 characters", [{"type": 1, "components": [{**button, "label": "a" * 81}]}]),
        ("a button without id", [{"type": 1, "components": [{"type": 2, "style": 1, "label": "a"}]}]),
    ):
        api.refused(name, "POST", there, {"content": "a", "components": rows}, 400, 50035, "components")
    api.refused("a reaction that is no emoji", "PUT", f"{there}/{said}/reactions/hello/@me", None, 400, 10014)
    api.refused("the list of members without its intent", "GET", f"/guilds/{guild}/members", None, 403, 50001)
    api.refused("commands of another application", "PUT", f"/applications/{other['id']}/commands", [], 403, 20012)
    shouted = [{"name": "Status", "description": "a"}]
    api.refused("a command with a capital", "PUT", f"/applications/{made['id']}/commands", shouted, 400, 50035, "NAME")
    api.refused("an interaction that there is not", "POST", "/interactions/1/t/callback", {"type": 4}, 404, 10062)
    shy = server.control("person", account="shy", dms=False)["id"]
    direct = api.ask("POST", "/users/@me/channels", {"recipient_id": shy})[2]["id"]
    api.refused("a message to one who wants none", "POST", f"/channels/{direct}/messages", {"content": "a"}, 403, 50007)
    webhook_refusals(server, api, id)
    late_answers(server, api, there)
    sizes(server, api, id)
    server.control("limits", off=False)
    rates(server, api, id)


def webhook_refusals(server, api, id):
    there, made = f"/channels/{id}/webhooks", None
    for name in ("Clyde", "my DISCORD", " ", "a" * 81):
        api.refused(f"a webhook called {name[:12]!r}", "POST", there, {"name": name}, 400, 50035, "name")
    for at in range(15):
        made = api.ask("POST", there, {"name": f"hook {at}"})[2]
    api.refused("a sixteenth webhook", "POST", there, {"name": "one more"}, 400, 30007)
    path = f"/webhooks/{made['id']}/{made['token']}"
    api.refused("a webhook's wrong token", "POST", path + "x", {"content": "a"}, 401, 50027)
    api.refused("a webhook that there is not", "POST", f"/webhooks/1/{made['token']}", {"content": "a"}, 404, 10015)
    api.refused("a webhook's empty message", "POST", path, {"username": "a"}, 400, 50006)
    api.refused("a webhook's thread elsewhere", "POST", f"{path}?thread_id=1", {"content": "a"}, 404, 10003)
    api.refused("an avatar that is no address", "POST", path, {"content": "a", "avatar_url": "bird.png"}, 400, 50035, "avatar_url")
    status, _, _ = api.ask("POST", path, {"content": "@everyone <@1>"})
    check("a webhook without `wait` is answered with 204", status == 204, status)
    last = server.look("messages", channel="bare")[-1]
    check("a webhook notifies everyone only if it says so", last["pings"]["everyone"] is False, last["pings"])
    server.control("scopes", bot="bare", channel="bare", deny=["MANAGE_WEBHOOKS"])
    api.refused("webhooks without the permission", "GET", there, None, 403, 50013)
    server.control("scopes", bot="bare", channel="bare")


def late_answers(server, api, there):
    server.control("gateway", interaction=0.2)
    row = {"type": 1, "components": [{"type": 2, "style": 1, "label": "a", "custom_id": "go"}]}
    message = api.ask("POST", there, {"content": "a", "components": [row]})[2]["id"]
    got = server.say("ann", press={"message": message, "custom_id": "go"})
    check("a button that nobody answers in time has failed", got["state"] == "failed", got)
    server.control("gateway", interaction=3)


def sizes(server, api, id):
    async def send(size):
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("payload_json", json.dumps({"content": "a file"}), content_type="application/json")
        form.add_field("files[0]", bytes(size), filename="big.bin", content_type="application/octet-stream")
        headers = {"Authorization": f"Bot {api.token}", "User-Agent": "DiscordBot (https://flock.example, 1.0)"}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{server.url}/api/v10/channels/{id}/messages", data=form, headers=headers) as response:
                return response.status, await response.json()

    status, answer = asyncio.run(send((10 << 20) + 1))
    check("refused: a file of more than 10 MiB", (status, answer["code"]) == (413, 40005), answer)
    status, answer = asyncio.run(send(10 << 20))
    check("a file of 10 MiB is taken", status == 200 and answer["attachments"][0]["size"] == 10 << 20, answer)
    url = answer["attachments"][0]["url"].removeprefix(server.url)
    check("its address holds", server.ask("GET", url)[0] == 200)
    check("refused: an address that was changed", server.ask("GET", url.replace("hm=", "hm=0"))[0] == 404)


def rates(server, api, id):
    answers = [api.ask("POST", f"/channels/{id}/messages", {"content": "a"}) for _ in range(6)]
    status, headers, body = answers[-1]
    check("the sixth message in five seconds is too much", status == 429 and body["retry_after"] > 0 and body["global"] is False, body)
    limits = [f"X-RateLimit-{one}" for one in ("Limit", "Remaining", "Reset", "Reset-After", "Bucket", "Scope")]
    wanted = ("Retry-After", *limits, "Via")
    check("it has all the headers", all(one in headers for one in wanted) and headers["X-RateLimit-Scope"] == "user", dict(headers))
    check("so had the first", [answers[0][1][one] for one in wanted[1:3]] == ["5", "4"], dict(answers[0][1]))
    names = [api.ask("PATCH", f"/channels/{id}", {"name": f"bare-{at}"}) for at in range(3)]
    status, headers, body = names[-1]
    check("the third new name in ten minutes is too much", status == 429 and body["retry_after"] > 300, (status, body))
    server.control("limits", **{"global": 3})
    status, headers, body = [api.ask("GET", "/users/@me") for _ in range(4)][-1]
    check("the global limit says that it is", status == 429 and body["global"] and headers["X-RateLimit-Global"] == "true", body)
    server.control("limits", **{"global": 50, "invalid": 3})
    got = [api.ask("GET", "/users/@me", Authorization="Bot no") for _ in range(4)][-1]
    check("too many refused requests shut the address out", got[0] == 429 and got[2] == "error code: 1015" and "Via" not in got[1], got)
    server.control("limits", invalid=10_000)


def gateway_refusals(server):
    made = server.control("bot", name="wire", intents=["MESSAGE_CONTENT"])
    server.control("gateway", identify=0)
    asyncio.run(all_of(Wire(server, made["token"])))
    server.control("gateway", identify=5)


class Wire:
    """Bare websockets of one bot."""

    def __init__(self, server, token):
        self.server = server
        self.token = token
        self.session = None

    async def open(self, query="v=10&encoding=json"):
        return await self.session.ws_connect(f"{self.server.url}/?{query}".replace("http", "ws", 1), max_msg_size=0)

    def identify(self, **more):
        data = {"token": self.token, "intents": GUILDS | MESSAGES, "properties": {"os": "linux", "browser": "b", "device": "d"}, **more}
        return {"op": 2, "d": data}

    async def closes(self, name, code, *payloads, query="v=10&encoding=json"):
        ws = await self.open(query)
        try:
            for payload in payloads:
                await (ws.send_str(payload) if isinstance(payload, str) else ws.send_json(payload))
        except ConnectionError:
            pass
        while True:
            message = await ws.receive(timeout=PATIENCE)
            if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR):
                break
        check(f"closed with {code}: {name}", ws.close_code == code, ws.close_code)


async def until_event(ws, name):
    """The next payload of an event, or of an op code."""
    while True:
        payload = json.loads((await ws.receive(timeout=PATIENCE)).data)
        if name in (payload["t"], payload["op"]):
            return payload


async def all_of(wire):
    async with aiohttp.ClientSession() as session:
        wire.session = session
        await closings(wire)
        await resuming(wire)
        await beating(wire)
        await compressed(wire)


async def closings(wire):
    await wire.closes("an unknown op code", 4001, {"op": 99, "d": None})
    await wire.closes("no JSON", 4002, "{")
    await wire.closes("more than 4,096 bytes", 4002, {"op": 1, "d": "x" * 4096})
    await wire.closes("a command before IDENTIFY", 4003, {"op": 3, "d": {}})
    await wire.closes("a wrong token", 4004, wire.identify(token="no"))
    await wire.closes("IDENTIFY twice", 4005, wire.identify(), wire.identify())
    await wire.closes("a shard that cannot be", 4010, wire.identify(shard=[2, 2]))
    await wire.closes("another version", 4012, query="v=3&encoding=json")
    await wire.closes("an intent that there is not", 4013, wire.identify(intents=1 << 30))
    await wire.closes("an intent that is not enabled", 4014, wire.identify(intents=GUILDS | MEMBERS))
    await wire.closes("121 payloads in a minute", 4008, *[{"op": 1, "d": None}] * 121)


async def resuming(wire):
    ws = await wire.open()
    await ws.send_json(wire.identify())
    ready = await until_event(ws, "READY")
    await until_event(ws, "GUILD_CREATE")
    id = ready["d"]["session_id"]
    check("READY names where to resume", ready["d"]["resume_gateway_url"] == wire.server.url.replace("http", "ws", 1), ready)
    await ws.close(code=4000)

    def resume(seq, **more):
        return {"op": 6, "d": {"token": wire.token, "session_id": id, "seq": seq, **more}}

    # The session is lost only when the stand-in has noticed that; what is said is kept for it either way.
    wire.server.say("ann", "while away", channel="general")
    ws = await wire.open()
    await ws.send_json(resume(2))
    got = await until_event(ws, "MESSAGE_CREATE")
    check("a resumed session is told what it missed", got["d"]["content"] == "" and got["s"] == 3, got)
    await until_event(ws, "RESUMED")
    await ws.close(code=4000)
    await wire.closes("a sequence number that was never given", 4007, resume(1000))
    ws = await wire.open()
    await ws.send_json(resume(2, session_id="0" * 32))
    got = await until_event(ws, 9)
    check("a session that there is not cannot be resumed", got["d"] is False, got)
    await ws.close()
    ws = await wire.open()
    await ws.send_json(wire.identify())
    id = (await until_event(ws, "READY"))["d"]["session_id"]
    await ws.close(code=1000)
    gone = await asyncio.to_thread(until, PATIENCE, lambda: all(one["id"] != id for one in wire.server.look("sessions")))
    check("a session that is closed with 1000 is over", gone)
    wire.server.control("gateway", identify=60)
    ws = await wire.open()
    await ws.send_json(wire.identify())
    got = await until_event(ws, 9)
    check("IDENTIFY too soon after the last one starts no session", got["d"] is False, got)
    wire.server.control("gateway", identify=0)


async def beating(wire):
    ws = await wire.open()
    hello = await until_event(ws, 10)
    check("HELLO says how often to send heartbeats", hello["d"]["heartbeat_interval"] == 41250, hello)
    await ws.send_json({"op": 1, "d": None})
    await until_event(ws, 11)
    check("a heartbeat is acknowledged", True)
    await ws.close()
    wire.server.control("gateway", heartbeat=0.2)
    began = time.monotonic()
    await wire.closes("no heartbeats", 4000)
    check("not before its time", time.monotonic() - began > 0.3)
    wire.server.control("gateway", heartbeat=41.25)


async def compressed(wire):
    for name, context in (("zlib-stream", zlib.decompressobj()), ("zstd-stream", zstandard.ZstdDecompressor().decompressobj())):
        ws = await wire.open(f"v=10&encoding=json&compress={name}")
        await ws.send_json(wire.identify())
        seen = []
        while "GUILD_CREATE" not in seen:
            payload = json.loads(context.decompress((await ws.receive(timeout=PATIENCE)).data))
            seen.append(payload["t"] or payload["op"])
        check(f"{name} is understood", seen == [10, "READY", "GUILD_CREATE"], seen)
        await ws.close()
