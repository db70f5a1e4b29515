"""Other people's agents of ACP as runtimes of flock: runtimes.py NAME…

The environment has FLOCK_WORK, a folder with `model`, where programs_model.py runs.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import checking  # noqa: E402
from checking import check, finish, flock, free_port, must, until  # noqa: E402
from programs_agents import Asking, keys, own, requests  # noqa: E402

WORK = pathlib.Path(os.environ["FLOCK_WORK"])
HOME = pathlib.Path(checking.HOME)
# What each API is called in the home, and what is added to the model's address.
APIS = {"openai": ("openai-completions", "/v1"), "anthropic": ("anthropic-messages", "")}
# The address at which each sandbox has its model and flock's tools.
INSIDE = "http://127.0.0.1:3128"

# How each is started, the API by which it asks, and the tool by which its model finds the
# tools of MCP servers. Without one it uses no MCP servers of its client.
AGENTS = {
    "qwen": {"command": "qwen --acp", "api": "openai", "search": "tool_search"},
    "claude": {"command": "claude-agent-acp", "api": "anthropic", "search": "ToolSearch"},
    # It reads its models from a file only. That is in the agent's workspace, and a variable of the sandbox leads to it.
    "pi": {
        "command": "pi-acp",
        "api": "openai",
        "search": None,
        "env": {"PI_CODING_AGENT_DIR": "/workspace/.pi", "PI_OFFLINE": "1"},
        "files": {
            ".pi/models.json": {
                "providers": {
                    "flock": {
                        "baseUrl": f"{INSIDE}/relay/completions/v1",
                        "api": "openai-completions",
                        "apiKey": "$OPENAI_API_KEY",
                        "models": [{"id": "m", "name": "m", "contextWindow": 100000, "maxTokens": 4096}],
                    }
                }
            },
            ".pi/settings.json": {"defaultProvider": "flock", "defaultModel": "m", "quietStartup": True},
        },
    },
    "nanocoder": {
        "command": "nanocoder --acp",
        "api": "openai",
        "search": None,
        "env": {"NANOCODER_CONFIG_DIR": "/workspace/.nanocoder"},
        "files": {
            ".nanocoder/agents.config.json": {
                "nanocoder": {
                    "providers": [
                        {
                            "name": "flock",
                            "baseUrl": f"{INSIDE}/relay/completions/v1",
                            "apiKey": "${OPENAI_API_KEY}",
                            "models": ["m"],
                        }
                    ]
                }
            },
        },
    },
}

# What is tried inside a sandbox by the agent's own shell: each line of the result is a name and what was seen.
WALLS = """
status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
echo "user $(id -u)"
echo "capabilities $(status CapEff)"
echo "privileges $(status NoNewPrivs)"
echo "seccomp $(status Seccomp)"
touch /usr/changed 2>/dev/null && echo "system written" || echo "system refused"
for one in /opt/flock/*/*; do touch "$one/changed" 2>/dev/null && echo "program written"; done; echo "program tried"
ls HOME/config.json /var/run/docker.sock /run/docker.sock 2>/dev/null | sed 's/^/host /'; echo "host tried"
for port in MODEL GATEWAY; do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && echo "network $port"
done; echo "network tried"
for host in 1.1.1.1 169.254.169.254; do
    timeout 3 bash -c "exec 3<>/dev/tcp/$host/80" 2>/dev/null && echo "network $host"
done
{ env; cat /proc/[0-9]*/environ; grep -rs planted- /state /tmp /opt/flock --include=*.json; } 2>/dev/null \\
    | grep -a -c planted- | sed 's/^/keys /'
"""


def port_of_model():
    return until(30, lambda: (WORK / "model/port").exists() and (WORK / "model/port").read_text())


def set_up():
    gateway, model = free_port(), port_of_model()
    must("a home", "init", "--yes", "--model", "script/demo", "--port", str(gateway))
    path = HOME / "config.json"
    config = json.loads(path.read_text())
    providers = config.setdefault("models", {}).setdefault("providers", {})
    for name, (api, end) in APIS.items():
        models = [{"id": "m", "contextWindow": 100000, "maxTokens": 4096}]
        url = f"http://127.0.0.1:{model}{end}"
        providers[f"lab-{name}"] = {"baseUrl": url, "apiKey": keys()[name], "api": api, "models": models}
    path.write_text(json.dumps(config))
    return gateway, model


def transcripts(identity):
    return "".join(path.read_text() for path in (HOME / "agents" / identity / "sessions").glob("*.jsonl"))


def spent(identity):
    rows = own("GET", f"/api/usage?agent={identity}&by=model")[1].get("usage", [])
    return sum(row.get("calls", 0) for row in rows)


def container(identity):
    """The container of the agent, by the home's own label."""
    names = checking.run("docker", "ps", "--filter", f"label=flock.home={HOME}", "--format", "{{.Names}}")[1].split()
    return next((name for name in names if name.startswith(f"flock-sbx-{identity}-")), None)


def processes(identity):
    """What runs for the program in the agent's sandbox."""
    name = container(identity)
    found = checking.run("docker", "top", name, "-eo", "pid,args")[1].splitlines()[1:] if name else []
    return [line for line in found if "/opt/flock/acp-" in line]


