"""What a turn of each program takes, and what of that is flock's: programs_figures.py PROGRAM...

A turn is compared with the same command, with the same environment and files, run by `docker exec` in the same sandbox;
both ask the same model by flock's relay. One after the other, in turns, so that both have the same machine.
"""

import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import time

from checking import HOME, own_port, until
from programs_agents import MODEL, keys, requests

ROUNDS = 9
# Of the model, for the relay.
CALLS = 200
# Bytes, a little less than a request may have.
LARGEST = 31 << 20
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def shown(times):
    return f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"


def timed(work):
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def resident(what="VmRSS"):
    """The gateway's memory in MiB."""
    pid = open(f"{HOME}/run/gateway.pid").readline().split()[0]
    text = open(f"/proc/{pid}/status").read()
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) / 1024


class Held:
    """A turn that waits for its model, so that what its program was given is worth something."""

    def __init__(self, agent):
        self.path = f"{MODEL}/figures-{agent.name}"
        since = len(requests())
        self.turn = agent.begin(f"hold figures-{agent.name}", "say end", sessionKey=agent.session("held"), forceNew=True)
        until(120, lambda: agent.asked(since))
        pid = next(line.split()[0] for line in agent.processes("/opt/flock/"))
        given = open(f"/proc/{pid}/cmdline").read().split("\0")[:-1]
        environ = open(f"/proc/{pid}/environ").read().split("\0")[:-1]
        self.command, self.environment, self.container = given, environ, agent.container()

    def again(self, prompt):
        """The same command, in a conversation of its own."""
        fresh = UUID.search(subprocess.check_output(["cat", "/proc/sys/kernel/random/uuid"], text=True))[0]
        command = [fresh if UUID.fullmatch(one) else one for one in self.command]
        given = [part for one in self.environment for part in ("-e", one)]
        line = ["docker", "exec", "-i", "-w", "/workspace", *given, self.container, *command]
        done = subprocess.run(line, input=prompt, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout[-500:]}{done.stderr[-500:]}")

    def end(self):
        open(self.path, "w").close()
        self.turn.end()
        os.remove(self.path)


def of(agent):
    agent.turn("say warm")
    held = Held(agent)
    new, resumed, direct = [], [], []
    for number in range(ROUNDS):
        direct.append(timed(lambda: held.again(f"[Current Message]\n{agent.word}\nsay {number}\n")))
        new.append(timed(lambda: answered(agent, number, forceNew=True)))
        resumed.append(timed(lambda: answered(agent, number)))
    held.end()
    added = [1000 * (turn - own) for turn, own in zip(new, direct)]
    print(f"{agent.program}: a new conversation {shown(new)}, one that goes on {shown(resumed)},")
    print(f"    by docker exec {shown(direct)}; a turn takes {statistics.median(added):.0f} ms more, the median of {ROUNDS} pairs")


def answered(agent, number, **more):
    status, answer, _ = agent.turn(f"say {number}", **more)
    if answer.get("content") != str(number):
        raise RuntimeError(f"{agent.name}: {status} {answer}")


def first_byte(connection, path, token, body):
    """How long it takes to the first byte of an answer, in milliseconds."""
    begun = time.monotonic()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    response.read(1)
    took = 1000 * (time.monotonic() - begun)
    if response.read()[:1] and response.status != 200:
        raise RuntimeError(f"{path}: {response.status}")
    return took


def relayed(agent):
    """What the relay adds to the time until a model's answer begins: one on the host is asked by it and directly, in turns."""
    since = len(requests())
    turn = agent.begin("hold figures-relay", "say end")
    until(120, lambda: agent.asked(since))
    given = {}
    for line in agent.processes():
        pairs = open(f"/proc/{line.split()[0]}/environ").read().split("\0")
        given |= dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    # As much as a program's first request has.
    text = "word " * 18_000 + "\nsay hello"
    body = {"model": agent.model, "stream": True, "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]}
    ports = {"direct": int(open(f"{MODEL}/port").read()), "relayed": own_port()}
    asked = {
        name: (http.client.HTTPConnection("127.0.0.1", port, timeout=60), path, token, json.dumps(body))
        for (name, port), path, token in zip(
            ports.items(), ("/v1/responses", "/relay/responses/v1/responses"), (keys()["openai"], given["FLOCK_RELAY_KEY"])
        )
    }
    times = {name: [] for name in asked}
    for connection, *_ in asked.values():
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(CALLS):
        for name, call in asked.items():
            times[name].append(first_byte(*call))
    added = [by - own for by, own in zip(times["relayed"], times["direct"])]
    direct, by = (f"{statistics.median(times[name]):.2f}" for name in ("direct", "relayed"))
    print(f"the relay: {statistics.median(added):.2f} ms more to the first byte, the median of {CALLS} pairs ({by} and {direct} ms)")
    for name, piece in (("texts of 1 KB", {"role": "user", "content": "word " * 200}), ("the smallest objects", {"a": 1})):
        took, size = refused(ports["relayed"], given["FLOCK_RELAY_KEY"], agent.model, piece)
        print(f"the relay: {statistics.median(took):.0f} ms until {size >> 20} MiB of {name} are there, looked at and refused ({min(took):.0f} to {max(took):.0f})")
    open(f"{MODEL}/figures-relay", "w").close()
    turn.end()


def refused(port, token, model, piece):
    """How long the largest request takes, in milliseconds, that is wrong in its last field; and its size."""
    piece = json.dumps(piece)
    pieces = ",".join([piece] * (LARGEST // (len(piece) + 1)))
    body = f'{{"model":"{model}","input":[{pieces}],"plugins":[]}}'.encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    took = []
    for _ in range(ROUNDS):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        begun = time.monotonic()
        connection.request("POST", "/relay/responses/v1/responses", body, headers)
        response = connection.getresponse()
        said = response.read()
        took.append(1000 * (time.monotonic() - begun))
        if response.status != 400 or b"plugins" not in said:
            raise RuntimeError(f"{response.status} {said[:300]}")
    return took, len(body)


def measure(agents):
    begun = resident()
    agents, on_host = [[one for one in agents if one.on_host == there] for there in (False, True)]
    for agent in agents:
        of(agent)
    idle = resident()
    held = [Held(agent) for agent in agents]
    print(f"the gateway: {begun:.1f} MiB at first, {idle:.1f} MiB after these turns, {resident():.1f} MiB with {len(held)} turns at once")
    for turn in held:
        turn.end()
    # Last: the largest requests leave their mark on the gateway's memory.
    for agent in on_host:
        relayed(agent)
