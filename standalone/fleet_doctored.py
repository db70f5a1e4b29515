"""Histories with one thing wrong: the judge has to find each, in facts that were made up and in those of a real run."""

import copy
import hashlib
import json
import struct

from fleet_checker import (
    IN_FORCE,
    NEWS,
    RESET,
    RULES,
    TAKEN_OVER,
    TOKENS,
    WORD,
    agent_of,
    by_people,
    judge,
    news_of,
    ownership,
    setting_steps,
    takeovers,
    under_way,
)


def made_up():
    """A small history in which all is well: the second of two gateways goes on with what the first one had, and some of everything.
    The second one passed a request on, and who watched it missed a message and was told so. A command ran while the way to its
    engine broke."""
    words = [f"w0x{number}x{number:08x}" for number in range(1, 22)]
    op = {"client": 0, "begun": 2.0, "sent": 2.0, "ended": 4.0, "gateway": 0, "accepted": True}
    ops = [{**op, "what": "note", "word": word, "told": seq, "channel": "all-hands"} for seq, word in enumerate(words[:3], 1)]
    ops += [{**op, "what": "ask", "word": words[3], "told": 1, "channel": "desk-ada"}]
    ops += [{**op, "what": "command", "word": word, "told": "", "agent": "ada", "turn": f"turn{number}", "gateway": number % 2}
            for number, word in enumerate(words[4:6], 4)]
    ops += [{**op, "what": "errand", "word": words[6], "told": "t1", "agent": "ada", "state": "TASK_STATE_COMPLETED"}]
    ops += [{**op, "what": "note", "word": words[7], "told": "", "channel": "all-hands", "accepted": False}]
    ops += [{**op, "what": "line", "word": words[8], "told": "added 30 bytes", "agent": "ada"}]
    ops += [{**op, "what": "request", "word": word, "told": f"r-{number}", "agent": "ada"}
            for number, word in enumerate(words[9:12])]
    ops += [{**op, "what": "decide", "word": word, "told": "", "request": f"r-{number}", "how": how}
            for number, (word, how) in enumerate(zip(words[12:14], ("approve", "deny")))]
    ops += [{**op, "what": "member", "word": word, "told": "", "channel": "crew0", "member": f"human:{name}", "how": how}
            for word, name, how in zip(words[14:], ("stays", "left", "left"), ("add", "add", "remove"))]
    # The last one came at the same moment as another one.
    ops += [{**op, "what": "setting", "word": word, "told": "", "outcome": "accepted", "agent": agent, "path": f"limits of {agent}",
             "value": value} for word, agent, value in zip(words[17:], ("ada", "bob", "ada", "bob"), range(1, 5))]
    ops[-1].update(accepted=False, outcome="refused")
    requests = [{"id": f"r-{number}", "state": state, "body": f"echo 'host {word}'"}
                for number, (word, state) in enumerate(zip(words[9:12], ("done", "denied", "waiting")))]
    messages = [{"channel": "all-hands", "seq": seq, "author": "human:p", "content": f"note {word}"}
                for seq, word in enumerate(words[:3], 1)]
    messages += [{"channel": "desk-ada", "seq": 1, "author": "human:p", "content": f"ask {words[3]}"},
                 {"channel": "desk-ada", "seq": 2, "author": "ada", "content": f"answer ask {words[3]}"}]
    trace = []

    def note(up, epoch, subject, change, before, after):
        trace.append({"n": len(trace) + 1, "up": up, "epoch": epoch, "subject": subject, "change": change,
                      "before": before, "after": after})

    def gateway(epoch, ended_by=None):
        return {"epoch": epoch, "run": f"r{epoch}", "address": f"127.0.0.1:{epoch}", "ended_at": 5 if ended_by else None,
                "ended_by": ended_by}

    def lease(agent, epoch, token):
        return {"kind": "agent", "subject": agent, "epoch": epoch, "token": token}

    def turn(number, agent, state):
        kind = f"request:turn{number}" if number > 3 else f"channel:desk-{agent}"
        return {"id": f"turn{number}", "session": f"agent:{agent}:flock:{kind}", "state": state}

    def configuration(revision, **limits):
        limits = {agent: {"tokens": usd * TOKENS, "usd": usd} for agent, usd in limits.items()}
        return {"revision": revision, "limits": limits or None}

    note(1, None, "gateway", "START", None, gateway(1))
    note(1, None, "lease", "START", None, lease("ada", 1, 1))
    note(1, None, "gateway", "INSERT", None, gateway(2))
    note(2, 2, "lease", "INSERT", None, lease("bob", 2, 1))
    note(2, 1, "turn", "INSERT", None, turn(1, "ada", "running"))
    note(2, 2, "turn", "INSERT", None, turn(2, "bob", "running"))
    note(2, 2, "usage", "INSERT", None, {"agent": "bob", "turn": "turn2"})
    for number in (4, 5):
        note(2, 1, "turn", "INSERT", None, turn(number, "ada", "running"))
        note(3, 1, "turn", "UPDATE", turn(number, "ada", "running"), turn(number, "ada", "done"))
    note(3, 2, "turn", "UPDATE", turn(2, "bob", "running"), turn(2, "bob", "done"))
    settings = [configuration(3), configuration(4, ada=1), configuration(5, ada=1, bob=2), configuration(6, ada=3, bob=2)]
    for number, (before, after) in enumerate(zip(settings, settings[1:])):
        note(3, number % 2 + 1, "gateway_group", "UPDATE", before, after)
    note(4, 2, "message", "INSERT", None, {"id": 1, "channel": "all-hands", "seq": 1, "author": "human:p", "turn": None})
    # Bob belongs to the second gateway, and joins a channel by the first one.
    note(4, 1, "delivery", "UPDATE", {"agent": "bob", "inflight_turn": None}, {"agent": "bob", "inflight_turn": None})
    note(12, 2, "gateway", "UPDATE", gateway(1), gateway(1, 2))
    note(12, 2, "lease", "UPDATE", lease("ada", 1, 1), lease("ada", None, 1))
    note(12, 2, "lease", "UPDATE", lease("ada", None, 1), lease("ada", 2, 2))
    note(13, 2, "turn", "UPDATE", turn(1, "ada", "running"), turn(1, "ada", "interrupted"))
    note(13, 2, "turn", "INSERT", None, turn(3, "ada", "running"))
    note(14, 2, "delivery", "UPDATE", {"agent": "ada", "inflight_turn": None}, {"agent": "ada", "inflight_turn": "turn3"})
    audit, previous = [], "00" * 32
    for number, agent in enumerate(("ada", "bob", "ada"), 1):
        detail = json.dumps({"tokens": number * TOKENS, "usd": number})
        fields = {"at": number, "actor": "a", "action": "config.set", "subject": f"limits of {agent}", "level": "GREEN",
                  "detail": detail}
        row = {"id": number, **fields, "session": None, "turn": None, "previous": previous}
        inner = b"".join(struct.pack("<Q", len(field)) + field.encode() for field in (*map(str, fields.values()), "", ""))
        previous = hashlib.sha256(b"flock-audit-2\0" + bytes.fromhex(previous) + hashlib.sha256(inner).digest()).hexdigest()
        audit.append({**row, "hash": previous})
    news = [(4.0, *one) for op in ops if op["accepted"] and op["what"] in NEWS for one in news_of(op)]
    late = (14.0, "turn.started", "turn3")
    told = {0: [(1.0, RESET, ""), *news, late], 1: [(1.0, RESET, ""), *news[1:], (12.0, RESET, ""), late]}
    shown = {word: 1 for word in words[:3]}
    marks = [(word, "3", "aa") for word in words[4:6]]
    seen = [{"gateway": number, "at": 21.0 + number, "limits": settings[-1]["limits"]} for number in (0, 1)]
    return {"ops": ops, "away": [{"epoch": 1, "at": 5.0, "until": 20.0}], "paces": [(0.0, 0.01), (6.0, 0.01)], "messages": messages,
            "settings": settings[-1], "seen": seen, "healed": [20.0],
            "broken": [3.5], "faults": [(0.5, 1.0), (1.5, 4.5), (5.0, 20.0)],
            "tasks": [{"id": "t1", "state": "completed", "request": words[6]}], "lines": [words[8]], "requests": requests,
            "ran": [words[9]], "crews": [{"channel": "crew0", "member": "human:stays"}], "trace": trace, "told": told,
            "audit": audit, "audit_base": None, "marks": {"ada": marks, "bob": []},
            "shown": {"ada": {**shown, words[3]: 1}, "bob": shown}, "members": {"all-hands": ["ada", "bob"], "desk-ada": ["ada"]},
            "answering": {"desk-ada": ["ada"]},
            "gateways": {"127.0.0.1:1": {"number": 0, "sandboxes": "aa"}, "127.0.0.1:2": {"number": 1, "sandboxes": "bb"}}}


