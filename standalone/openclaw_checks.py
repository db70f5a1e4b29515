"""The life of a home with the real OpenClaw, as a person sees it: openclaw_checks.py FOLDER

FOLDER has `package`, the git repository, and `model`, where openclaw_model.py runs. The last line says
`N passed, M failed`; the exit code is 0 only if nothing failed.
"""

import json
import os
import signal
import subprocess
import sys
import time

import checking
from checking import (
    HOME, alive, call, check, configuration, connects, files_with, finish, flock, free_port, lines, must, own_port, own_token,
    parsed, posts, requests_in, run, until,
)

WORK = sys.argv[1]
SOURCE, MODEL = f"{WORK}/package", f"{WORK}/model"
KEYS = json.load(open(f"{MODEL}/keys.json"))
# What runs before anything is done here: the script that started this has the home in its environment, too.
BYSTANDERS = {int(pid) for pid in filter(str.isdigit, os.listdir("/proc"))}


def git(*args):
    return subprocess.run(["git", "-C", SOURCE, *args], capture_output=True, text=True, check=True).stdout.strip()


def derived():
    return json.load(open(f"{HOME}/gateways/openclaw/openclaw.json"))


def secret(name):
    return open(f"{HOME}/secrets/{name}").read().strip()


def asked(since=0):
    """The requests that the model has had."""
    return requests_in(f"{MODEL}/requests.jsonl", since)


def own(path, body=None):
    """Flock's own gateway."""
    return call(own_port(), own_token(), "GET" if body is None else "POST", path, body)


def openclaw(path, body=None, token=None, headers=None):
    """OpenClaw's gateway itself."""
    token = token or secret("openclaw-token")
    return call(configuration()["gateway"]["port"], token, "GET" if body is None else "POST", path, body, headers)


def said(answer):
    status, body = answer
    return parsed(body).get("choices", [{}])[0].get("message", {}).get("content") or "" if status == 200 else ""


def user(text, agent):
    return {"model": agent, "messages": [{"role": "user", "content": text}]}


def chat(agent, text, *more):
    code, out, err = flock("chat", agent, text, *more)
    return out if code == 0 else f"exit {code}: {out}{err}"


def order(tool, **arguments):
    """What makes the model call a tool."""
    return f"CALL {tool} {json.dumps(arguments)}"


def containers(*filters):
    code, out, err = run("docker", "ps", "-aq", *[part for one in filters for part in ("--filter", one)])
    return out.split()


def sandboxes():
    """The containers that OpenClaw has made for this home."""
    return containers(f"name=^{derived()['agents']['defaults']['sandbox']['docker']['containerPrefix']}")


