"""An engine with its own data, network namespace and bridge: Docker's, or one with the same interface."""

import json
import os
import shutil
import signal
import subprocess
import time

from fleet_lines import SocketLine
from fleet_processes import gone, kill_tree, parents, pid_in, tell, tree

# What is done in the namespaces of an engine before it starts. Runtimes refuse machines with control groups of both versions.
PREPARED = "ip link set lo up; umount /sys/fs/cgroup/unified 2>/dev/null"


class Engine:
    """One that gateways find at a socket. `unshare` is the command that gives it a network namespace."""

    def __init__(self, folder, number, unshare=("unshare", "--net")):
        self.folder, self.number, self.unshare = f"{folder}/engine{number}", number, unshare
        self.inner = f"{self.folder}/docker.sock"
        self.daemon = None

    def make(self):
        os.mkdir(self.folder)
        with open(f"{self.folder}/daemon.json", "w") as file:
            # In a namespace of its own the default bridge is its own too.
            json.dump({"iptables": True, "ip-forward": False, "userland-proxy": False}, file)
        self.start()

    def command(self):
        """The command that runs it, with namespaces of its own."""
        at = self.folder
        script = (f"{PREPARED}; exec dockerd --config-file {at}/daemon.json --data-root {at}/data --exec-root {at}/exec"
                  f" --pidfile {at}/pid --host unix://{self.inner}")
        return [*self.unshare, "--mount", "--propagation", "private", "sh", "-c", script]

    def start(self, limit=90):
        with open(f"{self.folder}/log", "a") as log:
            self.daemon = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + limit
        while self.docker("version") is None:
            if time.monotonic() > end or self.daemon.poll() is not None:
                raise RuntimeError(f"engine {self.number} does not start: {open(f'{self.folder}/log').read()[-2000:]}")
            time.sleep(0.1)

    def address(self, gateway):
        """The address at which a gateway finds it."""
        return f"unix://{gateway.socket(self.number)}"

    def line(self, gateway):
        """The way of a gateway to it."""
        return SocketLine(f"{gateway.own}/engine{self.number}.sock", self.inner)

    def volume(self, name):
        """The folder with the files of a volume."""
        return f"{self.folder}/data/volumes/{name}/_data"

    def docker(self, *arguments, limit=60):
        """The output of a command of Docker's client past all lines, or `None` if it failed."""
        try:
            done = subprocess.run(["docker", "-H", f"unix://{self.inner}", *arguments], capture_output=True, text=True,
                                  timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def load(self, path):
        if self.docker("load", "-i", path, limit=300) is None:
            raise RuntimeError(f"engine {self.number} does not take the images")

    def refusal(self):
        """The reason why it can be no engine of this fleet, or `None`."""

    def pause(self):
        tell([self.daemon.pid], signal.SIGSTOP)

    def go_on(self):
        tell([self.daemon.pid], signal.SIGCONT)

    def containerd(self):
        return pid_in(f"{self.folder}/exec/containerd/containerd.pid")

    def kill(self):
        """Kills the engine and starts it again. Its containers may live on meanwhile."""
        below = self.containerd()
        tell([self.daemon.pid], signal.SIGKILL)
        self.daemon.wait()
        self.kill_containerd(below)
        for name in ("pid", "exec/containerd/containerd.pid"):
            try:
                os.remove(f"{self.folder}/{name}")
            except FileNotFoundError:
                pass
        self.start()

    def kill_containerd(self, pid=None):
        """Kills the daemon below the engine, which the engine starts again."""
        pid = pid or self.containerd()
        if pid:
            tell([pid], signal.SIGKILL)
            gone([pid], limit=20)

    def sandboxes(self, home):
        """The containers that run for agents of a home."""
        named = (f"label=flock.home={os.path.realpath(home)}", "label=flock.agent")
        return (self.docker("ps", "-q", *(word for label in named for word in ("--filter", label)), limit=20) or "").split()

    def kill_helper(self, container):
        """Kills the first process of a sandbox. A command of the agent may be one of its children."""
        pid = int(self.docker("inspect", "--format", "{{.State.Pid}}", container) or 0)
        if pid > 1:
            tell([pid], signal.SIGKILL)

    def clear(self):
        """Removes all containers."""
        containers = (self.docker("ps", "-aq", limit=20) or "").split()
        if containers:
            self.docker("rm", "-f", *containers, limit=60)

    def end(self):
        if self.daemon and self.daemon.poll() is None:
            self.go_on()
            self.clear()
            tell([self.daemon.pid], signal.SIGTERM)
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                kill_tree(self.daemon.pid)
                self.daemon.wait()
        # The processes between the engine and its containers outlive a killed engine.
        for pid in parents():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read()
            except OSError:
                continue
            if f"{self.folder}/".encode() in line and pid != os.getpid():
                tell(reversed(tree(pid)), signal.SIGKILL)
        with open("/proc/self/mountinfo") as table:
            mounted = [line.split()[4] for line in table]
        for at in sorted((at for at in mounted if at.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "-l", at], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
