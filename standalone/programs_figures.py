"""What a turn of each program takes, and what of that is flock's: programs_figures.py PROGRAM...

A turn is compared with the same command, with the same environment and files, run by `docker exec` in the same sandbox;
both ask the same model by flock's relay. One after the other, in turns, so that both have the same machine.
"""

import os
import re
import statistics
import subprocess
import time

from checking import HOME, until
from programs_agents import MODEL, requests

ROUNDS = 9
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def shown(times):
    return f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"


def timed(work):
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def resident(what="VmRSS"):
    """The gateway's memory in MiB."""
    pid = open(f"{HOME}/run/gateway.pid").readline().split()[0]
    text = open(f"/proc/{pid}/status").read()
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) / 1024


class Held:
    """A turn that waits for its model, so that what its program was given is worth something."""

    def __init__(self, agent):
        self.path = f"{MODEL}/figures-{agent.name}"
        since = len(requests())
        self.turn = agent.begin(f"hold figures-{agent.name}", "say end", sessionKey=agent.session("held"), forceNew=True)
        until(120, lambda: agent.asked(since))
        pid = next(line.split()[0] for line in agent.processes("/opt/flock/"))
        given = open(f"/proc/{pid}/cmdline").read().split("\0")[:-1]
        environ = open(f"/proc/{pid}/environ").read().split("\0")[:-1]
        self.command, self.environment, self.container = given, environ, agent.container()

    def again(self, prompt):
        """The same command, in a conversation of its own."""
        fresh = UUID.search(subprocess.check_output(["cat", "/proc/sys/kernel/random/uuid"], text=True))[0]
        command = [fresh if UUID.fullmatch(one) else one for one in self.command]
        given = [part for one in self.environment for part in ("-e", one)]
        line = ["docker", "exec", "-i", "-w", "/workspace", *given, self.container, *command]
        done = subprocess.run(line, input=prompt, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout[-500:]}{done.stderr[-500:]}")

    def end(self):
        open(self.path, "w").close()
        self.turn.end()
        os.remove(self.path)


def of(agent):
    agent.turn("say warm")
    held = Held(agent)
    new, resumed, direct = [], [], []
    for number in range(ROUNDS):
        direct.append(timed(lambda: held.again(f"[Current Message]\n{agent.word}\nsay {number}\n")))
        new.append(timed(lambda: answered(agent, number, forceNew=True)))
        resumed.append(timed(lambda: answered(agent, number)))
    held.end()
    added = [1000 * (turn - own) for turn, own in zip(new, direct)]
    print(f"{agent.program}: a new conversation {shown(new)}, one that goes on {shown(resumed)},")
    print(f"    by docker exec {shown(direct)}; a turn takes {statistics.median(added):.0f} ms more, the median of {ROUNDS} pairs")


def answered(agent, number, **more):
    status, answer, _ = agent.turn(f"say {number}", **more)
    if answer.get("content") != str(number):
        raise RuntimeError(f"{agent.name}: {status} {answer}")


def measure(agents):
    begun = resident()
    for agent in agents:
        of(agent)
    idle = resident()
    held = [Held(agent) for agent in agents]
    print(f"the gateway: {begun:.1f} MiB at first, {idle:.1f} MiB after these turns, {resident():.1f} MiB with {len(held)} turns at once")
    for turn in held:
        turn.end()