def safe(facts, *kinds):
    return next(op for op in facts["ops"] if op["what"] in kinds and op["accepted"])


def row_of(facts, op):
    return next(row for row in facts["messages"] if op["word"] in row["content"] and row["author"].startswith("human:"))


def last_seq(facts, channel):
    return max(row["seq"] for row in facts["messages"] if row["channel"] == channel)


def lose_post(facts):
    op = safe(facts, "note", "ask")
    gone = row_of(facts, op)
    facts["messages"].remove(gone)
    # No gap shows it.
    for row in facts["messages"]:
        if row["channel"] == gone["channel"] and row["seq"] > gone["seq"]:
            row["seq"] -= 1
    return "acknowledged posts are there once"


def lose_newest_post(facts):
    """The last one of its channel, after which everything else is as it should be."""
    for op in reversed(facts["ops"]):
        if op["what"] in ("note", "ask", "linger") and op["accepted"]:
            row = row_of(facts, op)
            if row["seq"] == last_seq(facts, row["channel"]):
                facts["messages"].remove(row)
                return "acknowledged posts are there once"
    return lose_post(facts)


def double_post(facts):
    row = row_of(facts, safe(facts, "note"))
    facts["messages"].append({**row, "seq": last_seq(facts, row["channel"]) + 1})
    return "nothing is posted twice"


