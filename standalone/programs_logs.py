"""What the gateway's log says of a turn: lines for people, and the program's own events only where that is asked for."""

import os
import re

from checking import HOME, check, flock, lines, must
from programs_agents import STEERING

# The beginning of a JSON object with something in it, whole or cut off, as it is or quoted once more.
RAW = re.compile(r'\{\s*\\?"[\w.:-]+\\?"\s*:')
# An event of each program's that no line for people says.
EVENTS = {
    "claude": '"type":"system","subtype":"init"',
    "codex": '"type":"turn.completed"',
    "gemini": '"type":"init"',
    "opencode": '"type":"step_finish"',
}


def everything(agents):
    for_people(agents)
    must("stop", "stop")
    must("start with FLOCK_DEBUG=1", "start", env={**os.environ, "FLOCK_DEBUG": "1"})
    word_for_word(agents)
    must("stop again", "stop")
    must("start without it", "start")


def works(agent, name, anew=True):
    """A turn with all that there are lines for; what the log has of it. One that is not `anew` resumes the one before."""
    since = len(lines(f"{HOME}/logs/gateway.log"))
    status, answer, _ = agent.turn("think of this", f"run echo {name} && false", f"say {name} done", forceNew=anew)
    agent.check(f"{name}: it answers", answer.get("content") == f"{name} done", (status, answer))
    return lines(f"{HOME}/logs/gateway.log")[since:]


def for_people(agents):
    for agent in agents:
        said = "".join(works(agent, "plain"))
        for line in (f"[{agent.name}] cmd: ", f"[{agent.name}] agent: plain done", f"[{agent.name}] tokens: "):
            agent.check(f"a line of the log begins with {line}", line in said, said)
        if agent.program == "codex":
            # Which counts the whole conversation then.
            said = "".join(works(agent, "again", anew=False))
            agent.check("a turn that resumes has its tokens in the log, too", f"[{agent.name}] tokens: " in said, said)
        if agent.program != "gemini":
            # Which says neither.
            agent.check("the log has the exit code", "→ exit 1" in said, said)
            agent.check("the log has what it thought", f"[{agent.name}] reasoning: of this" in said, said)
    # Of all turns until now, whatever they were.
    written = lines(f"{HOME}/logs/gateway.log")
    shown = flock("logs", "gateway", "-n", "100000")[1].splitlines()
    for name, found in (("gateway.log", written), ("flock logs", shown)):
        raw = [line for line in found if RAW.search(line)]
        check(f"{name} has {len(found)} lines and no event of a program's among them", found and not raw, raw[:5])
        steering = [line for line in found if STEERING.search(line.rstrip("\n"))]
        check(f"nothing in {name} steers a terminal", not steering, steering[:5])


def word_for_word(agents):
    for agent in agents:
        said = works(agent, "debug")
        raw = [line for line in said if RAW.search(line)]
        event = EVENTS[agent.program]
        agent.check("with FLOCK_DEBUG=1 the log has its events", any(event in line for line in raw), raw[-5:])
        lines_too = f"[{agent.name}] agent: debug done"
        agent.check("and the lines for people, too", any(lines_too in line for line in said), said[-5:])
