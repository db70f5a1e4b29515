"""One websocket of Discord's gateway: the handshake, heartbeats, resuming, and the reasons to close it."""

import asyncio
import json
import time
import zlib

import zstandard
from aiohttp import WSMsgType, web

from discord_world import PRIVILEGED

HEARTBEAT, IDENTIFY, PRESENCE, VOICE, RESUME, RECONNECT, MEMBERS, INVALID, HELLO, ACK = 1, 2, 3, 4, 6, 7, 8, 9, 10, 11
KNOWN_INTENTS = sum(1 << bit for bit in (*range(17), 20, 21, 24, 25))
LARGEST, MOST, WINDOW = 4096, 120, 60
REASONS = {
    4000: "Unknown error.", 4001: "Unknown opcode.", 4002: "Error while decoding payload.", 4003: "Not authenticated.",
    4004: "Authentication failed.", 4005: "Already authenticated.", 4007: "Invalid seq.", 4008: "Rate limited.",
    4009: "Session timed out.", 4010: "Invalid shard.", 4011: "Sharding required.", 4012: "Invalid API version.",
    4013: "Invalid intent(s).", 4014: "Disallowed intent(s).",
}
# After these codes a session is over. After the others it can be resumed.
ENDS = (1000, 1001, 4003, 4004, 4007, 4009, 4010, 4011, 4012, 4013, 4014)


