"""What ends turns of programs from outside, for all agents at once: their time, a stop, a kill, a freeze, the budget.

Each time a turn of each agent has started a process in a session of its own, and waits for its model. Then it is ended,
and neither that process nor the program may be left; and the next turn goes on with the conversation.
"""

import concurrent.futures
import json
import os
import signal
import time

from checking import HOME, alive, check, connects, must, own_port, run, until
from programs_agents import MODEL, own, requests, said_of


# What was said before the first halt.
KNOWN = "known from before"


def asked(since):
    """What a model was asked since then; the end of a connection is in the list, too."""
    return [one for one in requests(since) if not one.get("gone")]


def everything(agents):
    at_once(agents, has_a_conversation)
    runs_out_of_time(agents)
    is_stopped(agents)
    is_killed(agents)
    is_frozen(agents)
    has_no_budget(agents)


def has_a_conversation(agent):
    """What is to go on after each halt."""
    begun = time.monotonic()
    status, answer, _ = agent.turn(f"say {KNOWN}")
    agent.slowest = time.monotonic() - begun
    agent.check("a conversation is begun", answer.get("content") == KNOWN, (status, answer))


class Round:
    """A turn of each agent, that waits for its model and has a process that has left the program's session."""

    def __init__(self, name, agents, *then):
        self.start(name, agents, *then)
        self.all_wait()

    def start(self, name, agents, *then):
        """Begins the turns, and waits until each agent's turn waits for its model or is over."""
        self.name, self.agents = name, agents
        self.since = len(requests())
        self.sleeper = f"sleep 7{sum(map(ord, name))}"
        # A program may end a command's group as soon as the command has ended: by then it has to be out of that.
        begun = f"begun-{name}"
        away = f"(setsid sh -c 'echo > {begun}; exec {self.sleeper}' >/dev/null 2>&1 &)"
        command = f"{away}; until [ -e {begun} ]; do sleep 0.1; done; echo begun"
        self.held = f"held-{name}"
        self.turns = {agent: agent.begin(f"run {command}", f"hold {self.held}", *then) for agent in agents}
        self.missing = set(agents)

        def settled():
            self.missing.difference_update([agent for agent in self.missing if self.waits(agent)])
            return all(self.turns[agent].is_over() for agent in self.missing)

        until(300, settled)

    def all_wait(self):
        for agent in self.agents:
            asked = [said_of(one)[-1:] for one in agent.asked(self.since)]
            seen = (self.turns[agent].answer, agent.processes(), asked)
            agent.check(f"{self.name}: its program runs", running(agent), agent.processes())
            agent.check(f"{self.name}: a turn waits for its model", agent not in self.missing, seen)

    def waits(self, agent):
        asked = [one for one in agent.asked(self.since) if self.held in json.dumps(one["body"])]
        return len(asked) == 2 and self.sleepers(agent)

    def sleepers(self, agent):
        """The process that the turn has started."""
        return [line for line in agent.processes(self.sleeper) if line.split(None, 1)[1].strip() == self.sleeper]

    def release(self):
        """The model answers whoever still waits for it."""
        open(f"{MODEL}/{self.held}", "w").close()

    def ends(self, agent, limit=60):
        status, answer = self.turns[agent].end(limit)
        return status, answer.get("error", {}) if isinstance(answer, dict) else {}

    def leaves_nothing(self, agent, but=False):
        """`but` is whether what it has started may go on in its sandbox."""
        gone = until(30, lambda: not running(agent) and (but or not self.sleepers(agent)))
        agent.check(f"{self.name}: nothing of the turn is left", gone, agent.processes())

    def goes_on(self, agent):
        status, answer, found = agent.turn(f"say after the {self.name}")
        agent.check(f"after the {self.name} it answers", answer.get("content") == f"after the {self.name}", (status, answer))
        whole = json.dumps(found)
        agent.check(f"after the {self.name} the conversation goes on", KNOWN in whole, whole[:2000])
        agent.prompt_is_native(f"after the {self.name}", found)


def running(agent):
    """Its program, wherever it runs."""
    if agent.on_host:
        return [line for line in agent.processes() if " sleep 7" not in line]
    return [line for line in agent.processes("/opt/flock/") if "helper" not in line]


