"""Histories with one thing wrong: the judge has to find each, in facts that were made up and in those of a real run."""

import copy
import hashlib
import struct

from fleet_checker import RULES, WORD, at_risk, by_people, judge


def made_up():
    """A small history in which all is well: two gateways, one after the other, and some of everything."""
    words = [f"w0x{number}x{number:08x}" for number in range(1, 9)]
    op = {"client": 0, "begun": 100.0, "ended": 100.5, "accepted": True}
    ops = [{**op, "what": "note", "word": word, "told": seq, "channel": "all-hands"} for seq, word in enumerate(words[:3], 1)]
    ops += [{**op, "what": "ask", "word": words[3], "told": 1, "channel": "desk-ada"}]
    ops += [{**op, "what": "command", "word": word, "told": "", "agent": "ada"} for word in words[4:6]]
    ops += [{**op, "what": "errand", "word": words[6], "told": "t1", "agent": "ada", "state": "TASK_STATE_COMPLETED"}]
    ops += [{**op, "what": "note", "word": words[7], "told": "", "channel": "all-hands", "accepted": False}]
    messages = [{"channel": "all-hands", "seq": seq, "author": "human:p", "content": f"note {word}"}
                for seq, word in enumerate(words[:3], 1)]
    messages += [{"channel": "desk-ada", "seq": 1, "author": "human:p", "content": f"ask {words[3]}"},
                 {"channel": "desk-ada", "seq": 2, "author": "ada", "content": f"answer ask {words[3]}"}]
    trace = []

    def note(epoch, subject, change, before, after):
        trace.append({"n": len(trace) + 1, "at": 0, "epoch": epoch, "client": None, "subject": subject, "change": change,
                      "before": before, "after": after})

    def gateway(epoch, ended_by=None):
        return {"epoch": epoch, "run": f"r{epoch}", "ended_at": 5 if ended_by else None, "ended_by": ended_by}

    def lease(epoch, token):
        return {"kind": "agent", "subject": "ada", "epoch": epoch, "token": token}

    turn = {"id": "turn1", "session": "agent:ada:main", "state": "running"}
    note(1, "gateway", "START", None, gateway(1))
    note(1, "lease", "INSERT", None, lease(1, 1))
    note(1, "turn", "INSERT", None, turn)
    note(2, "gateway", "INSERT", None, gateway(2))
    note(2, "gateway", "UPDATE", gateway(1), gateway(1, 2))
    note(2, "lease", "UPDATE", lease(1, 1), lease(None, 1))
    note(2, "lease", "UPDATE", lease(None, 1), lease(2, 2))
    note(2, "turn", "UPDATE", turn, {**turn, "state": "interrupted"})
    note(2, "message", "INSERT", None, {"id": 1, "channel": "all-hands", "seq": 1})
    audit, previous = [], "00" * 32
    for number in (1, 2, 3):
        row = {"id": number, "at": number, "actor": "a", "action": "b", "subject": "c", "level": "GREEN", "detail": "d",
               "session": None, "turn": None, "previous": previous}
        inner = b"".join(struct.pack("<Q", len(field)) + field.encode() for field in (str(number), *"abc", "GREEN", "d", "", ""))
        previous = hashlib.sha256(b"flock-audit-2\0" + bytes.fromhex(previous) + hashlib.sha256(inner).digest()).hexdigest()
        audit.append({**row, "hash": previous})
    shown = {word: 1 for word in words[:3]}
    return {"ops": ops, "losses": [], "messages": messages, "tasks": [{"id": "t1", "state": "completed", "request": words[6]}],
            "trace": trace, "audit": audit, "audit_base": None, "marks": {"ada": words[4:6], "bob": []},
            "shown": {"ada": {**shown, words[3]: 1}, "bob": shown}, "members": {"all-hands": ["ada", "bob"], "desk-ada": ["ada"]},
            "answering": {"desk-ada": ["ada"]}, "together": 1}


def safe(facts, *kinds):
    return next(op for op in facts["ops"] if op["what"] in kinds and op["accepted"] and not at_risk(facts, op))


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
        if op["what"] in ("note", "ask") and op["accepted"] and not at_risk(facts, op):
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


def lose_command(facts):
    op = safe(facts, "command")
    facts["marks"][op["agent"]].remove(op["word"])
    return "commands run once"


