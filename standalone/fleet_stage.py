"""The fleet: a database with its replica, two engines, and a group of gateways, each with a home and a machine of its own."""

import json
import os
import struct
import subprocess
import threading

from checking import check, run, until
from fleet_clients import AGENTS, ANSWERED, SILENT
from fleet_engine import Engine
from fleet_gateway import Gateway
from fleet_net import Machine, free_subnet
from fleet_postgres import Cluster
from fleet_trace import sql

HERE = os.path.dirname(os.path.abspath(__file__))
GATEWAYS, ENGINES = 3, 2
# These are on the second engine, because only it has the label.
FAR = AGENTS[1::2]
# What a command leaves in the workspace: its word, how long the machine has been running, and the home of the sandbox, by its
# volume.
MARK = r"""read up rest </proc/uptime
home=$(sed -n 's,.*/volumes/flock-nix-*\([0-9a-f]*\)/_data .*,\1,p' /proc/self/mountinfo | head -n 1)
printf '%s %s %s\n' '{{last_message}}' "$up" "$home" >>done.txt && printf 'marked:%s' '{{last_message}}'"""


class Clock:
    """The wall clock of a machine, which can be set wrong while its processes run. Those that never go back are right."""

    def __init__(self, folder, name):
        self.library, self.path = f"{folder}/clock.so", f"{folder}/clock-{name}"
        with open(self.path, "wb") as file:
            file.write(struct.pack("=q", 0))

    def set(self, seconds):
        # In its place, because processes have it mapped.
        with open(self.path, "r+b", buffering=0) as file:
            file.write(struct.pack("=q", seconds))

    def environment(self):
        return {"LD_PRELOAD": self.library, "FLEET_CLOCK": self.path}