def at_once(agents, work):
    """The same for all agents, three at a time."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work, agent) for agent in agents]:
            done.result()


class LimitedRound(Round):
    """A round in which a turn may be over before it has begun to wait: its limit was too short for this machine."""

    def __init__(self, name, agents):
        self.start(name, agents)

    def all_wait(self):
        # Not whether the programs run now: the limit of the first to begin may be over by now.
        for agent in self.agents:
            agent.check(f"{self.name}: a turn waits for its model", agent not in self.missing, self.turns[agent].answer)

    def give_up(self, limit):
        self.release()
        for agent in self.agents:
            self.ends(agent, limit)
            self.leaves_nothing(agent)


def runs_out_of_time(agents):
    # Each turn has to get as far as its model before its limit, with all programs at once and whatever else the machine
    # does: the first limit comes from what a turn just took, and it is doubled for as long as it is too short.
    seconds = 20 + 6 * int(max(agent.slowest for agent in agents))
    for attempt in range(5):
        must("a short time for turns", "config", "set", "agents.defaults.timeoutSeconds", str(seconds))
        turns = LimitedRound(f"limit{attempt}", agents)
        if not turns.missing:
            break
        print(f"   a limit of {seconds} s was over before every program had begun", flush=True)
        turns.give_up(2 * seconds + 60)
        seconds *= 2
    turns.all_wait()
    for agent in agents:
        status, error = turns.ends(agent, 2 * seconds + 60)
        told = (status, error.get("code"))
        agent.check("its turn ends when its time is over", told == (424, "turn_timed_out"), (status, error))
        agent.check("which is said", f"{seconds} seconds" in error.get("message", ""), error)
        turns.leaves_nothing(agent)
    must("as long as ever", "config", "unset", "agents.defaults.timeoutSeconds")


def is_stopped(agents):
    turns = Round("stop", agents)
    must("stop in the middle of turns", "stop")
    left = run("docker", "ps", "-q", "--filter", f"label=flock.home={HOME}")[1].split()
    check("no container runs after a stop", not left, left)
    check("the port is free", not connects(own_port()))
    for agent in agents:
        status, error = turns.ends(agent)
        agent.check("its turn is told that it is over", status in (424, 503), (status, error))
        agent.check("stop: no process is left", not agent.processes(), agent.processes())
    must("start after that", "start")
    at_once(agents, turns.goes_on)


def is_killed(agents):
    turns = Round("kill", agents)
    pid = int(open(f"{HOME}/run/gateway.pid").readline().split()[0])
    os.kill(pid, signal.SIGKILL)
    back = until(60, lambda: not alive(pid) and own("GET", "/health")[0] == 200)
    check("a killed gateway is started again", back)
    for agent in agents:
        if agent.on_host:
            turns.leaves_nothing(agent)
    at_once(agents, turns.goes_on)
    for agent in agents:
        # Its next turn has ended what was left in its sandbox.
        turns.leaves_nothing(agent)


def is_frozen(agents):
    turns = Round("freeze", agents, "say nobody hears this")
    must("freeze in the middle of turns", "freeze", "--all")
    from_here = len(requests())
    for agent in agents:
        status, error = turns.ends(agent)
        agent.check("its turn ends at a freeze", status == 402 and "frozen" in error.get("message", ""), (status, error))
        if not agent.on_host:
            name = agent.container() or "none"
            state = run("docker", "ps", "--filter", f"name={name}", "--format", "{{.Status}}", limit=60)[1].strip()
            agent.check("its sandbox stands still", "(Paused)" in state, state)
    turns.release()
    for agent in agents:
        status, answer = agent.begin("say nobody hears this").end()
        agent.check("a turn that does not wait is refused", status == 423 and answer["error"]["code"] == "agent_frozen", (status, answer))
    waiting = {agent: agent.begin("say after the thaw", wait=True) for agent in agents}
    # What a thawed agent would have asked by now.
    until(5, lambda: asked(from_here))
    check("no model is asked for frozen agents", not asked(from_here), asked(from_here)[:1])
    must("thaw", "thaw", "--all")
    for agent in agents:
        status, answer = waiting[agent].end()
        came = answer.get("content")
        agent.check("what came meanwhile is answered after the thaw", came == "after the thaw", (status, answer))
        turns.leaves_nothing(agent)


def has_no_budget(agents):
    at = "plugins.entries.flock.config.budgets"
    turns = Round("budget", agents, "run echo once more", "say never said")
    budgets = {"agent": {agent.name: {"tokens": 1} for agent in agents}}
    must("a budget that is used up", "config", "set", at, json.dumps(budgets))
    from_here = len(requests())
    turns.release()
    for agent in agents:
        # OpenCode asks again for more than a minute before it takes the word for the last.
        status, error = turns.ends(agent, 180)
        said = error.get("message", "")
        agent.check("its turn ends where its budget does", status >= 400 and "budget" in said, (status, error))
        turns.leaves_nothing(agent, but=not agent.on_host)
    check("and no model is asked any more", not asked(from_here), asked(from_here)[:1])
    for agent in agents:
        status, answer, found = agent.turn("say never said either")
        error = answer.get("error", {})
        agent.check("the next one does not begin", (status, error.get("code")) == (402, "agent_paused"), (status, answer))
        agent.check("and is told why", "budget" in error.get("message", "") and not found, (error, found))
    must("no budget", "config", "unset", at)
    at_once(agents, turns.goes_on)
