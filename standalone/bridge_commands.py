"""Commands on the platform that change something: who is named by the link may give them, and nobody else."""

from bridge_flock import link, said
from bridge_home import AGENT
from checking import SOON, check, must, rows, until

ORDERS = "orders"


def told(stage, person, room, command, word, limit=SOON):
    """Gives a command, and waits for an answer that has the word; whether there is a new one."""
    def answers():
        return [one for one in stage.apart(person, room, None) if word in one.text]

    before = len(answers())
    stage.say(person, room, f"!flock {command}")
    return until(limit, lambda: len(answers()) > before)


def is_frozen():
    """Whether the last thing that happened to the agent is a freeze."""
    found = rows(f"SELECT action FROM audit WHERE subject = '{AGENT}' AND action LIKE 'agent.%' ORDER BY id DESC LIMIT 1")
    return bool(found) and found[0][0] == "agent.freeze"


def orders(stage):
    """Status, who works, stop, freeze and thaw."""
    must(f"channel {ORDERS}", "channel", "create", ORDERS, "--topic", "commands", "--member", AGENT)
    room = stage.channel("orders", ("alice", "bob"))
    # Everybody is heard, and only alice is named.
    code, text, _ = link(stage, ORDERS, room, "--allow", stage.account("alice"), "--allow", "everyone")
    check("a channel for commands is linked", code == 0, (code, text))
    check("help lists the commands", told(stage, "bob", room, "help", "thaw"))
    check("nobody works at first", told(stage, "bob", room, "who", "Nobody works now"))
    stage.say("bob", room, "work for an hour")
    check("who works is told", until(SOON, lambda: told(stage, "bob", room, "who", f"{AGENT} works in", 2)))
    check("and how the agents are", told(stage, "bob", room, "status", f"{AGENT}: works"))
    for command in ("stop", f"freeze {AGENT}", f"thaw {AGENT}"):
        check(f"who is not named may not {command.split()[0]}", told(stage, "bob", room, command, "Only people whom the link names"))
    check("and nothing was stopped or frozen", told(stage, "bob", room, "status", f"{AGENT}: works") and not is_frozen())
    check("who is named stops a turn", told(stage, "alice", room, "stop", f"Stopped: {AGENT}"))
    check("which does not work any more", until(SOON, lambda: told(stage, "alice", room, "who", "Nobody works now", 2)))
    check("and freezes an agent", told(stage, "alice", room, f"freeze {AGENT}", f"Frozen: {AGENT}") and is_frozen())
    check("once", told(stage, "alice", room, f"freeze {AGENT}", "frozen already"))
    check("and thaws it", told(stage, "alice", room, f"thaw {AGENT}", f"Thawed: {AGENT}") and not is_frozen())
    check("an agent of another channel is none", told(stage, "alice", room, "freeze orchestrator", "No agent orchestrator"))
    check("nothing of that is in the channel", not [row for row in said(ORDERS) if "!flock" in row[2]], said(ORDERS))
