"""The fleet: a database with its replica, engines, and a group of gateways, each with a home and a machine of its own."""

import contextlib
import json
import os
import re
import shutil
import struct
import subprocess
import threading

from campaign_script import replies, used
from checking import FLOCK, check, run, until
from fleet_clients import AGENTS, ANSWERED, LINES, SILENT, VAULT, crew
from fleet_engine import Engine
from fleet_gateway import Gateway
from fleet_net import Machine, Namespace, Switch, free_subnet
from fleet_podman import Podman
from fleet_postgres import Cluster
from fleet_ssh import SshEngine
from fleet_trace import sql

HERE = os.path.dirname(os.path.abspath(__file__))
GATEWAYS = 3
PEER_ADDRESS = "plugins.entries.flock.config.gateway.peerAddress"
FLAKE = "plugins.entries.flock.config.nix.flake"
# The agents of the team scenario; the two that a home does not have from its beginning have archetypes.
SCENARIO = {"orchestrator": None, "sysadmin": None, "architect": "production-first-developer", "coder": "code-first-developer"}
# These are on the second engine, because only it has the label. So their workspaces are there, too. One is on the third.
FAR, PODS = AGENTS[1::2], AGENTS[4:5]
# What a command leaves in the workspace: its word, how long the machine has been running, and the home of the sandbox, by its
# volume.
MARK = r"""read up rest </proc/uptime
home=$(sed -n 's,.*/volumes/flock-nix-*\([0-9a-f]*\)/_data .*,\1,p' /proc/self/mountinfo | head -n 1)
printf '%s %s %s\n' '{{last_message}}' "$up" "$home" >>done.txt && printf 'marked:%s' '{{last_message}}'"""
# The same by a command that takes a moment.
SLOW_MARK = MARK.replace("\n", "\nsleep 1.5\n", 1)


