"""Kills flock's processes at random under load and compares what was acknowledged with what is there afterwards.

What counts as acknowledged is only what flock said itself: the number of a post, the answer of a chat, the end of a
command. What was not acknowledged may have been done or not, but not twice.
"""

import argparse
import collections
import glob
import json
import os
import random
import re
import threading
import time

from campaign_script import replies
from checking import (
    HOME,
    call,
    check,
    finish,
    flock,
    free_port,
    kill,
    must,
    own_port,
    own_processes,
    own_token,
    pid_of,
    rows,
    run,
    until,
)

CHANNELS = ["alpha", "beta"]
LIMIT = 60
# What everything that is asked for is found again by.
WORD = r"w\d+x\d+x[0-9a-f]{6}"


class Oracle:
    """What was tried and what was acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        self.posts = {}
        self.tried = collections.defaultdict(set)
        self.commands = {}
        self.settings = {}
        self.members = {}
        self.errands = {}
        self.lines = {}
        self.asked = {}
        self.decided = {}
        self.lost = collections.Counter()

    def note(self, what, key, value):
        with self.lock:
            getattr(self, what)[key] = value


class Load(threading.Thread):
    """Somebody who uses flock until the end."""

    def __init__(self, number, team, oracle, seed):
        super().__init__(daemon=True)
        self.number, self.team, self.oracle = number, team, oracle
        self.choose = random.Random(seed * 1000 + number)
        self.ended = threading.Event()
        self.count = 0

    def run(self):
        while not self.ended.is_set():
            self.count += 1
            word = f"w{self.number}x{self.count}x{self.choose.getrandbits(24):06x}"
            try:
                kinds = [self.post, self.command, self.setting, self.errand, self.line, self.member, self.request,
                         self.decide]
                self.choose.choices(kinds, [12, 6, 1, 4, 3, 2, 4, 6])[0](word)
            except Exception as error:  # a request that broke off in any way was not acknowledged
                self.oracle.lost[type(error).__name__] += 1
            time.sleep(self.choose.uniform(0.0, 0.05))

    def post(self, word):
        channel = self.choose.choice(CHANNELS)
        with self.oracle.lock:
            self.oracle.tried[channel].add(word)
        body = {"content": f"note {word}", "as": f"person{self.number}"}
        status, text = self.team.call("POST", f"/api/channels/{channel}/messages", body)
        if status in (200, 201):
            self.oracle.note("posts", word, (channel, json.loads(text)["seq"]))
        else:
            self.oracle.lost[f"post {status}"] += 1
            time.sleep(0.1)

    def chat(self, agent, text):
        messages = [{"role": "user", "content": text}]
        status, body = self.team.call("POST", "/v1/chat/completions", {"model": agent, "messages": messages})
        # The script says what its tool answered: only the tool's own end counts.
        return status, json.loads(body)["choices"][0]["message"]["content"] if status == 200 else ""

    def missed(self, what):
        self.oracle.lost[what] += 1
        time.sleep(0.1)

    def command(self, word):
        agent = self.choose.choice(self.team.agents)
        with self.oracle.lock:
            self.oracle.tried["commands"].add(word)
        status, answer = self.chat(agent, f"command {word}")
        if f"marked:command {word}" in answer:
            self.oracle.note("commands", word, agent)
        else:
            self.missed(f"command {status}")

    def errand(self, word):
        """A task over A2A, waited for or not."""
        agent = self.choose.choice(self.team.agents)
        params = {"message": {"messageId": word, "role": "ROLE_USER", "parts": [{"text": f"errand {word}"}]},
                  "configuration": {"returnImmediately": self.choose.random() < 0.5}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        status, text = self.team.call("POST", f"/flock/a2a/{agent}", body)
        task = json.loads(text).get("result", {}).get("task") if status == 200 else None
        if task:
            self.oracle.note("errands", word, (task["id"], task["status"]["state"]))
        else:
            self.missed(f"errand {status}")

    def line(self, word):
        """A line that an agent adds to a file of a vault."""
        status, answer = self.chat(self.choose.choice(self.team.agents), f"line {word}")
        if answer.startswith("added "):
            self.oracle.note("lines", word, True)
        else:
            self.missed(f"line {status}")

    def request(self, word):
        """A command on the host that an agent asks for."""
        status, answer = self.chat(self.choose.choice(self.team.agents), f"host {word}")
        found = re.search(r"\br-[0-9a-z-]+", answer)
        if found:
            self.oracle.note("asked", found[0], word)
        else:
            self.missed(f"request {status}")

    def decide(self, _):
        """A person's decision about something that waits, whoever was told of it."""
        status, text = self.team.call("GET", "/api/approvals")
        waiting = [row for row in json.loads(text)["requests"] if row["state"] == "waiting"] if status == 200 else []
        if not waiting:
            return self.missed(f"nothing waits {status}")
        row = self.choose.choice(waiting)
        self.oracle.note("asked", row["id"], re.search(WORD, row["body"])[0])
        how = self.choose.choice(["approve", "approve", "deny"])
        body = {"by": f"person{self.number}"}
        if how == "approve":
            body["sha256"] = row["sha256"]
        with self.oracle.lock:
            self.oracle.tried[row["id"]].add(how)
        status, _ = self.team.call("POST", f"/api/approvals/{row['id']}/{how}", body)
        if status == 200:
            with self.oracle.lock:
                self.oracle.decided.setdefault(row["id"], set()).add(how)
        else:
            self.missed(f"{how} {status}")
        return None

    def member(self, _):
        """Somebody joins or leaves a channel that only this person changes."""
        how, name = self.choose.choice(["add", "remove"]), self.choose.choice([*self.team.agents, "human:guest"])
        channel = f"crew{self.number}"
        status, _ = self.team.call("POST", f"/api/channels/{channel}/members",
                                   {how: [name], "as": f"person{self.number}"})
        key = (channel, name)
        if status == 200:
            self.oracle.note("members", key, {how == "add"})
        else:
            # Whether it counts is not known; the next that is acknowledged decides.
            with self.oracle.lock:
                self.oracle.members[key] = self.oracle.members.get(key, {False}) | {how == "add"}
            self.missed(f"member {status}")

    def setting(self, word):
        name = f"kills{self.number}"
        code, _, _ = flock("config", "set", f"gateway.{name}", json.dumps(word), limit=LIMIT)
        if code == 0:
            self.oracle.note("settings", name, {word})
        else:
            # The old value or this one; the next that is acknowledged decides.
            with self.oracle.lock:
                self.oracle.settings[name] = self.oracle.settings.get(name, {None}) | {word}


