"""The judge of a fleet campaign: rules over what clients were told and what the database and the workspaces have in the end.

It knows the stored form of a few tables and nothing of the program. Each rule gives the faults that it found as texts.
The facts are a dictionary; `fleet_facts.py` says how they are gathered.
"""

import collections
import hashlib
import re
import struct

WORD = re.compile(r"w\d+x\d+x[0-9a-f]{8}")
# A database that is killed loses what it committed in its last moments: flock acknowledges a commit before it is on the
# disk, except decisions (docs/scaling.md). This is the longest time before such an end, in seconds.
AT_RISK = 2.0


def at_risk(facts, op):
    """Whether what was acknowledged may be lost: the database was killed while it was asked for, or within moments."""
    return any(op["begun"] <= until and op["ended"] >= at - AT_RISK for at, until in facts["losses"])


def accepted(facts, *kinds):
    return [op for op in facts["ops"] if op["what"] in kinds and op["accepted"]]


def by_people(facts):
    """The words of people's messages, each with its places."""
    places = collections.defaultdict(list)
    for row in facts["messages"]:
        if row["author"].startswith("human:"):
            for word in WORD.findall(row["content"]):
                places[word].append((row["channel"], row["seq"]))
    return places


def kept_posts(facts):
    """What was acknowledged is in its channel once, under its number."""
    places = by_people(facts)
    for op in accepted(facts, "note", "ask"):
        found, told = places.get(op["word"], []), (op["channel"], op["told"])
        if found != [told] and not (not found and at_risk(facts, op)):
            yield f"{op['word']} was acknowledged as {told} and is at {found}"


def posts_once(facts):
    """Nothing that was asked for once is there twice, acknowledged or not, and nothing that nobody asked for."""
    tried = {op["word"] for op in facts["ops"]}
    for word, found in by_people(facts).items():
        if len(found) > 1:
            yield f"{word} was posted {len(found)} times: {found}"
        if word not in tried:
            yield f"{word} at {found} was posted by nobody"


def numbers(facts):
    """The messages of a channel are numbered without gaps."""
    channels = collections.defaultdict(list)
    for row in facts["messages"]:
        channels[row["channel"]].append(row["seq"])
    for channel, found in channels.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            counted = collections.Counter(found)
            gaps = sorted(set(range(1, max(found) + 1)) - set(found))[:10]
            yield f"{channel} lacks {gaps} and has twice {[seq for seq, n in counted.items() if n > 1][:10]}"


def commands(facts):
    """A command leaves its mark in the workspace once if it was acknowledged, and at most once if it was not."""
    marks = collections.Counter(word for words in facts["marks"].values() for word in words)
    tried = {op["word"] for op in facts["ops"] if op["what"] == "command"}
    for op in accepted(facts, "command"):
        if facts["marks"].get(op["agent"], []).count(op["word"]) == 0:
            yield f"{op['word']} was acknowledged and left no mark in the workspace of {op['agent']}"
    for word, count in marks.items():
        if count > 1:
            yield f"{word} ran {count} times"
        if word not in tried:
            yield f"{word} ran and nobody asked for it"


def tasks(facts):
    """A task that was acknowledged is there once, and ended as was said."""
    final = {"completed", "failed", "canceled", "rejected"}
    found = collections.defaultdict(list)
    for row in facts["tasks"]:
        for word in WORD.findall(row["request"])[:1]:
            found[word].append(row)
    for word, rows in found.items():
        if len(rows) > 1:
            yield f"{word} made {len(rows)} tasks"
    for op in accepted(facts, "errand"):
        row = next((row for row in found.get(op["word"], []) if row["id"] == op["told"]), None)
        if row is None:
            if not at_risk(facts, op):
                yield f"task {op['told']} of {op['word']} was acknowledged and is not there"
            continue
        said = op["state"].removeprefix("TASK_STATE_").lower()
        # What a task had become may be lost with the database's last moments; it then becomes something once more.
        if row["state"] not in final or (said in final and said != row["state"] and not at_risk(facts, op)):
            yield f"task {op['told']} of {op['word']} is {row['state']} and was said to be {said}"


def shown(facts):
    """Each agent of a channel was given each message of people in it once."""
    for agent, counts in facts["shown"].items():
        for word, count in counts.items():
            if count > 1:
                yield f"{agent} was shown {word} {count} times"
    for word, places in by_people(facts).items():
        for channel, seq in places[:1]:
            for agent in facts["members"].get(channel, []):
                if not facts["shown"].get(agent, {}).get(word):
                    yield f"{agent} was never shown {word}, which is {seq} of {channel}"


def answers(facts):
    """Each question was answered at most once by the agent that it was for."""
    given = collections.Counter()
    for row in facts["messages"]:
        if row["author"] in facts["answering"].get(row["channel"], []):
            given.update((row["author"], word) for word in set(WORD.findall(row["content"])))
    for (agent, word), count in given.items():
        if count > 1:
            yield f"{agent} answered {word} {count} times"


def unanswered(facts):
    """The number of questions in a channel that nobody answered; a turn that broke off twice is not begun again."""
    said = {word for row in facts["messages"] if not row["author"].startswith("human:") for word in WORD.findall(row["content"])}
    asked = {word for word, places in by_people(facts).items() if places[0][0] in facts["answering"]}
    return asked - said


