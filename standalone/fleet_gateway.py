"""A gateway of the fleet: a home of its own on a machine of its own, with its own lines to the database and the engines."""

import hashlib
import json
import os
import signal
import subprocess
import time

from checking import FLOCK, free_port, pid_of
from fleet_processes import kill_tree, tell, tree

# The port of each machine at which its gateway takes requests of the others.
PEER_PORT = 18790


class Gateway:
    """One of the gateways of a group. The sockets of engines have the same paths for each, and are other sockets."""

    def __init__(self, work, number, machine, environment):
        self.number, self.machine = number, machine
        self.home = f"{work}/home" if number == 0 else f"{work}/home{number}"
        self.own, self.seen = f"{work}/lines{number}", f"{work}/lines"
        self.environment = {"FLOCK_HOME": self.home, "DOCKER_HOST": f"unix://{self.socket(0)}", **environment}
        self.port, self.token = free_port(), None
        self.holder, self.lines = None, []
        # The flock of this home. Another one may take its place while it is stopped.
        self.program = FLOCK

    @property
    def suffix(self):
        """The text by which the names of this home's containers and volumes end."""
        return hashlib.sha256(os.path.realpath(self.home).encode()).hexdigest()[:8]

    @property
    def peer(self):
        """The address at which the other gateways reach this one."""
        return f"{self.machine.peer}:{PEER_PORT}"

    def socket(self, engine):
        """The path at which this gateway finds an engine of its own machine."""
        return f"{self.seen}/engine{engine}.sock"

    def make(self, engines):
        os.makedirs(self.own)
        os.makedirs(self.seen, exist_ok=True)
        self.lines = [engine.line(self) for engine in engines]
        script = f"mount --bind {self.own} {self.seen} && echo ready && exec sleep infinity"
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                                       stdout=subprocess.PIPE, text=True)
        self.holder.stdout.readline()

    def flock(self, *arguments, limit=120):
        """Runs a command of flock's on this machine: its exit code, its output and its errors."""
        return self.run(self.program, *arguments, limit=limit)

    def run(self, *program, limit=120, **variables):
        """The same with another program, and with more variables of the environment."""
        command = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *self.machine.command(*program)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, check=False,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **self.environment, **variables})
        except subprocess.TimeoutExpired:
            return -1, "", f"no answer within {limit} s"
        return done.returncode, done.stdout, done.stderr

    def write_secret(self, name, text):
        with os.fdopen(os.open(f"{self.home}/secrets/{name}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)

    def read_token(self):
        with open(f"{self.home}/config.json") as file:
            self.token = json.load(file)["gateway"]["auth"]["token"]

    def start(self, limit=120):
        """Starts it, however often that takes; whether it runs."""
        end, said = time.monotonic() + limit, ""
        while time.monotonic() < end:
            code, _, said = self.flock("start", limit=60)
            if code == 0:
                return True
            time.sleep(0.3)
        print(f"gateway {self.number} does not start: {said.strip()[-600:]}")
        return False

    def runs_program(self):
        """Whether its supervisor and its gateway, as far as they run, are of its program."""
        for name in ("supervisor", "gateway"):
            try:
                if (pid := self.pid_of(name)) and not os.path.samefile(f"/proc/{pid}/exe", self.program):
                    return False
            except OSError:
                # It ended a moment ago.
                pass
        return True

    def pid_of(self, name):
        return pid_of(name, self.home)

    def kill(self, name="gateway"):
        """Kills the gateway alone, which its supervisor starts again, or the supervisor alone, without which the gateway ends."""
        if pid := self.pid_of(name):
            tell([pid], signal.SIGKILL)

    def processes(self):
        found = []
        for name in ("supervisor", "gateway"):
            if pid := self.pid_of(name):
                found += [one for one in tree(pid) if one not in found]
        return found

    def crash(self):
        """Ends everything of it at once, as a machine that loses its power."""
        for name in ("supervisor", "gateway"):
            if pid := self.pid_of(name):
                kill_tree(pid)

    def pause(self, *, whole=False):
        """Stops the gateway, or the whole machine with its supervisor. Gives what `go_on` takes."""
        pid = self.pid_of("gateway")
        stopped = self.processes() if whole else [pid] if pid else []
        tell(stopped, signal.SIGSTOP)
        return stopped

    @staticmethod
    def go_on(stopped):
        tell(stopped, signal.SIGCONT)

    def heal(self):
        """Ends what lasts on its lines."""
        self.machine.heal()
        for line in self.lines:
            line.say("go")

    def end(self):
        self.machine.heal()
        tell(self.processes(), signal.SIGCONT)
        self.crash()
        for line in self.lines:
            line.end()
        if self.holder:
            self.holder.kill()
            self.holder.wait()
