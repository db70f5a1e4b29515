"""Memory of a gateway under load, and clients of many kinds that all have to come to an end: load.py PORTFILE [--full]

The limits are of memory, which no other load on the machine changes; nothing here asserts a duration. Every step of a
client has a deadline: one that passes it is named, with where it stood.
"""

import argparse
import asyncio
import collections
import http.client
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import uuid

from checking import HOME, check, configuration, finish, free_port, must, own_port, own_token

AGENTS = 20
# MiB of the gateway's own memory. What it has resident in all is shown beside it: how much of that is pages of the program
# depends on how the program was built. The limits are those of a release build; one that was not optimised needs a few MiB
# more, which FLOCK_LOAD_MORE adds.
HEIGHT, AFTER_STREAMS, AFTER_TURNS, AFTER_GIANT = (
    limit + int(os.environ.get("FLOCK_LOAD_MORE", "0")) for limit in (30, 16, 10, 16)
)
# A soak may end with so much more than after its second minute: what is measured jumps by less.
GROWTH = 2
# Seconds until a client that stands at one place counts as hanging.
DEADLINE = 60


class Gateway:
    """The process that is measured."""

    def __init__(self):
        self.pid = int(open(f"{HOME}/run/gateway.pid").readline().split()[0])
        self.port, self.token = own_port(), own_token()

    def figure(self, name):
        text = open(f"/proc/{self.pid}/status").read()
        return int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])

    def resident(self):
        return self.figure("VmRSS") / 1024

    def own(self):
        return self.figure("RssAnon") / 1024

    def height(self):
        """The most it has had since `forget`."""
        return self.figure("VmHWM") / 1024

    def shown(self):
        """All of it, and what of that is its own and what is mapped files."""
        return f"{self.resident():.1f} MiB ({self.own():.1f} of its own)"

    def used(self):
        """Seconds of processor time."""
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def forget(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as file:
            file.write("5")

    async def settled(self, limit, wait=30):
        """Its own memory, once that is within the limit; after `wait` seconds whatever it is then."""
        end = time.monotonic() + wait
        while self.own() > limit and time.monotonic() < end:
            await asyncio.sleep(0.2)
        return self.own()

    async def watched(self, highest):
        """Notes in `highest[0]` the most that it has of its own, until it is cancelled."""
        while True:
            highest[0] = max(highest[0], self.own())
            await asyncio.sleep(0.02)


class Broken(Exception):
    """An answer that is none."""


class Client:
    """One kept connection, and where its user stands."""

    def __init__(self, gateway, kind):
        self.gateway, self.kind, self.where = gateway, kind, "not begun"
        self.reader = self.writer = None
        self.choose = random.Random(kind)
        self.end = float("inf")

    async def at(self, where, work):
        """Waits for one step, at most until the deadline."""
        self.where = where
        return await asyncio.wait_for(work, DEADLINE)

    async def open(self, room=65536):
        if self.writer is None:
            connect = asyncio.open_connection("127.0.0.1", self.gateway.port, limit=room)
            self.reader, self.writer = await self.at("connecting", connect)

    def close(self):
        if self.writer is not None:
            self.writer.transport.abort()
        self.reader = self.writer = None

    async def ask(self, method, path, body=None, headers=None):
        """Sends a request; a kept connection that the gateway closed meanwhile is opened anew. Gives status and headers."""
        data = b"" if body is None else json.dumps(body).encode()
        given = {"host": "127.0.0.1", "authorization": f"Bearer {self.gateway.token}", "content-type": "application/json",
                 "content-length": str(len(data)), **(headers or {})}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in given.items()) + "\r\n"
        for is_last in (False, True):
            was_kept = self.writer is not None
            await self.open()
            try:
                self.writer.write(head.encode() + data)
                await self.at(f"writing {method} {path}", self.writer.drain())
                line = await self.at(f"status of {method} {path}", self.reader.readline())
                if line:
                    break
            except OSError:
                pass
            self.close()
            if is_last or not was_kept:
                raise Broken(f"no answer to {method} {path}")
        found = {}
        while True:
            each = (await self.at(f"headers of {method} {path}", self.reader.readline())).strip().lower()
            if not each:
                break
            name, _, value = each.partition(b":")
            found[name.decode()] = value.strip().decode()
        return int(line.split()[1]), found

    async def pieces(self, headers, pause=0.0):
        """The body, piece by piece."""
        if headers.get("transfer-encoding") == "chunked":
            while True:
                size = int((await self.at("size of a piece", self.reader.readline())).strip() or b"0", 16)
                piece = await self.at("a piece", self.reader.readexactly(size + 2))
                if size == 0:
                    break
                yield piece[:-2]
                await asyncio.sleep(pause)
        else:
            left = int(headers.get("content-length", 0))
            while left:
                piece = await self.at("the body", self.reader.read(min(left, 65536)))
                if not piece:
                    raise Broken("the body broke off")
                left -= len(piece)
                yield piece
        if headers.get("connection") == "close":
            self.close()

    async def whole(self, method, path, body=None, headers=None, pause=0.0):
        status, found = await self.ask(method, path, body, headers)
        return status, b"".join([piece async for piece in self.pieces(found, pause)])

    def agent(self):
        return f"agent-{self.choose.randrange(AGENTS)}"

    async def chat(self, text="hello", stream=True, session=None, headers=None, pause=0.0):
        agent = self.agent() if session is None else session.split(":")[1]
        body = {"model": agent, "stream": stream, "messages": [{"role": "user", "content": text}]}
        headers = {**(headers or {}), **({"x-openclaw-session-key": session} if session else {})}
        status, body = await self.whole("POST", "/v1/chat/completions", body, headers, pause)
        if status == 200 and stream and b"[DONE]" not in body:
            raise Broken(f"a stream without its end: {body[-300:]}")
        return status, body

    async def begun(self, path, body):
        """A streamed request whose first piece has come."""
        status, found = await self.ask("POST", path, body)
        pieces = self.pieces(found)
        first = await anext(pieces, b"")
        return status, first, pieces


