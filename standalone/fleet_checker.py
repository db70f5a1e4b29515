"""The judge of a fleet campaign: rules over what clients were told and what the database and the files have in the end.

It knows the stored form of a few tables and nothing of the program. Each rule gives the faults that it found as texts.
The facts are a dictionary; `fleet_facts.py` says how they are gathered.
"""

import collections
import hashlib
import re
import struct

WORD = re.compile(r"w\d+x\d+x[0-9a-f]{8}")
# The time within which others go on with the work of a gateway that is gone, and that until it counts as dead, in seconds.
TAKEN_OVER, SILENT_FOR = 10.0, 6.0
# The time within which all gateways have the same settings once nothing fails any more, in seconds.
IN_FORCE = 10.0
# Clients set two limits of an agent at once: so many dollars, and so many times as many tokens.
TOKENS = 10**6
# The events that watchers are told of, by what the trace has of them, and the one that says that some may be missing.
EVENTS, RESET = {"message": ["channel.message"], "turn": ["turn.started", "turn.ended"]}, "reset"
# How far apart two readings of the time can be that happened in this order: the kernel tells it in hundredths of a second.
TICK = 0.02


def accepted(facts, *kinds):
    return [op for op in facts["ops"] if op["what"] in kinds and op["accepted"]]


def by_word(rows, field):
    """The rows by the first word in a field."""
    found = collections.defaultdict(list)
    for row in rows:
        for word in WORD.findall(row[field])[:1]:
            found[word].append(row)
    return found


def repeated(counts, said):
    """A fault in these words for each name that is counted more than once."""
    for name, count in counts.items():
        if count > 1:
            yield said.format(*([name] if isinstance(name, str) else name), count)


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
    for op in accepted(facts, "note", "ask", "linger"):
        found, told = places.get(op["word"], []), (op["channel"], op["told"])
        if found != [told]:
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
    marks = collections.Counter(word for agent in facts["marks"].values() for word, _, _ in agent)
    for op in accepted(facts, "command"):
        if all(word != op["word"] for word, _, _ in facts["marks"].get(op["agent"], [])):
            yield f"{op['word']} was acknowledged and left no mark in the workspace of {op['agent']}"
    yield from repeated(marks, "{} ran {} times")
    for word in marks.keys() - {op["word"] for op in facts["ops"] if op["what"] == "command"}:
        yield f"{word} ran and nobody asked for it"


def tasks(facts):
    """A task that was acknowledged is there once, and ended as was said."""
    final = {"completed", "failed", "canceled", "rejected"}
    found = by_word(facts["tasks"], "request")
    yield from repeated({word: len(rows) for word, rows in found.items()}, "{} made {} tasks")
    for op in accepted(facts, "errand"):
        row = next((row for row in found.get(op["word"], []) if row["id"] == op["told"]), None)
        if row is None:
            yield f"task {op['told']} of {op['word']} was acknowledged and is not there"
            continue
        said = op["state"].removeprefix("TASK_STATE_").lower()
        if row["state"] not in final or (said in final and said != row["state"]):
            yield f"task {op['told']} of {op['word']} is {row['state']} and was said to be {said}"


def lines(facts):
    """A line that an agent said it added to a file of a vault is in it once, and every other at most once."""
    found = collections.Counter(facts["lines"])
    for op in accepted(facts, "line"):
        if not found[op["word"]]:
            yield f"{op['word']} was added to a vault by {op['agent']} and is not in it"
    yield from repeated(found, "{} is in a vault {} times")
    for word in found.keys() - {op["word"] for op in facts["ops"] if op["what"] == "line"}:
        yield f"{word} is in a vault and nobody asked for it"


def requests(facts):
    """A request that an agent told of is there, and nothing made two."""
    found = {word: [row["id"] for row in rows] for word, rows in by_word(facts["requests"], "body").items()}
    for word, ids in found.items():
        if len(ids) > 1:
            yield f"{word} made {len(ids)} requests: {ids}"
    for op in accepted(facts, "request"):
        if op["told"] not in found.get(op["word"], []):
            yield f"request {op['told']} of {op['word']} was told and is not there"