class Fleet:
    def __init__(self, work):
        self.work = work
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", f"{work}/clock.so", f"{HERE}/fleet_clock.c"], check=True)
        network = free_subnet()
        self.machines = [Machine(network, number) for number in range(GATEWAYS)]
        self.clocks = {name: Clock(work, name) for name in ["one", "two", *map(str, range(GATEWAYS))]}
        self.cluster = Cluster(f"{work}/postgres", network, self.machines,
                               [self.clocks[name].environment() for name in ("one", "two")])
        self.engines = [Engine(work, number) for number in range(ENGINES)]
        self.gateways = [Gateway(work, number, machine, self.clocks[str(number)].environment())
                         for number, machine in enumerate(self.machines)]

    def must(self, gateway, name, *arguments, limit=300):
        code, out, err = gateway.flock(*arguments, limit=limit)
        if not check(f"gateway {gateway.number}: {name}", code == 0, (code, out[-1500:], err[-1500:])):
            raise RuntimeError(f"{name}: {err.strip()}")
        return out

    def make(self):
        for machine in self.machines:
            machine.make()
        beside(self.cluster.make, self.make_engines)
        for gateway in self.gateways:
            gateway.make(self.engines)
        self.make_first()
        beside(*(lambda gateway=gateway: self.join(gateway) for gateway in self.gateways[1:]))
        # The trace has all gateways from their beginning.
        self.cluster.primary.ask(sql())
        beside(*(lambda gateway=gateway: self.start(gateway) for gateway in self.gateways))
        divided = f"SELECT count(DISTINCT epoch) = {GATEWAYS} AND count(*) >= {len(AGENTS)} FROM flock.lease WHERE kind = 'agent'"
        check("each gateway has some of the agents", until(60, lambda: self.cluster.primary.ask(divided).strip() == "t"))

    def make_engines(self):
        """Both engines, with the images of the machine's own if it has them; else the homes make them anew."""
        listed = run("docker", "images", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")[1].split("\n")
        newest = {}
        for line in listed:
            name, _, image = line.partition(" ")
            if name.startswith(("flock-sandbox:", "flock-nix:")):
                # Of several names of one image, one is enough.
                newest.setdefault(image, name)
        archive = f"{self.work}/images.tar"
        if newest:
            subprocess.run(["docker", "save", "-o", archive, *newest.values()], check=True)

        def make(engine):
            engine.make()
            if newest:
                engine.load(archive)

        beside(*(lambda engine=engine: make(engine) for engine in self.engines))
        if newest:
            os.remove(archive)

    def make_first(self):
        """The home that the team is made in, and that invites the others."""
        first = self.gateways[0]
        self.must(first, "init", "init", "--yes", "--model", "script/demo", "--port", str(first.port), limit=900)
        with open(f"{first.home}/store.json", "w") as file:
            json.dump({"postgres": self.cluster.address(first.machine)}, file)
        first.write_secret("postgres", self.cluster.password)
        self.must(first, "another engine", "engine", "add", "second", f"unix://{first.socket(1)}", "--labels", "far", limit=600)
        os.makedirs(f"{first.home}/scripts", exist_ok=True)
        replies = [
            {"when": "command ", "steps": [{"calls": [{"name": "exec", "arguments": {"command": MARK}}]},
                                           {"say": "{{last_result}}"}]},
            {"when": "errand ", "steps": [{"say": "errand done", "delay_ms": 40}]},
            {"when": "ask ", "steps": [{"say": "answer {{last_message}}", "delay_ms": 30}]},
            {"when": "linger ", "steps": [{"say": "answer {{last_message}}", "delay_ms": 1500}]},
            {"when": "note ", "steps": [{"say": "", "delay_ms": 60}]},
            {"steps": [{"say": ""}]},
        ]
        for agent in AGENTS:
            with open(f"{first.home}/scripts/{agent}", "w") as file:
                json.dump({"replies": replies}, file)
            labels = ["--labels", "far"] if agent in FAR else []
            self.must(first, f"add {agent}", "add", agent, "--no-container", "--model", f"script/{agent}", *labels)
        members = [word for agent in AGENTS for word in ("--member", agent)]
        self.must(first, f"channel {SILENT}", "channel", "create", SILENT, "--topic", "fleet", *members)
        for channel, agent in ANSWERED.items():
            self.must(first, f"channel {channel}", "channel", "create", channel, "--topic", "fleet", "--member", agent)
        self.must(first, "invite", "gateway", "invite")
        first.read_token()

    def join(self, gateway):
        """A home whose gateway shares the first one's database and files."""
        init = ["init", "--yes", "--model", "script/demo", "--port", str(gateway.port)]
        self.must(gateway, "init", *init, "--no-images")
        gateway.write_secret("postgres", self.cluster.password)
        address, files = self.cluster.address(gateway.machine), self.gateways[0].home
        self.must(gateway, "join", "gateway", "join", address, "--files", files)
        # Each home has images of its own, in each engine.
        self.must(gateway, "images", "init", "--yes", limit=900)
        gateway.read_token()

    def start(self, gateway):
        if not check(f"gateway {gateway.number} starts", gateway.start()):
            raise RuntimeError(f"gateway {gateway.number} does not start")

    def heal(self):
        """Ends all faults that last."""
        self.cluster.heal()
        for gateway in self.gateways:
            gateway.heal()
        for engine in self.engines:
            engine.go_on()
        for server in self.cluster.servers():
            server.go_on()
        for clock in self.clocks.values():
            clock.set(0)

    def end(self):
        def attempt(work):
            try:
                work()
            except Exception as error:  # what is left must be cleared away too
                print(f"while clearing away: {type(error).__name__}: {error}")

        beside(*(lambda gateway=gateway: attempt(gateway.end) for gateway in self.gateways))
        beside(*(lambda engine=engine: attempt(engine.end) for engine in self.engines), lambda: attempt(self.cluster.end))
        for machine in self.machines:
            attempt(machine.remove)


def beside(*works):
    """Does several things at once, and fails as the first of them that failed."""
    failures = []

    def attempt(work):
        try:
            work()
        except Exception as error:  # the end of a thread is its caller's
            failures.append(error)

    threads = [threading.Thread(target=attempt, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