def processes():
    """Processes that have something of this home in their arguments or their environment, by their number."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in BYSTANDERS or int(pid) == os.getpid():
            continue
        try:
            line = open(f"/proc/{pid}/cmdline", "rb").read()
            about = line + open(f"/proc/{pid}/environ", "rb").read()
            state = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if HOME.encode() in about and state not in "ZX" and MODEL.encode() not in line:
            found[int(pid)] = line.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def init():
    must("init", "init", "--yes", "--model", "stub-openai/model", "--port", str(free_port()))
    # Two homes that are made at the same time would choose the same one.
    must("a port of its own", "config", "set", "gateway.port", str(free_port()))
    begun = time.monotonic()
    code, out, err = flock("--json", "init", "--yes", "--gateway", "openclaw", "--repo", SOURCE, "--ref", "main")
    check(f"init --gateway openclaw ({time.monotonic() - begun:.1f} s)", code == 0, (code, out, err))
    told = parsed(out).get("openclaw") or {}
    check("it is the repository's commit", told.get("commit") == git("rev-parse", "main"), told)
    check("it follows the branch", told.get("follows") is True and told.get("ref") == "main", told)
    log = open(f"{HOME}/logs/build-openclaw.log").read()
    check("its dependencies were installed", "npm install --omit=dev" in log, log[-2000:])
    check("what is built was not built", "npm run build" not in log, log[-2000:])
    port = open(f"{MODEL}/port").read()
    model = {"contextWindow": 128000, "maxTokens": 4096}
    for name, api, path in (
        ("openai", "openai-completions", "/v1"),
        ("anthropic", "anthropic-messages", ""),
        ("google", "google-generative-ai", ""),
    ):
        provider = {"baseUrl": f"http://127.0.0.1:{port}{path}", "api": api, "models": [{"id": "model", **model}]}
        must(f"config set of {name}", "config", "set", f"models.providers.stub-{name}", json.dumps(provider))
        must("its key", "config", "set", f"models.providers.stub-{name}.apiKey", "-", stdin=KEYS[name])


def add():
    for agent, runtime, api in (
        ("own", "native", "openai"),
        ("coder", "openclaw", "openai"),
        ("writer", "openclaw", "anthropic"),
        ("thinker", "openclaw", "google"),
    ):
        must(f"add {agent}", "add", agent, "--runtime", runtime, "--model", f"stub-{api}/model", "--no-container")
    must("config validate", "config", "validate")
    found = derived()["agents"]
    check("only OpenClaw's agents are given to it", sorted(found["entries"]) == ["coder", "thinker", "writer"], found)
    code, out, err = flock("--json", "doctor")
    told = [one for one in parsed(out).get("checks", []) if one["name"] == "openclaw"]
    check("doctor finds nothing wrong with it", told and all(one["state"] == "ok" for one in told), (code, told, err))


def talk():
    def heard(since, api):
        found = asked(since)
        return found and all(one["key"] and one["api"] == api for one in found)

    before = len(asked())
    check("chat with an agent of flock's own", "MODEL heard 1" in chat("own", "hello"), chat("own", "hello"))
    for agent, api in (("coder", "openai"), ("writer", "anthropic"), ("thinker", "google")):
        before = len(asked())
        answer = chat(agent, "hello")
        check(f"chat with {agent} by {api}'s API", "MODEL heard 1" in answer, answer)
        check("the model was asked with the right key", heard(before, api), asked(before))
    answer = chat("coder", "hello again")
    check("the conversation goes on", "MODEL heard 2" in answer, answer)
    answer = own("/v1/chat/completions", user("hello", "flock/coder"))
    check("flock's own gateway answers for it", "MODEL heard 1" in said(answer), answer)
    answer = openclaw("/v1/chat/completions", user("hello", "openclaw/coder"))
    check("OpenClaw's gateway answers itself", "MODEL heard" in said(answer), answer)
    status, body = openclaw("/v1/chat/completions", user("hello", "openclaw/coder"), token=own_token())
    check("flock's token is not OpenClaw's", status == 401, (status, body))


def tools():
    before = len(asked())
    with open(f"{HOME}/workspaces/coder/given.txt", "w") as file:
        file.write("given by the host\n")
    command = "id -u; cat given.txt; echo made inside > made.txt; ls /home /root /work 2>&1; ls -A /; env; touch /usr/x 2>&1"
    answer = chat("coder", order("exec", command=command))
    check("exec ran", "given by the host" in answer, answer)
    made = f"{HOME}/workspaces/coder/made.txt"
    check("in the agent's workspace", os.path.isfile(made) and open(made).read() == "made inside\n")
    check("not as root", not answer.split("RESULT", 1)[-1].strip().startswith("0\n"), answer)
    check("in a container", ".dockerenv" in answer, answer)
    check("whose root can't be written to", "Read-only file system" in answer, answer)
    check("with no secret in its environment", not any(key in answer for key in planted()), answer)
    described = parsed(run("docker", "inspect", *sandboxes())[1] or "[]")
    mounted = {one["Id"]: [mount["Source"] for mount in one["Mounts"]] for one in described}
    found = [one for one in described if f"{HOME}/workspaces/coder" in mounted[one["Id"]]]
    check("the container is this home's and only coder's", len(found) == 1, mounted)
    host = found[0]["HostConfig"] if found else {}
    check("without a network", host.get("NetworkMode") == "none", host)
    check("without capabilities", host.get("CapDrop") == ["ALL"] and not host.get("CapAdd"), host)
    offered = set(asked(before)[0]["tools"])
    check("it is offered flock's tools", {"exec", "flock_channel_post"} <= offered, offered)
    check("and not those of other roles", not offered & {"flock_create_agent", "triage_decision", "flock_audit"}, offered)
    check("nor OpenClaw's that work on the host", not offered & {"gateway", "cron", "browser", "message"}, offered)


def channel():
    must("a channel", "channel", "create", "site", "--topic", "Work", "--member", "own")
    post = order("flock_channel_post", channelId="site", message="made by a tool", author="human:ann", agentId="own")
    answer = chat("coder", post)
    check("flock_channel_post of an agent on OpenClaw", "RESULT" in answer, answer)
    authors = [one["author"] for one in posts("site") if one["content"] == "made by a tool"]
    check("is in the channel as that agent's", authors == ["coder"], posts("site"))
    code, out, err = flock("--json", "audit", "--agent", "coder", "--limit", "100")
    check("the audit has both calls", all(one in out for one in ("exec", "flock_channel_post")), (out, err))
    must("coder is a member, too", "channel", "assign", "site", "--add", "coder")
    must("a person's message", "channel", "post", "site", "@coder say hello", "--as", "ann")
    spoken = until(60, lambda: [m for m in posts("site") if m["author"] == "coder" and "MODEL heard" in m["content"]])
    check("a message in a channel is answered by it", spoken, posts("site"))


def trace():
    code, out, err = flock("session", "export", "coder")
    check("the trace has both tool calls", all(f'"{tool}"' in out for tool in ("exec", "flock_channel_post")), out)
    check("with their results", "given by the host" in out, out)


def planted():
    return [*KEYS.values(), secret("openclaw-token"), secret("openclaw-plugin")]


def secrets_are_kept():
    """Nothing but `secrets/` and the environment of those who need it has a secret."""
    wanted = [one.encode() for one in planted()]
    found = files_with(HOME, planted(), leave=("node_modules", f"{HOME}/secrets"))
    check("no secret is in a file of the home's", not found, found)
    shown = [pid for pid, line in processes().items() if any(one in line.encode() for one in wanted)]
    check("nor in arguments of processes", not shown, shown)
    described = run("docker", "inspect", *sandboxes())[1]
    check("nor in a container's description", described and not any(one in described for one in planted()))
    logged = files_with("/tmp/openclaw", planted())
    check("nor in OpenClaw's log folder", not logged, logged)


def status():
    """What `status` says of OpenClaw."""
    return parsed(flock("--json", "status")[1]).get("openclaw") or {}


def is_healthy(commit):
    """Whether this commit is installed, serves and is healthy; what status says if not."""
    told = status()
    commits = [(told.get(which) or {}).get("commit") for which in ("installed", "serving")]
    return told.get("healthy") is True and commits == [commit, commit], told


def serving():
    """The process of OpenClaw's gateway, as the supervisor knows it."""
    try:
        return int(open(f"{HOME}/run/openclaw.pid").readline().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def answers():
    """Whether it is this home's: another one does not know the token."""
    return openclaw("/v1/models")[0] == 200


def start():
    must("start", "start")
    check("OpenClaw runs when it returns", serving() and alive(serving()), os.listdir(f"{HOME}/run"))
    check("and answers", answers(), openclaw("/v1/models"))
    check("status says so, and which commit it is", *is_healthy(git("rev-parse", "main")))
    given = open(f"/proc/{serving()}/environ", "rb").read()
    check("it has its providers' keys", all(key.encode() in given for key in KEYS.values()))
    check("and not flock's token", own_token().encode() not in given)


def recover():
    """What kills OpenClaw is not the end of it."""
    first = serving()
    os.kill(first, signal.SIGKILL)
    back = until(180, lambda: serving() not in (None, first) and alive(serving()) and answers())
    check("killed, it is started again", back, (first, serving()))
    answer = chat("coder", "hello once more")
    check("with its conversations", "MODEL heard" in answer and "MODEL heard 1" not in answer, answer)


def original(name):
    """The text of a file of the package."""
    return open(f"{SOURCE}/{name}").read()


def commit(message, texts):
    """A commit on the branch that is followed, with these files changed to these texts; its id."""
    for name, text in texts.items():
        with open(f"{SOURCE}/{name}", "w") as file:
            file.write(text)
    git("-c", "user.name=flock", "-c", "user.email=flock@example.org", "commit", "--quiet", "--all", "--message", message)
    return git("rev-parse", "HEAD")


def break_it():
    """A commit with a version that tells its version and accepts each configuration, but does not start; its id."""
    # It needs no dependencies, and to install them takes minutes.
    package = json.loads(original("package.json")) | {"dependencies": {}}
    program = f"""#!/usr/bin/env node
if (process.argv[2] === "--version") console.log("OpenClaw {package["version"]}");
if (process.argv[2] === "gateway") {{
    console.error("broken on purpose");
    process.exitCode = 3;
}}
"""
    return commit("Break it", {"package.json": json.dumps(package, indent=2), "openclaw.mjs": program})


def looked():
    return parsed(must("update --check", "--json", "update", "--check"))


def update():
    """To a newer commit, not to one that does not start, and back."""
    old = git("rev-parse", "main")
    check("there is nothing new yet", looked().get("state") == "current")
    new = commit("Add a line", {"README.md": f"{original('README.md')}\nOne line more.\n"})
    told = looked()
    seen = (told.get("state"), (told.get("wanted") or {}).get("commit"))
    check("a commit on the branch is something new", seen == ("available", new), told)
    check("which --check does not take", *is_healthy(old))
    # npm knows all dependencies since the first installation. That one has to ask for them: it would fail if a version is
    # newer than what npm knows.
    told = parsed(must("update", "--json", "update", env={**os.environ, "npm_config_prefer_offline": "true"}))
    check("update takes it", told.get("state") == "updated" and told.get("serves") is True, told)
    check("status says so", *is_healthy(new))
    answer = chat("coder", "hello after the update")
    check("conversations go on", "MODEL heard" in answer and "MODEL heard 1" not in answer, answer)

    broken, pid = break_it(), serving()
    begun = time.monotonic()
    code, out, err = flock("update")
    check(f"a version that does not start is refused ({time.monotonic() - begun:.1f} s)", code == 1, (code, out, err))
    check("with what it said", "broken on purpose" in out + err, (out, err))
    check("the same process goes on", serving() == pid and alive(pid), (pid, serving()))
    check("status says so, too", *is_healthy(new))
    answer = chat("coder", "hello after the refusal")
    check("and answers", "MODEL heard" in answer, answer)
    told = looked()
    check("it is passed over from then on", told.get("state") == "failed", told)
    must("another update", "update")
    check("does nothing", *is_healthy(new))

    told = parsed(must("update --rollback", "--json", "update", "--rollback"))
    check("the version before is back", told.get("state") == "rolled-back", told)
    check("and serves", *is_healthy(old))
    answer = chat("coder", "hello after the rollback")
    check("conversations still go on", "MODEL heard" in answer and "MODEL heard 1" not in answer, answer)
    check("the broken one was not put in use", broken[:12] not in os.path.realpath(f"{HOME}/openclaw"))


def stop():
    ports = [configuration()["gateway"]["port"], own_port()]
    must("stop", "stop")
    left = processes()
    check("no process is left", not left, left)
    check("no sandbox of OpenClaw's is left", not sandboxes(), sandboxes())
    running = run("docker", "ps", "-q", "--filter", f"label=flock.home={HOME}")[1].split()
    check("no container runs", not running, running)
    taken = [port for port in ports if connects(port)]
    check("the ports are free", not taken, taken)


def main():
    try:
        check("the model answers", until(30, lambda: os.path.exists(f"{MODEL}/port")))
        init()
        add()
        start()
        talk()
        tools()
        channel()
        trace()
        secrets_are_kept()
        recover()
        update()
        stop()
    except Exception as error:  # A step that can't go on is one failure, said like the others.
        import traceback

        traceback.print_exc()
        check("the run went to its end", False, repr(error))
    for name in ("supervisor", "openclaw", "build-openclaw") if checking.failed else ():
        print(f"== the end of {name}.log")
        print("".join(lines(f"{HOME}/logs/{name}.log")[-40:]))
    finish()


main()
