"""The stand-in as the checks use it: started, asked as a bot, asked through its control API."""

import os
import signal
import subprocess
import sys
import urllib.parse

from checking import call, parsed, until

LIMIT = 60


class Standin:
    def __init__(self, folder):
        self.folder, self.port = folder, 0
        self.start()

    def start(self):
        """Starts the server, the first time at a free port, later at the same one."""
        path = f"{self.folder}/port"
        if os.path.exists(path):
            os.remove(path)
        server = os.path.join(os.path.dirname(os.path.abspath(__file__)), "telegram_server.py")
        self.process = subprocess.Popen([sys.executable, server, self.folder, "--state", f"{self.folder}/state",
                                         "--port", str(self.port)])
        if not until(LIMIT, lambda: os.path.exists(path) or self.process.poll() is not None) or self.process.poll() is not None:
            raise SystemExit("the stand-in does not start")
        self.port = int(open(path).read())

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT)

    def post(self, name, /, **given):
        status, body = call(self.port, None, "POST", f"/_control/{name}", given)
        if status != 200:
            raise SystemExit(f"/_control/{name} {given}: {status} {body}")
        return parsed(body)

    def get(self, name, /, **given):
        return parsed(call(self.port, None, "GET", f"/_control/{name}?{urllib.parse.urlencode(given)}")[1])

    def bot(self, token, method, /, **given):
        """A request of a bot's, with JSON; the answer's body."""
        return parsed(call(self.port, None, "POST", f"/bot{token}/{method}", given)[1])

    def say(self, account, channel, text, **more):
        return self.post("say", account=account, channel=channel, text=text, **more)

    def messages(self, channel, **more):
        return self.get("messages", channel=channel, **more)["messages"]

    def message(self, channel, identifier, **more):
        return next(one for one in self.messages(channel, **more) if one["id"] == identifier)

    def heard(self, channel, author, text, inside=False, identifier=None, file=None):
        """Waits for a message of this author with this text, or with a file of this name."""
        def found():
            for one in self.messages(channel):
                named = one["file"] and one["file"]["name"]
                fits = named == file if file else one["text"] == text or inside and text.lower() in one["text"].lower()
                if one["author"]["username"] == author and fits and identifier in (None, one["id"]):
                    return one
            return None
        return until(LIMIT, found)
