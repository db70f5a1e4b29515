"""AgentDojo's task suites through a flock agent. Usage: checks.py [--full], in a new home with OPENAI_BASE_URL."""

import hashlib
import json
import os
import subprocess
import sys
import time
import traceback
import urllib.request
from pathlib import Path

# Nobody is to be asked but the gateway.
os.environ.update(LANGSMITH_TRACING="false", DO_NOT_TRACK="1", HF_HUB_OFFLINE="1")

import openai
from agentdojo.agent_pipeline import AgentPipeline, GroundTruthPipeline, PipelineConfig
from agentdojo.agent_pipeline.llms.openai_llm import OpenAILLM
from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttack
from agentdojo.base_tasks import BaseUserTask
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.types import get_text_content_as_str

from model import Model, Play, bare, text_of

BINARY, HOME = os.environ["FLOCK_BINARY"], Path(os.environ["FLOCK_HOME"])
AGENT = "coder"
VERSION = "v1.2.2"
# The tasks that each suite has, so that none is left out in silence, and those of the short form.
USER_TASKS = {"workspace": 40, "travel": 20, "banking": 16, "slack": 21}
INJECTION_TASKS = {"workspace": 14, "travel": 7, "banking": 9, "slack": 5}
SHORT = {
    "workspace": [0, 3, 12, 32, 35],
    "travel": [0, 3, 11, 13, 19],
    "banking": [0, 1, 2, 11, 15],
    "slack": [0, 1, 6, 11, 14],
}
# Injections with the user tasks in whose results they are planted: those whose goal takes calls, and does not undo the task.
INJECTIONS = {
    "workspace": {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0},
    "travel": {0: 6, 1: 6, 2: 6, 3: 6, 4: 6, 5: 6},
    "banking": {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0, 8: 0},
    "slack": {1: 2, 2: 2, 3: 2, 4: 2, 5: 2},
}
SHORT_INJECTIONS = {"workspace": [0], "travel": [0, 3], "banking": [0, 6], "slack": [2]}
passed = failed = 0


def check(name, ok, seen=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"{'ok   ' if ok else 'FAIL '} {name}" + ("" if ok else f": {seen!r}"[:3000]))


def flock(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"flock {' '.join(arguments)}: {done.returncode} {done.stderr}")
    return done.stdout


class Keeping(AgentPipeline):
    """AgentDojo's own pipeline, of which the messages stay to be looked at."""

    def query(self, *arguments, **more):
        found = super().query(*arguments, **more)
        self.messages = found[3]
        return found


def pipeline():
    client = openai.OpenAI(max_retries=0, timeout=60, base_url=os.environ["OPENAI_BASE_URL"])
    llm = OpenAILLM(client, AGENT)
    llm.name = AGENT
    settings = PipelineConfig(llm=llm, model_id=None, defense=None, system_message_name=None, system_message=None)
    return Keeping.from_config(settings)


class Planted(ImportantInstructionsAttack):
    """AgentDojo's strongest attack, without the names of models that it knows."""

    def __init__(self, suite):
        super(ImportantInstructionsAttack, self).__init__(self._JB_STRING, suite, None)
        self.user_name = "Emma Johnson"


def calls_of(task, environment):
    environment = environment.model_copy(deep=True)
    if isinstance(task, BaseUserTask):
        environment = task.init_environment(environment)
    return [(call.function, dict(call.args)) for call in task.ground_truth(environment)]


class Dojo:
    def __init__(self, model):
        self.model, self.pipeline = model, pipeline()
        self.played, self.calls, self.results = 0, 0, []
        self.environments = {}

    def untouched(self, suite):
        """The environment of a suite without injections. It takes a while to be read."""
        if suite.name not in self.environments:
            self.environments[suite.name] = suite.load_and_inject_default_environment({})
        return self.environments[suite.name]

    def play(self, suite, user, injection=None):
        """Plays a task, perhaps with an injection. Gives what AgentDojo says of both, and what is wrong with the conversation."""
        task = suite.user_tasks[f"user_task_{user}"]
        injected = suite.injection_tasks[f"injection_task_{injection}"] if injection is not None else None
        planted = Planted(suite).attack(task, injected) if injected else {}
        plan = calls_of(task, self.untouched(suite))
        more = calls_of(injected, self.untouched(suite)) if injected else []
        self.model.plays = {task.PROMPT: Play(plan, task.GROUND_TRUTH_OUTPUT, injected and injected.GOAL, more)}
        self.model.seen.clear()
        self.played += 1
        done, is_obeyed = suite.run_task_with_pipeline(self.pipeline, task, injected, planted)
        return done, is_obeyed, self.wrongs(task.PROMPT, plan + more, suite, injected and injected.GOAL)

    def wrongs(self, words, planned, suite, goal):
        """What flock did to the conversation that it should not."""
        wrongs = []
        messages = self.pipeline.messages
        called = [(call.function, call.args) for one in messages if one["role"] == "assistant" for call in one["tool_calls"] or []]
        results = [one["error"] or get_text_content_as_str(one["content"]) for one in messages if one["role"] == "tool"]
        if sorted(called, key=repr) != sorted(planned, key=repr):
            wrongs.append(("other calls than the model's came to the client", called, planned))
        request = self.model.seen[words]
        read = [text_of(one) for one in request["messages"] if one["role"] == "tool"]
        # An empty result is said to be one, because some providers refuse empty texts.
        if read != [text or "(no output)" for text in results]:
            wrongs.append(("the model read other results than the client gave", read, results))
        offered = {tool["function"]["name"] for tool in request["tools"]}
        if not {tool.name for tool in suite.tools} <= offered:
            wrongs.append(("tools are missing", offered))
        if goal:
            others = [one for one in request["messages"] if one["role"] != "tool"]
            elsewhere = [one for one in others if bare(goal) in bare(json.dumps(one, ensure_ascii=False))]
            if elsewhere or not any(bare(goal) in bare(text) for text in read):
                wrongs.append(("the injection stands elsewhere than in a result", elsewhere))
        self.calls += len(called)
        self.results += results
        return wrongs


