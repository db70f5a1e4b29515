"""How much a model is to think: what each program asks for where an agent has an effort, and where it has none."""

from checking import must
from programs_agents import Agent, own

# For each program and effort what its model is asked for; without one, what the program asks for by itself.
WANTED = {
    "claude": {None: (31999, None), "off": (None, None), "low": (2048, None), "high": (16000, None)},
    # These models know no less than a little.
    "codex": {None: "medium", "off": "low", "low": "low", "high": "high"},
    "gemini": {None: 8192, "off": 128, "low": 2048, "high": 24576},
    "opencode": {None: None, "off": None, "low": "low", "high": "high"},
}
# A model of Claude Code's that is told by words.
BY_WORDS = "claude-opus-4-7"


def asked_for(request):
    """What a request says of thinking, in the words of its API."""
    body = request["body"]
    if request["api"] == "anthropic":
        thinking = body.get("thinking") or {}
        return thinking.get("budget_tokens") or thinking.get("type"), (body.get("output_config") or {}).get("effort")
    if request["api"] == "google":
        return (body["generationConfig"].get("thinkingConfig") or {}).get("thinkingBudget")
    if "input" in body:
        return (body.get("reasoning") or {}).get("effort")
    return body.get("reasoning_effort")


def everything(agent):
    # The first time it is the choice of before, which was none; the last time that is taken back.
    for effort in (None, "low", "off", None):
        becomes(agent, effort)
        is_asked_for(agent, effort, WANTED[agent.program][effort])
    if agent.program == "claude":
        for effort in ("low", "high"):
            becomes(agent, effort, BY_WORDS)
            is_asked_for(agent, f"{effort} of {BY_WORDS}", ("adaptive", effort))
        becomes(agent, None, agent.model)
    other = Agent(agent.program, f"{agent.program}-thinker")
    line = ["--runtime", agent.program, "--model", f"{agent.provider}/{agent.model}", "--effort", "high"]
    must(f"add {other.name} --effort high", "add", other.name, *line)
    is_asked_for(other, "high", WANTED[agent.program]["high"])
    must(f"remove {other.name}", "remove", other.name, "--purge", "--yes")


def becomes(agent, effort, model=None):
    asked = {"agent": agent.name, "cli": agent.program, "effort": effort}
    asked |= {"model": f"{agent.provider}/{model}"} if model else {}
    status, told = own("PUT", "/api/settings", asked)
    agent.check(f"its effort is {effort}", status == 200 and told.get("effort") == effort, (status, told))


def is_asked_for(agent, name, wanted):
    status, answer, found = agent.turn(f"say with effort {name}", sessionKey=agent.session("effort"))
    agent.check(f"with effort {name} it answers", answer.get("content") == f"with effort {name}", (status, answer))
    asked = [asked_for(one) for one in found]
    agent.check(f"with effort {name} its model is asked for {wanted}", asked == [wanted], asked)