def move_post(facts):
    row = row_of(facts, safe(facts, "note"))
    row["channel"], row["seq"] = "desk-ada", last_seq(facts, "desk-ada") + 1
    return "acknowledged posts are there once"


def double_refused(facts):
    """What was refused may be there, but once."""
    op = safe(facts, "note")
    op["accepted"] = False
    row = row_of(facts, op)
    facts["messages"].append({**row, "seq": last_seq(facts, row["channel"]) + 1})
    return "nothing is posted twice"


def invent_post(facts):
    facts["messages"].append({"channel": "all-hands", "seq": last_seq(facts, "all-hands") + 1, "author": "human:nobody",
                              "content": "note w9x9xffffffff"})
    return "nothing is posted twice"


def leave_gap(facts):
    next(row for row in facts["messages"] if row["seq"] == last_seq(facts, row["channel"]))["seq"] += 1
    return "messages have their numbers"


def mark_of(facts, op):
    return next(mark for mark in facts["marks"][op["agent"]] if mark[0] == op["word"])


def lose_command(facts):
    op = safe(facts, "command")
    facts["marks"][op["agent"]].remove(mark_of(facts, op))
    return "commands run once"


def repeat_command(facts):
    op = safe(facts, "command")
    facts["marks"][op["agent"]].append(mark_of(facts, op))
    return "commands run once"


def repeat_elsewhere(facts):
    """As if two engines had run it for another agent."""
    op = safe(facts, "command")
    facts["marks"][next(agent for agent in facts["marks"] if agent != op["agent"])].append(mark_of(facts, op))
    return "commands run once"


def invent_command(facts):
    next(marks for marks in facts["marks"].values() if marks).append(("w9x9xffffffff", "3", "aa"))
    return "commands run once"


def lose_task(facts):
    op = safe(facts, "errand")
    facts["tasks"] = [row for row in facts["tasks"] if row["id"] != op["told"]]
    return "tasks are there once and end"