class Team:
    """A home with agents that do what their script says."""

    def __init__(self, docker):
        self.docker = docker
        self.agents = ["ada", "bob", "cyd"]
        self.port = self.token = None
        self.ran = f"{os.path.dirname(HOME)}/ran.txt"

    def make(self, people):
        images = [] if self.docker else ["--no-images"]
        must("init", "init", "--yes", "--model", "script/demo", "--port", str(free_port()), *images, limit=900)
        os.makedirs(f"{HOME}/scripts", exist_ok=True)
        mark = "printf '%s\\n' '{{last_message}}' >> done.txt && printf 'marked:%s' '{{last_message}}'"
        script = {"replies": replies(mark, self.ran, "notes", "lines.md")}
        for agent in self.agents:
            with open(f"{HOME}/scripts/{agent}", "w") as file:
                json.dump(script, file)
            bare = [] if self.docker else ["--no-container"]
            must(f"add {agent}", "add", agent, "--model", f"script/{agent}", *bare, limit=300)
        for channel in CHANNELS:
            members = [word for agent in self.agents for word in ("--member", agent)]
            must(f"channel {channel}", "channel", "create", channel, "--topic", "kills", *members)
        for number in range(people):
            must(f"crew{number}", "channel", "create", f"crew{number}", "--topic", "members", "--member", "human:host")
        os.makedirs(f"{HOME}/vaults/notes", exist_ok=True)
        must("start", "start")
        self.port, self.token = own_port(), own_token()

    def call(self, method, path, body=None):
        return call(self.port, self.token, method, path, body, limit=LIMIT)

    def containers(self):
        found = run("docker", "ps", "-q", "--filter", f"label=flock.home={HOME}", "--filter", "label=flock.agent")
        return found[1].split()

    def up(self):
        """Brings everything up again: a supervisor that was killed, a gateway that crashed too often."""
        for _ in range(20):
            if flock("start", limit=120)[0] == 0:
                return True
        return False