def decisions(facts):
    """A decision that was acknowledged counts. What was approved ran on the host once, or at most once if it failed, and what was
    denied or waits never did. Somebody may deny what somebody else has approved, until it begins."""
    tried, told = collections.defaultdict(set), collections.defaultdict(set)
    for op in facts["ops"]:
        if op["what"] == "decide" and "request" in op:
            tried[op["request"]].add(op["how"])
            if op["accepted"]:
                told[op["request"]].add(op["how"])
    ran, there = collections.Counter(facts["ran"]), {row["id"] for row in facts["requests"]}
    for request in told:
        if request not in there:
            yield f"request {request} was decided and is not there"
    for row in facts["requests"]:
        decided, maybe = told[row["id"]], tried[row["id"]]
        might = set() if decided else {"waiting"}
        if "approve" in maybe and "deny" not in decided:
            might |= {"done", "failed"}
        if "deny" in maybe:
            might.add("denied")
        if row["state"] not in might:
            yield f"request {row['id']} is {row['state']}, people tried {sorted(maybe)}, and {sorted(decided)} was acknowledged"
        word = next(iter(WORD.findall(row["body"])), None)
        count = ran.pop(word, 0)
        if count not in {"done": [1], "failed": [0, 1]}.get(row["state"], [0]):
            yield f"{word} of request {row['id']}, which is {row['state']}, ran on the host {count} times"
    for word in ran:
        yield f"{word} ran on the host and was no request"


def crews(facts):
    """Who was said to have joined or left a channel has. A change that got no answer may come into effect later than others."""
    last, maybe = {}, collections.defaultdict(set)
    for op in facts["ops"]:
        if op["what"] == "member" and "member" in op:
            key = op["channel"], op["member"]
            if op["accepted"]:
                last[key] = op["how"]
            else:
                maybe[key].add(op["how"])
    there = {(row["channel"], row["member"]) for row in facts["crews"]}
    for key in sorted({*last, *maybe, *there}):
        might = {last.get(key, "remove"), *maybe[key]}
        if ("add" if key in there else "remove") not in might:
            yield f"{key[1]} is {'' if key in there else 'not '}in {key[0]}, and the last answers said {sorted(might)}"


def shown(facts):
    """Each agent of a channel was given each message of people in it once."""
    for agent, counts in facts["shown"].items():
        yield from repeated(counts, f"{agent} was shown {{}} {{}} times")
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
    yield from repeated(given, "{} answered {} {} times")


def unanswered(facts):
    """The number of questions in a channel that nobody answered; a turn that broke off twice is not begun again."""
    said = {word for row in facts["messages"] if not row["author"].startswith("human:") for word in WORD.findall(row["content"])}
    asked = {word for word, places in by_people(facts).items() if places[0][0] in facts["answering"]}
    return asked - said


def agent_of(row):
    """The agent that a row of the trace is about, or `None`."""
    found = row["after"] or row["before"]
    if row["subject"] == "usage":
        return found["agent"]
    if row["subject"] == "delivery":
        # Without a turn, it is the place from which a new member reads, which any gateway sets.
        return found["agent"] if any(one and one["inflight_turn"] for one in (row["before"], row["after"])) else None
    if row["subject"] == "turn":
        parts = found["session"].split(":")
        return parts[1] if len(parts) > 1 else None
    # A message of a turn; others are of people, or of flock.
    return found.get("author") if found.get("turn") else None