class Fleet:
    """The gateways and leases as the rows of the trace make them, one after the other."""

    def __init__(self, together):
        self.together, self.living, self.ended, self.owners = together, set(), {}, {}

    def gateway(self, row):
        after, before = row["after"], row["before"]
        if row["change"] in ("START", "INSERT"):
            epoch = after["epoch"]
            if row["change"] == "INSERT" and epoch <= max([*self.living, *self.ended, 0]):
                yield f"gateway {epoch} has the number of an earlier one"
            (self.living.add(epoch) if after["ended_at"] is None else self.ended.__setitem__(epoch, after["ended_by"]))
        elif row["change"] == "UPDATE":
            if before["ended_at"] is not None and after["ended_at"] != before["ended_at"]:
                yield f"gateway {after['epoch']} was ended before and lives again or ends again"
            self.living.discard(after["epoch"])
            self.ended[after["epoch"]] = after["ended_by"]

    def lease(self, row):
        after, before = row["after"], row["before"]
        if row["change"] == "DELETE":
            yield f"lease {before['kind']} {before['subject']} was deleted"
            return
        name = (after["kind"], after["subject"])
        owner, token = self.owners.get(name, (None, 0))
        self.owners[name] = (after["epoch"], after["token"])
        if row["change"] == "START":
            return
        if before is not None and (before["epoch"], before["token"]) != (owner, token):
            yield f"lease {name} was {owner, token} and is changed from {before['epoch'], before['token']}"
        if after["epoch"] is None:
            # Given up by its owner, or freed by whoever ended the owner.
            if after["token"] != token:
                yield f"lease {name}: its token became {after['token']} after {token} while it was freed"
            if owner in self.living and row["epoch"] != owner:
                yield f"lease {name} was freed by {row['epoch']} while its owner {owner} lived"
            return
        if owner is not None and owner != after["epoch"]:
            yield f"lease {name} has two owners: {owner} had it when {after['epoch']} took it"
        if after["token"] != token + 1:
            yield f"lease {name}: its token became {after['token']} after {token}"
        if after["epoch"] not in self.living or row["epoch"] != after["epoch"]:
            yield f"lease {name} was taken for {after['epoch']} by {row['epoch']}, living: {sorted(self.living)}"

    def write(self, row):
        epoch, what = row["epoch"], f"{row['subject']} {(row['after'] or row['before']).get('id')}"
        if epoch is None:
            yield f"{what} was written by no gateway"
        elif epoch not in self.living:
            yield f"{what} was written by gateway {epoch} after it had been ended by {self.ended.get(epoch)}"
        if row["subject"] == "turn":
            session = (row["after"] or row["before"])["session"].split(":")
            owner = self.owners.get(("agent", session[1] if len(session) > 1 else ""), (None, 0))[0]
            # A gateway alone may work on what it has not taken yet.
            if owner != epoch and (owner is not None or self.together > 1):
                yield f"{what} of {session[1:2]} was written by gateway {epoch}, and {owner} owns the agent"


def owners(facts):
    """One gateway at a time owns a thing and writes it; tokens and numbers of gateways only grow."""
    fleet, last = Fleet(facts["together"]), 0
    for row in facts["trace"]:
        if row["n"] <= last:
            yield f"row {row['n']} of the trace follows {last}"
        last = row["n"]
        if row["subject"] == "gateway":
            yield from fleet.gateway(row)
            continue
        if len(fleet.living) > fleet.together:
            yield f"gateways {sorted(fleet.living)} live at once at row {row['n']}"
            # Once is enough.
            fleet.together = len(fleet.living)
        yield from fleet.lease(row) if row["subject"] == "lease" else fleet.write(row)


def audit(facts):
    """The rows of the audit are a chain of hashes without a gap."""
    at, previous = facts["audit_base"] or (0, "00" * 32)
    for row in facts["audit"]:
        fields = [str(row["at"])] + [row[name] or "" for name in ("actor", "action", "subject", "level", "detail", "session", "turn")]
        inner = hashlib.sha256()
        for field in fields:
            data = field.encode()
            inner.update(struct.pack("<Q", len(data)) + data)
        link = hashlib.sha256(b"flock-audit-2\0" + bytes.fromhex(previous) + inner.digest()).hexdigest()
        if row["id"] != at + 1:
            yield f"row {row['id']} of the audit follows {at}"
        if row["previous"] != previous or row["hash"] != link:
            yield f"row {row['id']} of the audit does not fit the one before it, or was changed"
        if row["action"] == "audit.cut" and not facts["losses"]:
            yield f"row {row['id']} of the audit says that rows before it are missing"
        at, previous = row["id"], row["hash"]


RULES = {
    "acknowledged posts are there once": kept_posts,
    "nothing is posted twice": posts_once,
    "messages have their numbers": numbers,
    "commands run once": commands,
    "tasks are there once and end": tasks,
    "each message is shown once": shown,
    "answers come once": answers,
    "one owner at any time": owners,
    "the audit is a chain": audit,
}


def judge(facts):
    """The faults by the rules that found them; a rule without any is there with an empty list."""
    return {name: list(rule(facts)) for name, rule in RULES.items()}


def lost_at_risk(facts):
    """What was acknowledged within the last moments of a database that was killed, and is lost."""
    places, there = by_people(facts), {row["id"] for row in facts["tasks"]}
    gone = [op for op in accepted(facts, "note", "ask") if op["word"] not in places]
    return [op for op in gone + [op for op in accepted(facts, "errand") if op["told"] not in there] if at_risk(facts, op)]