def strike(team, kind, choose):
    """Kills one thing; whether there was one."""
    if kind in ("gateway", "supervisor"):
        pid = pid_of(kind)
        return pid is not None and kill(pid)
    containers = team.containers()
    if not containers:
        return False
    container = choose.choice(containers)
    if kind == "sandbox":
        return run("docker", "kill", container)[0] == 0
    # The helper is the sandbox's first process; a command of the agent may be one of its children.
    code, out, _ = run("docker", "inspect", "--format", "{{.State.Pid}}", container)
    return code == 0 and int(out or 0) > 1 and kill(int(out))


def campaign(team, oracle, options):
    choose = random.Random(options.seed)
    people = [Load(number, team, oracle, options.seed) for number in range(options.people)]
    for person in people:
        person.start()
    kinds = ["gateway", "supervisor"] + (["sandbox", "helper"] if team.docker else [])
    done, end = collections.Counter(), time.monotonic() + options.seconds
    while sum(done.values()) < options.kills and time.monotonic() < end:
        time.sleep(choose.uniform(0.05, 0.8))
        # Each kind once before any comes again, so that a short run has all of them.
        kind = choose.choice([kind for kind in kinds if not done[kind]] or kinds)
        if strike(team, kind, choose):
            done[kind] += 1
        # Now and then a second blow falls while everything still comes back: also on the supervisor that starts a gateway.
        second = choose.choice(kinds) if choose.random() < 0.35 else None
        if options.double:
            second = choose.choice([other for other in kinds if other != kind])
        if second:
            time.sleep(choose.choice([0, 0.01, 0.05, 0.3]) * choose.random())
            done[second] += strike(team, second, choose)
        if {kind, second} & {"gateway", "supervisor"}:
            team.up()
    for person in people:
        person.ended.set()
    for person in people:
        person.join(LIMIT * 3)
    check("everybody who used it came to an end", not any(person.is_alive() for person in people))
    print(f"kills: {dict(done)}; requests that were not acknowledged: {dict(oracle.lost)}")
    check("something of each kind was killed", all(done[kind] for kind in kinds), done)
    return sum(person.count for person in people)


UNSETTLED = {
    "turns": "SELECT id, session FROM turn WHERE state = 'running'",
    "deliveries": "SELECT agent, channel, delivered_seq, inflight_seq FROM delivery WHERE inflight_turn IS NOT NULL",
    "items": "SELECT id, session, kind FROM inbox",
    "unseen": """SELECT member, channel.id, coalesce(delivered_seq, 0), last_seq FROM channel
        JOIN member ON member.channel = channel.id AND member.member NOT LIKE 'human:%'
        LEFT JOIN delivery ON delivery.channel = channel.id AND agent = member.member
        WHERE coalesce(delivered_seq, 0) < (SELECT max(seq) FROM message WHERE message.channel = channel.id
            AND wake > 0 AND author <> member.member)""",
    "usage": "SELECT id, turn FROM usage WHERE state = 'reserved'",
    "tasks": "SELECT id, state FROM task WHERE state IN ('submitted', 'working')",
    "requests": "SELECT id, state FROM request WHERE state IN ('triage', 'approved', 'running')",
}