def own_images():
    """The images that agents need on the machine's own engine, one name of each."""
    newest = {}
    for line in run("docker", "images", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")[1].split("\n"):
        name, _, image = line.partition(" ")
        if name.startswith(("flock-sandbox:", "flock-nix:")):
            newest.setdefault(image, name)
    return list(newest.values())


@contextlib.contextmanager
def images_made(work, program=FLOCK):
    """Has the images of a program made by a home of its own on the machine's own engine, which they are removed from afterwards."""
    home = ["--home", f"{work}/images-{'first' if program == FLOCK else 'other'}"]
    subprocess.run([program, *home, "init", "--yes", "--model", "script/demo"], check=True)
    try:
        yield
    finally:
        subprocess.run([program, *home, "uninstall", "--purge", "--yes"], check=True, stdout=subprocess.DEVNULL)


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
    def __init__(self, work, people, *, scenario=False, update=None):
        self.work, self.people, self.scenario, self.update = work, people, scenario, update
        # What the commands on the host write down that people have approved.
        self.ran = f"{work}/ran.txt"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", f"{work}/clock.so", f"{HERE}/fleet_clock.c"], check=True)
        network = free_subnet()
        self.machines = [Machine(network, number) for number in range(GATEWAYS)]
        # The second engine is on a machine of its own, without a line to the host.
        self.far = Namespace(network, GATEWAYS)
        self.switch = Switch([*self.machines, self.far])
        self.clocks = {name: Clock(work, name) for name in ["one", "two", *map(str, range(GATEWAYS))]}
        self.cluster = Cluster(f"{work}/postgres", network, self.machines,
                               [self.clocks[name].environment() for name in ("one", "two")])
        self.podman = Podman(work, 2)
        self.engines = [Engine(work, 0), SshEngine(work, 1, self.far), self.podman]
        # Each gateway has the `ssh` that knows the second engine.
        path = {"PATH": f"{self.engines[1].programs}:{os.environ['PATH']}"}
        self.gateways = [Gateway(work, number, machine, {**self.clocks[str(number)].environment(), **path})
                         for number, machine in enumerate(self.machines)]

    def other(self, program):
        """The other one of the two programs."""
        return self.update if program == FLOCK else FLOCK

    def mixture(self):
        """The numbers of the gateways that have the other program."""
        return tuple(gateway.number for gateway in self.gateways if gateway.program != FLOCK)

    def must(self, gateway, name, *arguments, limit=300):
        code, out, err = gateway.flock(*arguments, limit=limit)
        if not check(f"gateway {gateway.number}: {name}", code == 0, (code, out[-1500:], err[-1500:])):
            raise RuntimeError(f"{name}: {err.strip()}")
        return out

    def make(self):
        for machine in (*self.machines, self.far):
            machine.make()
        self.switch.make()
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
        """The engines, with the images of the machine's own, because theirs reach no network to make them."""
        archive = f"{self.work}/images.tar"
        with contextlib.ExitStack() as images:
            if not own_images():
                images.enter_context(images_made(self.work))
            if self.update:
                # They may be other ones.
                images.enter_context(images_made(self.work, self.update))
            subprocess.run(["docker", "save", "-o", archive, *own_images()], check=True)

        def make(engine):
            engine.make()
            if why := engine.refusal():
                print(f"      goes on without engine {engine.number}, which can start nothing here: {why}", flush=True)
                engine.end()
                self.engines.remove(engine)
            else:
                engine.load(archive)

        beside(*(lambda engine=engine: make(engine) for engine in self.engines))
        os.remove(archive)

    @property
    def pods(self):
        """The agents whose sandboxes are in Podman, if it is there."""
        return PODS if self.podman in self.engines else []

    def init(self, gateway, *more):
        """A home whose gateway the others reach. Its key is new with each start, and they have it from the database."""
        init = ["init", "--yes", "--model", "script/demo", "--port", str(gateway.port)]
        self.must(gateway, "init", *init, *more, limit=900)
        self.must(gateway, "address for the others", "config", "set", PEER_ADDRESS, gateway.peer)

    def make_first(self):
        """The home that the team is made in, and that invites the others."""
        first = self.gateways[0]
        self.init(first)
        with open(f"{first.home}/store.json", "w") as file:
            json.dump({"postgres": self.cluster.address(first.machine)}, file)
        first.write_secret("postgres", self.cluster.password)
        for engine, name, label in zip(self.engines[1:], ("second", "third"), ("far", "podman")):
            self.must(first, f"{name} engine", "engine", "add", name, engine.address(first), "--labels", label, limit=600)
        os.makedirs(f"{first.home}/scripts", exist_ok=True)
        more = [{"when": "slow-command ", "steps": used("exec", command=SLOW_MARK)},
                {"when": "ask ", "steps": [{"say": "answer {{last_message}}", "delay_ms": 30}]},
                {"when": "linger ", "steps": [{"say": "answer {{last_message}}", "delay_ms": 1500}]}]
        script = {"replies": replies(MARK, self.ran, VAULT, LINES, *more)}
        for agent in AGENTS:
            with open(f"{first.home}/scripts/{agent}", "w") as file:
                json.dump(script, file)
            labels = [word for label, agents in (("far", FAR), ("podman", self.pods)) if agent in agents for word in ("--labels", label)]
            self.must(first, f"add {agent}", "add", agent, "--no-container", "--model", f"script/{agent}", *labels)
        members = [word for agent in AGENTS for word in ("--member", agent)]
        self.must(first, f"channel {SILENT}", "channel", "create", SILENT, "--topic", "fleet", *members)
        for channel, agent in ANSWERED.items():
            self.must(first, f"channel {channel}", "channel", "create", channel, "--topic", "fleet", "--member", agent)
        for channel in map(crew, range(self.people)):
            self.must(first, f"channel {channel}", "channel", "create", channel, "--topic", "fleet", "--member", "human:host")
        os.makedirs(f"{first.home}/vaults/{VAULT}", exist_ok=True)
        if self.scenario:
            self.set_the_scene(first)
        self.must(first, "invite", "gateway", "invite")
        first.read_token()

    def set_the_scene(self, first):
        """Makes the agents of the team scenario, with its settings, which it would else set itself. Gateways that run learn of a
        setting only a moment later, and pin a folder of packages when they start."""
        flake = f"{first.home}/scripts/scenario-flake"
        shutil.copytree(f"{HERE}/scenario/flake", flake)
        self.must(first, "packages of the scenario", "config", "set", FLAKE, f"path:{flake}")
        for agent, archetype in SCENARIO.items():
            # The scenario fills it in. Without it, no gateway would take the agent.
            shutil.copy(f"{HERE}/scenario/scripts/{agent}.json", f"{first.home}/scripts/scenario-{agent}.json")
            model = f"script/scenario-{agent}.json"
            if archetype:
                self.must(first, f"add {agent}", "add", agent, "--no-container", "--model", model, "--archetype", archetype)
            else:
                self.must(first, f"model of {agent}", "config", "set", f"agents.list[{agent}].model.primary", model)

    def play(self):
        """Has the team of the scenario work from a person's wish to an archived channel, by the first gateway: exit code, output
        and errors. Its agents may be at any gateway."""
        others = " ".join(gateway.home for gateway in self.gateways[1:])
        return self.gateways[0].run(f"{HERE}/scenario/run.sh", limit=900, FLOCK_MODEL="script/demo", FLOCK_OTHER_HOMES=others)

    def join(self, gateway):
        """A home whose gateway shares the first one's database and files."""
        self.init(gateway, "--no-images")
        gateway.write_secret("postgres", self.cluster.password)
        address, files = self.cluster.address(gateway.machine), self.gateways[0].home
        self.must(gateway, "join", "gateway", "join", address, "--files", files)
        # Each home has images of its own, in each engine.
        self.must(gateway, "images", "init", "--yes", limit=900)
        gateway.read_token()

    def workspace(self, agent):
        """The folder with an agent's files: in the shared ones, or in the volume of the second engine that is named there."""
        place = f"{self.gateways[0].home}/workspaces/{agent}"
        if not os.path.isfile(place):
            return place
        with open(place) as mark:
            return self.engines[1].volume(re.search(r"^volume: (\S+)$", mark.read(), re.MULTILINE)[1])

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
        for machine in (*self.machines, self.far):
            attempt(machine.remove)
        attempt(self.switch.remove)


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