# What each kind of client of the soak does once. What is no answer raises `Broken`.


async def kept_chat(client):
    status, body = await client.chat(stream=client.choose.random() < 0.5)
    expect(status == 200 and (b"here" in body), status, body)


async def session_chat(client):
    number = client.choose.randrange(50)
    status, body = await client.chat(session=f"agent:agent-{number % AGENTS}:flock:dm:load-{number}")
    expect(status == 200, status, body)


async def cut_stream(client):
    body = {"model": client.agent(), "stream": True, "messages": [{"role": "user", "content": "slow 20"}]}
    status, first, pieces = await client.begun("/v1/chat/completions", body)
    expect(status == 200, status, first)
    await anext(pieces, b"")
    await pieces.aclose()
    client.close()


async def slow_reader(client):
    status, body = await client.chat("slow 5", pause=0.05)
    expect(status == 200, status, body)


async def model_breaks(client):
    status, body = await client.chat("cut", stream=False)
    expect(status in (200, 424, 502), status, body)


async def model_hangs(client):
    body = {"model": client.agent(), "stream": True, "messages": [{"role": "user", "content": "hang"}]}
    status, first, pieces = await client.begun("/v1/chat/completions", body)
    await pieces.aclose()
    client.close()
    expect(status == 200, status, first)


async def idempotent(client):
    """The first attempt is broken off; whatever became of it, the second gives the one answer."""
    key = {"idempotency-key": str(uuid.uuid4())}
    agent = client.agent()
    body = {"model": agent, "messages": [{"role": "user", "content": "slow 2"}]}
    data = json.dumps(body).encode()
    await client.open()
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {client.gateway.token}\r\n"
            f"content-type: application/json\r\nidempotency-key: {key['idempotency-key']}\r\ncontent-length: {len(data)}\r\n\r\n")
    client.writer.write(head.encode() + data)
    await client.at("writing what is broken off", client.writer.drain())
    await asyncio.sleep(client.choose.uniform(0, 0.3))
    client.close()
    answers = []
    for _ in range(2):
        status, answer = await client.whole("POST", "/v1/chat/completions", body, key)
        answers.append((status, answer))
    # What was broken off is cancelled, and that is its answer from then on.
    expect(answers[0][0] in (200, 409, 424, 502, 503), *answers[0])
    expect(answers[1][0] == answers[0][0], answers, "")