class Fleet:
    """The gateways and leases as the rows of the trace make them, one after the other."""

    def __init__(self, most):
        self.most, self.living, self.ended, self.owners = most, set(), {}, {}

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
        epoch, what = row["epoch"], f"row {row['n']} of {row['subject']} {(row['after'] or row['before']).get('id')}"
        if epoch is None:
            yield f"{what} was written by no gateway"
        elif epoch not in self.living:
            yield f"{what} was written by gateway {epoch} after it had been ended by {self.ended.get(epoch)}"
        if agent := agent_of(row):
            owner = self.owners.get(("agent", agent), (None, 0))[0]
            if owner != epoch:
                yield f"{what} of {agent} was written by gateway {epoch}, and {owner} owns the agent"


def owners(facts):
    """One gateway at a time owns a thing and writes it; tokens and numbers of gateways only grow."""
    fleet, last = Fleet(len(facts["gateways"])), 0
    for row in facts["trace"]:
        if row["n"] <= last:
            yield f"row {row['n']} of the trace follows {last}"
        last = row["n"]
        if row["subject"] == "gateway":
            yield from fleet.gateway(row)
            continue
        if len(fleet.living) > fleet.most:
            yield f"gateways {sorted(fleet.living)} live at once at row {row['n']}"
            # Once is enough.
            fleet.most = len(fleet.living)
        yield from fleet.lease(row) if row["subject"] == "lease" else fleet.write(row)


def ownership(facts):
    """The times in which each agent had each owner, in order: from when it was taken until the next one took it. What an
    owner did before is no fault if its lease was freed and nobody had taken it."""
    times, homes = collections.defaultdict(list), {}
    for row in facts["trace"]:
        after = row["after"]
        if row["subject"] == "gateway" and row["change"] != "DELETE":
            homes[after["epoch"]] = facts["gateways"].get(after["address"])
        if row["subject"] != "lease" or row["change"] == "DELETE" or after["kind"] != "agent" or after["epoch"] is None:
            continue
        known = times[after["subject"]]
        if known and known[-1]["epoch"] == after["epoch"]:
            continue
        if known:
            known[-1]["until"] = row["up"]
        known.append({"epoch": after["epoch"], "since": row["up"], "until": float("inf")})
    return times, homes


def acts(facts):
    """What gateways did outside of the database falls into the times in which they owned the agent: each command that ran in a
    sandbox of theirs. Each answer is that of the turn that ran the command, at the gateway where that turn began, and between
    question and answer; any gateway may have passed it on. So the leases are linearizable for those who see them."""
    times, homes = ownership(facts)
    turns, ran = origins(facts), {}

    def sandboxes(epoch):
        return (homes.get(epoch) or {}).get("sandboxes")

    for agent, marks in facts["marks"].items():
        for word, at, home in marks:
            try:
                at = float(at)
            except ValueError:
                yield f"{word} left no time in the workspace of {agent}"
                continue
            ran[word] = at, home
            if not any(sandboxes(one["epoch"]) == home and one["since"] - TICK <= at <= one["until"] + TICK
                       for one in times.get(agent, [])):
                yield f"{word} ran in a sandbox of the home {home} at {at} while another gateway had {agent}"
    for op in accepted(facts, "command"):
        epoch, since = turns.get(op["turn"], (None, float("inf")))
        # A command that left no mark is found by another rule.
        at, home = ran.get(op["word"], (since, None))
        if not op["sent"] - TICK <= since <= at + TICK <= op["ended"] + 2 * TICK:
            yield (f"{op['word']} was asked at {op['sent']}, ran at {at} and was answered at {op['ended']} by turn {op['turn']}, "
                   f"which began at {since}")
        elif home and sandboxes(epoch) != home:
            yield f"{op['word']} ran in a sandbox of the home {home}, and gateway {epoch} answered by its turn {op['turn']}"


def origins(facts):
    """The gateway that wrote each message, and that began each turn, with the time, by the name that watchers have for it."""
    found = {}
    for row in facts["trace"]:
        if row["subject"] in EVENTS and row["change"] == "INSERT":
            after = row["after"]
            name = after["id"] if row["subject"] == "turn" else f"{after['channel']} {after['seq']}"
            found[name] = row["epoch"], row["up"]
    return found


