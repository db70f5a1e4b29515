"""What only Slack has: connections that break in several ways, events that come twice, names, scopes and revoked tokens."""

import glob

from bridge_flock import bridge, heard, link_state, post, said, state
from bridge_stage import texts
from checking import HOME, SOON, check, same, until


def sockets(stage):
    """Connections end in all ways that Slack has, while somebody writes."""
    room, told = stage.private, []
    # An event that is not acknowledged comes again soon, as on Slack.
    stage.control("socket", {"retries": [0, 2, 4, 8]})
    breaks = [{"how": "abort"}, {"how": "close"}, {"how": "disconnect", "reason": "warning", "seconds": 2},
              {"how": "disconnect", "reason": "refresh_requested"}, {"how": "silence"}]
    for number, how in enumerate(breaks):
        is_there = until(SOON, lambda: state(stage).get("state") == "connected" and ready(stage))
        check(f"a connection stands before {how}", is_there, state(stage))
        for step in range(4):
            if step == 2:
                stage.control("drop", how)
            told.append(f"broken-{number}-{step}")
            stage.say("alice", room, told[-1])
    until(2 * SOON, lambda: len(broken()) >= len(told))
    same(f"{len(told)} messages over {len(breaks)} broken connections are there once, in order", told, broken())
    for one in stage.control("socket", state="acknowledged")["deliveries"]:
        if one.get("took", 0) >= 3:
            check("events are acknowledged in time", False, one)
    stage.control("socket", {"retries": [0, 60, 300]})


def ready(stage):
    """Whether a connection stands that was not told to go."""
    connections = stage.control("socket")["connections"]
    return [one for one in connections if not one["closing"] and not one["silent"]]


def broken():
    return [row[2] for row in said("work") if row[2].startswith("broken-")]


def again(stage):
    """An event that Slack delivers again is taken once, under its old id and a new one."""
    stage.say("alice", stage.private, "only once")
    heard("work", "only once")
    for is_new in (False, True):
        stage.control("redeliver", {"new": is_new})
    stage.say("alice", stage.private, "after the repetition")
    heard("work", "after the repetition")
    check("what comes again is taken once", len(heard("work", "only once")) == 1, heard("work", "only once"))


def edits(stage):
    """Unfurled links and notices of Slack's are no messages, and Slack's markup becomes Markdown."""
    room = stage.private
    said_id = stage.say("alice", room, f"*bold* <https://e.org|page> <@{stage.account('bob')}> &lt;b&gt; ~old~")
    stage.does("alice", room, unfurl=said_id, url="https://e.org")
    stage.control("channel", {"name": "x", "channel": room, "topic": "a topic of Slack's"})
    found = heard("work", "**bold**")
    wanted = "**bold** [page](https://e.org) @bob <b> ~~old~~"
    check("markup becomes Markdown", [row[2] for row in found] == [wanted], found)
    stage.say("alice", room, "after the notices")
    heard("work", "after the notices")
    check("notices are not taken", not [row for row in said("work") if "a topic of Slack's" in row[2]])


def threads(stage):
    """A reply in a thread is heard with the thread's title, also one that was written while flock was away."""
    first = stage.say("alice", stage.private, "the plan of the week")
    stage.does("bob", stage.private, text="about the plan", thread=first)
    found = heard("work", "about the plan")
    check("a reply names its thread", found and "[thread: the plan of the week]" in found[0][2], found)
    bridge("pause", stage.bridge)
    stage.does("bob", stage.private, text="more about the plan", thread=first)
    bridge("resume", stage.bridge)
    found = heard("work", "more about the plan")
    check("a reply that was missed is read from the thread", len(found) == 1, found)


def changes(stage):
    """What people change or delete is changed, also while flock is away, and their files come to the agent."""
    room = stage.private
    one, other = stage.say("alice", room, "a first draft"), stage.say("alice", room, "a second draft")
    heard("work", "a second draft")
    stage.edit("alice", room, one, "a first version")
    check("a changed text is changed", until(SOON, lambda: of_alice() == ["a first version", "a second draft"]), of_alice())
    bridge("pause", stage.bridge)
    stage.edit("alice", room, other, "a second version")
    bridge("resume", stage.bridge)
    changed = until(SOON, lambda: of_alice() == ["a first version", "a second version"])
    check("also one that was changed while flock was away", changed, of_alice())
    stage.delete("alice", room, one)
    check("a deleted text is gone", until(SOON, lambda: of_alice() == ["(deleted)", "a second version"]), of_alice())
    file = {"name": "../minutes.txt", "content": "written by alice"}
    stage.does("alice", room, text="a file for you", files=[file])
    found = heard("work", "a file for you")
    check("a file is named", found and "-minutes.txt]" in found[0][2], found)
    kept = glob.glob(f"{HOME}/**/inbox/work/*-minutes.txt", recursive=True)
    check("and is in the agent's workspace", [open(path).read() for path in kept] == ["written by alice"], kept)


