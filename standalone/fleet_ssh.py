"""An engine on a machine of its own, which gateways reach by `ssh`."""

import os
import shutil
import signal
import subprocess

from checking import until
from fleet_engine import Engine
from fleet_lines import TcpLine
from fleet_processes import gone, kill_tree, tell, tree

SSHD, PORT = "/usr/sbin/sshd", 2222


class SshEngine(Engine):
    """Its namespace stays when the engine is killed, and so does the server of `ssh` in it."""

    def __init__(self, folder, number, namespace):
        super().__init__(folder, number, namespace.command("unshare"))
        self.namespace, self.server = namespace, None
        # It stays when the engine's folder goes.
        self.log = f"{folder}/sshd.log"
        # The folder of an `ssh` that knows the server and has the key for it.
        self.programs = f"{self.folder}/bin"

    def make(self):
        super().make()
        self.write_client()
        self.serve()

    def write_client(self):
        at, server = self.folder, self.namespace.peer
        for key in ("host", "own"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{at}/{key}"], check=True)
        with open(f"{at}/host.pub") as key, open(f"{at}/known", "w") as file:
            file.write(f"[{server}]:{PORT} {key.read()}")
        with open(f"{at}/ssh_config", "w") as file:
            file.write(f"Host *\n  User root\n  IdentityFile {at}/own\n  IdentitiesOnly yes\n"
                       f"  UserKnownHostsFile {at}/known\n  GlobalKnownHostsFile /dev/null\n")
        os.mkdir(self.programs)
        with open(f"{self.programs}/ssh", "w") as file:
            file.write(f"#!/bin/sh\nexec {shutil.which('ssh')} -F {at}/ssh_config \"$@\"\n")
        os.chmod(f"{self.programs}/ssh", 0o755)

    def serve(self):
        at, config = self.folder, f"{self.folder}/sshd_config"
        # Where it separates its rights; the system's own service makes it as well.
        os.makedirs("/run/sshd", exist_ok=True)
        with open(config, "w") as file:
            # Connections that are cut off before they have signed in are no reason to turn others away.
            file.write(f"Port {PORT}\nListenAddress {self.namespace.peer}\nHostKey {at}/host\nAuthorizedKeysFile {at}/own.pub\n"
                       "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                       "PermitRootLogin yes\nAllowStreamLocalForwarding yes\nMaxStartups 100\n")
        # Newer servers turn those away for a while whose sessions end by a kill.
        lenient = ["-o", "PerSourcePenalties=no"]
        if subprocess.run([SSHD, "-t", "-f", config, *lenient], capture_output=True, check=False).returncode != 0:
            lenient = []
        with open(self.log, "a") as log:
            self.server = subprocess.Popen(self.namespace.command(SSHD, "-D", "-e", "-f", config, *lenient),
                                           stdin=subprocess.DEVNULL, stderr=log)
        if not until(30, self.lets_in):
            raise RuntimeError(f"engine {self.number} has no ssh: {open(self.log).read()[-2000:]}")

    def lets_in(self):
        there = [f"{self.programs}/ssh", "-o", "BatchMode=yes", "-p", str(PORT), self.namespace.peer, "true"]
        return subprocess.run(self.namespace.command(*there), capture_output=True, stdin=subprocess.DEVNULL,
                              check=False).returncode == 0

    def address(self, gateway):
        return f"ssh://{self.namespace.peer}:{PORT}{self.inner}"

    def line(self, gateway):
        return TcpLine(gateway.machine, self.namespace)

    def kill_sessions(self):
        """Ends all connections of `ssh`, and takes new ones."""
        sessions = tree(self.server.pid)[1:]
        tell(sessions, signal.SIGKILL)
        gone(sessions)

    def end(self):
        if self.server:
            kill_tree(self.server.pid)
            self.server.wait()
        super().end()
