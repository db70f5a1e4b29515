"""Clients of a fleet under faults. Each writes down what it asked and what it was told, and that is all the checker has of it."""

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request

# A channel that all agents read in silence, and one for each of them, who answers in it.
AGENTS = ["ada", "bob", "cyd", "dan", "eve", "fay"]
SILENT, ANSWERED = "all-hands", {f"desk-{agent}": agent for agent in AGENTS}
# A request that gets no answer is given up after this time, in seconds.
PATIENCE = 20
# A request that was not taken is asked again, at each gateway so often, after this pause in seconds.
ROUNDS, PAUSE = 6, 0.5


def up():
    """The seconds for which the machine runs: a clock that nobody sets, and that the database and sandboxes can read too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NotTaken(Exception):
    """A gateway did not take a request: it does not listen, or another one takes care of the agent. Nothing was done."""


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

    def run(self):
        kinds = {self.note: 8, self.ask: 4, self.linger: 2, self.command: 6, self.errand: 3}
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
        target = target or self.choose.choice(AGENTS if one in (self.command, self.errand) else sorted(ANSWERED))
        word = f"w{self.number}x{self.count}x{self.choose.getrandbits(32):08x}"
        begun, told, more = up(), "", {"agent": None, "channel": None}
        among = [gateway] if gateway else self.choose.sample(self.gateways, len(self.gateways))
        for attempt in range(1 if gateway else ROUNDS * len(among)):
            sent, asked = up(), among[attempt % len(among)]
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
                         **more)
        return outcome == "accepted"

    def call(self, gateway, path, body):
        if gateway.machine is not self.machine:
            # The sockets of this thread are on that machine from now on.
            gateway.machine.enter()
            self.machine = gateway.machine
        address = f"http://127.0.0.1:{gateway.port}{path}"
        request = urllib.request.Request(address, json.dumps(body).encode(), method="POST", headers={
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

    def command(self, gateway, word, agent):
        messages = [{"role": "user", "content": f"command {word}"}]
        status, answer = self.call(gateway, "/v1/chat/completions", {"model": agent, "messages": messages})
        text = json.loads(answer)["choices"][0]["message"]["content"] if status == 200 else ""
        # Only the command's own output says that it ran: the script would also pass on that it failed.
        outcome = "accepted" if f"marked:command {word}" in text else f"status {status}"
        return (text or answer)[:200], outcome, {"agent": agent}

    def errand(self, gateway, word, agent):
        params = {"message": {"messageId": word, "role": "ROLE_USER", "parts": [{"text": f"errand {word}"}]},
                  "configuration": {"returnImmediately": self.choose.random() < 0.5}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        status, answer = self.call(gateway, f"/flock/a2a/{agent}", body)
        task = json.loads(answer).get("result", {}).get("task") if status == 200 else None
        if task:
            return task["id"], "accepted", {"agent": agent, "state": task["status"]["state"]}
        return answer[:200], f"status {status}", {"agent": agent}


# A proxy of the environment is not for these machines.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
