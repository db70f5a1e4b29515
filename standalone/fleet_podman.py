"""Podman as an engine. Sandboxes in it end with the connections to its service."""

import os
import subprocess

from fleet_engine import PREPARED, Engine

# Its own defaults may be more than a process without all rights can give.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]


class Podman(Engine):
    """Its namespaces stay when its service is killed, as those of a machine do."""

    def __init__(self, folder, number):
        super().__init__(folder, number)
        self.holder, self.podman = None, []

    def make(self):
        at = self.folder
        os.mkdir(at)
        kind = subprocess.run(["stat", "-f", "-c", "%T", at], capture_output=True, text=True, check=True).stdout
        # A copy of all files for each container takes much longer, but an overlay can't be on another one.
        storage = "vfs" if "overlay" in kind else "overlay"
        self.podman = ["podman", "--cgroup-manager", "cgroupfs", "--storage-driver", storage, "--root", f"{at}/data",
                       "--runroot", f"{at}/run", "--tmpdir", f"{at}/tmp"]
        # Its locks are in shared memory, for all of a machine.
        script = f"{PREPARED}; mount -t tmpfs none /dev/shm && echo ready && exec sleep infinity"
        self.holder = subprocess.Popen([*self.unshare, "--mount", "--propagation", "private", "sh", "-c", script],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.holder.stdout.readline()
        self.start()

    def inside(self, *arguments):
        """A command of Podman's in its namespaces."""
        at = f"/proc/{self.holder.pid}/ns"
        return ["nsenter", f"--net={at}/net", f"--mount={at}/mnt", *self.podman, *arguments]

    def command(self):
        return self.inside("system", "service", "--time", "0", f"unix://{self.inner}")

    def refusal(self):
        """The error of its runtime if that can start nothing on this machine. It is tried with the machine's own programs, because
        there may be no image yet."""
        root = f"{self.folder}/trial"
        os.makedirs(f"{root}/usr")
        for name in ("bin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        trial = self.inside("run", "--rm", "--network", "none", *LIMITS, "--volume", "/usr:/usr:ro", "--rootfs", root, "/usr/bin/true")
        done = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return " ".join(done.stderr.split()) or f"exit code {done.returncode}" if done.returncode != 0 else None

    def load(self, path):
        # Its service would take almost twice as long.
        subprocess.run(self.inside("load", "--quiet", "--input", path), stdin=subprocess.DEVNULL, capture_output=True, check=True)

    def clear(self):
        # Docker's command lets it wait ten seconds for each.
        subprocess.run(self.inside("rm", "--force", "--all", "--time", "0"), stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=60, check=False)

    def end(self):
        super().end()
        if self.holder:
            self.holder.kill()
            self.holder.wait()
