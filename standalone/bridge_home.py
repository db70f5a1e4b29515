"""The home for the checks of bridges: an agent that answers by a script, and channels. And how it ends."""

import json
import os

from bridge_flock import bridge, bridges, kept_bridges
from checking import HOME, check, files_with, flock, free_port, must, own_processes, run

AGENT = "helper"
WORKSPACE = f"{HOME}/workspaces/{AGENT}"
# The channel of the campaign.
LOAD = "load"
CHANNELS = ("work", "lobby", "both", LOAD)


def replies(storm):
    told = {"channelId": "work", "message": "told by a tool"}
    by_tool = [{"calls": [{"name": "flock_channel_post", "arguments": told}]}, {"say": ""}]
    return [
        {"when": "how are you", "steps": [{"say": "I am well."}]},
        {"when": "tell the others", "steps": by_tool},
        {"when": "call everybody", "steps": [{"say": storm}]},
        {"when": "call whom you need", "steps": [{"say": "Please look, @alice, and not `@bob`."}]},
        {"when": "work for an hour", "steps": [{"say": "That was an hour.", "delay_ms": 590_000}]},
        {"when": "take your time", "steps": [{"say": "It is done.", "delay_ms": 3_000}]},
        {"when": "show the plan", "steps": [{"say": "Here is [the plan](plan.txt)."}]},
        {"when": "between us", "steps": [{"say": "Nobody else heard that."}]},
        {"steps": [{"say": ""}]},
    ]


def make(stage):
    must("init", "init", "--yes", "--no-images", "--model", "script/demo", "--port", str(free_port()), limit=300)
    os.makedirs(f"{HOME}/scripts", exist_ok=True)
    with open(f"{HOME}/scripts/talk", "w") as file:
        json.dump({"replies": replies(stage.storm)}, file)
    must("add the agent", "add", AGENT, "--no-container", "--model", "script/talk")
    must("the orchestrator plays the same", "edit", "orchestrator", "--model", "script/talk")
    must("start", "start")
    for channel in CHANNELS:
        must(f"channel {channel}", "channel", "create", channel, "--topic", "people", "--member", AGENT)


def secrets(stage):
    """Nothing but `secrets/` has a token."""
    planted = stage.secrets()
    check("the token is in secrets/", files_with(f"{HOME}/secrets", planted), os.listdir(f"{HOME}/secrets"))
    found = files_with(HOME, planted, leave=(f"{HOME}/secrets",))
    check("and in no other file of the home's: not in config, logs or database", not found, found)
    _, shown, _ = run("ps", "-eww", "-o", "args")
    check("nor in arguments of processes", shown and not [one for one in planted if one in shown])
    told = [flock("--json", *args) for args in (["bridge", "list"], ["status"], ["doctor"], ["audit"],
                                                ["logs", "gateway", "-n", "100000"], ["config", "get"])]
    told = "".join(map(str, told))
    check("nor in what flock says", not [one for one in planted if one in told])


def leave(stage):
    """The bridge is removed, and flock is stopped."""
    must("the audit is whole", "audit", "--verify")
    code, out, err = bridge("remove", stage.bridge)
    check("a bridge is removed", code == 0 and bridges() == [] and not kept_bridges(), (code, out, err))
    check("with its token", not files_with(HOME, stage.secrets(), leave=("backups",)))
    must("stop for good", "stop")
    left = own_processes()
    check("no process of the home is left", not left, left)