def double_task(facts):
    row = next(row for row in facts["tasks"] if WORD.search(row["request"]))
    facts["tasks"].append({**row, "id": "another"})
    return "tasks are there once and end"


def leave_task(facts):
    op = safe(facts, "errand")
    next(row for row in facts["tasks"] if row["id"] == op["told"])["state"] = "working"
    return "tasks are there once and end"


def lose_line(facts):
    facts["lines"].remove(safe(facts, "line")["word"])
    return "lines are in a vault once"


def double_line(facts):
    facts["lines"].append(next(iter(facts["lines"])))
    return "lines are in a vault once"


def invent_line(facts):
    facts["lines"].append("w9x9xffffffff")
    return "lines are in a vault once"


def lose_request(facts):
    op = safe(facts, "request")
    facts["requests"] = [row for row in facts["requests"] if row["id"] != op["told"]]
    return "requests are there once"


def double_request(facts):
    row = next(row for row in facts["requests"] if WORD.search(row["body"]))
    facts["requests"].append({**row, "id": "r-another"})
    return "requests are there once"


def decided(facts, how):
    """A request that was decided so, by what was acknowledged, and the word of its command."""
    request = next(op["request"] for op in facts["ops"] if op["what"] == "decide" and op["accepted"] and op["how"] == how)
    row = next(row for row in facts["requests"] if row["id"] == request)
    return row, WORD.search(row["body"])[0]


def forget_approval(facts):
    decided(facts, "approve")[0]["state"] = "waiting"
    return "decisions count and run once"


def forget_denial(facts):
    """What was denied is done as if it had been approved."""
    row, word = decided(facts, "deny")
    row["state"] = "done"
    facts["ran"].append(word)
    return "decisions count and run once"


def run_denied(facts):
    facts["ran"].append(decided(facts, "deny")[1])
    return "decisions count and run once"


def run_undecided(facts):
    """A command runs on the host that nobody tried to approve."""
    tried = {op.get("request") for op in facts["ops"]}
    row = next(row for row in facts["requests"] if row["id"] not in tried)
    row["state"] = "done"
    facts["ran"].append(WORD.search(row["body"])[0])
    return "decisions count and run once"


def run_again(facts):
    facts["ran"].append(next(iter(facts["ran"])))
    return "decisions count and run once"


def run_never(facts):
    row = next(row for row in facts["requests"] if row["state"] == "done")
    facts["ran"].remove(WORD.search(row["body"])[0])
    return "decisions count and run once"


def lose_decided(facts):
    facts["requests"].remove(decided(facts, "approve")[0])
    return "decisions count and run once"


def guest_who(facts, how):
    """The last change of a person who was said to have joined and to have stayed, or to have left."""
    changes = {op["member"]: op for op in facts["ops"] if op["what"] == "member" and op.get("member", "").startswith("human:")}
    op = next(op for op in changes.values() if op["accepted"] and op["how"] == how)
    return {"channel": op["channel"], "member": op["member"]}


def lose_member(facts):
    facts["crews"].remove(guest_who(facts, "add"))
    return "members are those that were said"


def keep_member(facts):
    facts["crews"].append(guest_who(facts, "remove"))
    return "members are those that were said"


def invent_member(facts):
    facts["crews"].append({"channel": "crew0", "member": "human:nobody"})
    return "members are those that were said"


def show_twice(facts):
    agent, counts = next((agent, counts) for agent, counts in facts["shown"].items() if counts)
    counts[next(iter(counts))] = 2
    return "each message is shown once"


def show_never(facts):
    word, places = next((word, places) for word, places in by_people(facts).items() if places[0][0] in facts["members"])
    facts["shown"][facts["members"][places[0][0]][0]].pop(word)
    return "each message is shown once"


def answer_twice(facts):
    row = next(row for row in facts["messages"]
               if row["author"] in facts["answering"].get(row["channel"], []) and WORD.search(row["content"]))
    facts["messages"].append({**row, "seq": last_seq(facts, row["channel"]) + 1})
    return "answers come once"