async def a2a_calls(client):
    agent = client.agent()

    async def call(method, params):
        status, body = await client.whole("POST", f"/flock/a2a/{agent}", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer = json.loads(body)
        expect(status == 200 and "result" in answer, status, body)
        return answer["result"]

    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "slow 3"}]}
    task = (await call("SendMessage", {"message": message, "configuration": {"returnImmediately": True}}))["task"]
    request = {"jsonrpc": "2.0", "id": 2, "method": "SubscribeToTask", "params": {"id": task["id"]}}
    status, body = await client.whole("POST", f"/flock/a2a/{agent}", request)
    expect(status == 200, status, body)
    # Between the call and the subscription it may have come to its end.
    expect(b"COMPLETED" in body or b"-32004" in body, status, body)
    got = await call("GetTask", {"id": task["id"]})
    expect(got["status"]["state"] == "TASK_STATE_COMPLETED", 200, got)


async def a2a_stream_cut(client):
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "slow 3"}]}
    agent = client.agent()
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    status, first, pieces = await client.begun(f"/flock/a2a/{agent}", request)
    await pieces.aclose()
    client.close()
    expect(status == 200 and b"task" in first, status, first)
    task = re.search(rb'"id":"([^"]+)","contextId|"task":\{[^}]*?"id":"([^"]+)"', first)
    if task is not None:
        name = (task[1] or task[2]).decode()
        request = {"jsonrpc": "2.0", "id": 2, "method": "SubscribeToTask", "params": {"id": name}}
        status, body = await client.whole("POST", f"/flock/a2a/{agent}", request)
        expect(status == 200, status, body)


async def events(client):
    status, found = await client.ask("GET", "/api/events")
    expect(status == 200, status, "")
    count = 0
    async for _ in client.pieces(found):
        count += 1
        # Once the other clients have ended, only a comment every 15 seconds comes: 20 pieces would take five minutes.
        if count == 20 or time.monotonic() >= client.end:
            break
    client.close()


async def post(client):
    channel = client.choose.choice(["alpha", "beta"])
    status, body = await client.whole("POST", f"/api/channels/{channel}/messages",
                                      {"content": "a note", "as": "ann", "notify": client.choose.random() < 0.3})
    expect(status == 201, status, body)


async def look(client):
    path = client.choose.choice(["/api/channels/alpha/messages", "/api/sessions", "/api/agents", "/api/tasks", "/v1/models",
                                 "/health", "/api/usage", "/api/audit", "/api/approvals", "/api/channels"])
    status, body = await client.whole("GET", path)
    expect(status == 200, status, body)


async def wrong(client):
    method, path, body = client.choose.choice([
        ("POST", "/v1/chat/completions", {"model": "nobody", "messages": [{"role": "user", "content": "x"}]}),
        ("POST", "/v1/nothing", {"x": "y" * 100_000}),
        ("GET", "/api/channels/nothing", None),
        ("DELETE", "/health", None),
    ])
    status, body = await client.whole(method, path, body)
    expect(400 <= status < 500, status, body)


async def half_request(client):
    """A request that ends in the middle of its body."""
    await client.open()
    client.writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {client.gateway.token}\r\n"
                        "content-length: 1000\r\n\r\n{".encode())
    await client.at("writing a half", client.writer.drain())
    await asyncio.sleep(0.05)
    client.close()


def expect(holds, status, body):
    if not holds:
        raise Broken(f"{status}: {body[:600]!r}")


# Each kind with how many of it there are, and how long each waits between two operations at most.
KINDS = [
    (kept_chat, 8, 0.3), (session_chat, 8, 0.3), (cut_stream, 3, 0.5), (slow_reader, 3, 0.2), (model_breaks, 1, 1.0),
    (model_hangs, 2, 1.0), (idempotent, 3, 0.3), (a2a_calls, 3, 0.3), (a2a_stream_cut, 2, 0.5), (events, 3, 0.5),
    (post, 4, 0.3), (look, 6, 0.25), (wrong, 2, 0.5), (half_request, 1, 0.5),
]


