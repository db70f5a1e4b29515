"""Clients of a fleet under faults. Each writes down what it asked and what it was told, and that is all the checker has of it.
Others watch, and write down which events they were told of."""

import http.client
import json
import random
import re
import threading
import time
import urllib.error
import urllib.request

from fleet_checker import EVENTS, RESET, TOKENS

# A channel that all agents read in silence, and one for each of them, who answers in it.
AGENTS = ["ada", "bob", "cyd", "dan", "eve", "fay"]
SILENT, ANSWERED = "all-hands", {f"desk-{agent}": agent for agent in AGENTS}
# A vault, and the file in it to which all agents add lines.
VAULT, LINES = "notes", "lines.md"
# A request that gets no answer is given up after this time, in seconds.
PATIENCE = 20
# The setting that clients change for an agent: two limits that it never reaches, and that always change together.
SETTING = "plugins.entries.flock.config.budgets.agent.{agent}"
# A request that was not taken is asked again, at each gateway so often, after this pause in seconds.
ROUNDS, PAUSE = 6, 0.5


def up():
    """The seconds for which the machine runs: a clock that nobody sets, and that the database and sandboxes can read too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def crew(number):
    """The channel whose members only this client changes."""
    return f"crew{number}"


class NotTaken(Exception):
    """A gateway did not take a request: it does not listen, or reaches none that takes care of the agent. Nothing was done."""


class History:
    """What clients did and what was done to the fleet, in a file of one line each."""

    def __init__(self, path):
        self.file, self.lock, self.count = open(path, "a"), threading.Lock(), 0

    def add(self, **what):
        with self.lock:
            self.count += 1
            self.file.write(json.dumps(what) + "\n")
            self.file.flush()


class Client(threading.Thread):
    """Somebody who uses the fleet until the end, by whichever gateway takes a request."""

    def __init__(self, number, gateways, history, seed):
        super().__init__(daemon=True)
        self.number, self.gateways, self.history = number, gateways, history
        self.choose = random.Random(f"{seed} {number}")
        self.ended, self.machine, self.count = threading.Event(), None, 0
        # What the request in hand would change, for the case that it gets no answer; and who has joined this client's channel.
        self.tried, self.guests = {}, []
        # The share of its commands that take a moment.
        self.slow = 0.15

    def run(self):
        kinds = {self.note: 8, self.ask: 4, self.linger: 2, self.command: 6, self.errand: 3, self.line: 3, self.member: 2,
                 self.request: 2, self.decide: 2, self.setting: 1}
        while not self.ended.is_set():
            one = self.choose.choices(list(kinds), list(kinds.values()))[0]
            is_accepted = self.once(one)
            self.ended.wait(self.choose.uniform(0.02, 0.15) if is_accepted else 0.3)

    def apart(self, work):
        """Does a piece of work in a thread of its own, because a client is on a gateway's machine from its first request on; what
        the work returned."""
        self.machine, told = None, []
        thread = threading.Thread(target=lambda: told.append(work()))
        thread.start()
        thread.join()
        return told[0] if told else None

    def once(self, one, target=None, gateway=None):
        """Asks for one thing and writes down what was told; whether it was accepted. `target` is the agent or the channel, and
        is chosen if there is none. Without a gateway, any of them will do."""
        self.count += 1
        target = target or self.choose.choice(sorted(ANSWERED) if one in (self.ask, self.linger) else AGENTS)
        word = f"w{self.number}x{self.count}x{self.choose.getrandbits(32):08x}"
        begun, told, more = up(), "", {}
        among = [gateway] if gateway else self.choose.sample(self.gateways, len(self.gateways))
        for attempt in range(1 if gateway else ROUNDS * len(among)):
            sent, asked = up(), among[attempt % len(among)]
            self.tried = {}
            try:
                told, outcome, more = one(asked, word, target)
            except NotTaken as error:
                outcome = str(error)
                if attempt % len(among) == len(among) - 1:
                    self.ended.wait(PAUSE)
                continue
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                # It may have been taken, so it is not asked again.
                outcome = f"{type(error).__name__}: {error}"[:200]
            break
        self.history.add(what=one.__name__, client=self.number, word=word, begun=begun, sent=sent, ended=up(),
                         gateway=asked.number, attempts=attempt + 1, accepted=outcome == "accepted", told=told, outcome=outcome,
                         **{"agent": None, "channel": None, **self.tried, **more})
        return outcome == "accepted"

    def call(self, gateway, path, body=None, method=None):
        """A request, by POST if there is a body and no method: the status and the answer."""
        if gateway.machine is not self.machine:
            # The sockets of this thread are on that machine from now on.
            gateway.machine.enter()
            self.machine = gateway.machine
        address = f"http://127.0.0.1:{gateway.port}{path}"
        request = urllib.request.Request(address, None if body is None else json.dumps(body).encode(), method=method, headers={
            "Content-Type": "application/json", "Authorization": f"Bearer {gateway.token}"})
        try:
            with OPENER.open(request, timeout=PATIENCE) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            answer = error.read().decode(errors="replace")
            if error.code == 503 and "on_another_gateway" in answer:
                raise NotTaken("on another gateway") from None
            return error.code, answer
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                raise NotTaken("refused") from None
            raise

    def post(self, gateway, channel, text):
        body = {"content": text, "as": f"person{self.number}"}
        status, answer = self.call(gateway, f"/api/channels/{channel}/messages", body)
        if 200 <= status < 300:
            return json.loads(answer)["seq"], "accepted", {"channel": channel}
        return answer[:200], f"status {status}", {"channel": channel}

    def note(self, gateway, word, _):
        return self.post(gateway, SILENT, f"note {word}")

    def ask(self, gateway, word, channel):
        return self.post(gateway, channel, f"ask {word}")

    def linger(self, gateway, word, channel):
        """A question whose answer takes a while, so that something is under way at most times."""
        return self.post(gateway, channel, f"linger {word}")

    def chat(self, gateway, text, agent, sign):
        """Has an agent use a tool. Only a sign of the tool's own says that it did: the script would also pass on that it failed."""
        body = {"model": agent, "messages": [{"role": "user", "content": text}]}
        status, answer = self.call(gateway, "/v1/chat/completions", body)
        answered = json.loads(answer) if status == 200 else {}
        said = answered["choices"][0]["message"]["content"] or "" if answered else ""
        outcome = "accepted" if re.search(sign, said) else f"status {status}"
        return (said or answer)[:200], outcome, {"agent": agent, "turn": answered.get("id", "").removeprefix("chatcmpl-")}

    def command(self, gateway, word, agent):
        text = f"slow-command {word}" if self.choose.random() < self.slow else f"command {word}"
        return self.chat(gateway, text, agent, f"marked:{text}")

    def line(self, gateway, word, agent):
        """A line that an agent adds to a file of a vault."""
        return self.chat(gateway, f"line {word}", agent, "^added ")

    def request(self, gateway, word, agent):
        """A command on the host that an agent asks for. Its answer has the number under which people decide about it."""
        told, outcome, more = self.chat(gateway, f"host {word}", agent, "^r-[0-9a-z]+: not done")
        return told.partition(":")[0] if outcome == "accepted" else told, outcome, more

    def decide(self, gateway, _, __):
        """A decision about something that waits, whoever was told of it."""
        status, answer = self.call(gateway, "/api/approvals")
        waiting = [row for row in json.loads(answer)["requests"] if row["state"] == "waiting"] if status == 200 else []
        if not waiting:
            return "", f"nothing waits: status {status}", {}
        row, how = self.choose.choice(waiting), self.choose.choice(["approve", "approve", "deny"])
        self.tried = {"request": row["id"], "how": how}
        body = {"by": f"person{self.number}", **({"sha256": row["sha256"]} if how == "approve" else {})}
        status, _ = self.call(gateway, f"/api/approvals/{row['id']}/{how}", body)
        return "", "accepted" if status == 200 else f"status {status}", {}

    def member(self, gateway, word, agent):
        """Somebody joins or leaves a channel: an agent, or a person who comes and goes only once."""
        how, name = self.choose.choice(["add", "remove"]), agent
        if self.choose.random() < 0.5:
            how, name = ("remove", self.guests.pop()) if how == "remove" and self.guests else ("add", f"human:{word}")
        self.tried = {"channel": crew(self.number), "member": name, "how": how}
        body = {how: [name], "as": f"person{self.number}"}
        status, answer = self.call(gateway, f"/api/channels/{crew(self.number)}/members", body)
        if status != 200:
            return answer[:200], f"status {status}", {}
        if (how, name) == ("add", f"human:{word}"):
            self.guests.append(name)
        return "", "accepted", {}

    def setting(self, gateway, _, agent):
        """The limits of an agent, which all people change. Nobody else ever sets the same ones."""
        value = (self.number + 1) * 10**6 + self.count
        self.tried = {"agent": agent, "path": SETTING.format(agent=agent), "value": value}
        body = {"path": self.tried["path"], "value": {"tokens": value * TOKENS, "usd": value}, "by": f"person{self.number}"}
        status, answer = self.call(gateway, "/api/config/value", body, "PUT")
        # Another gateway has changed something at the same moment: nothing is changed here.
        return answer[:200], {200: "accepted", 409: "refused"}.get(status, f"status {status}"), {}

    def settings(self, gateway):
        """The limits of agents that are in force at a gateway, as they were asked for. `None` if it does not say."""
        try:
            status, answer = self.call(gateway, "/api/usage/budgets")
        except (OSError, ValueError, NotTaken, http.client.HTTPException):
            return None
        if status != 200:
            return None
        return {row["name"]: {"tokens": row["tokens"]["limit"], "usd": row["costMicros"]["limit"] // 10**6}
                for row in json.loads(answer)["budgets"] if row["scope"] == "agent" and row["tokens"] and row["costMicros"]}

    def errand(self, gateway, word, agent):
        params = {"message": {"messageId": word, "role": "ROLE_USER", "parts": [{"text": f"errand {word}"}]},
                  "configuration": {"returnImmediately": self.choose.random() < 0.5}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        status, answer = self.call(gateway, f"/flock/a2a/{agent}", body)
        task = json.loads(answer).get("result", {}).get("task") if status == 200 else None
        if task:
            return task["id"], "accepted", {"agent": agent, "state": task["status"]["state"]}
        return answer[:200], f"status {status}", {"agent": agent}


class Watcher(threading.Thread):
    """Somebody who follows at one gateway what happens at all of them, and after each break goes on where it was."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.place, self.told = gateway, None, []
        self.listens, self.ended = threading.Event(), threading.Event()

    def run(self):
        self.gateway.machine.enter()
        while not self.ended.is_set():
            try:
                self.follow()
            except (OSError, ValueError, http.client.HTTPException):
                pass
            self.ended.wait(0.1)

    def follow(self):
        """Reads a stream to its end. It is never silent for as long as a client waits."""
        types = ",".join(name for names in EVENTS.values() for name in names)
        headers = {"Authorization": f"Bearer {self.gateway.token}", **({"Last-Event-ID": self.place} if self.place else {})}
        address = f"http://127.0.0.1:{self.gateway.port}/api/events?types={types}"
        with OPENER.open(urllib.request.Request(address, headers=headers), timeout=PATIENCE) as stream:
            if not self.place:
                # Without a place, nobody can say what it missed.
                self.note(RESET)
            self.listens.set()
            event = {}
            for line in stream:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name or value:
                    event[name] = value
                    continue
                self.take(event.get("event"), json.loads(event.get("data", "{}")))
                self.place, event = event.get("id", self.place), {}

    def take(self, name, data):
        if name in EVENTS["message"]:
            self.note(name, f"{data['channel']} {data['seq']}")
        elif name in EVENTS["turn"]:
            self.note(name, data["turn"])
        elif name == RESET:
            self.note(name)

    def note(self, name, of=""):
        self.told.append((up(), name, of))


# A proxy of the environment is not for these machines.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