def taken(facts):
    """The place of the last lease in the trace that was taken."""
    return max(at for at, row in enumerate(facts["trace"])
               if row["subject"] == "lease" and row["change"] != "START" and row["after"] and row["after"]["epoch"] is not None)


def put(facts, at, row):
    facts["trace"].insert(at, copy.deepcopy(row))
    for number, one in enumerate(facts["trace"], 1):
        one["n"] = number


def two_owners(facts):
    """The lease is taken from an owner that lives, with a token that would be right."""
    at = taken(facts)
    after = facts["trace"][at]["after"]
    put(facts, at + 1, {**facts["trace"][at], "before": after, "after": {**after, "epoch": after["epoch"] + 1000,
                                                                        "token": after["token"] + 1}})
    return "one owner at any time"


def forget_freeing(facts):
    """An owner that was never freed."""
    at = taken(facts)
    lease = facts["trace"][at]["after"]
    for back in range(at - 1, -1, -1):
        row = facts["trace"][back]
        if (row["subject"] == "lease" and row["after"]["epoch"] is None and row["change"] != "START"
                and (row["after"]["kind"], row["after"]["subject"]) == (lease["kind"], lease["subject"])):
            del facts["trace"][back]
            return "one owner at any time"
    return two_owners(facts)


def keep_token(facts):
    facts["trace"][taken(facts)]["after"]["token"] -= 1
    return "one owner at any time"


def write_of(facts, subject, change, after):
    """A row like those of the trace, by a gateway that had been ended, at the end."""
    ended = max(row["after"]["epoch"] for row in facts["trace"] if row["subject"] == "gateway" and row["after"]["ended_at"])
    put(facts, len(facts["trace"]), {"n": 0, "up": facts["trace"][-1]["up"], "epoch": ended, "subject": subject, "change": change,
                                     "before": after, "after": after})
    return "one owner at any time"


def late_writer(facts):
    """A gateway that was ended comes back and writes once more: its fence let a post through."""
    return write_of(facts, "message", "INSERT", {"id": 0})


def late_turn(facts):
    """The same with a turn of an agent that others have by now."""
    row = next(row for row in facts["trace"] if row["subject"] == "turn" and agent_of(row))
    return write_of(facts, "turn", "INSERT", {**row["after"], "id": "late"})


def late_delivery(facts):
    """The same with what an agent was given."""
    row = next(row for row in facts["trace"] if row["subject"] == "delivery")
    return write_of(facts, "delivery", "UPDATE", row["after"])


def foreign_turn(facts):
    """A gateway that lives begins a turn of an agent that another one owns."""
    at = max(at for at, row in enumerate(facts["trace"]) if row["subject"] == "turn" and row["change"] == "INSERT")
    facts["trace"][at]["epoch"] = next(row["after"]["epoch"] for row in facts["trace"] if row["subject"] == "gateway"
                                       and row["change"] != "DELETE" and row["after"]["epoch"] != facts["trace"][at]["epoch"])
    return "one owner at any time"


def foreign_delivery(facts):
    """A gateway that lives gives an agent of another one its messages."""
    at = next(at for at, row in enumerate(facts["trace"]) if row["subject"] == "delivery" and row["after"]["inflight_turn"])
    facts["trace"][at]["epoch"] = next(row["after"]["epoch"] for row in facts["trace"] if row["subject"] == "gateway"
                                       and row["change"] != "DELETE" and row["after"]["epoch"] != facts["trace"][at]["epoch"])
    return "one owner at any time"


def third_gateway(facts):
    """More gateways live than there are homes."""
    row = next(row for row in facts["trace"] if row["subject"] == "gateway" and row["after"]["ended_at"] is None)
    for number in range(len(facts["gateways"])):
        put(facts, 0, {**row, "change": "START", "after": {**row["after"], "epoch": -number}})
    return "one owner at any time"


def old_number(facts):
    rows = [row for row in facts["trace"] if row["subject"] == "gateway" and row["change"] in ("START", "INSERT")]
    rows[-1]["after"]["epoch"] = rows[0]["after"]["epoch"]
    return "one owner at any time"


