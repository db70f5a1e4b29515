"""The machines of a fleet as network namespaces of this one: each has a line to the others, and that of a gateway one to the host.
Lines can lose packets."""

import contextlib
import ctypes
import os
import random
import subprocess

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def run(*command, may_fail=False):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0


def free_subnet():
    """The first two bytes of a network of addresses that this machine does not use."""
    used = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    while True:
        network = f"10.{random.SystemRandom().randrange(128, 250)}"
        if f" {network}." not in used:
            return network


class Namespace:
    """A network namespace with a loopback of its own and a line to the others."""

    def __init__(self, network, number):
        self.name = f"flock-fleet-{os.getpid()}-{number}"
        # At which the others reach it.
        self.peer = f"{network}.255.{number + 1}"

    def make(self):
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "set", "lo", "up")

    def remove(self):
        run("ip", "netns", "del", self.name, may_fail=True)

    @property
    def path(self):
        return f"/run/netns/{self.name}"

    def command(self, *command):
        """A command that runs in it."""
        return ["nsenter", f"--net={self.path}", *command]

    def iptables(self, *arguments, may_fail=False):
        return run(*self.command("iptables", "-w", *arguments), may_fail=may_fail)

    def cut_from(self, other, how):
        """Loses all packets between this namespace and another one. `heal_from` ends that."""
        for at, source, word in ((self, other, "in"), (other, self, "out")):
            if how in (word, "both"):
                at.iptables("-t", "raw", "-A", "PREROUTING", "-s", source.peer, "-j", "DROP")

    def heal_from(self, other):
        for at, source in ((self, other), (other, self)):
            while at.iptables("-t", "raw", "-D", "PREROUTING", "-s", source.peer, "-j", "DROP", may_fail=True):
                pass

    def enter(self):
        """Moves this thread into it: its sockets are there from now on."""
        with contextlib.closing(open(self.path)) as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"enter {self.name}")


class Machine(Namespace):
    """A namespace that also has a line to the host."""

    def __init__(self, network, number):
        super().__init__(network, number)
        self.host, self.address = f"{network}.{number}.1", f"{network}.{number}.2"
        # Names of interfaces have at most 15 characters.
        self.outer, self.inner = f"ff{os.getpid()}h{number}"[-15:], f"ff{os.getpid()}m{number}"[-15:]

    def make(self):
        super().make()
        run("ip", "link", "add", self.outer, "type", "veth", "peer", "name", self.inner)
        run("ip", "link", "set", self.inner, "netns", self.name)
        run("ip", "addr", "add", f"{self.host}/30", "dev", self.outer)
        run("ip", "link", "set", self.outer, "up")
        for command in (["addr", "add", f"{self.address}/30", "dev", self.inner], ["link", "set", self.inner, "up"],
                        # All machines share one file with the database's address, which is at the end of the first one's line.
                        ["route", "add", "default", "via", self.host]):
            run("ip", "-n", self.name, *command)

    def remove(self):
        run("ip", "link", "del", self.outer, may_fail=True)
        super().remove()

    def cut(self, how):
        """Loses all packets of the line to the host: those that come in, those that go out, or both."""
        # Dropped in the namespace's raw table, so that a socket sees silence and never an error of its own kernel.
        if how in ("in", "both"):
            self.iptables("-t", "raw", "-A", "PREROUTING", "-i", self.inner, "-j", "DROP")
        if how in ("out", "both"):
            run("iptables", "-w", "-t", "raw", "-A", "PREROUTING", "-i", self.outer, "-j", "DROP")

    def heal(self):
        """Ends all losses of packets that come to this machine, and those of its line to the host."""
        self.iptables("-t", "raw", "-F", "PREROUTING", may_fail=True)
        while run("iptables", "-w", "-t", "raw", "-D", "PREROUTING", "-i", self.outer, "-j", "DROP", may_fail=True):
            pass


class Switch:
    """The network of the namespaces among themselves: a bridge in one more. So the host forwards nothing, and its firewall stays
    as it is."""

    def __init__(self, namespaces):
        self.name, self.namespaces = f"flock-fleet-{os.getpid()}-switch", namespaces

    def make(self):
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.name, "link", "set", "bridge", "up")
        for number, one in enumerate(self.namespaces):
            port = f"port{number}"
            run("ip", "-n", one.name, "link", "add", "peers", "type", "veth", "peer", "name", port, "netns", self.name)
            run("ip", "-n", self.name, "link", "set", port, "master", "bridge", "up")
            run("ip", "-n", one.name, "addr", "add", f"{one.peer}/24", "dev", "peers")
            run("ip", "-n", one.name, "link", "set", "peers", "up")

    def remove(self):
        run("ip", "netns", "del", self.name, may_fail=True)
