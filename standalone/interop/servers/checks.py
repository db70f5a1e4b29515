"""Real MCP servers, each in its sandbox: fetched and pinned, what they list, a call of each over the whole way, and the walls
around each."""

import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from checking import HOME, check, finish, flock, must, parsed, run


def npm(name, *options):
    return ["--npm", f"@modelcontextprotocol/server-{name}@2026.8.31", *options]


def pypi(package, *options):
    return ["--pypi", package, *options]


# These need the first major version of the SDK.
OLD = ["--with", "mcp<2"]

# The name, its package with options, the arguments of its program, and a call: the tool, its arguments, what is in the answer.
SERVERS = [
    ("everything", npm("everything"), ["stdio"], "echo", {"message": "over the wall"}, "over the wall"),
    ("files", npm("filesystem"), ["/workspace/data"], "write_file",
     {"path": "/workspace/data/note.txt", "content": "written"}, "Successfully wrote"),
    ("memory", npm("memory", "--env", "MEMORY_FILE_PATH=/workspace/data/memory.json"), [], "create_entities",
     {"entities": [{"name": "flock", "entityType": "program", "observations": ["has walls"]}]}, "has walls"),
    ("thinking", npm("sequential-thinking"), [], "sequentialthinking",
     {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}, "thoughtNumber"),
    ("time", pypi("mcp-server-time==2026.10.19"), [], "get_current_time", {"timezone": "Asia/Seoul"}, "Asia/Seoul"),
    ("git", pypi("mcp-server-git==2026.10.19"), ["--repository", "/workspace/data"], "git_status",
     {"repo_path": "/workspace/data"}, "No commits yet"),
    # Its host is allowed, but there is no such host. Another one is refused by the proxy.
    ("fetch", pypi("mcp-server-fetch==2026.10.24", "--egress", "allowed.invalid"), ["--ignore-robots-txt"],
     "fetch", {"url": "https://other.example/"}, "MCP server fetch"),
    ("sqlite", pypi("mcp-server-sqlite==2025.4.25", *OLD), ["--db-path", "/workspace/data/a.db"],
     "read_query", {"query": "SELECT 40 + 2 AS answer"}, "42"),
    ("calculator", pypi("mcp-server-calculator==0.2.1", *OLD), [], "calculate", {"expression": "6 * 7"}, "42"),
    ("duckdb", pypi("mcp-server-duckdb==1.1.0", *OLD), ["--db-path", "/workspace/data/a.duck"],
     "query", {"query": "SELECT 40 + 2 AS answer"}, "42"),
]
# One of each kind: from npm, and with a variable of its own; from PyPI, with a program that it starts, with a host that it
# may reach, and with an older version of a package.
SHORT = ("everything", "memory", "git", "fetch", "sqlite")
if os.environ.get("FLOCK_INTEROP_SHORT"):
    SERVERS = [server for server in SERVERS if server[0] in SHORT]
# One from npm and one from PyPI.
REINSTALLED = ("memory", "sqlite")

# Tries what the walls are for, inside a server's container, as its user, and prints what worked.
PROBE = r"""
import os, socket
worked = []
for where in (("1.1.1.1", 443), ("172.17.0.1", 80), ("169.254.169.254", 80)):
    try:
        socket.create_connection(where, 2)
        worked.append("connected to %s" % where[0])
    except OSError:
        pass
for path in ("/x", "/usr/x", "/etc/x", "/nix/x", "/secrets/x", "/package/x", "/opt/flock/node/x", "/flock-helper", "/proc/sys/kernel/core_pattern"):
    try:
        open(path, "a").write("x")
        worked.append("wrote %s" % path)
    except OSError:
        pass
for path in ("/var/run/docker.sock", "/root/.ssh", "/proc/1/root/root"):
    try:
        worked.append("read %s: %s" % (path, os.listdir(path)))
    except OSError:
        pass
if os.getuid() == 0:
    worked.append("is root")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
for key in ("CapEff", "CapPrm", "CapBnd"):
    if int(status[key], 16):
        worked.append("%s %s" % (key, status[key].strip()))
if status["NoNewPrivs"].strip() != "1" or status["Seccomp"].strip() != "2":
    worked.append("no filter")
print("; ".join(worked) or "nothing")
"""


def container(name):
    found = run("docker", "ps", "--filter", f"label=flock.home={HOME}", "--format", "{{.Names}}")[1].split()
    return next((one for one in found if one.startswith(f"flock-mcp-{name}")), "")