class Close(Exception):
    """The gateway closes a connection with a code."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Socket:
    """A connection: what is to be sent waits in a queue, so that its order is kept."""

    def __init__(self, hub, request):
        self.hub = hub
        self.request = request
        self.ws = web.WebSocketResponse(max_msg_size=1 << 20, autoping=True, compress=False)
        self.queue = asyncio.Queue()
        self.session = None
        self.beat_at = time.monotonic()
        self.sent = []
        compress = request.query.get("compress")
        self.zlib = zlib.compressobj() if compress == "zlib-stream" else None
        self.zstd = zstandard.ZstdCompressor().compressobj() if compress == "zstd-stream" else None
        self.payloads = False
        self.closed_with = None

    def put(self, text):
        self.queue.put_nowait(text)

    def op(self, op, data=None):
        self.put(json.dumps({"t": None, "s": None, "op": op, "d": data}))

    def close(self, code):
        """Closes the connection when all that was put before is sent."""
        self.closed_with = code
        self.queue.put_nowait(code)

    def cut(self):
        """Breaks the connection without a word."""
        if self.request.transport:
            self.request.transport.abort()

    async def write(self):
        while True:
            item = await self.queue.get()
            if isinstance(item, int):
                await self.ws.close(code=item, message=REASONS.get(item, "").encode())
                return
            if self.hub.settings["silent"]:
                continue
            data = item.encode()
            if self.zlib:
                await self.ws.send_bytes(self.zlib.compress(data) + self.zlib.flush(zlib.Z_SYNC_FLUSH))
            elif self.zstd:
                await self.ws.send_bytes(self.zstd.compress(data) + self.zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            elif self.payloads and len(data) > 1024:
                await self.ws.send_bytes(zlib.compress(data))
            else:
                await self.ws.send_str(item)

    async def watch(self):
        """Closes a connection whose heartbeats stay away."""
        while True:
            await asyncio.sleep(self.hub.settings["heartbeat"] / 4)
            if time.monotonic() - self.beat_at > self.hub.settings["heartbeat"] * 1.5:
                self.close(4000)
                return

    async def read(self):
        async for message in self.ws:
            if message.type == WSMsgType.BINARY:
                raise Close(4002)
            if message.type != WSMsgType.TEXT:
                continue
            now = time.monotonic()
            self.sent = [at for at in self.sent if now - at < WINDOW] + [now]
            if len(self.sent) > MOST:
                raise Close(4008)
            if len(message.data.encode()) > LARGEST:
                raise Close(4002)
            try:
                payload = json.loads(message.data)
                op, data = payload["op"], payload.get("d")
            except (ValueError, KeyError, TypeError, AttributeError):
                raise Close(4002) from None
            self.take(op, data)

    def take(self, op, data):
        if op == HEARTBEAT:
            self.beat_at = time.monotonic()
            if self.hub.settings["acks"]:
                self.op(ACK)
        elif op == IDENTIFY:
            self.identify(data)
        elif op == RESUME:
            self.resume(data)
        elif op not in (PRESENCE, VOICE, MEMBERS):
            raise Close(4001)
        elif not self.session:
            raise Close(4003)
        elif op == MEMBERS:
            self.members(data)

    def app_of(self, data):
        token = data.get("token") if isinstance(data, dict) else None
        if not isinstance(token, str):
            raise Close(4002)
        app = self.hub.world.app_with(token.removeprefix("Bot ").strip())
        if not app:
            raise Close(4004)
        return app

    def identify(self, data):
        if self.session:
            raise Close(4005)
        app = self.app_of(data)
        intents, shard = data.get("intents"), data.get("shard") or (0, 1)
        if not isinstance(data.get("properties"), dict) or not isinstance(intents, int) or isinstance(intents, bool):
            raise Close(4002)
        if len(shard) != 2 or not all(isinstance(one, int) for one in shard) or not 0 <= shard[0] < shard[1]:
            raise Close(4010)
        if intents & ~KNOWN_INTENTS:
            raise Close(4013)
        for name, (bit, _) in PRIVILEGED.items():
            if intents >> bit & 1 and name not in app["intents"]:
                raise Close(4014)
        now, before = time.time(), self.hub.identified.setdefault(app["id"], [])
        if before and now - before[-1] < self.hub.settings["identify"]:
            self.op(INVALID, False)
            return
        before.append(now)
        self.payloads = bool(data.get("compress"))
        self.session = self.hub.add(app, intents, tuple(shard))
        self.session.socket = self
        self.hub.ready(self.session, f"ws://{self.request.host}")

    def resume(self, data):
        if self.session:
            raise Close(4005)
        app = self.app_of(data)
        seq = data.get("seq")
        if not isinstance(seq, int) or not isinstance(data.get("session_id"), str):
            raise Close(4002)
        self.hub.alive()
        session = self.hub.sessions.get(data["session_id"])
        if not session or session.app["id"] != app["id"] or seq <= session.seq and not session.knows_since(seq):
            self.op(INVALID, False)
            return
        if seq > session.seq:
            del self.hub.sessions[session.id]
            raise Close(4007)
        if session.socket:
            session.socket.close(4000)
            session.socket.session = None
        self.session = session
        session.lost_at = None
        for text in session.since(seq):
            self.put(text)
        session.socket = self
        session.dispatch("RESUMED", {"_trace": ["stand-in"]})

    def members(self, data):
        world, guild_id = self.hub.world, data.get("guild_id")
        ids = data.get("user_ids")
        if ids is None and not self.session.has(1) and not data.get("query"):
            return
        wanted = [one["user_id"] for one in world.store.all("members") if one["guild_id"] == guild_id]
        if ids is not None:
            wanted = [one for one in wanted if one in ([ids] if isinstance(ids, str) else ids)]
        elif data.get("query"):
            wanted = [one for one in wanted if world.user_view(one)["username"].startswith(data["query"])]
        self.session.dispatch("GUILD_MEMBERS_CHUNK", {
            "guild_id": guild_id, "members": [world.member_view(guild_id, one) for one in wanted], "chunk_index": 0,
            "chunk_count": 1, "not_found": [], "presences": [], **({"nonce": data["nonce"]} if data.get("nonce") else {}),
        })

    def lost(self, code):
        """The connection is over. Its session waits to be resumed, or ends."""
        session, self.session = self.session, None
        if session and session.socket is self:
            session.socket, session.lost_at = None, time.monotonic()
            if code in ENDS:
                self.hub.sessions.pop(session.id, None)


async def connect(hub, request):
    """Answers a request for a websocket until it is over."""
    socket = Socket(hub, request)
    await socket.ws.prepare(request)
    hub.sockets.add(socket)
    writing, watching = asyncio.create_task(socket.write()), asyncio.create_task(socket.watch())
    version, encoding = request.query.get("v", "10"), request.query.get("encoding", "json")
    try:
        if version not in ("9", "10"):
            raise Close(4012)
        if encoding != "json":
            raise Close(4002)
        socket.op(HELLO, {"heartbeat_interval": int(hub.settings["heartbeat"] * 1000), "_trace": ["stand-in"]})
        await socket.read()
    except Close as reason:
        socket.close(reason.code)
        await asyncio.wait([writing], timeout=10)
    finally:
        hub.sockets.discard(socket)
        writing.cancel()
        watching.cancel()
        socket.lost(socket.closed_with or socket.ws.close_code)
    return socket.ws