class Soak:
    def __init__(self, gateway):
        self.gateway, self.count, self.broken = gateway, collections.Counter(), collections.Counter()
        self.examples, self.hung, self.clients = {}, [], []

    async def one(self, kind, number, pause, end):
        client = Client(self.gateway, f"{kind.__name__} {number}")
        client.end = end
        self.clients.append(client)
        while time.monotonic() < end:
            try:
                await kind(client)
                self.count[kind.__name__] += 1
            except TimeoutError:
                self.hung.append(f"{client.kind}: {client.where}")
                client.close()
            except (Broken, OSError, EOFError, ValueError) as error:
                self.broken[kind.__name__] += 1
                self.examples.setdefault(kind.__name__, f"{client.where}: {type(error).__name__} {error}")
                client.close()
            client.where = "between two operations"
            await asyncio.sleep(client.choose.uniform(0, pause))
        client.close()
        client.where = "ended"

    async def run(self, seconds, marks):
        """Runs all kinds; gives what was resident at each of these seconds and at the end."""
        begun = time.monotonic()
        end = begun + seconds
        users = [asyncio.create_task(self.one(kind, number, pause, end))
                 for kind, count, pause in KINDS for number in range(count)]
        seen = []
        for mark in [*marks, seconds]:
            await asyncio.sleep(max(0.0, begun + mark - time.monotonic()))
            seen.append(self.gateway.own())
            print(f"      after {mark} s: {self.gateway.shown()}, {sum(self.count.values())} operations,"
                  f" {self.gateway.figure('Threads')} threads", flush=True)
        _, left = await asyncio.wait(users, timeout=DEADLINE + 30)
        for user in left:
            user.cancel()
        self.hung += [f"{client.kind}: {client.where}" for client in self.clients if client.where != "ended"]
        return seen


async def streams(gateway, turns, most):
    """Many streamed chats at once, half of them in sessions that go on."""
    left, lost = turns, []

    async def user(number):
        nonlocal left
        client = Client(gateway, f"stream {number}")
        session = f"agent:agent-{number % AGENTS}:flock:dm:stream-{number}" if number % 2 else None
        while left > 0:
            left -= 1
            try:
                status, body = await client.chat(session=session)
                expect(status == 200 and b"well" in body, status, body)
            except (Broken, OSError, EOFError, TimeoutError) as error:
                lost.append(f"{client.where}: {type(error).__name__} {error}")
                client.close()
        client.close()

    gateway.forget()
    highest = [0.0]
    watch = asyncio.create_task(gateway.watched(highest))
    begun = time.monotonic()
    await asyncio.gather(*(user(number) for number in range(most)))
    rate = turns / (time.monotonic() - begun)
    watch.cancel()
    height, threads = highest[0], gateway.figure("Threads")
    print(f"      {turns} turns, {rate:.0f} a second, {threads} threads, at its height {gateway.height():.1f} MiB")
    check(f"{turns} streamed chats, {most} at once: none is lost", not lost, lost[:5])
    check(f"at its height the gateway has at most {HEIGHT} MiB of its own ({height:.1f})", height <= HEIGHT)
    after = await gateway.settled(AFTER_STREAMS)
    print(f"      after them: {gateway.shown()}")
    check(f"after them at most {AFTER_STREAMS} MiB of its own ({after:.1f})", after <= AFTER_STREAMS)


async def turns(gateway, count):
    client = Client(gateway, "turns")
    for number in range(count):
        session = f"agent:agent-{number % AGENTS}:flock:dm:turns-{number % 40}"
        status, body = await client.chat(stream=False, session=session)
        expect(status == 200, status, body)
    client.close()
    after = await gateway.settled(AFTER_TURNS)
    print(f"      after {count} turns: {gateway.shown()}")
    check(f"after {count} turns it has at most {AFTER_TURNS} MiB of its own ({after:.1f})", after <= AFTER_TURNS)