def nobody_writes(facts):
    next(row for row in facts["trace"] if row["subject"] in ("turn", "message"))["epoch"] = None
    return "one owner at any time"


def act_elsewhere(facts):
    """A command ran in a sandbox of another gateway than the agent's: both took themselves for its owner."""
    agent, marks = next((agent, marks) for agent, marks in facts["marks"].items() if marks)
    word, at, home = marks[0]
    marks[0] = (word, at, next(one["sandboxes"] for one in facts["gateways"].values() if one["sandboxes"] != home))
    return "only owners act"


def act_late(facts):
    """The gateway that had an agent first runs a command for it after the next one has taken it."""
    agent, marks = next((agent, marks) for agent, marks in facts["marks"].items() if marks)
    taken = [row for row in facts["trace"] if row["subject"] == "lease" and row["after"]["subject"] == agent
             and row["after"]["epoch"] is not None]
    homes = {row["after"]["epoch"]: facts["gateways"][row["after"]["address"]]["sandboxes"] for row in facts["trace"]
             if row["subject"] == "gateway"}
    last = taken[-1]["after"]["epoch"]
    first = next(row["after"]["epoch"] for row in taken if homes[row["after"]["epoch"]] != homes[last])
    marks[0] = (marks[0][0], str(taken[-1]["up"] + 1.0), homes[first])
    return "only owners act"


def answer_elsewhere(facts):
    """A gateway answers, by a turn of its own, for an agent whose command another one ran."""
    op, homes = safe(facts, "command"), ownership(facts)[1]
    row = next(row for row in facts["trace"] if row["subject"] == "turn" and row["after"]["id"] == op["turn"])
    row["epoch"] = next(epoch for epoch, home in homes.items() if home != homes[row["epoch"]])
    return "only owners act"


def answer_old(facts):
    """An answer that was there before the question."""
    op = safe(facts, "command")
    op["sent"] = op["ended"]
    return "only owners act"


def answer_of_nobody(facts):
    """An answer by a turn that no gateway began."""
    safe(facts, "command")["turn"] = "another"
    return "only owners act"


def tell_twice(facts):
    told = next(iter(facts["told"].values()))
    told.append(next(one for one in told if one[1] != RESET))
    return "watchers are told once"


def tell_never(facts):
    """Somebody misses a message and is not told to look anew."""
    told = next(iter(facts["told"].values()))
    gone = news_of(safe(facts, "note"))
    told[:] = [one for one in told if one[1] != RESET and one[1:] not in gone]
    return "watchers are told once"


def tell_late(facts):
    """The same, and is told to look anew only after something later of that gateway."""
    rule, told = tell_never(facts), next(iter(facts["told"].values()))
    told.append((told[-1][0], RESET, ""))
    return rule


def run_by_two(facts):
    """A turn calls its model at two gateways."""
    at = max(at for at, row in enumerate(facts["trace"]) if row["subject"] == "usage")
    put(facts, at + 1, {**facts["trace"][at], "epoch": facts["trace"][at]["epoch"] + 1000})
    return "a turn is run by one gateway"


def run_after_all(facts):
    """A turn goes on where it began after another gateway has noted that it was interrupted."""
    rows = [row for row in facts["trace"] if row["subject"] == "turn"]
    begun = {row["after"]["id"]: row["epoch"] for row in rows if row["change"] == "INSERT"}
    at, row = next((at, row) for at, row in enumerate(facts["trace"]) if row["subject"] == "turn" and row["change"] == "UPDATE"
                   and row["after"]["id"] in begun and begun[row["after"]["id"]] != row["epoch"])
    put(facts, at + 1, {**row, "epoch": begun[row["after"]["id"]]})
    return "a turn is run by one gateway"


def begun_by_two(facts):
    """A turn begins at two gateways."""
    at = next(at for at, row in enumerate(facts["trace"]) if row["subject"] == "turn" and row["change"] == "INSERT")
    put(facts, at + 1, {**facts["trace"][at], "epoch": facts["trace"][at]["epoch"] + 1000})
    return "a turn is run by one gateway"


