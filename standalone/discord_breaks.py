"""What breaks on Discord: connections, limits, answers that are lost, the token."""

import time

from bridge_flock import heard, post, said, state
from bridge_stage import texts
from checking import SOON, check, same, until
from discord_stage import BOT, EXECUTE


def resumed(stage):
    """A connection that breaks off is resumed, and read from the history where it can't be."""
    room = stage.private
    for name, drop in (("cut", {}), ("asked to reconnect", {"op": 7}), ("closed with 4000", {"code": 4000})):
        before = stage.sessions()
        stage.server.control("drop", bot=BOT, **drop)
        told = [f"{name} {number}" for number in range(20)]
        for text in told:
            stage.say("alice", room, text)
        heard("work", told[-1])
        same(f"{name}: everything arrives once, in order", told, arrived(told))
        check(f"{name}: the session is resumed", stage.sessions() == before, (before, stage.sessions()))
    for name, drop in (("invalid session", {"op": 9}), ("forgotten session", {"forget": True})):
        before = stage.sessions()
        stage.server.control("drop", bot=BOT, **drop)
        told = [f"{name} {number}" for number in range(120)]
        for text in told:
            stage.say("alice", room, text)
        heard("work", told[-1])
        same(f"{name}: everything arrives once, in order", told, arrived(told))
        check(f"{name}: a new session is begun", until(SOON, lambda: set(stage.sessions()) - set(before)), before)
    check("and the bridge has no error", until(SOON, lambda: not state(stage).get("lastError")), state(stage))


def arrived(told):
    return [row[2] for row in said("work") if row[2] in told]


def held_up(stage):
    """Discord's word on how long to wait is obeyed, and few requests are refused."""
    room, since = stage.private, time.time()
    stage.server.control("fault", route=EXECUTE, status=429, retryAfter=2)
    post("work", "held up by Discord")
    stage.arrives(room, "held up by Discord")
    tried = stage.asked(EXECUTE, since)
    waited = tried[-1]["at"] - tried[0]["at"] if len(tried) == 2 else 0
    check("Retry-After is obeyed", [one["status"] for one in tried] == [429, 200] and waited >= 2, tried)
    since = time.time()
    stage.limit(True)
    ours = [f"quick-{number}" for number in range(12)]
    for text in ours:
        post("work", text)
    stage.arrives(room, ours[-1])
    stage.limit(False)
    same("what comes too fast arrives in order", ours, texts(stage.of_bot(room, "quick-")))
    refused = [one for one in stage.asked(EXECUTE, since) if one["status"] == 429]
    check("and few requests are refused, because the headers are read", len(refused) <= 2, len(refused))


def lost_answers(stage):
    """A message whose answer is lost is sent once, also where another one has the same text."""
    room = stage.private
    for number, count in ((1, 1), (2, 2), (3, 3)):
        stage.server.control("fault", route=EXECUTE, after="after")
        post("work", "the same again")
        until(SOON, lambda: len(stage.of_bot(room, "the same again")) >= count)
        post("work", f"and then {number}")
        stage.arrives(room, f"and then {number}")
        found = len(stage.of_bot(room, "the same again"))
        check(f"a message whose answer is lost is there once ({number})", found == count, found)
    for number in (4, 5):
        stage.server.control("fault", route=EXECUTE, times=2)
        post("work", "the same again")
        post("work", f"and then {number}")
        stage.arrives(room, f"and then {number}")
        found = len(stage.of_bot(room, "the same again"))
        check(f"and one that was never taken is sent again ({number})", found == number, found)
    for status in (500, 503):
        stage.server.control("fault", route=EXECUTE, status=status)
        post("work", f"in spite of {status}")
        check(f"a message is sent again after {status}", len(stage.arrives(room, f"in spite of {status}")) == 1)