class Program:
    """A stand-in for an installed agent program, run on the host: its turns are a recorded answer, or wait for a file."""

    AGENT = "visitor"

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.held, self.given = f"{folder}/hold", f"{folder}/given"
        recorded = os.path.abspath(f"{os.path.dirname(__file__)}/../tests/fixtures/programs/codex/new.jsonl")
        script = f"{folder}/script"
        with open(script, "w") as file:
            file.write("#!/bin/sh\n"
                       "case \"$*\" in --version) echo 'codex-cli 0.169.0'; exit ;;"
                       " 'debug models --bundled') echo '{\"models\":[{\"slug\":\"gpt-5.5\"}]}'; exit ;; esac\n"
                       f"cat > /dev/null; env > {self.given}.new; mv {self.given}.new {self.given}\n"
                       f"while [ -e {self.held} ]; do sleep 0.1; done\n"
                       f"cat '{recorded}'\n")
        os.chmod(script, 0o755)
        with open(f"{folder}/stand-in.c", "w") as file:
            file.write("#include <unistd.h>\nint main(int n, char **v) { execv(SCRIPT, v); return 127; }\n")
        os.makedirs(f"{folder}/bin")
        subprocess.run(["cc", f'-DSCRIPT="{script}"', "-o", f"{folder}/bin/codex", f"{folder}/stand-in.c"], check=True)
        os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"

    def provider(self):
        return {"baseUrl": f"http://127.0.0.1:{self.port}", "apiKey": "sk-load-0123456789abcdef", "api": "openai-responses",
                "models": [{"id": "gpt-5.5", "contextWindow": 200_000, "maxTokens": 8192}]}

    def environment(self):
        with open(self.given) as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)


async def programs(gateway, count):
    client = Client(gateway, "programs")
    for number in range(count):
        session = f"agent:{Program.AGENT}:flock:dm:load-{number % 10}"
        status, body = await client.chat(stream=False, session=session)
        expect(status == 200, status, body)
    client.close()
    after = await gateway.settled(AFTER_TURNS)
    print(f"      after {count} turns of an agent program: {gateway.shown()}")
    check(f"after {count} turns of an agent program it has at most {AFTER_TURNS} MiB of its own ({after:.1f})", after <= AFTER_TURNS)


