"""Agents that installed programs run, as a person sees them: programs_checks.py FOLDER PROGRAM...

FOLDER has `model`, where programs_model.py runs. The last line says `N passed, M failed`; the exit code is 0 only if
nothing failed. What was asked of the model is what counts: the system prompt once and in its native place, what was
said before only where a conversation begins anew, and never a word of another agent's.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

WORK, PROGRAMS = sys.argv[1], sys.argv[2:]
HOME, FLOCK = os.environ["FLOCK_HOME"], os.environ["FLOCK_BINARY"]
MODEL = f"{WORK}/model"
# The API that each program is given, and the name of a model that it knows.
MODELS = {
    "claude": ("anthropic", "anthropic-messages", "claude-sonnet-4-5", ""),
    "codex": ("responses", "openai-responses", "gpt-5.5", "/v1"),
    "gemini": ("google", "google-generative-ai", "gemini-2.5-pro", ""),
    "opencode": ("completions", "openai-completions", "any-model", "/v1"),
}
IDENTITY = ("AGENTS.md", "SOUL.md")
passed = failed = 0
counting = threading.Lock()


def check(name, ok, seen=""):
    global passed, failed
    with counting:
        passed, failed = passed + bool(ok), failed + (not ok)
        print(f"{'ok   ' if ok else 'FAIL '} {name}" + ("" if ok else f": {str(seen)[:3000]}"))
    return bool(ok)


def run(*args, stdin=None, limit=600, env=None):
    done = subprocess.run(args, input=stdin, capture_output=True, text=True, timeout=limit, check=False, env=env)
    return done.returncode, done.stdout, done.stderr


def flock(*args, **more):
    return run(FLOCK, *args, **more)


def must(name, *args, **more):
    begun = time.monotonic()
    code, out, err = flock(*args, **more)
    check(f"{name} ({time.monotonic() - begun:.1f} s)", code == 0, (code, out, err))
    return out


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


def until(limit, condition):
    """Waits until the condition holds, at most `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.1)


def config():
    return json.load(open(f"{HOME}/config.json"))


def keys():
    return json.load(open(f"{MODEL}/keys.json"))


def requests():
    try:
        lines = open(f"{MODEL}/requests.jsonl").read().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def own(method, path, body=None, limit=300):
    found = config()
    port = found["plugins"]["entries"]["flock"]["config"]["gateway"]["port"]
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {found['gateway']['auth']['token']}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers, data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=limit) as response:
            return response.status, parsed(response.read().decode())
    except urllib.error.HTTPError as error:
        return error.code, parsed(error.read().decode())
    except OSError as error:
        return 0, str(error)


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


class Agent:
    """An agent of one program and what the model was asked for it."""

    def __init__(self, program):
        self.program = program
        self.name = f"{program}-agent"
        self.word = f"only-{program}"
        self.provider, self.api, self.model, self.path = MODELS[program]

    def mark(self, file):
        return f"MARK-{file.split('.')[0]}-{self.name}"

    def asked(self, since=0):
        """The requests of this agent's turns: each names it. What a program asks for itself has no tools."""
        return [one for one in requests()[since:] if one.get("tools") and self.word in json.dumps(one["body"])]

    def turn(self, *orders, agent=None, **more):
        """One turn; the answer and the requests that it made."""
        since = len(requests())
        prompt = "\n".join([self.word, *orders])
        status, answer = own("POST", "/api/message", {"prompt": prompt, "agent": agent or self.name, **more})
        return status, answer, self.asked(since)

    def check(self, name, ok, seen=""):
        return check(f"{self.program}: {name}", ok, seen)

    def prompt_is_native(self, name, found):
        """The system prompt once, where the API has it, and nothing of another agent's."""
        for request in found:
            whole, system = json.dumps(request["body"]), system_of(request)
            for file in IDENTITY:
                mark = self.mark(file)
                self.check(f"{name}: {file} once", whole.count(mark) == 1, (whole.count(mark), system[-600:]))
                self.check(f"{name}: {file} in the system prompt", system.count(mark) == 1, said_of(request))
            others = [one for one in PROGRAMS if one != self.program and f"{one}-agent" in whole.replace("@", "")]
            alien = [one for one in others if f"MARK-SOUL-{one}-agent" in whole or f"MARK-AGENTS-{one}-agent" in whole]
            self.check(f"{name}: nothing of another agent", not alien, alien)
            self.check(f"{name}: no file that it found itself", "FOUND-BY-ITSELF" not in whole, whole[:3000])
            self.check(f"{name}: the right key", request["key"] == "right", request["key"])
            self.check(f"{name}: the agent's model", self.model in whole + request["path"], request["path"])

    def everything(self):
        begun = time.monotonic()
        self.begins()
        self.goes_on()
        self.begins_anew()
        self.uses_flocks_tools()
        self.runs_commands()
        self.fails()
        self.is_stopped()
        self.check(f"all of it took {time.monotonic() - begun:.0f} s", True)

    def begins(self):
        status, answer, found = self.turn("say first answer")
        self.check("a new session answers", answer.get("content") == "first answer", (status, answer))
        self.check("by its program", answer.get("cli") == self.program, answer)
        self.check("the model was asked once", len(found) == 1, len(found))
        self.prompt_is_native("new", found)
        said = said_of(found[-1])[-1] if found else ""
        self.check("nothing was said before", "[Recent Context]" not in json.dumps(found), said)
        self.check("its prompt begins with a line of flock's", "[Current Message]" in said, said)

    def goes_on(self):
        status, answer, found = self.turn("say second answer")
        self.check("a resumed session answers", answer.get("content") == "second answer", (status, answer))
        self.prompt_is_native("resumed", found)
        whole = json.dumps(found)
        self.check("the program remembers by itself", "first answer" in whole, said_of(found[-1]) if found else "")
        self.check("and is told nothing of before", "[Recent Context]" not in whole, whole[:2000])

    def begins_anew(self):
        status, answer, found = self.turn("say third answer", forceNew=True)
        self.check("a forced new session answers", answer.get("content") == "third answer", (status, answer))
        self.prompt_is_native("forced", found)
        said = "\n".join(said_of(found[-1])) if found else ""
        self.check("it is told once of before", said.count("[Recent Context]") == 1, said)
        self.check("the oldest first", 0 < said.find("first answer") < said.find("second answer"), said)
        self.check("and then what is new", said.rfind("[Current Message]") > said.find("second answer"), said)

    def uses_flocks_tools(self):
        call = json.dumps({"channelId": "site", "message": f"posted by {self.name}", "author": "human:ann"})
        status, answer, found = self.turn(f"mcp flock_channel_post {call}")
        posts = parsed(flock("--json", "channel", "read", "site")[1]).get("messages", [])
        authors = [one["author"] for one in posts if one["content"] == f"posted by {self.name}"]
        self.check("flock_channel_post is in the channel as the agent's", authors == [self.name], (status, answer, posts))
        offered = {tool for one in found for tool in one["tools"] if "flock_" in tool}
        alien = [tool for tool in offered if "create_agent" in tool or "triage" in tool or "audit" in tool]
        self.check("tools of other roles are not offered", offered and not alien, offered)

    def runs_commands(self):
        command = "id -u; pwd; env; cat given.txt; echo made > made.txt; ls /home /root; touch /usr/x"
        with open(f"{HOME}/workspaces/{self.name}/given.txt", "w") as file:
            file.write("given by the host\n")
        status, answer, found = self.turn(f"run {command}")
        content = answer.get("content") or ""
        self.check("its own shell runs", "given by the host" in content, (status, answer))
        self.check("in the workspace", os.path.isfile(f"{HOME}/workspaces/{self.name}/made.txt"))
        self.check("in the sandbox", "Read-only file system" in content, content)
        self.check("no key is there", not any(key in content for key in keys().values()), content)
        status, messages = own("GET", f"/api/messages?agent={self.name}")
        listed = messages.get("messages", []) if status == 200 else []
        fields = {"id", "role", "content", "cli", "model", "created_at"}
        self.check("messages have their fields", listed and all(fields <= set(one) for one in listed), (status, messages))
        self.check("and no trace", not any(one.get("trace") for one in listed), listed[-1:])
        status, messages = own("GET", f"/api/messages?agent={self.name}&includeTrace=1")
        traces = "\n".join(one.get("trace") or "" for one in messages.get("messages", []))
        self.check("the trace has the command", "cmd: " in traces and "given.txt" in traces, traces[-2000:])
        self.check("and no JSON", '{"' not in traces, traces[-2000:])

    def fails(self):
        status, answer, found = self.turn("fail 401")
        self.check("a refused key is a failure", status >= 400 and found, (status, answer))
        self.check("which says so", "401" in json.dumps(answer), answer)
        status, answer, found = self.turn("fail 500 1", "say after all")
        self.check("a passing failure is tried again", answer.get("content") == "after all", (status, answer))

    def is_stopped(self):
        marks = f"run sleep 7{PROGRAMS.index(self.program)}77"
        sleeper = marks.removeprefix("run ")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            turn = pool.submit(own, "POST", "/api/message", {"prompt": f"{self.word}\n{marks}", "agent": self.name}, 40)
            running = until(60, lambda: self.processes(sleeper))
            self.check("a long command runs", running, self.processes(""))
            # The client goes away, and with it the turn.
            turn.result()
        gone = until(20, lambda: not self.processes(sleeper))
        self.check("nothing of a stopped turn is left", gone, self.processes(""))

    def processes(self, text):
        name = f"flock-sbx-{self.name}"
        found = [one for one in run("docker", "ps", "--format", "{{.Names}}")[1].split() if one.startswith(name)]
        lines = run("docker", "top", found[0], "-eo", "pid,args")[1].splitlines()[1:] if found else []
        return [line for line in lines if text in line]


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def init():
    until(20, lambda: os.path.exists(f"{MODEL}/port"))
    must("init", "init", "--yes", "--model", "script/demo", "--port", str(free_port()))
    port = open(f"{MODEL}/port").read()
    for program in PROGRAMS:
        agent = Agent(program)
        model = {"id": agent.model, "contextWindow": 200000, "maxTokens": 32000}
        provider = {"baseUrl": f"http://127.0.0.1:{port}{agent.path}", "api": agent.api, "models": [model]}
        must(f"config set of {agent.provider}", "config", "set", f"models.providers.{agent.provider}", json.dumps(provider))
        key = keys()["openai" if agent.provider in ("responses", "completions") else agent.provider]
        must("its key", "config", "set", f"models.providers.{agent.provider}.apiKey", "-", stdin=key)
        must(f"add {agent.name}", "add", agent.name, "--runtime", program, "--model", f"{agent.provider}/{agent.model}")
        for file in IDENTITY:
            with open(f"{HOME}/agents/{agent.name}/identity/{file}", "a") as about:
                about.write(f"\n{agent.mark(file)}\n")
        for file in ("CLAUDE.md", "GEMINI.md", "opencode.json"):
            with open(f"{HOME}/workspaces/{agent.name}/{file}", "w") as found:
                found.write('{"instructions": ["FOUND-BY-ITSELF"]}' if file.endswith("json") else "FOUND-BY-ITSELF\n")
    must("a channel", "channel", "create", "site", "--topic", "Work", *(f"--member={p}-agent" for p in PROGRAMS))
    code, out, err = flock("--json", "doctor")
    found = [one for one in parsed(out).get("checks", []) if one["name"] == "programs"]
    check("doctor has found the programs", found and all(one["state"] == "ok" for one in found), (code, found, err))
    must("start", "start")


def secrets_are_kept():
    wanted = [key.encode() for key in keys().values()]
    found = []
    for folder, folders, files in os.walk(HOME):
        if folder == f"{HOME}/secrets":
            continue
        for name in files:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                text = file.read()
            found += [path for one in wanted if one in text]
    check("no provider's key is in a file of the home's", not found, found)


class OnHost(Agent):
    """The same program on this machine itself, where a person chose that."""

    def __init__(self, program):
        super().__init__(program)
        self.name, self.word = f"{program}-host", f"host-{program}"

    def everything(self):
        line = ["add", self.name, "--runtime", self.program, "--model", f"{self.provider}/{self.model}", "--on-host"]
        must(f"add {self.name} --on-host", *line)
        self.check("status shows it", "this machine itself" in flock("status")[1])
        status, answer, found = self.turn("run pwd; env; echo made > made.txt")
        content = answer.get("content") or ""
        self.check("on the host: its shell runs in the workspace", f"{HOME}/workspaces/{self.name}" in content, (status, answer))
        self.check("on the host: no key is there", content and not any(key in content for key in keys().values()), content)
        self.check("on the host: the right key came", found and all(one["key"] == "right" for one in found), found)
        status, answer, found = self.turn("say second answer")
        self.check("on the host: it goes on", answer.get("content") == "second answer" and "made.txt" in json.dumps(found), answer)
        call = json.dumps({"channelId": "site", "message": f"posted by {self.name}"})
        self.turn(f"mcp flock_channel_post {call}")
        posts = parsed(flock("--json", "channel", "read", "site")[1]).get("messages", [])
        authors = [one["author"] for one in posts if one["content"] == f"posted by {self.name}"]
        self.check("on the host: flock's tools are there", authors == [self.name], posts[-3:])


def usage_is_right():
    spent = parsed(flock("--json", "usage")[1])
    check("usage can be shown", spent, spent)
    answered = [one for one in requests() if one.get("status") == 200 and one.get("key") == "right"]
    status, told = own("GET", "/api/usage")
    count = sum(one.get("calls", 0) for one in told.get("usage", [])) if isinstance(told, dict) else 0
    check("each model call is counted once", count == len(answered) > 0, (count, len(answered), told))


def main():
    init()
    agents = [Agent(program) for program in PROGRAMS]
    # Two at a time: each is a process of several hundred megabytes.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(agent.everything) for agent in agents]:
            done.result()
    for program in [one for one in PROGRAMS if one in ("claude", "codex")]:
        OnHost(program).everything()
    secrets_are_kept()
    usage_is_right()
    must("stop", "stop")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