# What watchers are told of, if it was acknowledged.
NEWS = ("note", "ask", "linger", "command")


def news_of(op):
    """The events of something that was acknowledged."""
    if op["what"] == "command":
        return [(name, op["turn"]) for name in EVENTS["turn"]]
    return [(name, f"{op['channel']} {op['told']}") for name in EVENTS["message"]]


def looked_anew(told, known, op, of):
    """Whether a watcher was told to look anew before it was told of something later of the same gateway. The events of each gateway
    come in their order, so one that was overtaken does not come any more."""
    epoch = known.get(of, (None, 0.0))[0]
    for at, name, other in told:
        if at >= op["sent"] and name == RESET:
            return True
        whose, since = known.get(other, (None, 0.0))
        if whose == epoch and since > op["ended"] + TICK:
            return False
    return False


def news(facts):
    """Whoever watches any gateway is told of each message and each turn of all gateways at most once, and of those that were
    acknowledged once, or to look anew."""
    known = origins(facts)
    for watched, told in facts["told"].items():
        counts = collections.Counter((name, of) for _, name, of in told if name != RESET)
        yield from repeated(counts, f"{{}} {{}} came {{}} times to whoever watches gateway {watched}")
        for op in accepted(facts, *NEWS):
            for name, of in news_of(op):
                if not counts[name, of] and not looked_anew(told, known, op, of):
                    yield f"{name} {of} of {op['word']} never came to whoever watches gateway {watched}, nor was it told so"


def one_runner(facts):
    """A turn begins once, and all of its calls of a model are by the gateway at which it began. Another one may note its end, which
    it has from the transcript, and after that nothing more comes of the first."""
    runners, last = {}, {}
    for row in facts["trace"]:
        if row["subject"] not in ("turn", "usage") or row["change"] == "DELETE":
            continue
        turn = row["after"]["id" if row["subject"] == "turn" else "turn"]
        if row["subject"] == "turn" and row["change"] == "INSERT":
            if turn in runners:
                yield f"turn {turn} began twice, at gateways {runners[turn]} and {row['epoch']}"
            runners[turn] = last[turn] = row["epoch"]
        elif turn in runners:
            if row["subject"] == "usage" and row["epoch"] != runners[turn]:
                yield f"turn {turn} of gateway {runners[turn]} called a model at gateway {row['epoch']}"
            if row["epoch"] != last[turn] and row["epoch"] == runners[turn]:
                yield f"turn {turn} went on at gateway {runners[turn]} after {last[turn]} had taken it over"
            last[turn] = row["epoch"]


def takeovers(facts):
    """The gateways that were away, each with the seconds until each of its agents had another owner, until another gateway noted
    how each of its turns ended, and until a conversation that broke off went on. One that broke off twice in a row does not."""
    broken = broken_sessions(facts["trace"])
    for away in facts["away"]:
        agents, turns, wanted, seconds = set(), {}, set(), {}
        for row in facts["trace"]:
            after, since = row["after"], row["up"] - away["at"]
            if row["subject"] == "lease" and row["change"] != "DELETE" and after["kind"] == "agent":
                if since <= 0:
                    (agents.add if after["epoch"] == away["epoch"] else agents.discard)(after["subject"])
                elif after["epoch"] not in (None, away["epoch"]) and after["subject"] in agents:
                    seconds.setdefault(f"agent {after['subject']}", since)
            if row["subject"] != "turn" or row["change"] == "DELETE":
                continue
            turn, session = after["id"], after["session"]
            if since <= 0 and after["state"] == "running" and row["epoch"] == away["epoch"]:
                turns[turn] = session
            elif since <= 0 or row["epoch"] == away["epoch"]:
                # It ended before, or in the moment in which its gateway went.
                turns.pop(turn, None)
            elif row["change"] == "INSERT":
                seconds.setdefault(f"session {session}", since)
            elif turn in turns:
                seconds.setdefault(f"turn {turn}", since)
                if after["state"] == "interrupted" and ":channel:" in session and turn not in broken:
                    wanted.add(f"session {session}")
        wanted |= {f"agent {agent}" for agent in agents} | {f"turn {turn}" for turn in turns}
        yield away, {name: seconds.get(name) for name in wanted}


