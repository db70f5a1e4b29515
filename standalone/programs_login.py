"""Programs on the host with the login that their user has: that is used, and nothing else of theirs is read or changed.

Gemini CLI alone can be asked so without an account: what its user has for their login names the model's server, too. The
others take that from settings which flock has them pass over.
"""

import json
import os

from checking import HOME, must
from programs_agents import FOUND, IDENTITY, MODEL, WORK, OnHost, keys

USER = f"{WORK}/user"


class OwnLogin(OnHost):
    """One whose model's provider this home does not have."""

    def __init__(self, program):
        super().__init__(program)
        self.name = f"{program}-login"
        self.word = f"only-{self.name}"
        self.provider = "elsewhere"
        self.workspace = f"{HOME}/workspaces/{self.name}"


def everything(programs):
    if "gemini" in programs:
        gemini()


def files(folder):
    """All files below a folder and what is in them."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                found[os.path.join(at, name)] = file.read()
    return found


def has(name, text):
    path = f"{USER}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def gemini():
    begun, ran = f"{WORK}/hook-has-run", f"{WORK}/server-has-run"
    hook = {"hooks": [{"type": "command", "command": f"touch {begun}"}]}
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        # By its own old name, which the program would write anew.
        "general": {"disableAutoUpdate": True},
        "hooksConfig": {"enabled": True},
        "hooks": {"SessionStart": [hook], "BeforeAgent": [hook]},
        "mcpServers": {"mine": {"command": "sh", "args": ["-c", f"touch {ran}; cat"]}},
    }
    has(".gemini/settings.json", "// mine\n" + json.dumps(settings, indent=1))
    port = open(f"{MODEL}/port").read()
    has(".gemini/.env", f"GEMINI_API_KEY={keys()['google']}\nGOOGLE_GEMINI_BASE_URL=http://127.0.0.1:{port}\n")
    has(".gemini/GEMINI.md", f"{FOUND}\n")
    extension = {"name": "mine", "version": "1.0.0", "contextFileName": "MINE.md"}
    has(".gemini/extensions/mine/gemini-extension.json", json.dumps(extension))
    has(".gemini/extensions/mine/MINE.md", f"{FOUND}\n")
    has("GEMINI.md", f"{FOUND}\n")
    before = files(USER)

    agent = OwnLogin("gemini")
    model = f"{agent.provider}/{agent.model}"
    must(f"add {agent.name}", "add", agent.name, "--runtime", "gemini", "--on-host", "--model", model)
    for file in IDENTITY:
        with open(f"{HOME}/agents/{agent.name}/identity/{file}", "a") as about:
            about.write(f"\n{agent.mark(file)}\n")
    status, answer, found = agent.turn("say with my own login")
    agent.check("it answers with its user's login", answer.get("content") == "with my own login", (status, answer))
    agent.prompt_is_native("own login", found)
    offered = [tool for one in found for tool in one["tools"]]
    agent.check("it has flock's tools", any("flock_channel_list" in tool for tool in offered), offered)
    status, answer, found = agent.turn("mcp flock_channel_list {}", "run pwd", "say went on")
    agent.check("it goes on, and they can be called", answer.get("content", "").endswith("went on"), (status, answer))
    agent.prompt_is_native("resumed with its own login", found)
    agent.check("it remembers", "with my own login" in json.dumps(found), found[:1])
    agent.check("in its workspace", agent.workspace in json.dumps(found), found[-1:])

    after = files(USER)
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    agent.check("what is its user's is as it was", not changed, changed)
    for what, path in (("hook", begun), ("server", ran)):
        agent.check(f"no {what} of its user's has run", not os.path.exists(path))