def settled(oracle):
    left = {}

    def nothing_is_left():
        left.clear()
        left.update((name, found) for name, query in UNSETTLED.items() if (found := rows(query)))
        return not left

    ok = until(120, nothing_is_left)
    for name in UNSETTLED:
        check(f"after the kills no {name} are left open", name not in left, left.get(name))
    return ok


def shown(agent):
    """What an agent was given of each channel, by its transcripts: numbers of messages, as often as they were given."""
    given = collections.defaultdict(collections.Counter)
    texts = collections.Counter()
    for path in glob.glob(f"{HOME}/agents/{agent}/sessions/*.jsonl"):
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    check(f"{path} has whole lines only", False, line[:200])
                    continue
                source = record.get("provenance") or {}
                if source.get("kind") == "channel":
                    given[source["channel"]].update(range(source["from"], source["to"] + 1))
                    texts.update(word for part in record["message"]["content"]
                                 for word in part.get("text", "").split() if word.startswith("w") and "x" in word)
    return given, texts


def compare(team, oracle):
    stored = {}
    for channel in CHANNELS:
        found = rows(f"SELECT seq, author, content FROM message WHERE channel = '{channel}' ORDER BY seq")
        check(f"{channel} has every number once", [row[0] for row in found] == list(range(1, len(found) + 1)))
        words = collections.Counter(text.split()[-1] for _, author, text in found if author.startswith("human:"))
        check(f"nothing was posted twice in {channel}", not [word for word, n in words.items() if n > 1])
        stored[channel] = {row[0]: row for row in found}
    wrong = [(word, place) for word, place in oracle.posts.items()
             if not stored[place[0]].get(place[1], (0, "", ""))[2].endswith(word)]
    check(f"each of {len(oracle.posts)} acknowledged posts is where it was said to be", not wrong, wrong)

    for agent in team.agents:
        given, texts = shown(agent)
        for channel in CHANNELS:
            people = [seq for seq, row in stored[channel].items() if row[1].startswith("human:")]
            never = [seq for seq in people if not given[channel][seq]]
            check(f"{agent} was shown each of {len(people)} messages of {channel}", not never, never)
            twice = [seq for seq, n in given[channel].items() if n > 1]
            check(f"{agent} was shown no message of {channel} twice", not twice, twice)
        words = {row[2].split()[-1] for channel in CHANNELS for row in stored[channel].values()
                 if row[1].startswith("human:")}
        unread = [word for word in words if texts[word] != 1]
        check(f"{agent} was given the text of each message once", not unread, [(w, texts[w]) for w in unread][:50])

    done = collections.Counter()
    for agent in team.agents:
        try:
            with open(f"{HOME}/workspaces/{agent}/done.txt") as file:
                done.update(line.split()[-1] for line in file if line.strip())
        except FileNotFoundError:
            pass
    missing = [word for word in oracle.commands if done[word] != 1]
    check(f"each of {len(oracle.commands)} acknowledged commands was done once", not missing,
          [(word, oracle.commands[word], done[word]) for word in missing])
    twice = [word for word, n in done.items() if n > 1]
    check("no command was done twice", not twice, twice)
    strange = set(done) - oracle.tried["commands"]
    check("no command was done that nobody asked for", not strange, strange)

    compare_errands(oracle)
    compare_lines(oracle)
    compare_requests(team, oracle)
    present = set(rows("SELECT channel, member FROM member"))
    wrong = [(key, key in present, might) for key, might in oracle.members.items() if (key in present) not in might]
    check(f"each of {len(oracle.members)} memberships is as it was acknowledged last", not wrong, wrong)

    with open(f"{HOME}/config.json") as file:
        gateway = json.load(file)["gateway"]
    wrong = [(name, gateway.get(name), words) for name, words in oracle.settings.items()
             if gateway.get(name) not in words]
    check("the configuration has what was acknowledged last", not wrong, wrong)


