"""The ways of a gateway to its engines, which can fail for this gateway alone."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class SocketLine:
    """A socket at which a gateway finds an engine of its own machine."""

    def __init__(self, listen, target):
        self.proxy = subprocess.Popen([sys.executable, f"{HERE}/fleet_proxy.py", listen, target],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.proxy.stdout.readline()

    def say(self, word):
        """`in`, `out`, `both`, `reset` or `go`."""
        self.proxy.stdin.write(f"{word}\n")
        self.proxy.stdin.flush()
        self.proxy.stdout.readline()

    def end(self):
        self.proxy.kill()
        self.proxy.wait()


class TcpLine:
    """The network between a gateway and an engine of another machine."""

    def __init__(self, machine, engine):
        self.machine, self.engine = machine, engine
        # Whatever still comes is answered as by a machine that knows nothing of the connection.
        self.reset = ["INPUT", "-p", "tcp", "-s", machine.peer, "-j", "REJECT", "--reject-with", "tcp-reset"]

    def say(self, word):
        """The same words as for a socket."""
        if word == "reset":
            self.engine.iptables("-I", *self.reset)
        elif word == "go":
            self.machine.heal_from(self.engine)
            while self.engine.iptables("-D", *self.reset, may_fail=True):
                pass
        else:
            self.machine.cut_from(self.engine, word)

    def end(self):
        """Goes with the two namespaces."""
