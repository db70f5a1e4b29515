"""Agents that installed programs run, and what the model was asked for them.

The environment has FLOCK_WORK, a folder with `model`, where programs_model.py runs, and `user`, the home of the person
who uses flock.
"""

import http.client
import json
import os
import re
import socket
import threading
import time

from checking import HOME, call, check, own_port, own_token, parsed, requests_in, run

WORK = os.environ["FLOCK_WORK"]
MODEL = f"{WORK}/model"
# For each program the provider that it is given, its API, two models that the program knows, and what is added to the
# address.
MODELS = {
    "claude": ("anthropic", "anthropic-messages", ("claude-sonnet-4-5", "claude-haiku-4-5"), ""),
    "codex": ("responses", "openai-responses", ("gpt-5.5", "gpt-5.4"), "/v1"),
    "gemini": ("google", "google-generative-ai", ("gemini-2.5-pro", "gemini-2.5-flash"), ""),
    "opencode": ("completions", "openai-completions", ("any-model", "other-model"), "/v1"),
}
IDENTITY = ("AGENTS.md", "SOUL.md")
# What stands in files that a program would find by itself.
FOUND = "FOUND-BY-ITSELF"
# What steers a terminal, or turns what is read round.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def keys():
    return json.load(open(f"{MODEL}/keys.json"))


def requests(since=0):
    return requests_in(f"{MODEL}/requests.jsonl", since)


def own(method, path, body=None, limit=300):
    status, text = call(own_port(), own_token(), method, path, body, limit=limit)
    return status, parsed(text) if status else text


def text_of(content):
    """The text of whatever a request has as content."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("content") or content.get("parts") or "")
    return ""


def system_of(request):
    """What stands in the API's own place for a system prompt."""
    body = request["body"]
    if request["api"] == "anthropic":
        return text_of(body.get("system"))
    if request["api"] == "google":
        return text_of(body.get("systemInstruction"))
    items = body.get("input") if "input" in body else body.get("messages")
    return "\n".join(text_of(one["content"]) for one in items if one.get("role") in ("system", "developer"))


def said_of(request):
    """The texts of the user, in their order."""
    body = request["body"]
    items = body.get("contents") or body.get("input") or body.get("messages") or []
    return [text_of(one) for one in items if one.get("role") == "user"]


class Asking:
    """A turn that runs while something else is done; with `wait`, the turn of a frozen agent waits for its thaw."""

    def __init__(self, body, wait=False):
        self.answer = (0, {})
        self.connection = http.client.HTTPConnection("127.0.0.1", own_port(), timeout=300)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {own_token()}"}
        if wait:
            headers["X-Flock-Wait"] = "1"
        self.connection.request("POST", "/api/message", json.dumps(body), headers)
        self.reading = threading.Thread(target=self.read, daemon=True)
        self.reading.start()

    def read(self):
        try:
            response = self.connection.getresponse()
            self.answer = (response.status, parsed(response.read().decode()))
        except (OSError, http.client.HTTPException) as error:
            # In the shape of a refusal, so that a check that reads its message fails and does not end the script.
            self.answer = (0, {"error": {"message": repr(error)}})

    def leave(self):
        """Goes away, as a client does that is closed."""
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.end()

    def is_over(self):
        return not self.reading.is_alive()

    def end(self, limit=300):
        """Waits for the answer: its status, 0 where there is none, and what it says."""
        self.reading.join(limit)
        return self.answer


class Agent:
    """An agent of one program and what the model was asked for it."""

    on_host = False

    def __init__(self, program, name=None):
        self.program = program
        self.name = name or f"{program}-agent"
        self.word = f"only-{self.name}"
        self.provider, self.api, models, self.path = MODELS[program]
        self.model, self.other = models
        # Calls that failed for good, in a way that leaves open what they took.
        self.of_unknown_use = 0
        # Seconds.
        self.slowest = 0.0
        self.workspace = f"{HOME}/workspaces/{self.name}"

    def check(self, name, ok, seen=""):
        return check(f"{self.name}: {name}", ok, seen)

    def mark(self, file):
        return f"MARK-{file.split('.')[0]}-{self.name}-END"

    def asked(self, since=0):
        """The requests of this agent's turns: each names it. What a program asks for itself has no tools."""
        return [one for one in requests(since) if one.get("tools") and self.word in json.dumps(one["body"])]

    def body(self, orders, more):
        return {"prompt": "\n".join([self.word, *orders]), "agent": self.name, **more}

    def begin(self, *orders, wait=False, **more):
        return Asking(self.body(orders, more), wait)

    def turn(self, *orders, **more):
        """One turn; the answer and the requests that it made."""
        since, begun = len(requests()), time.monotonic()
        status, answer = own("POST", "/api/message", self.body(orders, more))
        self.slowest = max(self.slowest, time.monotonic() - begun)
        return status, answer, self.asked(since)

    def session(self, name):
        return f"agent:{self.name}:flock:main:{name}"

    def messages(self, **query):
        query = "&".join(f"{name}={value}" for name, value in {"agent": self.name, **query}.items())
        status, found = own("GET", f"/api/messages?{query}")
        return found.get("messages", []) if status == 200 else []

    def spent(self, model=None):
        """How many model calls were counted for it today."""
        rows = own("GET", f"/api/usage?agent={self.name}&by=model")[1].get("usage", [])
        return sum(row.get("calls", 0) for row in rows if model is None or model in json.dumps(row))

    def container(self):
        name = f"flock-sbx-{self.name}"
        found = run("docker", "ps", "--filter", f"label=flock.home={HOME}", "--format", "{{.Names}}")[1].split()
        return next((one for one in found if re.sub("-[0-9a-f]{8}$", "", one) == name), None)

    def processes(self, text=""):
        """What runs for it and has this text in its arguments."""
        name = self.container()
        found = run("docker", "top", name, "-eo", "pid,args")[1].splitlines()[1:] if name else []
        return [line for line in found if text in line]

    def prompt_is_native(self, name, found, model=None):
        """The system prompt once, where the API has it, and nothing of another agent's. `model` is the agent's own where
        it is not said."""
        self.check(f"{name}: the model was asked", found)
        for request in found:
            whole, system = json.dumps(request["body"]), system_of(request)
            for file in IDENTITY:
                mark = self.mark(file)
                self.check(f"{name}: {file} once", whole.count(mark) == 1, (whole.count(mark), system[-600:]))
                self.check(f"{name}: {file} in the system prompt", system.count(mark) == 1, said_of(request))
            alien = set(re.findall(r"MARK-[A-Z]+-([a-z-]+)-END", whole)) - {self.name}
            self.check(f"{name}: nothing of another agent", not alien, alien)
            self.check(f"{name}: no file that it found itself", FOUND not in whole, whole[:3000])
            self.check(f"{name}: the right key", request["key"] == "right", request["key"])
            self.check(f"{name}: the agent's model", (model or self.model) in whole + request["path"], request["path"])


class OnHost(Agent):
    """The same program on this machine itself, where a person chose that."""

    on_host = True

    def __init__(self, program):
        super().__init__(program, f"{program}-host")

    def processes(self, text=""):
        """What runs in its workspace, or was started for it elsewhere."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\0", b" ").decode(errors="replace")
                about = open(f"/proc/{pid}/environ", "rb").read()
                is_inside = os.readlink(f"/proc/{pid}/cwd") == self.workspace
            except OSError:
                continue
            names_it = b"FLOCK_TURN=" in about and self.workspace.encode() in about + line.encode()
            if (is_inside or names_it) and text in line:
                found.append(f"{pid} {line}")
        return found
