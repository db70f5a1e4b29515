"""The whole life of a home, from inside a container that has the host's Docker engine.

Runs the flock binary as a person would, looks at the host's engine through its socket, and checks by name.
The last line says `N passed, M failed`; the exit code is 0 only if nothing failed.
"""

import http.client
import json
import os
import socket
import subprocess
import urllib.request

from checking import HOME, alive, call, check, configuration, connects, finish, flock, own_port, own_token, posts, until

MODEL = os.environ.get("FLOCK_E2E_MODEL") or "script/demo"
SCRIPTED = MODEL.startswith("script/")
HERE = os.path.dirname(os.path.abspath(__file__))
AGENTS = ["architect", "coder", "tester"]
PROJECT = "fizzbuzz-project"


class EngineConnection(http.client.HTTPConnection):
    """HTTP over the engine's socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect("/var/run/docker.sock")


def engine(path):
    connection = EngineConnection("engine")
    connection.request("GET", path)
    response = connection.getresponse()
    body = json.loads(response.read() or b"null")
    connection.close()
    return response.status, body


def containers(running_only=False):
    """This home's containers: name (without the slash) to the engine's description."""
    filters = json.dumps({"label": [f"flock.home={HOME}"]})
    query = urllib.request.quote(filters)
    status, found = engine(f"/containers/json?all={0 if running_only else 1}&filters={query}")
    assert status == 200, (status, found)
    return {c["Names"][0].lstrip("/"): c for c in found}


def sandbox_of(agent, running_only=False):
    for name, container in containers(running_only).items():
        if container["Labels"].get("flock.agent") == agent:
            return name, engine(f"/containers/{container['Id']}/json")[1]
    return None, None


class Gateway:
    def __init__(self):
        self.token, self.port = own_token(), own_port()

    def call(self, method, path, body=None, token=True, headers=None):
        return call(self.port, self.token if token is True else token, method, path, body, headers)


def fizzbuzz(last=15):
    return [
        "FizzBuzz" if n % 15 == 0 else "Fizz" if n % 3 == 0 else "Buzz" if n % 5 == 0 else str(n)
        for n in range(1, last + 1)
    ]


TASK = (
    "Write FizzBuzz for 1 to 15 in Python to fizzbuzz.py in your workspace, run it in your sandbox, "
    "and report what it printed."
)


def before():
    code, out, err = flock("--version")
    check("version prints", code == 0 and out.startswith("flock "), (code, out, err))
    code, out, err = flock("status", "--json")
    check("status before init exits 3", code == 3, (code, out, err))
    code, out, err = flock("list")
    check("list before init names flock init", code == 3 and "flock init" in err, (code, out, err))
    code, out, err = flock("stop")
    check("stop before init does no harm", code in (0, 3), (code, out, err))


def init():
    code, out, err = flock("init", "--yes", "--model", MODEL, limit=900)
    check("init succeeds", code == 0, (code, out, err))
    check("config.json is there", os.path.isfile(f"{HOME}/config.json"))
    mode = os.stat(f"{HOME}/config.json").st_mode & 0o777
    check("config.json is the owner's alone", mode == 0o600, oct(mode))
    config = configuration()
    check("the owner has a token", len(config["gateway"]["auth"]["token"]) >= 32)
    check(
        "chat completions are on",
        config["gateway"]["http"]["endpoints"]["chatCompletions"]["enabled"] is True,
    )
    ids = [agent["id"] for agent in config["plugins"]["entries"]["flock"]["config"]["gatewayAgents"]]
    check("orchestrator and sysadmin are there", ids == ["orchestrator", "sysadmin"], ids)
    listed = {agent["id"]: agent for agent in config["agents"]["list"]}
    check("only the sysadmin is unsandboxed", listed["sysadmin"]["sandbox"]["mode"] == "off")
    code, out, err = flock("init", "--yes", limit=900)
    check("init again succeeds", code == 0, (code, out, err))
    again = configuration()
    check("init again changes nothing", again == config)


def add():
    for agent in AGENTS:
        code, out, err = flock("add", agent, "--model", MODEL)
        check(f"add {agent} succeeds", code == 0, (code, out, err))
    for agent in AGENTS:
        name, container = sandbox_of(agent)
        if not check(f"{agent} has a container", container is not None, containers()):
            continue
        host = container["HostConfig"]
        check(f"{agent} has no network", host["NetworkMode"] == "none", host["NetworkMode"])
        check(f"{agent} has a read-only root", host["ReadonlyRootfs"] is True)
        check(
            f"{agent} has no capability",
            [c.upper() for c in host["CapDrop"] or []] == ["ALL"] and not host["CapAdd"],
            (host["CapDrop"], host["CapAdd"]),
        )
        user = container["Config"]["User"]
        check(f"{agent} is not root", user and not user.startswith("0"), user)
        sources = [mount.get("Source", "") for mount in container["Mounts"]]
        check(f"{agent} sees no engine socket", not any("docker.sock" in s for s in sources), sources)
        config = configuration()
        entry = next(a for a in config["agents"]["list"] if a["id"] == agent)
        path = entry["sandbox"]["docker"]["env"]["PATH"]
        profile = f"/nix/var/nix/profiles/per-agent/{agent}/bin"
        check(f"{agent} has its Nix profile on PATH", path.startswith(profile), path)
    code, out, err = flock("add", "coder")
    check("a second coder is refused with 5", code == 5, (code, out, err))
    code, out, err = flock("add", "../evil")
    check("a path is no id", code == 2, (code, out, err))
    code, out, err = flock("add", "x", "--role", "boss")
    check("an unknown role is refused with 2", code == 2, (code, out, err))


def start():
    code, out, err = flock("start")
    check("start succeeds", code == 0, (code, out, err))
    gateway = Gateway()
    check("start prints the URL", f":{gateway.port}" in out + err, (out, err))
    status, body = gateway.call("GET", "/health", token=False)
    check("health answers without a token", status == 200, (status, body))
    code, out, err = flock("start")
    check("start again says so", code == 0, (code, out, err))
    code, out, err = flock("status", "--json")
    check("status exits 0", code == 0, (code, out, err))
    return gateway


def talk(gateway):
    status, body = gateway.call("GET", "/v1/models", token=False)
    check("no token is 401", status == 401, (status, body))
    status, body = gateway.call("GET", "/v1/models", token="wrong")
    check("a wrong token is 401", status == 401, (status, body))
    status, body = gateway.call("GET", "/v1/models", headers={"Origin": "https://evil.example"})
    check("a foreign Origin is 403", status == 403, (status, body))
    status, body = gateway.call("GET", "/v1/models", headers={"Host": "evil.example"})
    check("a foreign Host is 403", status == 403, (status, body))
    status, body = gateway.call("GET", "/v1/models")
    models = [m["id"] for m in json.loads(body)["data"]] if status == 200 else []
    check("every agent is a model", all(any(a in m for m in models) for a in AGENTS), models)

    code, out, err = flock("chat", "coder", TASK)
    check("chat with tool calls succeeds", code == 0, (code, out, err))
    program = f"{HOME}/workspaces/coder/fizzbuzz.py"
    check("the agent wrote the program", os.path.isfile(program), os.listdir(f"{HOME}/workspaces/coder"))
    check("the answer reports the output", "FizzBuzz" in out, out)
    if SCRIPTED:
        check("the answer quotes what ran", "\n".join(fizzbuzz()) in out, out)
    name, container = sandbox_of("coder", running_only=True)
    check("the sandbox ran beside this container", container is not None, containers())

    status, body = gateway.call(
        "POST", "/v1/chat/completions", {"model": "tester", "messages": [{"role": "user", "content": TASK}]}
    )
    answer = json.loads(body) if status == 200 else {}
    check("chat completions answers", status == 200 and answer["object"] == "chat.completion", (status, body))
    text = answer.get("choices", [{}])[0].get("message", {}).get("content") or ""
    check("its answer reports the output", "FizzBuzz" in text, text)
    check("the other agent wrote its own file", os.path.isfile(f"{HOME}/workspaces/tester/fizzbuzz.py"))
    request = {"model": "tester", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    status, body = gateway.call("POST", "/v1/chat/completions", request)
    chunks = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
    check("streaming ends with [DONE]", status == 200 and chunks[-1:] == ["[DONE]"], (status, body[-500:]))
    streamed = "".join(
        json.loads(c)["choices"][0]["delta"].get("content") or "" for c in chunks[:-1] if json.loads(c)["choices"]
    )
    check("streaming carries text", streamed.strip() != "", body[:500])
    request = {"model": "nobody", "messages": [{"role": "user", "content": "hello"}]}
    status, body = gateway.call("POST", "/v1/chat/completions", request)
    check("an unknown agent is refused", status in (400, 404) and "error" in body, (status, body))
    status, body = gateway.call("GET", "/api/sessions")
    check("the chat's session is listed", status == 200 and "agent:coder:flock:main:" in body, (status, body))
    status, body = gateway.call("GET", "/api/agents")
    check("agents are listed", status == 200 and all(a in body for a in AGENTS), (status, body))


def look():
    code, out, err = flock("list", "--json")
    ids = [agent["id"] for agent in json.loads(out)["agents"]] if code == 0 else []
    check("list shows all five", sorted(ids) == sorted(["orchestrator", "sysadmin", *AGENTS]), (code, out, err))
    code, out, err = flock("status")
    check("status reads well", code == 0 and "coder" in out, (code, out, err))
    if SCRIPTED:
        check("status says that a script answers", "script" in out, out)
    code, out, err = flock("logs", "gateway", "-n", "5")
    check("logs answers", code == 0, (code, out, err))
    code, out, err = flock("doctor", "--json")
    check("doctor answers in JSON", out.strip().startswith("{"), (code, out, err))


def hot(gateway):
    code, out, err = flock("add", "late", "--model", MODEL)
    check("an agent is added while it runs", code == 0, (code, out, err))
    status, body = gateway.call("GET", "/v1/models")
    check("and is there without a restart", "late" in body, body)
    code, out, err = flock("chat", "late", "hello")
    check("and answers", code == 0 and out.strip() != "", (code, out, err))
    code, out, err = flock("remove", "late", "--yes", "--purge")
    check("an agent is removed while it runs", code == 0, (code, out, err))
    status, body = gateway.call("GET", "/v1/models")
    check("and is gone without a restart", "late" not in body, body)
    check("with its container", until(20, lambda: sandbox_of("late")[0] is None), containers())
    check("and its workspace", not os.path.exists(f"{HOME}/workspaces/late"))

    name, container = sandbox_of("coder")
    connection = EngineConnection("engine")
    connection.request("DELETE", f"/containers/{name}?force=1")
    connection.getresponse().read()
    code, out, err = flock("chat", "coder", TASK)
    check("a sandbox removed behind flock's back mends itself", code == 0 and "FizzBuzz" in out, (code, out, err))


def channels():
    code, out, err = flock("channel", "list", "--all", "--json")
    return {c["channelId"]: c for c in json.loads(out)["channels"]} if code == 0 else {}


def requests(everything=True):
    code, out, err = flock("approvals", "list", *(["--all"] if everything else []), "--json")
    return json.loads(out)["requests"] if code == 0 else []


def without_empty(value):
    """A document without its empty objects: taking a value out leaves the one it was in."""
    if not isinstance(value, dict):
        return [without_empty(item) for item in value] if isinstance(value, list) else value
    kept = {key: without_empty(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item != {}}


def plays(what, script, seconds):
    """Plays a part of the scenario, prints what it said, and checks that it came to its end."""
    played = subprocess.run(
        [f"{HERE}/scenario/{script}"],
        env={**os.environ, "FLOCK_MODEL": MODEL},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    print("\n".join(f"      {line}" for line in played.stdout.splitlines()))
    check(what, played.returncode == 0, (played.stdout, played.stderr))


def project():
    """A team's project: the scenario that people can run, and then what is left of it."""
    config = configuration()
    plays("the project is done from wish to archive", "run.sh", 2400)
    after = configuration()
    check("the configuration is put back", without_empty(after) == without_empty(config))

    channel = channels().get(PROJECT, {})
    check("the orchestrator made the channel", channel.get("createdBy") == "orchestrator", channel)
    for agent in ["architect", "coder", "sysadmin"]:
        check(f"{agent} is a member", agent in channel.get("members", []), channel)
    messages = posts(PROJECT)
    authors = {m["author"] for m in messages} - {"system"}
    said = [m for m in messages if m["author"] != "system"]
    check("at least three messages were said", len(said) >= 3, messages)
    check("by at least two authors", len(authors) >= 2, authors)
    check("numbers have no gaps", [m["seq"] for m in messages] == list(range(1, len(messages) + 1)), messages)

    package = "count" if SCRIPTED else "lua"
    asked = [r for r in requests() if r["kind"] == "package" and r["agent"] == "coder"]
    check("coder asked for a package in the channel", any(r["channel"] == PROJECT for r in asked), asked)
    check(
        "triage let it in as GREEN",
        any((r["level"], r["state"]) == ("GREEN", "done") for r in asked),
        asked,
    )
    code, out, err = flock("nix", "list", "coder", "--json")
    check("the package is in coder's profile", f'"{package}"' in out, (code, out, err))
    code, out, err = flock("nix", "list", "architect", "--json")
    check("and in nobody else's", f'"{package}"' not in out, (code, out, err))

    path = f"{HOME}/workspaces/coder/output.txt"
    lines = open(path).read().splitlines() if os.path.isfile(path) else []
    check("output.txt has 30 lines", len(lines) == 30, lines)
    check("and all of them are right", lines == fizzbuzz(30), lines)

    check("the channel is archived", channel.get("state") == "archived", channel)
    ready = [m["content"].split()[0] for m in messages if "is ready to archive" in m["content"]]
    members = [m for m in channel.get("members", []) if not m.startswith("human:")]
    check("after each agent said that it is ready", sorted(ready) == sorted(members), (ready, members))
    code, out, err = flock("channel", "post", PROJECT, "one thing more")
    check("nothing can be posted to it", code == 1 and "archived" in err, (code, out, err))
    session = f"agent:coder:flock:channel:{PROJECT}"
    code, out, err = flock("chat", "coder", "hello", "--session", session)
    check("its sessions are closed", code == 1 and "closed" in err, (code, out, err))
    check("what was said can be read all the same", posts(PROJECT) == messages)