async def relay(gateway, program, calls):
    """How much later the first byte of an answer comes by the relay than from the model itself, in pairs."""
    open(program.held, "w").close()
    if os.path.exists(program.given):
        os.remove(program.given)
    holder = Client(gateway, "holder")
    turn = asyncio.create_task(holder.chat(stream=False, session=f"agent:{Program.AGENT}:flock:dm:held"))
    while not os.path.exists(program.given):
        # A turn that ended without the program is what failed; its answer says why. The client's deadline ends the rest.
        expect(not turn.done(), *(turn.result() if turn.done() else ("", "")))
        await asyncio.sleep(0.05)
    given = program.environment()
    text = "word " * 18_000
    body = json.dumps({"model": "gpt-5.5", "stream": True,
                       "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]}).encode()
    places = {"direct": (program.port, "/v1/responses"), "relayed": (gateway.port, "/relay/responses/v1/responses")}
    lines = {}
    for name, (port, path) in places.items():
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        line.connect()
        line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines[name] = (line, path)
    times = {name: [] for name in places}
    headers = {"content-type": "application/json", "authorization": f"Bearer {given['FLOCK_RELAY_KEY']}"}

    def first_byte(name):
        line, path = lines[name]
        begun = time.perf_counter()
        line.request("POST", path, body, headers)
        response = line.getresponse()
        response.read(1)
        took = 1000 * (time.perf_counter() - begun)
        rest = response.read()
        expect(response.status == 200 and b"response.completed" in rest, response.status, rest)
        return took

    used = gateway.used()
    for number in range(calls):
        for name in places if number % 2 else reversed(places):
            times[name].append(await asyncio.to_thread(first_byte, name))
    used = 1000 * (gateway.used() - used) / calls
    added = sorted(by - own for by, own in zip(times["relayed"], times["direct"]))
    print(f"      the relay adds {statistics.median(added):.2f} ms to the first byte, the median of {calls} pairs; the least"
          f" of each {min(times['relayed']):.2f} and {min(times['direct']):.2f}; processor {used:.2f} ms a call")
    os.remove(program.held)
    await turn


async def giant(gateway, size):
    client = Client(gateway, "giant")
    for kind in ("giant", "giantline"):
        gateway.forget()
        before = gateway.own()
        status, body = await client.chat(f"{kind} {size}", stream=False)
        client.close()
        height = gateway.height()
        after = await gateway.settled(AFTER_GIANT)
        print(f"      {kind} {size}: {status}, at its height {height:.1f} MiB")
        print(f"      after it: {gateway.shown()}")
        check(f"an answer of {size} MiB ({kind}) leaves at most {AFTER_GIANT} MiB of its own ({before:.1f} before, {after:.1f} after)",
              after <= AFTER_GIANT)


async def soak(gateway, seconds, marks):
    run = Soak(gateway)
    seen = await run.run(seconds, marks)
    print(f"      {dict(run.count)}")
    check(f"{sum(run.count.values())} operations of {len(run.clients)} clients: none hangs", not run.hung, run.hung)
    check("each has the answer that it should have", not run.broken, (dict(run.broken), run.examples))
    settled = await gateway.settled(seen[0] + GROWTH)
    check(f"a soak of {seconds} s ends where it stood after {marks[0]} ({seen[0]:.1f}, {settled:.1f} MiB of its own)", settled <= seen[0] + GROWTH)


def make(model):
    port = int(open(model).read())
    program = Program(os.path.dirname(model), port)
    must("init", "init", "--yes", "--no-images", "--model", "load/instant", "--port", str(free_port()))
    path = f"{HOME}/config.json"
    config = configuration()
    config.setdefault("models", {}).setdefault("providers", {})["load"] = {
        "baseUrl": f"http://127.0.0.1:{port}/v1", "apiKey": "none", "api": "openai-completions",
        "models": [{"id": "instant", "contextWindow": 128_000, "maxTokens": 4096}],
    }
    config["models"]["providers"]["lab"] = program.provider()
    with open(f"{path}.new", "w") as file:
        json.dump(config, file)
    os.chmod(f"{path}.new", 0o600)
    os.rename(f"{path}.new", path)
    for number in range(AGENTS):
        must(f"add agent-{number}", "add", f"agent-{number}", "--no-container", "--model", "load/instant")
    must(f"add {Program.AGENT}", "add", Program.AGENT, "--runtime", "codex", "--on-host", "--model", "lab/gpt-5.5")
    for channel in ("alpha", "beta"):
        must(f"channel {channel}", "channel", "create", channel, "--topic", "load", "--member", "agent-0", "--member", "agent-1")
    must("start", "start")
    return program


async def measure(options, program):
    parts = options.part or ["turns", "programs", "relay", "streams", "giant", "soak"]
    gateway = Gateway()
    print(f"      at first: {gateway.shown()}")
    if "turns" in parts:
        await turns(gateway, 1000)
    if "programs" in parts:
        await programs(gateway, 1000 if options.full else 40)
    if "relay" in parts:
        await relay(gateway, program, 400 if options.full else 50)
    if "streams" in parts:
        await streams(gateway, 16_110 if options.full else 2_000, 200)
    if "giant" in parts:
        await giant(gateway, 40)
    if "soak" in parts:
        await soak(gateway, *((600, [120, 240, 360, 480]) if options.full else (25, [10])))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("model")
    arguments.add_argument("--full", action="store_true", help="the whole load: about fifteen minutes")
    arguments.add_argument("--part", action="append", help="turns, programs, relay, streams, giant or soak; all of them where none is named")
    options = arguments.parse_args()
    program = make(options.model)
    asyncio.run(measure(options, program))
    finish()


if __name__ == "__main__":
    sys.exit(main())
