"""The fleet: a database with its replica, two engines, and the home on machines that share its files."""

import json
import os
import struct
import subprocess
import threading

from checking import FLOCK, HOME, check, free_port, run
from fleet_clients import AGENTS, ANSWERED, SILENT
from fleet_engine import Engine
from fleet_gateway import Gateway, configuration
from fleet_net import Machine, free_subnet
from fleet_postgres import Cluster
from fleet_trace import sql

HERE = os.path.dirname(os.path.abspath(__file__))
# These are on the second engine, because only it has the label.
FAR = ["bob", "dan"]


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
    def __init__(self, work, together):
        self.work, self.together = work, together
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", f"{work}/clock.so", f"{HERE}/fleet_clock.c"], check=True)
        network = free_subnet()
        # One gateway has a machine more, on which another takes its place.
        count = max(2, together)
        self.machines = [Machine(network, number) for number in range(count)]
        self.clocks = {name: Clock(work, name) for name in ["one", "two", *map(str, range(count))]}
        self.cluster = Cluster(f"{work}/postgres", network, self.machines,
                               [self.clocks[name].environment() for name in ("one", "two")])
        self.engines = [Engine(work, number) for number in range(2)]
        self.gateways = [Gateway(number, machine, {"DOCKER_HOST": f"unix://{self.engines[0].socket}",
                                                   **self.clocks[str(number)].environment()})
                         for number, machine in enumerate(self.machines)]
        self.active = self.gateways[0]
        self.port, self.token = free_port(), None

    @property
    def spare(self):
        return next(gateway for gateway in self.gateways if gateway is not self.active)

    def must(self, name, *arguments, limit=300):
        code, out, err = self.active.flock(*arguments, limit=limit)
        if not check(name, code == 0, (code, out[-1500:], err[-1500:])):
            raise RuntimeError(f"{name}: {err.strip()}")
        return out

    def make(self):
        for machine in self.machines:
            machine.make()
        beside(self.cluster.make, self.make_engines)
        self.make_home()

    def make_engines(self):
        """Both engines, with the images of the machine's own if it has them; else the home makes them anew."""
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

    def make_home(self):
        self.must("init", "init", "--yes", "--model", "script/demo", "--port", str(self.port), limit=900)
        with open(f"{HOME}/store.json", "w") as file:
            # The first machine's line; another one has the same servers at the other end of its own.
            json.dump({"postgres": self.cluster.address(self.machines[0])}, file)
        with os.fdopen(os.open(f"{HOME}/secrets/postgres", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(self.cluster.password)
        os.makedirs(f"{HOME}/scripts", exist_ok=True)
        mark = "printf '%s\\n' '{{last_message}}' >> done.txt && printf 'marked:%s' '{{last_message}}'"
        replies = [
            {"when": "command ", "steps": [{"calls": [{"name": "exec", "arguments": {"command": mark}}]},
                                           {"say": "{{last_result}}"}]},
            {"when": "errand ", "steps": [{"say": "errand done", "delay_ms": 40}]},
            {"when": "ask ", "steps": [{"say": "answer {{last_message}}", "delay_ms": 30}]},
            {"when": "note ", "steps": [{"say": "", "delay_ms": 60}]},
            {"steps": [{"say": ""}]},
        ]
        self.must("another engine", "engine", "add", "second", f"unix://{self.engines[1].socket}", "--labels", "far", limit=600)
        for agent in AGENTS:
            with open(f"{HOME}/scripts/{agent}", "w") as file:
                json.dump({"replies": replies}, file)
            labels = ["--labels", "far"] if agent in FAR else []
            self.must(f"add {agent}", "add", agent, "--model", f"script/{agent}", *labels)
        members = [word for agent in AGENTS for word in ("--member", agent)]
        self.must(f"channel {SILENT}", "channel", "create", SILENT, "--topic", "fleet", *members)
        for channel, agent in ANSWERED.items():
            self.must(f"channel {channel}", "channel", "create", channel, "--topic", "fleet", "--member", agent)
        for gateway in self.gateways:
            gateway.make()
        self.token = configuration()["gateway"]["auth"]["token"]
        self.must("start", "start")
        self.cluster.primary.ask(sql())

    def where(self):
        """Where clients find a gateway."""
        return self.active.machine, self.port, self.token

    def heal(self):
        """Ends all faults that last."""
        for machine in self.machines:
            machine.heal()
        for engine in self.engines:
            engine.heal()
            engine.go_on()
        for server in self.cluster.servers():
            server.go_on()
        for clock in self.clocks.values():
            clock.set(0)

    def end(self):
        for thing in (*self.gateways, *self.engines, self.cluster, *self.machines):
            try:
                thing.remove() if isinstance(thing, Machine) else thing.end()
            except Exception as error:  # what is left must be cleared away too
                print(f"while clearing away: {type(error).__name__}: {error}")


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


def can_be_together():
    """Whether this flock can have several gateways on one database at once."""
    return run(FLOCK, "gateway", "invite", "--help")[0] == 0