def add(server):
    """Adds a server with its package. Its folder gets what it works on."""
    name, package, arguments, *_ = server
    workspace = f"{HOME}/mcp/{name}/workspace"
    os.makedirs(f"{workspace}/data")
    if name == "git":
        run("git", "init", "--quiet", f"{workspace}/data")
    begun = time.monotonic()
    added = flock("mcp", "add", name, *package, "--yes", "--json", "--", *arguments)
    return name, added, time.monotonic() - begun


def tree(name):
    """All files of a server's package."""
    below = f"{HOME}/mcp/{name}/packages"
    return [os.path.join(folder, file) for folder, _, files in os.walk(below) for file in files]


def reinstalled(name):
    """A package whose files were changed or lost is noticed, does not start, and comes back as its lock says."""
    shutil.rmtree(f"{HOME}/mcp/{name}/packages")
    code, out, err = flock("mcp", "test", name)
    check(f"{name} does not start without its package", code != 0 and "--locked" in err, (code, out, err))
    begun = time.monotonic()
    must(f"{name} is fetched again", "mcp", "update", name, "--locked")
    check(f"{name} came back ({time.monotonic() - begun:.1f} s)", tree(name), name)
    with open(tree(name)[0], "a") as file:
        file.write("changed")
    doctor = flock("doctor", "--json")[1]
    check(f"doctor notices a changed file of {name}", f"flock mcp update {name} --locked" in doctor, doctor)
    must(f"{name} is mended", "mcp", "update", name, "--locked")


def main():
    replies = [
        {"when": name, "steps": [
            {"calls": [{"name": f"mcp_{name}_{tool}", "arguments": arguments}]}, {"say": "{{last_result}}"}]}
        for name, _, _, tool, arguments, _ in SERVERS
    ]
    os.makedirs(f"{HOME}/scripts", exist_ok=True)
    with open(f"{HOME}/scripts/servers.json", "w") as file:
        json.dump({"replies": replies}, file)
    must("an agent is added", "add", "coder")
    begun = time.monotonic()
    # The first of each kind fetches Node and npm, or pip.
    with ThreadPoolExecutor(4) as pool:
        for name, (code, out, err), took in pool.map(add, SERVERS):
            package = parsed(out).get("packages", {}).get(name, {})
            check(f"{name} is added, with {package.get('packages')} packages, {(package.get('bytes') or 0) >> 20} MiB "
                  f"({took:.1f} s)", code == 0 and package.get("integrity") and package.get("problem") is None, (out, err))
    check(f"all were fetched in {time.monotonic() - begun:.1f} s", True)
    links = [file for name, *_ in SERVERS for file in tree(name) if os.path.islink(file)]
    check("no package has a link", not links, links[:5])
    for name in REINSTALLED:
        reinstalled(name)
    must("the gateway starts", "start")
    for name, _, _, tool, _, wanted in SERVERS:
        begun = time.monotonic()
        listed = parsed(flock("mcp", "test", name, "--json")[1])
        tools = listed.get("tools", [])
        usable = [one["name"] for one in tools if one["sha256"]]
        check(f"{name} starts and lists {len(usable)} tools, by {listed.get('protocol')} "
              f"({time.monotonic() - begun:.1f} s)", tool in usable and len(usable) == len(tools), listed)
        must(f"{tool} of {name} is granted", "mcp", "grant", name, "coder", "--tools", tool, "--yes")
        code, out, err = flock("chat", "coder", name)
        check(f"{tool} of {name} is called by an agent", code == 0 and wanted in out
              and f"of the MCP server {name}" in out, (code, out, err))
        inside = container(name)
        described = parsed(run("docker", "inspect", inside)[1])
        host = described[0]["HostConfig"] if described else {}
        walls = (host.get("NetworkMode"), host.get("ReadonlyRootfs"), host.get("CapDrop"), host.get("Privileged"))
        check(f"{name} has a sandbox without a network", walls == ("none", True, ["ALL"], False), (inside, walls))
        done = subprocess.run(["docker", "exec", "-i", inside, "python3", "-"], input=PROBE, capture_output=True,
                              text=True, check=False)
        check(f"no wall around {name} falls", done.stdout.strip() == "nothing", (done.stdout, done.stderr))
    status = parsed(flock("status", "--json")[1])
    running = [one["name"] for one in status.get("mcpServers", []) if one["running"]]
    check("all run beside each other", len(running) == len(SERVERS), running)
    must("the gateway stops", "stop")
    # Connections are added up before they are written down, at the latest at the end.
    audit = flock("audit", "--limit", "1000")[1].splitlines()
    refused = [row for row in audit if "mcp.fetch" in row and "other.example" in row]
    check("the proxy refused another host to fetch, and the audit has it", refused, audit[:50])
    finish()


main()
