"""A gateway of the fleet: the home as one machine has it, with a network and a folder `run` of its own."""

import json
import os
import signal
import subprocess
import time

from checking import FLOCK, HOME, alive
from fleet_processes import kill_tree, pid_in, tell, tree


class Gateway:
    """The home on one machine. The first one has it as it is; the others have its files, and their own locks and sockets."""

    def __init__(self, number, machine, environment):
        self.number, self.machine, self.environment = number, machine, environment
        self.holder = None
        self.run = f"{HOME}/run"

    def make(self):
        """Gives a further machine its own `run`, as if it had the other files from a disk that both share."""
        if self.number == 0:
            return
        self.run = f"{os.path.dirname(HOME)}/run{self.number}"
        os.makedirs(self.run, exist_ok=True)
        os.chmod(self.run, 0o700)
        script = f"mount --bind {self.run} {HOME}/run && echo ready && exec sleep infinity"
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                                       stdout=subprocess.PIPE, text=True)
        self.holder.stdout.readline()

    def flock(self, *arguments, limit=120):
        """Runs a command of flock's on this machine: its exit code, its output and its errors."""
        command = self.machine.command(FLOCK, *arguments)
        if self.holder:
            command = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *command]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, check=False,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **self.environment})
        except subprocess.TimeoutExpired:
            return -1, "", f"no answer within {limit} s"
        return done.returncode, done.stdout, done.stderr

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

    def pid_of(self, name):
        pid = pid_in(f"{self.run}/{name}.pid") if os.path.exists(f"{self.run}/{name}.pid") else None
        if pid is None:
            try:
                with open(f"{self.run}/{name}.pid") as file:
                    pid = int(file.read().split()[0])
            except (OSError, ValueError, IndexError):
                return None
        return pid if alive(pid) else None

    def kill(self):
        """Kills the gateway alone, which its supervisor starts again."""
        if pid := self.pid_of("gateway"):
            tell([pid], signal.SIGKILL)
        return pid is not None

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
        """Stops the gateway, or the whole machine with its supervisor."""
        pid = self.pid_of("gateway")
        stopped = self.processes() if whole else [pid] if pid else []
        tell(stopped, signal.SIGSTOP)
        return stopped

    def end(self):
        self.machine.heal()
        tell(self.processes(), signal.SIGCONT)
        self.crash()
        if self.holder:
            self.holder.kill()
            self.holder.wait()


def configuration():
    with open(f"{HOME}/config.json") as file:
        return json.load(file)