def take_over_late(facts):
    """Others take a minute to go on with what a gateway had that is gone."""
    away = next(away for away, found in takeovers(facts) if found and all(found.values()) and max(found.values()) < TAKEN_OVER)
    facts["paces"] = []
    for row in facts["trace"]:
        row["up"] += 60.0 if row["up"] > away["at"] else 0.0
    away["until"] += 60.0
    return "the work of a gateway that is gone goes on"


def last_step(facts):
    """The last step of the settings, with the agent whose limits it changed."""
    *_, (row, ((agent, _),)) = setting_steps(facts)
    return row, agent


def last_accepted(facts):
    """The last step that was acknowledged, with its change."""
    steps = {limits["usd"]: row for row, changes in setting_steps(facts) for _, limits in changes}
    *_, op = (op for op in facts["ops"] if op["what"] == "setting" and op["accepted"] and op["value"] in steps)
    return steps[op["value"]], op


def end_with(facts, row):
    """Has the database and all gateways end with what a row has made."""
    facts["settings"] = row["after"]
    for line in facts["seen"]:
        line["limits"] = row["after"]["limits"]


def undo_setting(facts):
    """A gateway wrote its change into what it had read before the change of another one."""
    row, agent = last_step(facts)
    del row["after"]["limits"][next(name for name in row["before"]["limits"] or {} if name != agent)]
    end_with(facts, row)
    return "settings change as was said"


def lose_setting(facts):
    """A change that was acknowledged is nowhere."""
    row, _ = last_accepted(facts)
    facts["trace"].remove(row)
    facts["settings"] = row["before"]
    return "settings change as was said"


def forget_setting(facts):
    """The database has lost the last change by the end."""
    facts["settings"] = last_step(facts)[0]["before"]
    return "settings change as was said"


def mix_settings(facts):
    """The two limits of an agent are of two changes."""
    row, agent = last_step(facts)
    row["after"]["limits"][agent]["tokens"] += TOKENS
    end_with(facts, row)
    return "settings change as was said"


def make_refused(facts):
    _, op = last_accepted(facts)
    op["accepted"], op["outcome"] = False, "refused"
    return "settings change as was said"


def repeat_setting(facts):
    """A change comes back after another one."""
    row, _ = last_step(facts)
    made = (change for _, changes in setting_steps(facts) for change in changes)
    agent, limits = next((agent, limits) for agent, limits in made if row["after"]["limits"][agent] != limits)
    after = {"revision": row["after"]["revision"] + 1, "limits": {**row["after"]["limits"], agent: limits}}
    put(facts, len(facts["trace"]), {**row, "before": row["after"], "after": after})
    end_with(facts, facts["trace"][-1])
    return "settings change as was said"


def make_late(facts):
    """A change is made only after it was acknowledged."""
    row, op = last_accepted(facts)
    op["ended"] = op["sent"] = row["up"] - 1.0
    return "settings change as was said"


def skip_setting(facts):
    """A step was made of something else than the one before it."""
    last_step(facts)[0]["before"]["revision"] -= 1
    return "settings change as was said"


def keep_setting(facts):
    """A gateway goes on with old settings."""
    facts["seen"][-1]["limits"] = last_step(facts)[0]["before"]["limits"] or {}
    return "settings are in force at every gateway"


def learn_late(facts):
    """A gateway has the settings only after a while."""
    gateway = facts["seen"][-1]["gateway"]
    for line in facts["seen"]:
        if line["gateway"] == gateway:
            line["at"] += IN_FORCE
    return "settings are in force at every gateway"


def see_nothing(facts):
    """A gateway never says which settings it uses."""
    gateway = facts["seen"][-1]["gateway"]
    facts["seen"] = [line for line in facts["seen"] if line["gateway"] != gateway]
    return "settings are in force at every gateway"


def setting_row(facts):
    """The row of the audit of a change that was made."""
    return next(row for row in facts["audit"] if row["action"] == "config.set" and '"usd"' in row["detail"])


def leave_unrecorded(facts):
    setting_row(facts)["action"] = "config.get"
    return "changes of settings are in the audit once"