def compare_errands(oracle):
    stored = {row[0]: row for row in rows("SELECT id, state, request FROM task WHERE kind = 'a2a'")}
    states = {"TASK_STATE_COMPLETED": "completed", "TASK_STATE_FAILED": "failed"}
    wrong = []
    for word, (task, state) in oracle.errands.items():
        _, now, text = stored.get(task, ("", "absent", ""))
        is_final = now in ("completed", "failed", "canceled", "rejected")
        if not text.endswith(word) or not is_final or states.get(state, now) != now:
            wrong.append((word, task, state, now))
    check(f"each of {len(oracle.errands)} acknowledged A2A tasks is there and ended as was said", not wrong, wrong)
    asked = collections.Counter(row[2].split()[-1] for row in stored.values())
    twice = [word for word, n in asked.items() if n > 1]
    check("no A2A message made two tasks", not twice, twice)


def compare_lines(oracle):
    try:
        with open(f"{HOME}/vaults/notes/lines.md") as file:
            found = collections.Counter(line.split()[-1] for line in file if line.strip())
    except FileNotFoundError:
        found = collections.Counter()
    wrong = [(word, found[word]) for word in oracle.lines if found[word] != 1]
    check(f"each of {len(oracle.lines)} acknowledged lines is in the vault once", not wrong, wrong)
    twice = [word for word, n in found.items() if n > 1]
    check("no line is in the vault twice", not twice, twice)


def compare_requests(team, oracle):
    stored = {row[0]: row[1:] for row in rows("SELECT id, state, result FROM request")}
    try:
        with open(team.ran) as file:
            ran = collections.Counter(line.split()[-1] for line in file if line.strip())
    except FileNotFoundError:
        ran = collections.Counter()
    strange = [line for line in ran if not re.fullmatch(WORD, line)]
    check("no command ran on the host that nobody asked for", not strange, strange)
    absent = [request for request in oracle.asked if request not in stored]
    check(f"each of {len(oracle.asked)} requests that were told is there", not absent, absent)
    twice = [word for word, n in ran.items() if n > 1]
    check("no command of a request ran twice on the host", not twice, twice)
    wrong = []
    for request, word in oracle.asked.items():
        state, result = stored.get(request, ("absent", ""))
        how = oracle.decided.get(request, set())
        # Somebody else may deny what was approved and has not begun.
        may_be = {"denied"} if "deny" in how else {"done", "failed"}
        if "deny" in oracle.tried[request]:
            may_be.add("denied")
        fits = not how or state in may_be
        # A command that was stopped or interrupted may have run before that.
        if not fits or ran[word] not in {"done": [1], "failed": [0, 1]}.get(state, [0]):
            wrong.append((request, word, sorted(how), state, result, ran[word]))
    check(f"each of {len(oracle.decided)} acknowledged decisions counts, and what is done ran once", not wrong, wrong)


def leftovers():
    must("the audit is whole", "audit", "--verify")
    code, out, err = flock("doctor")
    check("doctor finds no operation that is not finished", "is not finished" not in out + err, out)
    must("stop", "stop")
    left = own_processes()
    check("no process of the home is left", not left, left)
    # A draft that is younger than a minute may be a writer's that can't be seen from here.
    old = [path for path in glob.glob(f"{HOME}/**/.new-*", recursive=True) if time.time() - os.path.getmtime(path) > 200]
    check("no old draft is left", not old, old)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--seconds", type=int, default=None, help="the longest that kills go on")
    parser.add_argument("--people", type=int, default=6)
    parser.add_argument("--double", action="store_true", help="each kill is followed by one of another kind")
    parser.add_argument("--docker", action="store_true")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 75 if options.kills <= 40 else options.kills * 6
    double = " --double" if options.double else ""
    print(f"seed {options.seed}: the same again with --seed {options.seed} --kills {options.kills}{double}")
    team, oracle = Team(options.docker), Oracle()
    team.make(options.people)
    begun = time.monotonic()
    count = campaign(team, oracle, options)
    check("everything is up again", team.up())
    settled(oracle)
    print(f"{count} requests in {time.monotonic() - begun:.0f} s")
    compare(team, oracle)
    leftovers()
    finish()


main()
