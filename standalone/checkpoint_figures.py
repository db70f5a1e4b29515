"""The measurements of checkpoint_figures.sh. Prints each figure with its limit, and exits with 1 if a limit is missed."""

import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

FLOCK = os.environ["FLOCK_BINARY"]
ROUNDS = 9
TURNS = 25
# The agent's answer writes a file, so that the turn has to wait for its checkpoint.
SCRIPT = """{"replies": [{"steps": [
    {"calls": [{"name": "write", "arguments": {"path": "out.txt", "content": "new"}}]}, {"say": "done"}]}]}"""
missed = []


def run(*command, cwd=None, env=None, check=True):
    return subprocess.run(command, cwd=cwd, env=env, check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def figure(name, value, unit, limit=None):
    is_missed = limit is not None and value > limit
    if is_missed:
        missed.append(name)
    bound = "" if limit is None else f"  (limit {limit:g} {unit}{', missed' if is_missed else ''})"
    print(f"{name}: {value:.3g} {unit}{bound}", flush=True)


class Home:
    """A home with one agent, without a container."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.env = dict(os.environ, FLOCK_HOME=str(self.folder / "home"), DOCKER_HOST="unix:///nowhere.sock")
        # It says that there is no engine, which nothing here needs; the home is there.
        run(FLOCK, "init", "--yes", "--port", str(free_port()), env=self.env, check=False)
        self.flock("add", "ada", "--no-container", "--model", "script/ada")
        self.workspace = self.folder / "home/workspaces/ada"

    def flock(self, *args):
        return run(FLOCK, *args, env=self.env)

    def store(self):
        """The bytes that checkpoints use on the disk, without the index, which is replaced each time."""
        used = run("du", "-s", "--block-size=1", "--exclude=index", str(self.folder / "home/agents/ada/checkpoints"))
        return int(used.stdout.split()[0])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def many_files(folder):
    home = Home(folder)
    chosen = random.Random(1)
    paths = []
    for number in range(50_000):
        path = home.workspace / f"d{number // 1000:02}/s{number // 50 % 20:02}/f{number % 50:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number} {chosen.random()}\n" * chosen.randint(5, 120))
        paths.append(path)
    # The repository stands beside the workspace, so that it is no part of the checkpoint.
    git = ["git", "--git-dir", str(pathlib.Path(folder) / "git"), "--work-tree", str(home.workspace)]
    run(*git, "init", "-q")
    run(*git, "add", "-A")
    run(*git, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
    figure("first checkpoint of 50,000 files", timed(lambda: home.flock("checkpoint", "ada")), "s")
    # The start of the program is not the checkpoint's: the list of an agent without one shows it.
    home.flock("add", "bob", "--no-container", "--model", "script/bob")
    start = statistics.median(timed(lambda: home.flock("checkpoints", "bob")) for _ in range(ROUNDS))
    looks, made, added = [], [], []
    for number in range(ROUNDS):
        for path in chosen.sample(paths, 20):
            with path.open("a") as file:
                file.write(f"changed {number}\n")
        before = home.store()
        looks.append(timed(lambda: run(*git, "status", "--short")))
        made.append(timed(lambda: home.flock("checkpoint", "ada")) - start)
        added.append(home.store() - before)
    look, checkpoint = statistics.median(looks), statistics.median(made)
    figure("git status, 20 of 50,000 changed", look * 1000, "ms")
    figure("checkpoint of the same", checkpoint * 1000, "ms")
    figure("checkpoint against git status", checkpoint / look, "times", 1.5)
    figure("the shortest of both", min(made) / min(looks), "times")
    figure("added by the checkpoint", max(added) / 1e6, "MB", 1)
    figure("rewind of the same, with its question answered", timed(
        lambda: home.flock("rewind", "ada", "--turn", str(ROUNDS), "--keep-others", "--yes")), "s")


    turns(home, paths, "50,000 files")


def small(folder):
    home = Home(folder)
    paths = [home.workspace / f"f{number}.txt" for number in range(30)]
    for path in paths:
        path.write_text("line\n" * 20)
    turns(home, paths, "30 files")


def turns(home, paths, name):
    """What a turn waits for its checkpoint: turns with and without one, one after the other, whose model answers at once."""
    scripts = home.folder / "home/scripts"
    scripts.mkdir(exist_ok=True)
    (scripts / "ada").write_text(SCRIPT)
    records = home.folder / "home/agents/ada/checkpoints/records.jsonl"
    ends = lambda: records.read_text().count('"kind":"turnEnd"') if records.exists() else 0
    chosen = random.Random(2)
    took = {"true": [], "false": []}
    home.flock("start")
    try:
        for _ in range(TURNS):
            for setting in took:
                home.flock("config", "set", "plugins.entries.flock.config.checkpoints.turns", setting)
                # The first turn takes up the change of the configuration.
                for is_measured in (False, True):
                    for path in chosen.sample(paths, 20):
                        with path.open("a") as file:
                            file.write("changed\n")
                    before = ends()
                    spent = timed(lambda: home.flock("chat", "ada", "go"))
                    if is_measured:
                        took[setting].append(spent)
                    wait_for_end(setting, ends, before)
    finally:
        home.flock("stop")
    with_one, without = took["true"], took["false"]
    figure(f"turn without a checkpoint, {name}", statistics.median(without) * 1000, "ms")
    figure(f"a turn's checkpoint adds, {name}", (statistics.median(with_one) - statistics.median(without)) * 1000, "ms")
    figure(f"the shortest of both differ by, {name}", (min(with_one) - min(without)) * 1000, "ms")


def wait_for_end(setting, ends, before):
    """Waits until the look at the end of a turn is over, which would delay the next turn."""
    deadline = time.monotonic() + 60
    while setting == "true" and ends() == before and time.monotonic() < deadline:
        time.sleep(0.01)


def large(folder, name, limits):
    home = Home(folder)
    for number in range(64):
        with (home.workspace / f"part{number}").open("wb") as file:
            file.write(os.urandom(16 << 20))
    home.flock("checkpoint", "ada")
    os.sync()
    free = shutil.disk_usage(folder).free
    took = timed(lambda: home.flock("fork", "ada", "eve"))
    os.sync()
    used = free - shutil.disk_usage(folder).free
    figure(f"fork of 1 GB, {name}", took, "s", limits[0])
    figure(f"added by the fork, {name}", used / 2**20, "MiB", limits[1])


def xfs(folder):
    if os.geteuid() != 0 or not shutil.which("mkfs.xfs"):
        print("left out: XFS needs root and mkfs.xfs")
        return
    image, mount = pathlib.Path(folder) / "image", pathlib.Path(folder) / "mount"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(6 << 30)
    run("mkfs.xfs", "-q", "-m", "reflink=1", str(image))
    run("mount", "-o", "loop", str(image), str(mount))
    try:
        large(str(mount), "XFS with reflinks", (1, 64))
    finally:
        run("umount", str(mount))


def main():
    for part in (small, many_files, lambda folder: large(folder, "this file system", (None, None)), xfs):
        with tempfile.TemporaryDirectory(prefix="flock-figures-") as folder:
            part(folder)
    if missed:
        print("missed: " + ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
