"""What is said while a bridge is stopped, limited, paused or closed."""

from bridge_flock import bridge, heard, link_state, post, said, state
from bridge_stage import texts
from checking import SOON, check, flock, must, parsed, same, until


def absent(stage):
    """What is written while the gateway is stopped arrives after its start."""
    room, count = stage.private, 150
    must("stop", "stop")
    told = [f"away-{number}" for number in range(count)]
    for text in told:
        stage.say("alice", room, text)
    ours = [f"meanwhile-{number}" for number in range(5)]
    for text in ours:
        post("work", text)
    must("start again", "start")
    until(SOON, lambda: any(row[2] == told[-1] for row in said("work")))
    found = [row[2] for row in said("work") if row[1] == "human:alice" and row[2].startswith("away-")]
    same(f"{count} messages that were written without it are there, in order", told, found)
    stage.arrives(room, ours[-1])
    same("and so are those to the platform", ours, texts(stage.of_bot(room, "meanwhile-")))
    stage.say("mallory", room, "am I heard now?")
    stage.say("alice", room, "a word after the start")
    heard("work", "a word after the start")
    post("work", "another word")
    stage.arrives(room, "another word")
    told = texts(stage.told("mallory", room))
    check("who is not heard is not told again", len(told) == 1, told)


def dropped(stage):
    """A platform that goes away and comes back is found again."""
    room = stage.private
    check("the platform is there again", stage.restart())
    stage.say("alice", room, "said after the restart")
    check("what is said after that is heard", len(heard("work", "said after the restart")) == 1)
    post("work", "answered after the restart")
    check("and answered", len(stage.arrives(room, "answered after the restart")) == 1)
    connected = until(SOON, lambda: state(stage).get("state") == "connected" and not state(stage).get("lastError"))
    check("and the bridge has no error", connected, state(stage))


def limited(stage):
    """A platform that says how long to wait is obeyed."""
    room = stage.private
    stage.limit(True)
    ours = [f"slowly-{number}" for number in range(10)]
    for text in ours:
        post("work", text)
    stage.arrives(room, ours[-1])
    stage.limit(False)
    same("what a limit holds up arrives in order", ours, texts(stage.of_bot(room, "slowly-")))


def archive(stage):
    """An archived channel says so on the platform, and is linked no more until it is opened again."""
    room, since = stage.private, stage.mark(stage.private)
    must("archive", "channel", "archive", "work", "--force")
    check("the platform's channel is told of the archiving", stage.arrives(room, "archived", since))
    check("the link is closed", link_state(stage, room).get("state") == "archived", link_state(stage, room))
    stage.say("alice", room, "said to an archive")
    must("reopen", "channel", "reopen", "work")
    check("and of the opening", stage.arrives(room, "reopened", since))
    check("the link is there again", link_state(stage, room).get("state") == "active", link_state(stage, room))
    stage.say("alice", room, "said after that")
    check("people are heard again", len(heard("work", "said after that")) == 1)
    post("work", "an answer to that")
    check("and hear", len(stage.arrives(room, "an answer to that")) == 1)


def pause(stage):
    """A paused bridge holds what is said on both sides."""
    room = stage.private
    code, out, err = bridge("pause", stage.bridge)
    check("a bridge is paused", code == 0 and state(stage).get("state") == "paused", (code, out, err, state(stage)))
    ours, theirs = ([f"{who}-held-{number}" for number in range(5)] for who in ("kim", "alice"))
    for one, other in zip(ours, theirs):
        post("work", one)
        stage.say("alice", room, other)

    def waiting():
        return link_state(stage, room).get("queue", {}).get("entries")

    check("what is posted waits", until(SOON, lambda: waiting() == len(ours)), waiting())
    check("and is not on the platform", not stage.of_bot(room, "kim-held"), texts(stage.of_bot(room, "kim-held")))
    check("and nobody is heard", not [row for row in said("work") if "alice-held" in row[2]])
    code, out, err = bridge("resume", stage.bridge)
    check("it is resumed", code == 0, (code, out, err))
    stage.arrives(room, ours[-1])
    same("everything that waited arrives in order", ours, texts(stage.of_bot(room, "kim-held")))
    heard("work", theirs[-1])
    found = [row[2] for row in said("work") if "alice-held" in row[2]]
    same("and what was said meanwhile", theirs, found)
    check("nothing waits any more", until(SOON, lambda: waiting() == 0), waiting())


def revoked(stage):
    """A token that is revoked is said to be, and a command gives another one."""
    room = stage.private
    stage.revoke()
    seen = until(SOON, lambda: "does not accept the token" in (state(stage).get("lastError") or ""))
    check("status says that the token is not accepted", seen, state(stage))
    check("and it is not connected", state(stage).get("state") != "connected", state(stage))
    told = [one for one in parsed(flock("--json", "doctor")[1]).get("checks", []) if one["name"] == "bridge"]
    bad = [one["mend"] for one in told if one["state"] == "bad" and f"{stage.bridge} is not connected" in one["message"]]
    check("the doctor says so, too", bad == [f"flock bridge status {stage.bridge}"], told)
    post("work", "waits for a token")
    stage.say("alice", room, "said without a token")
    code, out, err = bridge("add", stage.platform, "--name", stage.bridge, "--replace", *stage.credentials())
    check("it is replaced by a command", code == 0, (code, out, err))
    check("with another one what waited is sent", len(stage.arrives(room, "waits for a token")) == 1)
    check("and what was said is heard", len(heard("work", "said without a token")) == 1)
    check("the bridge is connected", until(SOON, lambda: state(stage).get("state") == "connected"), state(stage))
