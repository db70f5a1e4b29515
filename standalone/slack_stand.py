"""The running stand-in for Slack, and the requests of a test to it."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

from checking import until

# For what happens at once on an idle machine. Others may be building on it.
SOON = 60


class Stand:
    def __init__(self, folder, keeps_state=False):
        self.folder, self.process, self.port = folder, None, 0
        self.state = ["--state", f"{folder}/state.db"] if keeps_state else []
        os.makedirs(folder, exist_ok=True)

    def start(self):
        """Starts it, after the first time at the same port."""
        if os.path.exists(f"{self.folder}/port"):
            os.remove(f"{self.folder}/port")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slack_server.py")
        with open(f"{self.folder}/log", "a") as log:
            port = ["--port", str(self.port)] if self.port else []
            self.process = subprocess.Popen(
                [sys.executable, script, self.folder, *self.state, *port], stdout=log, stderr=subprocess.STDOUT
            )
        with open(f"{self.folder}/pid", "w") as file:
            file.write(str(self.process.pid))
        if not until(SOON, lambda: os.path.exists(f"{self.folder}/port") or self.process.poll() is not None):
            raise RuntimeError(self.log())
        self.port = int(open(f"{self.folder}/port").read())
        self.workspace = json.load(open(f"{self.folder}/workspace.json"))
        self.base, self.api = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.port}/api/"

    def log(self):
        return open(f"{self.folder}/log", errors="replace").read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        if os.path.exists(f"{self.folder}/pid"):
            os.remove(f"{self.folder}/pid")

    def control(self, name, body=None, **query):
        """A request of the control API: with a body to do something, else to look."""
        address = f"{self.base}/_control/{name}?{urllib.parse.urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(address, data=data), timeout=60) as response:
            return json.load(response)

    def say(self, text=None, channel="general", account="ada", **more):
        given = {"channel": channel, "account": account, **more}
        return self.control("say", given if text is None else {"text": text, **given})

    def messages(self, channel="general", **query):
        return self.control("messages", channel=channel, **query)["messages"]

    def with_text(self, text, channel="general"):
        """The messages with this text, as people see it."""
        return [one for one in self.messages(channel) if text in one["shown"]]

    def appears(self, text, channel="general"):
        """Waits for a message with this text, and gives it."""
        found = until(SOON, lambda: self.with_text(text, channel))
        return found[0] if found else None

    def raw(self, path, data=None, headers=None, method=None):
        """A request as it is: status, headers and the body, as JSON where it is."""
        request = urllib.request.Request(f"{self.base}{path}", data=data, headers=headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, given, body = response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            status, given, body = error.code, error.headers, error.read()
        except OSError as error:
            return 0, {}, str(error)
        try:
            return status, given, json.loads(body)
        except ValueError:
            return status, given, body.decode(errors="replace")
