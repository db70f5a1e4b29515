"""Agents that installed programs run, as a person sees them: programs_checks.py [--figures | --short --PART...] PROGRAM...

Without the name of a part, as in `--halts`, all parts of PARTS are done, in that order. The last line says
`N passed, M failed`; the exit code is 0 only if nothing failed. What was asked of the model is what counts: the system
prompt once and in its native place, what was said before only where a conversation begins anew, and never a word of
another agent's.
"""

import concurrent.futures
import json
import os
import sys
import time

import programs_effort as effort
import programs_figures as figures
import programs_halts as halts
import programs_login as login
import programs_logs as logs
import programs_policy as policy
import programs_quota as quota
import programs_relay as relay
import programs_talk as talk
import programs_team as team
from checking import HOME, check, files_with, finish, flock, free_port, must, parsed, until
from programs_agents import FOUND, IDENTITY, MODEL, MODELS, WORK, Agent, OnHost, keys, own, requests

PROGRAMS = [one for one in sys.argv[1:] if not one.startswith("--")]
# What the person who uses flock has written for the programs themselves.
PERSONAL = {
    ".claude/CLAUDE.md": f"{FOUND}\n",
    ".claude/settings.json": json.dumps({"env": {"FOUND": FOUND}}),
    ".codex/AGENTS.md": f"{FOUND}\n",
    ".codex/config.toml": f'developer_instructions = "{FOUND}"\n',
    ".gemini/GEMINI.md": f"{FOUND}\n",
    ".config/opencode/AGENTS.md": f"{FOUND}\n",
    ".config/opencode/opencode.json": json.dumps({"instructions": [FOUND]}),
}


def init():
    must("init", "init", "--yes", "--model", "script/demo", "--port", str(free_port()))
    until(20, lambda: os.path.exists(f"{MODEL}/port"))
    port = open(f"{MODEL}/port").read()
    for program in PROGRAMS:
        name, api, models, path = MODELS[program]
        models = [*models, effort.BY_WORDS] if program == "claude" else models
        models = [{"id": model, "contextWindow": 200000, "maxTokens": 32000} for model in models]
        provider = {"baseUrl": f"http://127.0.0.1:{port}{path}", "api": api, "models": models}
        must(f"config set of {name}", "config", "set", f"models.providers.{name}", json.dumps(provider))
        key = keys()["openai" if name in ("responses", "completions") else name]
        must("its key", "config", "set", f"models.providers.{name}.apiKey", "-", stdin=key)
    for name, text in PERSONAL.items():
        path = f"{WORK}/user/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def add(agents):
    for agent in agents:
        line = ["add", agent.name, "--runtime", agent.program, "--model", f"{agent.provider}/{agent.model}"]
        must(f"add {agent.name}", *line, *(["--on-host"] if agent.on_host else []))
        for file in IDENTITY:
            with open(f"{HOME}/agents/{agent.name}/identity/{file}", "a") as about:
                about.write(f"\n{agent.mark(file)}\n")
        for file in ("CLAUDE.md", "GEMINI.md", "opencode.json"):
            with open(f"{agent.workspace}/{file}", "w") as found:
                found.write(json.dumps({"instructions": [FOUND]}) if file.endswith("json") else f"{FOUND}\n")
    code, out, err = flock("--json", "doctor")
    found = [one for one in parsed(out).get("checks", []) if one["name"] == "programs"]
    names = [one["message"] for one in found if one["state"] == "ok"]
    titles = {"claude": "Claude Code 2.", "codex": "Codex 0.", "gemini": "Gemini CLI 0.", "opencode": "OpenCode 1."}
    check("doctor has found the programs", names and all(titles[one] in names[0] for one in PROGRAMS), (code, found, err))
    must("start", "start")
    shown = flock("status")[1]
    for agent in agents:
        if agent.on_host:
            agent.check("status shows that it works on the host", "this machine itself" in shown, shown)


def secrets_are_kept():
    found = files_with(HOME, keys().values(), leave=(f"{HOME}/secrets",))
    check("no provider's key is in a file of the home's", not found, found)
    for name, text in PERSONAL.items():
        check(f"{name} is as the person left it", open(f"{WORK}/user/{name}").read() == text)


def usage_is_right(agents):
    spent = parsed(flock("--json", "usage")[1])
    check("usage can be shown", spent, spent)
    answered = sum(one.get("status") == 200 for one in requests())
    wanted = answered + sum(agent.of_unknown_use for agent in agents)
    # What flock's own loop has asked of the script that is its model is no call of these.
    rows = [row for row in own("GET", "/api/usage?by=model")[1].get("usage", []) if "script/" not in row["name"]]
    check("each model call is counted once", sum(row["calls"] for row in rows) == wanted > 0, (wanted, rows))


def talks(agents):
    """Conversations, tools, failures; one agent beside the other."""
    inside = [agent for agent in agents if not agent.on_host]
    order = [agent.program for agent in inside]
    orchestrator = team.Orchestrator(order[0])
    long = talk.Long(agents)
    # Three at a time: each is a process of several hundred megabytes.
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        work = [pool.submit(talk.everything, agent, is_left_out(agent)) for agent in agents]
        work.append(pool.submit(team.goes_from_one_to_the_next, orchestrator, order))
        for done in work:
            done.result()
        for done in [pool.submit(team.talk_in_a_channel, *pair) for pair in zip(inside[::2], inside[1::2])]:
            done.result()
    long.ends()
    relay.leads_nowhere_in_a_turn(agents)
    usage_is_right(agents)
    talk.each_request_is_of_one_agent()


def thinks(agents):
    """As much as each agent is to."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(effort.everything, agent) for agent in agents if not agent.on_host]:
            done.result()


def is_left_out(agent):
    """Whether a part that is the same for all programs goes without this one, which takes long to start."""
    return "--short" in sys.argv and any(one in PROGRAMS for one in QUICK) and agent.program not in QUICK


PARTS = {"talk": talks, "policy": policy.everything, "effort": thinks, "logs": logs.everything, "quota": quota.everything, "halts": halts.everything}
# With --short, the others have their first turns, their quotas and their policies alone, for which each has words of its own.
QUICK = ("claude", "codex")
IN_SHORT_FOR_ALL = ("talk", "policy", "quota")


def main():
    init()
    # What takes longest comes first.
    order = [program for program in ("opencode", "gemini", "claude", "codex") if program in PROGRAMS]
    agents = [Agent(program) for program in order]
    if "--figures" in sys.argv:
        # For what the relay adds; by itself, on the host.
        agents += [OnHost("codex")] if "codex" in order else []
        add(agents)
        figures.measure(agents)
        must("stop", "stop")
        finish()
    # Claude Code would ask about each step there.
    refused = ("claude",) if os.getuid() == 0 else ()
    agents += [OnHost(program) for program in order if program in ("claude", "codex") and program not in refused]
    for program in [one for one in PROGRAMS if one in refused]:
        found = flock("add", "as-root", "--runtime", program, "--on-host")
        check(f"{program} as root on the host is refused", found[0] == 2 and "as root" in found[2], found)
    chosen = [name for name in PARTS if f"--{name}" in sys.argv] or list(PARTS)
    add(agents)
    for name in chosen:
        begun = time.monotonic()
        PARTS[name]([agent for agent in agents if name in IN_SHORT_FOR_ALL or not is_left_out(agent)])
        check(f"all of --{name} took {time.monotonic() - begun:.0f} s", True)
    login.everything(PROGRAMS)
    secrets_are_kept()
    must("stop", "stop")
    finish()


main()