def library():
    """A team on a real library: what was merged, what was not, and what the owner got."""
    config = configuration()
    plays("the library has the three wishes", "library/run.sh", 4800)
    models = [agent.get("model") for agent in configuration()["agents"]["list"]]
    check("the models are put back", models == [agent.get("model") for agent in config["agents"]["list"]], models)

    owner = f"{HOME}/scripts/scenario-cachetools/repository"
    git = ["git", "-c", "safe.directory=*", "-C", owner]
    own = subprocess.run([*git, "rev-list", "--count", "main"], capture_output=True, text=True, check=False)
    check("the owner's branch was not moved", own.stdout.strip() == "1", own)
    landed = f"{HOME}/scripts/landed"
    subprocess.run([*git, "worktree", "add", "-q", "--detach", landed, "flock/cachetools"], check=False)
    tests = subprocess.run(
        ["python3", "-m", "unittest", "discover", "-s", "tests", "-t", "."],
        cwd=landed,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    check("its tests pass on what landed", tests.returncode == 0, tests)
    tried = (
        "import cachetools as c; cache = c.TLRUCache(2, ttu=lambda k, v, now: now + v, timer=lambda: 0);"
        "cache[1] = 9; cache[1] = 0; assert 1 not in cache; cache.peek(1); cache.resize(1); import cachetools._timer"
    )
    used = subprocess.run(
        ["python3", "-c", tried], env={**os.environ, "PYTHONPATH": f"{landed}/src"}, capture_output=True, text=True, check=False
    )
    check("the bug is mended, the feature and the module are there", used.returncode == 0, used)
    code, out, err = flock("start")
    code, out, err = flock("tasks", "--json")
    tasks = [task for task in json.loads(out)["tasks"] if task.get("project") == "cachetools"] if code == 0 else []
    check(
        "each piece of work was told to be done once it was merged",
        len(tasks) >= 4 and all(task["state"] == "completed" for task in tasks),
        (tasks, err),
    )


def people():
    """A person in a channel, and decisions about what an agent wants to do on the host."""
    code, out, err = flock("channel", "create", "ops", "--topic", "The machine", "--member", "sysadmin")
    check("a person makes a channel", code == 0, (code, out, err))
    code, out, err = flock("channel", "post", "ops", "nobody has to answer this", "--as", "kim", "--no-notify")
    check("a person posts", code == 0, (code, out, err))
    check("under a name of people", "human:kim" in [m["author"] for m in posts("ops")], posts("ops"))
    code, out, err = flock("channel", "create", "OPS", "--topic", "again", "--member", "sysadmin")
    check("a channel's name is taken once", code != 0, (code, out, err))
    if not SCRIPTED:
        return
    flock("config", "set", "agents.list[sysadmin].model.primary", "script/scenario-sysadmin.json")

    def ask(channel, question):
        """Has the sysadmin want to run a command on the host; gives its request."""
        flock("channel", "post", channel, f"@sysadmin {question}", "--as", "kim")
        waiting = until(60, lambda: [r for r in requests(False) if r["state"] == "waiting"])
        return waiting[0] if waiting else {}

    def became(id, state):
        return until(60, lambda: any((r["id"], r["state"]) == (id, state) for r in requests()))

    def answers():
        return [m["content"] for m in posts("ops") if m["author"] == "sysadmin"]

    asked = ask("ops", "how full is the disk?")
    wanted = ("command", "RED", "sysadmin", "ops")
    seen = tuple(asked.get(key) for key in ("kind", "level", "agent", "channel"))
    check("a command on the host waits for a person", seen == wanted, asked)
    check("the sysadmin says so in the channel", until(60, answers), posts("ops"))
    code, out, err = flock("channel", "post", "ops", f"I approve {asked.get('id')}", "--as", "kim", "--no-notify")
    still = [r["state"] for r in requests() if r["id"] == asked.get("id")]
    check("no message approves it", code == 0 and still == ["waiting"], still)
    code, out, err = flock("approvals", "show", asked.get("id", ""))
    check("a person sees what would be run", code == 0 and "df -h /" in out, (code, out, err))
    code, out, err = flock("approvals", "deny", asked.get("id", ""), "--reason", "not today")
    check("and denies it", code == 0 and became(asked.get("id"), "denied"), (code, out, err))
    code, out, err = flock("approvals", "approve", asked.get("id", ""), "--yes")
    check("what was denied can't be approved", asked and code != 0, (code, out, err))

    flock("channel", "create", "disk", "--topic", "The disk", "--member", "sysadmin")
    # What was denied can't be asked for again today.
    id = ask("disk", "how many files does the disk hold?").get("id", "")
    code, out, err = flock("approvals", "approve", id, "--yes")
    check("another one is approved", code == 0, (code, out, err))
    check("and then runs", became(id, "done"), requests())
    results = [r["result"] or "" for r in requests() if r["id"] == id]
    check("with its output kept", any("%" in result for result in results), results)
    flock("config", "set", "agents.list[sysadmin].model.primary", MODEL)

    code, out, err = flock("audit", "--verify")
    check("the audit is whole", code == 0, (code, out, err))


def remove():
    for agent in AGENTS[:2]:
        code, out, err = flock("remove", agent, "--yes")
        check(f"remove {agent} succeeds", code == 0, (code, out, err))
    check("a removed agent keeps its workspace", os.path.isdir(f"{HOME}/workspaces/architect"))
    gone = until(20, lambda: not any(sandbox_of(agent)[0] for agent in AGENTS[:2]))
    check("their containers are gone", gone, containers())


def stop(gateway):
    pids = []
    for name in ("gateway", "supervisor"):
        with open(f"{HOME}/run/{name}.pid") as file:
            pids.append(int(file.readline().split()[0]))
    code, out, err = flock("stop")
    check("stop succeeds", code == 0, (code, out, err))
    check("no process is left", not any(alive(pid) for pid in pids), pids)
    check("the port is free when stop returns", not connects(gateway.port))
    check("no sandbox runs", not [n for n in containers(running_only=True) if "sbx" in n], containers(True))
    code, out, err = flock("status", "--json")
    check("status exits 4", code == 4, (code, out, err))
    code, out, err = flock("stop")
    check("stop of nothing is 0", code == 0, (code, out, err))
    for agent in ["tester", "orchestrator", "sysadmin"]:
        code, out, err = flock("remove", agent, "--yes")
        check(f"remove {agent} when stopped", code == 0, (code, out, err))
    left = [name for name in containers() if "nix" not in name]
    check("no sandbox container is left", not left, left)


def main():
    gateway = None
    try:
        before()
        init()
        add()
        gateway = start()
        talk(gateway)
        look()
        hot(gateway)
        project()
        library()
        people()
        remove()
        stop(gateway)
    except Exception as error:  # A step that can't go on is one failure, said like the others.
        import traceback

        traceback.print_exc()
        check("the run went to its end", False, repr(error))
        flock("stop")
    finish()


main()