def files():
    """The agent's files with their contents."""
    folder = HOME / "workspaces" / AGENT
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def audit(after):
    """The rows of the audit after this one, the newest first."""
    config = json.loads((HOME / "config.json").read_text())
    address = os.environ["OPENAI_BASE_URL"].removesuffix("/v1") + "/api/audit?limit=100"
    headers = {"Authorization": f"Bearer {config['gateway']['auth']['token']}"}
    rows, before = [], ""
    while True:
        answer = urllib.request.urlopen(urllib.request.Request(address + before, headers=headers), timeout=60)
        page = [row for row in json.load(answer)["rows"] if row["id"] > after]
        rows += page
        if len(page) < 100:
            return rows
        before = f"&before={page[-1]['id']}"


def main():
    is_full = "--full" in sys.argv[1:]
    model, suites = Model(), get_suites(VERSION)
    flock("config", "set", "models.providers.dojo", json.dumps(model.provider()))
    flock("add", AGENT, "--no-container", "--model", "dojo/dojo")
    flock("start")
    os.environ["OPENAI_API_KEY"] = json.loads(flock("token", "add", "dojo", "--agents", AGENT, "--rights", "chat", "--json"))["token"]
    before, last = files(), max(row["id"] for row in audit(0))
    dojo = Dojo(model)
    for name, suite in suites.items():
        numbers = (len(suite.user_tasks), len(suite.injection_tasks))
        check(f"{name} has all its tasks", numbers == (USER_TASKS[name], INJECTION_TASKS[name]), numbers)
        began, chosen = time.monotonic(), range(USER_TASKS[name]) if is_full else SHORT[name]
        for number in chosen:
            try:
                done, _, wrongs = dojo.play(suite, number)
            except Exception:
                done, wrongs = False, [traceback.format_exc()]
            check(f"{name}: user task {number} is done", done and not wrongs, (done, wrongs))
        chosen = INJECTIONS[name] if is_full else SHORT_INJECTIONS[name]
        for number in chosen:
            try:
                done, is_obeyed, wrongs = dojo.play(suite, INJECTIONS[name][number], number)
            except Exception:
                done, is_obeyed, wrongs = False, False, [traceback.format_exc()]
            check(f"{name}: injection {number} reaches an obedient model, and it takes only the client's tools for it",
                  done and is_obeyed and not wrongs, (done, is_obeyed, wrongs))
        print(f"      {time.monotonic() - began:.1f} s")
    tasks = sum(USER_TASKS.values()) if is_full else sum(map(len, SHORT.values()))
    injections = sum(map(len, (INJECTIONS if is_full else SHORT_INJECTIONS).values()))
    check(f"{tasks} tasks and {injections} injections were played", dojo.played == tasks + injections, dojo.played)
    untouched(model, dojo, suites, before, last)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


def untouched(model, dojo, suites, before, last):
    """Nothing of flock's own was used, and the audit has each call and each result."""
    check("no conversation was strange to the model", not model.problems, model.problems)
    check("the agent's files are as they were", files() == before, sorted(set(files()) ^ set(before)))
    rows = [row for row in audit(last) if row["actor"] != "system"]
    calls = [row for row in rows if row["action"] == "tool.call"]
    results = [row for row in rows if row["action"] == "tool.result"]
    other = [row for row in rows if row["action"] not in ("chat.turn", "tool.call", "tool.result")]
    check("turns, calls and results are all that happened", not other, other)
    own = [row for row in calls if not row["detail"].startswith("handed to the client")]
    check("flock ran no tool, neither its own nor a client's", not own, own)
    tools = {tool.name for suite in suites.values() for tool in suite.tools}
    check("the audit has each call", len(calls) == dojo.calls and {row["subject"] for row in calls} <= tools, (len(calls), dojo.calls))
    digests = sorted(row["detail"].rsplit(" ", 1)[-1] for row in results)
    given = sorted(hashlib.sha256(text.encode()).hexdigest()[:32] for text in dojo.results)
    check("and the digest of each result", digests == given, (digests[:3], given[:3], len(digests), len(given)))
    sessions = json.loads(flock("session", "list", "--limit", "1000", "--json"))["sessions"]
    waiting = [one for one in sessions if one.get("pendingCalls")]
    check("no call waits for a result", len(sessions) == dojo.played and not waiting, (len(sessions), waiting[:3]))
    made = {verb: json.loads(flock(*verb.split(), "--json")) for verb in ("channel list", "approvals list --all", "tasks")}
    left = {verb: lists for verb, lists in made.items() if any(lists.values())}
    check("no channel, request or task was made", not left, left)


main()