def broken_sessions(trace):
    """The turns before which another turn of the same session was interrupted."""
    ended, found = {}, set()
    for row in trace:
        if row["subject"] == "turn" and row["change"] != "DELETE":
            session = row["after"]["session"]
            if row["change"] == "INSERT" and ended.get(session) == "interrupted":
                found.add(row["after"]["id"])
            if row["after"]["state"] != "running":
                ended[session] = row["after"]["state"]
    return found


def allowed(facts, away):
    """The seconds in which what a gateway had has to go on: ten on a machine that has nothing else to do. Six of them are the time
    until it counts as dead; the rest is work, which takes longer while the machine is busy with something else."""
    paces = [pace for _, pace in facts["paces"]]
    then = [pace for at, pace in facts["paces"] if away["at"] <= at <= away["until"] + 1.0]
    slower = max(1.0, sum(then) / len(then) / min(paces)) if then else 1.0
    return SILENT_FOR + (TAKEN_OVER - SILENT_FOR) * slower


def goes_on(facts):
    """What a gateway had that was gone goes on at another one within ten seconds."""
    for away, found in takeovers(facts):
        most = allowed(facts, away)
        for name, seconds in found.items():
            if seconds is None and away["until"] - away["at"] < most:
                continue
            if seconds is None or seconds > most:
                yield f"{name} of gateway {away['epoch']} went on after {seconds} s, and had {most:.1f} s"


def asked_settings(facts):
    """The changes of settings that clients asked for, by their values, of which each is another one."""
    return {op["value"]: op for op in facts["ops"] if op["what"] == "setting" and "value" in op}


def setting_steps(facts):
    """The rows of the trace in which the shared configuration changed, each with the changes: the agent and its new limits."""
    for row in facts["trace"]:
        if row["subject"] == "gateway_group" and row["change"] == "UPDATE":
            before, after = (row[which]["limits"] or {} for which in ("before", "after"))
            yield row, [(agent, after.get(agent)) for agent in sorted({*before, *after}) if before.get(agent) != after.get(agent)]


def settings(facts):
    """The settings go from step to step, and each step is one change that somebody asked for. A change that was acknowledged is a
    step between question and answer, and one that was refused is none. So none is lost, taken back or mixed with others."""
    asked, made, known = asked_settings(facts), collections.Counter(), None
    for row, changes in setting_steps(facts):
        what = f"settings {row['after']['revision']}"
        if row["after"]["revision"] <= row["before"]["revision"] or known not in (None, row["before"]):
            yield f"{what} were made of {row['before']} and followed {known}"
        known = row["after"]
        if len(changes) > 1:
            yield f"{what} mix changes: {changes}"
        for agent, limits in changes:
            value = (limits or {}).get("usd")
            op = asked.get(value)
            if op is None or op["agent"] != agent or limits != {"tokens": value * TOKENS, "usd": value}:
                yield f"{what} give {agent} {limits}, which nobody asked for"
                continue
            made[value] += 1
            if op["outcome"] == "refused":
                yield f"{what} have {op['word']}, which was refused"
            if row["up"] < op["sent"] - TICK or (op["accepted"] and row["up"] > op["ended"] + TICK):
                yield f"{what} have {op['word']} at {row['up']}, asked at {op['sent']} and answered at {op['ended']}"
    if known not in (None, facts["settings"]):
        yield f"the settings are {facts['settings']} in the end, and the last ones that were made were {known}"
    for value, op in asked.items():
        if made[value] > 1 or (op["accepted"] and not made[value]):
            yield f"{op['word']} of {op['agent']} was made {made[value]} times, and its client was told {op['outcome']}"