def record_twice(facts):
    facts["audit"].append(setting_row(facts))
    return "changes of settings are in the audit once"


def record_refused(facts):
    """The audit has a change that was never made."""
    facts["trace"].remove(last_step(facts)[0])
    return "changes of settings are in the audit once"


def break_command(facts):
    """A command is given up when the way to its engine breaks."""
    _, op = next((broken, op) for broken, op in under_way(facts) if op["accepted"])
    op["accepted"], op["outcome"] = False, "status 500"
    return "commands outlive the way to their engine"


def change_audit(facts):
    facts["audit"][len(facts["audit"]) // 2]["detail"] += "x"
    return "the audit is a chain"


def cut_audit(facts):
    del facts["audit"][len(facts["audit"]) // 2]
    return "the audit is a chain"


def forge_audit(facts):
    """A row with a hash of its own that fits, and the next one knows nothing of it."""
    row = facts["audit"][len(facts["audit"]) // 2]
    row["previous"], row["hash"] = row["hash"], row["previous"]
    return "the audit is a chain"


DOCTORS = [lose_post, lose_newest_post, double_post, move_post, double_refused, invent_post, leave_gap, lose_command,
           repeat_command, repeat_elsewhere, invent_command, lose_task, double_task, leave_task, lose_line, double_line,
           invent_line, lose_request, double_request, forget_approval, forget_denial, run_denied, run_undecided, run_again,
           run_never, lose_decided, lose_member, keep_member, invent_member, show_twice, show_never, answer_twice, two_owners,
           forget_freeing, keep_token, late_writer, late_turn, late_delivery, foreign_turn, foreign_delivery, third_gateway,
           old_number, nobody_writes, act_elsewhere, act_late, answer_elsewhere, answer_old, answer_of_nobody, tell_twice,
           tell_never, tell_late, run_by_two, run_after_all, begun_by_two, take_over_late, undo_setting, lose_setting,
           forget_setting, mix_settings, make_refused, repeat_setting, make_late, skip_setting, keep_setting, learn_late,
           see_nothing, leave_unrecorded, record_twice, record_refused, break_command, change_audit, cut_audit, forge_audit]


def missed(facts):
    """The doctored histories in which the judge does not find more than before. None of them is, if it can be trusted."""
    before, found = judge(facts), []
    for doctor in DOCTORS:
        ill = copy.deepcopy(facts)
        try:
            rule = doctor(ill)
        except (StopIteration, ValueError):
            # Too little happened in this run for it.
            continue
        assert rule in RULES, rule
        if len(list(RULES[rule](ill))) <= len(before[rule]):
            found.append(f"{doctor.__name__} ({rule})")
    return found


def self_test():
    """What is wrong with the judge, by the history that was made up."""
    facts = made_up()
    wrong = [f"{name}: {found}" for name, found in judge(facts).items() if found]
    # A machine that is busy with something else is no fault of the fleet.
    late = copy.deepcopy(facts)
    take_over_late(late)
    late["paces"] = [(0.0, 0.01), (6.0, 0.2)]
    if list(RULES["the work of a gateway that is gone goes on"](late)):
        wrong.append("a machine that is busy is taken for a gateway that did not go on")
    never = copy.deepcopy(facts)
    never["trace"] = [row for row in never["trace"] if row["up"] < 12]
    if not list(RULES["the work of a gateway that is gone goes on"](never)):
        wrong.append("work that never went on is not found")
    freed = copy.deepcopy(facts)
    del freed["trace"][next(at for at, row in enumerate(freed["trace"]) if row["subject"] == "gateway" and row["change"] == "UPDATE")]
    if not list(RULES["one owner at any time"](freed)):
        wrong.append("a lease that was freed while its owner lived is not found")
    for doctor in DOCTORS:
        try:
            doctor(copy.deepcopy(facts))
        except (StopIteration, ValueError):
            wrong.append(f"{doctor.__name__} finds nothing to do in the history that was made up")
    return wrong + [f"not found: {name}" for name in missed(facts)]
