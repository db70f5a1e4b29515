"""Drives Discord's stand-in by its control, and bots that are made with real libraries."""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

from checking import until

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = "DiscordBot (https://flock.example, 1.0)"
# A machine that compiles beside this is slow, and no slower than that.
PATIENCE = 60
STARTED = []


def begin(command, **more):
    """Starts a process that ends with this one."""
    STARTED.append(subprocess.Popen(command, **more))
    return STARTED[-1]


@atexit.register
def end_all():
    for process in STARTED:
        process.kill()
        process.wait()


# A terminated process runs no exit functions of its own accord.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


class StandIn:
    """A running stand-in."""

    def __init__(self, folder, *more):
        self.folder = folder
        self.more = more
        self.port = None
        self.start()

    def start(self):
        written = os.path.join(self.folder, "port")
        if os.path.exists(written):
            os.remove(written)
        again = ["--port", str(self.port)] if self.port else []
        self.process = begin([sys.executable, os.path.join(HERE, "discord_server.py"), self.folder, *again, *self.more])
        if not until(PATIENCE, lambda: os.path.exists(written) or self.process.poll() is not None) or self.process.poll() is not None:
            raise SystemExit("the stand-in does not start")
        self.port = int(open(written).read())
        self.url = f"http://127.0.0.1:{self.port}"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)

    def ask(self, method, path, body=None, headers=None):
        """A request: status, headers, and the body, parsed where it is JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "User-Agent": AGENT, **(headers or {})}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, response.headers, parsed(response.read())
        except urllib.error.HTTPError as error:
            return error.code, error.headers, parsed(error.read())

    def control(self, what, **body):
        return self.told("POST", f"/_control/{what}", body)

    def look(self, what, **query):
        words = "&".join(f"{key}={value}" for key, value in query.items())
        return self.told("GET", f"/_control/{what}?{words}", None)

    def told(self, method, path, body):
        status, _, answer = self.ask(method, path, body)
        if status != 200:
            raise RuntimeError(f"{path} {body}: {answer}")
        return answer

    def say(self, account, text=None, **more):
        return self.control("say", account=account, **({} if text is None else {"text": text}), **more)

    def requests(self, route, since):
        """The requests of a route since a time, the oldest first."""
        method, _, path = route.partition(" ")
        return [one for one in self.look("requests") if (one["method"], one["path"]) == (method, f"/api/v10{path}") and one["at"] >= since]

    def texts(self, channel):
        return [one["text"] for one in self.look("messages", channel=channel) if not one["deleted"]]

    def find(self, channel, id):
        return next((one for one in self.look("messages", channel=channel) if one["id"] == id), None)


def parsed(data):
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


class Bot:
    """A bot in a process of its own, made with one of the libraries."""

    def __init__(self, library, url, token, intents, zlib=False):
        program = {
            "discord.py": [sys.executable, os.path.join(HERE, "discord_python.py")],
            # A module's imports are looked for beside it.
            "discord.js": ["node", os.path.join(os.environ.get("DISCORD_NODE", ""), "discord_javascript.mjs")],
        }[library]
        env = {**os.environ, "DISCORD_TOKEN": token, **({"DISCORD_ZLIB": "1"} if zlib else {})}
        log = open(os.path.join(os.environ["FLOCK_HOME"], f"{library}.log"), "a")
        self.process = begin(
            [*program, url, *intents], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=env
        )
        self.lines = []
        self.arrived = threading.Condition()
        self.asked = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.arrived:
                self.lines.append(json.loads(line) if line.startswith("{") else {"event": "noise", "text": line})
                self.arrived.notify_all()

    def wait(self, condition, limit=PATIENCE):
        with self.arrived:
            self.arrived.wait_for(lambda: any(condition(one) for one in self.lines), limit)
            return next((one for one in self.lines if condition(one)), None)

    def event(self, kind, limit=PATIENCE, **wanted):
        """The first event of a kind with these values."""
        return self.wait(lambda one: one.get("event") == kind and all(one.get(key) == value for key, value in wanted.items()), limit)

    def events(self, kind):
        with self.arrived:
            return [one for one in self.lines if one.get("event") == kind]

    def begin(self, do, **given):
        self.asked += 1
        self.process.stdin.write(json.dumps({"id": self.asked, "do": do, **given}) + "\n")
        self.process.stdin.flush()
        return self.asked

    def result(self, number):
        line = self.wait(lambda one: one.get("done") == number)
        if line is None:
            raise RuntimeError(f"no answer from the bot; its last words: {self.lines[-3:]}")
        return line

    def do(self, do, **given):
        """The result of a command, or `{"error": …}`."""
        line = self.result(self.begin(do, **given))
        return {"error": line["error"]} if "error" in line else line["result"]

    def stop(self):
        self.process.kill()
        self.process.wait()