def in_force(facts):
    """Once nothing fails any more, each gateway soon uses the settings that the database has."""
    steps = [(row["up"], row["after"]["limits"] or {}) for row, _ in setting_steps(facts)]

    def fits(line):
        before = [limits for at, limits in steps if at <= line["at"]]
        return line["limits"] == (before[-1] if before else facts["settings"]["limits"] or {})

    for gateway in sorted(one["number"] for one in facts["gateways"].values()):
        seen = [line for line in facts["seen"] if line["gateway"] == gateway]
        since = next((line["at"] for at, line in enumerate(seen) if all(map(fits, seen[at:]))), None)
        healed = facts["healed"][-1]
        if since is None or since > healed + IN_FORCE:
            last = seen[-1]["limits"] if seen else None
            yield f"gateway {gateway} has had the settings since {since}, all was well at {healed}, and it used {last} last"


def recorded(facts):
    """A change of settings that was made is in the audit once, and no other one is."""
    rows = collections.Counter()
    for row in facts["audit"]:
        value = re.search(r'"usd":\s*(\d+)', row["detail"] or "") if row["action"] == "config.set" else None
        if value:
            rows[row["subject"], int(value[1])] += 1
    made = {(limits or {}).get("usd") for _, changes in setting_steps(facts) for _, limits in changes}
    for value, op in asked_settings(facts).items():
        count = rows.pop((op["path"], value), 0)
        if count != (value in made):
            yield f"{op['word']} of {op['agent']}, which was {'' if value in made else 'not '}made, is in the audit {count} times"
    for subject, value in rows:
        yield f"the audit has {value} of {subject}, which nobody asked for"


def under_way(facts):
    """The commands that ran when the way to their engine broke, with that time, and while nothing else failed."""
    ran = {word: float(at) for marks in facts["marks"].values() for word, at, _ in marks if at}
    for broken in facts["broken"]:
        since = max((until for _, until in facts["faults"] if until < broken), default=0.0)
        until = min((begun for begun, _ in facts["faults"] if begun > broken), default=float("inf"))
        for op in facts["ops"]:
            if (op["what"] == "command" and since <= op["sent"] and op["ended"] <= until
                    and ran.get(op["word"], float("inf")) < broken < op["ended"]):
                yield broken, op


def resumed(facts):
    """A command is acknowledged although the way to its engine broke meanwhile: the stream is resumed."""
    for broken, op in under_way(facts):
        if not op["accepted"]:
            yield f"{op['word']} of {op['agent']} ran when its way broke at {broken}, and its client was told {op['outcome']}"


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
        if row["action"] == "audit.cut":
            yield f"row {row['id']} of the audit says that rows before it are missing"
        at, previous = row["id"], row["hash"]


RULES = {
    "acknowledged posts are there once": kept_posts,
    "nothing is posted twice": posts_once,
    "messages have their numbers": numbers,
    "commands run once": commands,
    "tasks are there once and end": tasks,
    "lines are in a vault once": lines,
    "requests are there once": requests,
    "decisions count and run once": decisions,
    "members are those that were said": crews,
    "each message is shown once": shown,
    "answers come once": answers,
    "one owner at any time": owners,
    "only owners act": acts,
    "watchers are told once": news,
    "a turn is run by one gateway": one_runner,
    "the work of a gateway that is gone goes on": goes_on,
    "settings change as was said": settings,
    "settings are in force at every gateway": in_force,
    "changes of settings are in the audit once": recorded,
    "commands outlive the way to their engine": resumed,
    "the audit is a chain": audit,
}


def judge(facts):
    """The faults by the rules that found them; a rule without any is there with an empty list."""
    return {name: list(rule(facts)) for name, rule in RULES.items()}
