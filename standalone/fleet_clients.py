"""Clients of a fleet under faults. Each writes down what it asked and what it was told, and that is all the checker has of it."""

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request

# A channel that all agents read in silence, and one for each of two agents, who answer in it.
SILENT, ANSWERED = "all-hands", {"desk-ada": "ada", "desk-bob": "bob"}
AGENTS = ["ada", "bob", "cyd", "dan"]
# A request that gets no answer is given up after this time, in seconds.
PATIENCE = 20


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
    """Somebody who uses the fleet until the end. `where` says which machine has a gateway now, with port and token."""

    def __init__(self, number, where, history, seed):
        super().__init__(daemon=True)
        self.number, self.where, self.history = number, where, history
        self.choose = random.Random(f"{seed} {number}")
        self.ended, self.machine, self.count = threading.Event(), None, 0

    def run(self):
        kinds = {self.note: 8, self.ask: 4, self.command: 6, self.errand: 3}
        while not self.ended.is_set():
            one = self.choose.choices(list(kinds), list(kinds.values()))[0]
            is_accepted = self.once(one)
            self.ended.wait(self.choose.uniform(0.02, 0.15) if is_accepted else 0.3)

    def once(self, one, *arguments):
        """Asks for one thing and writes down what was told; whether it was accepted."""
        self.count += 1
        word = f"w{self.number}x{self.count}x{self.choose.getrandbits(32):08x}"
        begun, told, more = time.time(), "", {"agent": None, "channel": None}
        try:
            told, outcome, more = one(word, *arguments)
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            outcome = f"{type(error).__name__}: {error}"[:200]
        self.history.add(what=one.__name__, client=self.number, word=word, begun=begun,
                         ended=time.time(), accepted=outcome == "accepted", told=told, outcome=outcome, **more)
        return outcome == "accepted"

    def call(self, path, body):
        machine, port, token = self.where()
        if machine is not self.machine:
            # The sockets of this thread are on that machine from now on.
            machine.enter()
            self.machine = machine
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), method="POST", headers={
            "Content-Type": "application/json", "Authorization": f"Bearer {token}"})
        try:
            with OPENER.open(request, timeout=PATIENCE) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    def post(self, channel, text):
        status, answer = self.call(f"/api/channels/{channel}/messages", {"content": text, "as": f"person{self.number}"})
        if 200 <= status < 300:
            return json.loads(answer)["seq"], "accepted", {"channel": channel}
        return answer[:200], f"status {status}", {"channel": channel}

    def note(self, word):
        return self.post(SILENT, f"note {word}")

    def ask(self, word):
        return self.post(self.choose.choice(sorted(ANSWERED)), f"ask {word}")

    def command(self, word, agent=None):
        agent = agent or self.choose.choice(AGENTS)
        messages = [{"role": "user", "content": f"command {word}"}]
        status, answer = self.call("/v1/chat/completions", {"model": agent, "messages": messages})
        text = json.loads(answer)["choices"][0]["message"]["content"] if status == 200 else ""
        # Only the command's own output says that it ran: the script would also pass on that it failed.
        outcome = "accepted" if f"marked:command {word}" in text else f"status {status}"
        return (text or answer)[:200], outcome, {"agent": agent}

    def errand(self, word):
        agent = self.choose.choice(AGENTS)
        params = {"message": {"messageId": word, "role": "ROLE_USER", "parts": [{"text": f"errand {word}"}]},
                  "configuration": {"returnImmediately": self.choose.random() < 0.5}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        status, answer = self.call(f"/flock/a2a/{agent}", body)
        task = json.loads(answer).get("result", {}).get("task") if status == 200 else None
        if task:
            return task["id"], "accepted", {"agent": agent, "state": task["status"]["state"]}
        return answer[:200], f"status {status}", {"agent": agent}


# A proxy of the environment is not for these machines.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