class Runtime:
    def __init__(self, name):
        self.name = name
        self.about = AGENTS[name]
        self.id = f"{name}-agent"
        self.workspace = HOME / "workspaces" / self.id

    def check(self, what, ok, seen=""):
        return check(f"{self.name}: {what}", ok, seen)

    def add(self):
        runtime, model = f"acp:{self.about['command']}", f"lab-{self.about['api']}/m"
        added = flock("add", self.id, "--runtime", runtime, "--model", model, "--memory", "2g", "--no-container")
        self.check("is added as a runtime", added[0] == 0, added)
        for path, content in self.about.get("files", {}).items():
            place = self.workspace / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(content))
            # It keeps its settings there itself, as whatever user its sandbox has.
            place.chmod(0o666)
            place.parent.chmod(0o777)
        if "env" in self.about:
            changed = flock("config", "set", f"agents.list[{self.id}].sandbox.docker.env", json.dumps(self.about["env"]))
            self.check("its variables are set", changed[0] == 0, changed)

    def turn(self, *orders):
        return own("POST", "/api/message", {"agent": self.id, "prompt": "\n".join(orders)})

    def answers(self):
        since = len(requests())
        status, answer = self.turn("say hello from the model")
        self.check("it answers", status == 200 and "hello from the model" in json.dumps(answer), (status, answer))
        asked = requests(since)
        self.check("it asked by the relay with the right key", asked and all(one["key"] == "right" for one in asked), asked)
        self.check("its calls are counted", spent(self.id) > 0)

    def works(self):
        status, answer = self.turn("run echo made > made.txt", "say so it is")
        made = self.workspace / "made.txt"
        self.check("its command works in the workspace", made.exists() and made.read_text() == "made\n", (status, answer))
        kept = transcripts(self.id)
        self.check("the command is in the transcript", "echo made" in kept, kept[-2000:])
        since = len(requests())
        self.turn("say again")
        said = json.dumps([one.get("body") for one in requests(since)])
        self.check("its conversation goes on", "echo made" in said, said[-2000:])

    def stays_inside(self, gateway, model):
        script = WALLS.replace("HOME", str(HOME)).replace("MODEL", model).replace("GATEWAY", str(gateway))
        (self.workspace / "walls.sh").write_text(script)
        self.turn("run bash walls.sh > walls.txt 2>&1", "say that is all")
        file = self.workspace / "walls.txt"
        seen = file.read_text().splitlines() if file.exists() else []
        for what, line in [
            ("it is not root", None),
            ("it has no capabilities", "capabilities 0000000000000000"),
            ("it can't gain privileges", "privileges 1"),
            ("its system calls are filtered", "seccomp 2"),
            ("the system is read-only", "system refused"),
            ("no key is where it runs", "keys 0"),
        ]:
            ok = line in seen if line else any(one.startswith("user ") for one in seen) and "user 0" not in seen
            self.check(what, ok, seen)
        for what, word in [("its own program", "program"), ("the host", "host"), ("the network", "network")]:
            found = [one for one in seen if one.startswith(f"{word} ")]
            self.check(f"{what} is out of its reach", found == [f"{word} tried"], seen)
        leaked = checking.files_with(HOME / "agents" / self.id, keys().values())
        self.check("no key is in its files", not leaked, leaked)

    def has_tools(self):
        if search := self.about["search"]:
            since = len(requests())
            name = "mcp__flock__flock_discover"
            wanted = json.dumps({"query": f"select:{name}"})
            status, answer = self.turn(f"force {search} {wanted}", f"force {name} {{}}", "say found")
            said = json.dumps([one.get("body") for one in requests(since)])
            self.check("flock's tools are there", "orchestrator" in said and status == 200, (answer, said[-2000:]))
        else:
            kept = transcripts(self.id) + "".join(checking.lines(HOME / "logs/gateway.log"))
            self.check("it is said that it can't use flock's tools", "has none of flock's" in kept, kept[-2000:])

    def fails_and_is_stopped(self):
        status, answer = self.turn("fail 401")
        self.check("a refusal of the model is told", status != 200 and "401" in json.dumps(answer), (status, answer))
        running = Asking({"agent": self.id, "prompt": "slow 60\nsay too late"})
        began = until(60, lambda: processes(self.id))
        self.check("it runs in its sandbox", began)
        turns = own("GET", f"/api/sessions?agent={self.id}")[1].get("turns", [])
        stopped = [own("POST", f"/api/sessions/{turn['session']}/stop") for turn in turns]
        left = until(30, lambda: not processes(self.id))
        self.check("a stop ends it with all that it started", stopped and left, (stopped, processes(self.id)))
        running.end(30)
        status, answer = self.turn("say here again")
        self.check("it answers after that", status == 200 and "here again" in json.dumps(answer), (status, answer))


def main():
    gateway, model = set_up()
    runtimes = [Runtime(name) for name in sys.argv[1:]]
    for runtime in runtimes:
        runtime.add()
    must("the gateway starts", "start")
    for runtime in runtimes:
        print(f"-- {runtime.about['command']}")
        runtime.answers()
        runtime.works()
        runtime.stays_inside(gateway, model)
        runtime.has_tools()
        runtime.fails_and_is_stopped()
    must("the gateway stops", "stop")
    finish()


main()