def repeat_command(facts):
    op = safe(facts, "command")
    facts["marks"][op["agent"]].append(op["word"])
    return "commands run once"


def repeat_elsewhere(facts):
    """As if both engines had run it for another agent."""
    op = safe(facts, "command")
    facts["marks"][next(agent for agent in facts["marks"] if agent != op["agent"])].append(op["word"])
    return "commands run once"


def invent_command(facts):
    next(iter(facts["marks"].values())).append("w9x9xffffffff")
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


def late_writer(facts):
    """A gateway that was ended comes back and writes once more."""
    ended = max(row["after"]["epoch"] for row in facts["trace"] if row["subject"] == "gateway" and row["after"]["ended_at"])
    put(facts, len(facts["trace"]), {"n": 0, "at": 0, "epoch": ended, "client": None, "subject": "message", "change": "INSERT",
                                     "before": None, "after": {"id": 0}})
    return "one owner at any time"


def two_gateways(facts):
    """The earlier one goes on beside the one that has begun."""
    at = next(at for at, row in enumerate(facts["trace"]) if row["subject"] == "gateway" and row["change"] == "UPDATE")
    del facts["trace"][at]
    return "one owner at any time"


def old_number(facts):
    row = next(row for row in facts["trace"] if row["subject"] == "gateway" and row["change"] == "INSERT")
    row["after"]["epoch"] = 1
    return "one owner at any time"


def nobody_writes(facts):
    next(row for row in facts["trace"] if row["subject"] in ("turn", "message"))["epoch"] = None
    return "one owner at any time"


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


DOCTORS = [lose_post, lose_newest_post, double_post, move_post, double_refused, invent_post, leave_gap, lose_command, repeat_command,
           repeat_elsewhere, invent_command, lose_task, double_task, leave_task, show_twice, show_never, answer_twice, two_owners,
           forget_freeing, keep_token, late_writer, two_gateways, old_number, nobody_writes, change_audit, cut_audit, forge_audit]


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
        if len(judge(ill)[rule]) <= len(before[rule]):
            found.append(f"{doctor.__name__} ({rule})")
    return found


def beside_each_other(facts):
    """Two gateways that live at once, of which the second has the agent and begins a turn."""
    both = copy.deepcopy(facts)
    start, lease, turn, begun = (copy.deepcopy(both["trace"][at]) for at in (0, 1, 2, 3))
    lease["after"]["epoch"] = lease["epoch"] = turn["epoch"] = 2
    both["trace"], both["together"] = [start, begun, lease, turn], 2
    for number, row in enumerate(both["trace"], 1):
        row["n"] = number
    return both


def self_test():
    """What is wrong with the judge, by the history that was made up."""
    facts = made_up()
    wrong = [f"{name}: {found}" for name, found in judge(facts).items() if found]
    # A database that was killed may lose what it took last, and only that.
    late = copy.deepcopy(facts)
    lose_newest_post(late)
    late["losses"] = [(facts["ops"][0]["ended"] + 0.1, facts["ops"][0]["ended"] + 0.2)]
    if judge(late)["acknowledged posts are there once"]:
        wrong.append("what a killed database may lose is taken for a loss")
    late["losses"] = [(facts["ops"][0]["begun"] - 0.2, facts["ops"][0]["begun"] - 0.1)]
    if not judge(late)["acknowledged posts are there once"]:
        wrong.append("what came after a database was killed is taken for lost with it")
    both = copy.deepcopy(facts)
    two_gateways(both)
    both["together"] = 2
    if judge(both)["one owner at any time"] == []:
        wrong.append("a lease that was freed while its owner lived is not found")
    # Two that live may work side by side, but not for the same agent.
    both = beside_each_other(facts)
    if judge(both)["one owner at any time"]:
        wrong.append(f"two gateways beside each other are refused: {judge(both)['one owner at any time']}")
    both["trace"][-1]["epoch"] = 1
    if not judge(both)["one owner at any time"]:
        wrong.append("a turn of an agent that another gateway owns is not found")
    for doctor in DOCTORS:
        try:
            doctor(copy.deepcopy(facts))
        except (StopIteration, ValueError):
            wrong.append(f"{doctor.__name__} finds nothing to do in the history that was made up")
    return wrong + [f"not found: {name}" for name in missed(facts)]
