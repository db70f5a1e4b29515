"""The facts of a campaign for its judge: the clients' history, what watchers were told, the rows of the database, the marks that
commands and tools left, and what models were shown. Nothing of the program is used to read them."""

import collections
import glob
import json
import re

from fleet_checker import WORD
from fleet_clients import AGENTS, ANSWERED, LINES, SILENT, VAULT

# A member that clients add and remove bears a word too, and is told of twice: when it joins and when it leaves.
POSTED = re.compile("(?<!human:)" + WORD.pattern)
# What of a configuration clients change, as a text of SQL that gets it from one.
LIMITS = "jsonb_extract_path(CAST({} AS JSONB), 'plugins', 'entries', 'flock', 'config', 'budgets', 'agent')"
# The trace has whole configurations.
ROW = "CASE WHEN subject = 'gateway_group' THEN jsonb_build_object('revision', {0}->'revision', 'limits', " \
      + LIMITS.format("{0}->>'config'") + ") ELSE {0} END AS {0}"
MEMBERS = {SILENT: AGENTS, **{channel: [agent] for channel, agent in ANSWERED.items()}}
QUERIES = {
    "messages": "SELECT channel, seq, author, content FROM flock.message WHERE channel IN ({channels}) ORDER BY channel, seq",
    "requests": "SELECT id, state, body FROM flock.request WHERE kind = 'command'",
    # Those that clients change. The first member of each is none of theirs.
    "crews": "SELECT channel, member FROM flock.member WHERE starts_with(channel COLLATE \"C\", 'crew') AND member <> 'human:host'",
    "tasks": "SELECT id, state, request FROM flock.task WHERE kind = 'a2a'",
    "trace": f"SELECT n, up, epoch, subject, change, {ROW.format('before')}, {ROW.format('after')} FROM fleet.trace ORDER BY n",
    "settings": f"SELECT revision, {LIMITS.format('config')} AS limits FROM flock.gateway_group",
    "audit": """SELECT id, at, actor, action, subject, level, detail, session, turn, encode(previous, 'hex') AS previous,
        encode(hash, 'hex') AS hash FROM flock.audit ORDER BY id""",
    "audit_base": "SELECT id, encode(hash, 'hex') AS hash FROM flock.audit_base",
}


def rows(server, query):
    """The rows of a query as dictionaries."""
    answer = server.ask(f"SELECT coalesce(json_agg(row_to_json(found)), '[]') FROM ({query}) AS found", limit=120)
    return json.loads(answer)


def gather(server, fleet, history, watchers):
    channels = ", ".join(f"'{channel}'" for channel in MEMBERS)
    facts = {name: rows(server, query.format(channels=channels)) for name, query in QUERIES.items()}
    facts["audit_base"] = [(row["id"], row["hash"]) for row in facts["audit_base"]][:1]
    facts["audit_base"] = facts["audit_base"][0] if facts["audit_base"] else None
    with open(history) as file:
        lines = [json.loads(line) for line in file]
    facts["ops"] = [line for line in lines if "word" in line]
    facts["settings"] = facts["settings"][0]
    facts["away"], facts["seen"] = ([line for line in lines if line["what"] == what] for what in ("away", "seen"))
    facts["broken"], facts["healed"] = ([line["at"] for line in lines if line["what"] == what] for what in ("broken", "healed"))
    facts["faults"] = spans(lines)
    facts["paces"] = [(line["at"], line["seconds"]) for line in lines if line["what"] == "pace"]
    facts["told"] = {watcher.gateway.number: list(watcher.told) for watcher in watchers}
    # All have the files of the first one.
    home = fleet.gateways[0].home
    facts["marks"] = {agent: marks(f"{fleet.workspace(agent)}/done.txt") for agent in AGENTS}
    facts["lines"], facts["ran"] = words(f"{home}/vaults/{VAULT}/{LINES}"), words(fleet.ran)
    facts["shown"] = {agent: shown(f"{home}/agents/{agent}/sessions") for agent in AGENTS}
    facts["members"], facts["answering"] = MEMBERS, {channel: [agent] for channel, agent in ANSWERED.items()}
    facts["gateways"] = {f"127.0.0.1:{gateway.port}": {"number": gateway.number, "sandboxes": gateway.suffix}
                         for gateway in fleet.gateways}
    return facts


def spans(lines):
    """The times of the faults: from the beginning of each until all served again, as far as that is known."""
    begun = [line["at"] for line in lines if line["what"] == "fault"]
    over = [line["at"] + (line["recovered"] or 0.0) for line in lines if line["what"] == "over"]
    return list(zip(begun, over))


def marks(path):
    """What commands wrote down: the word, how long the machine was running, and the home of the sandbox."""
    try:
        with open(path, errors="replace") as file:
            return [(word, *(line.split()[-2:] if len(line.split()) == 4 else ["", ""]))
                    for line in file for word in WORD.findall(line)]
    except FileNotFoundError:
        return []


def words(path):
    """The words in a file, each as often as it is there."""
    try:
        with open(path, errors="replace") as file:
            return WORD.findall(file.read())
    except FileNotFoundError:
        return []


def shown(folder):
    """How often each word of a channel was given to an agent, by its transcripts."""
    counts = collections.Counter()
    for path in glob.glob(f"{folder}/*.jsonl"):
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    # A line that was being written when its writer was killed.
                    continue
                if (record.get("provenance") or {}).get("kind") == "channel":
                    content = record["message"]["content"]
                    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
                    counts.update({word for text in texts for word in POSTED.findall(text)})
    return dict(counts)