def of_alice():
    """The texts of the two messages that alice wrote last, without files."""
    return [row[2] for row in said("work") if row[1] == "human:alice"][-2:]


def names(stage):
    """Without the scope for names, the author stands before the text."""
    token = stage.given["botToken"]
    stage.control("scopes", {"token": token, "remove": ["chat:write.customize"]})
    # The scopes are in each answer; the running bridge learns of the change by its next request.
    post("work", "a word before the change")
    stage.arrives(stage.private, "a word before the change")
    post("work", "under no name")
    found = stage.arrives(stage.private, "under no name")
    check("the author stands in bold", [one.raw["sent"] for one in found] == ["*[kim]* under no name"], texts(found))
    stage.control("scopes", {"token": token, "add": ["chat:write.customize"]})
    post("work", "a word after the change")
    stage.arrives(stage.private, "a word after the change")
    post("work", "under a name")
    check("and beside the text with the scope", [one.author for one in stage.arrives(stage.private, "under a name")] == ["kim"])


def waits(stage):
    """After a 429, nothing is sent to the channel before the time that Slack asked for."""
    since = stage.control("requests")["count"] + 1
    stage.limit(True)
    for number in range(6):
        post("work", f"waiting-{number}")
    stage.arrives(stage.private, "waiting-5")
    stage.limit(False)
    sent = stage.control("requests", route="chat.postMessage", since=since)["requests"]
    limited = [place for place, one in enumerate(sent) if one["status"] == 429]
    early = [(sent[place]["at"], sent[place + 1]["at"]) for place in limited
             if place + 1 < len(sent) and sent[place + 1]["at"] - sent[place]["at"] < 1]
    check(f"each of {len(limited)} limits is obeyed", limited and not early, early)


def revoked(stage):
    """A token that is revoked while flock runs is said, and what was written meanwhile arrives later."""
    room, token = stage.private, stage.given["botToken"]
    stage.control("revoke", {"token": token, "as": "token_revoked"})
    post("work", "held by a revoked token")
    shown = until(SOON, lambda: "token_revoked" in (state(stage).get("lastError") or ""))
    check("status says that the token was revoked", shown, state(stage))
    code, out, err = bridge("status")
    check("to people too", "token_revoked" in out and token not in out + err, (code, out, err))
    stage.say("alice", room, "said to a revoked token")
    check("what is posted waits", link_state(stage, room).get("queue", {}).get("entries") == 1, link_state(stage, room))
    stage.control("revoke", {"token": token, "as": None})
    bridge("pause", stage.bridge)
    bridge("resume", stage.bridge)
    check("and arrives with a token that works", len(stage.arrives(room, "held by a revoked token")) == 1)
    check("as does what was said", len(heard("work", "said to a revoked token")) == 1)

    stage.control("revoke", {"token": stage.given["appToken"], "as": "token_revoked"})
    shown = until(SOON, lambda: state(stage).get("state") == "disconnected"
                  and "app-level token" in (state(stage).get("lastError") or ""))
    check("a revoked app-level token is said too", shown, state(stage))
    stage.say("alice", room, "said without a connection")
    stage.control("revoke", {"token": stage.given["appToken"], "as": None})
    bridge("pause", stage.bridge)
    bridge("resume", stage.bridge)
    check("and what was said meanwhile is there", len(heard("work", "said without a connection")) == 1)


def correct(stage):
    """flock asks Slack for nothing that Slack does not have."""
    asked = stage.control("requests")
    odd = [one for one in asked["requests"] if one.get("odd") or one["unknown"]]
    check(f"none of {asked['count']} requests has an unknown method or argument", asked["count"] and not odd, odd[:5])
    # The first message after the scope for names was taken away still asks for one.
    known = "username without chat:write.customize"
    odd = [one.raw["odd"] for one in stage.shown(stage.private) if one.is_ours and set(one.raw["odd"]) - {known}]
    check("no message has anything odd", not odd, odd)
