"""The tool policy binds the programs' own tools: what an agent is not to have is not offered to its model, and does
nothing when its model calls it all the same."""

import concurrent.futures
import json
import os

from checking import flock
from programs_agents import said_of
from programs_talk import said_last

# Its own tools of each kind; of those with arguments, that one is called.
TOOLS = {
    "claude": {
        "commands": {"Bash": {"command": "echo ran > ran.txt", "description": "-"}},
        "writing": {"Write": {"file_path": "HERE/written.txt", "content": "written"}, "Edit": None, "NotebookEdit": None},
        "reading": {"Read": {"file_path": "HERE/given.txt"}, "Glob": None, "Grep": None},
    },
    "codex": {
        "commands": {"exec_command": {"cmd": "echo ran > ran.txt"}, "write_stdin": None},
        "writing": {"apply_patch": "*** Begin Patch\n*** Add File: written.txt\n+written\n*** End Patch"},
        # It reads with its shell; this is for pictures alone.
        "reading": {"view_image": None},
    },
    "gemini": {
        "commands": {
            "run_shell_command": {"command": "echo ran > ran.txt"}, "list_background_processes": None,
            "read_background_output": None,
        },
        "writing": {"write_file": {"file_path": "HERE/written.txt", "content": "written"}, "replace": None},
        "reading": {"read_file": {"file_path": "given.txt"}, "glob": None, "grep_search": None, "list_directory": None},
    },
    "opencode": {
        "commands": {"bash": {"command": "echo ran > ran.txt", "description": "-"}},
        "writing": {"write": {"filePath": "HERE/written.txt", "content": "written"}, "edit": None},
        "reading": {"read": {"filePath": "HERE/given.txt"}, "glob": None, "grep": None},
    },
}
KINDS = ("commands", "writing", "reading")


def everything(agents):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(binds, agent) for agent in agents]:
            done.result()


def binds(agent):
    settings = {
        f"agents.list[{agent.name}].tools.deny": '["exec"]',
        f"plugins.entries.flock.config.gatewayAgents[{agent.name}].autonomy": "readonly",
    }
    (deny, exec_alone), (autonomy, readonly) = settings.items()
    has_only(agent, "first", KINDS)
    flock("config", "set", deny, exec_alone)
    found = has_only(agent, "without exec", ("writing", "reading"))
    told = "\n".join(said_of(found[-1])[-1:]) if found else ""
    agent.check("without exec: the conversation goes on", "[Recent Context]" not in told, told)
    flock("config", "set", autonomy, readonly)
    has_only(agent, "readonly", ("reading",))
    flock("config", "unset", deny)
    flock("config", "set", autonomy, "supervised")
    has_only(agent, "all again", KINDS)


def has_only(agent, name, kinds):
    """One turn in which the model calls tools of all kinds, whatever is offered to it."""
    tools, here = TOOLS[agent.program], agent.workspace if agent.on_host else "/workspace"
    made = {kind: f"{agent.workspace}/{file}" for kind, file in (("commands", "ran.txt"), ("writing", "written.txt"))}
    for path in made.values():
        if os.path.exists(path):
            os.remove(path)
    with open(f"{agent.workspace}/given.txt", "w") as file:
        file.write(f"given for {name}\n")
    calls = [
        f"force {tool} {json.dumps(arguments).replace('HERE', here)}"
        for kind in KINDS for tool, arguments in tools[kind].items() if arguments
    ]
    status, answer, found = agent.turn(*calls, f"say had {name}", sessionKey=agent.session("policy"))
    agent.check(f"{name}: the turn ends well", answer.get("content") == f"had {name}", (status, answer))
    agent.check(f"{name}: each call was one", len(found) == len(calls) + 1, len(found))
    for request in found:
        offered = {kind: sorted(set(tools[kind]) & set(request["tools"])) for kind in KINDS}
        wanted = {kind: sorted(tools[kind]) if kind in kinds else [] for kind in KINDS}
        agent.check(f"{name}: exactly these kinds are offered", offered == wanted, offered)
        agent.check(f"{name}: and flock's tools", any("flock_" in tool for tool in request["tools"]), request["tools"])
    for kind, path in made.items():
        agent.check(f"{name}: {kind} {'do' if kind in kinds else 'do not do'} what is called", os.path.exists(path) == (kind in kinds), said_last(found))
    if agent.program != "codex":
        agent.check(f"{name}: what reads does", ("reading" in kinds) == (f"given for {name}" in said_last(found)), said_last(found))
    return found
