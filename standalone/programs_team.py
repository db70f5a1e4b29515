"""Programs beside each other: one conversation that goes from one to the next, and two agents in one channel."""

import json

from checking import HOME, check, flock, posts, until
from programs_agents import IDENTITY, MODELS, Agent, own, requests, said_of

# Exchanges that flock's own loop has before any program has the conversation, and how many of them it is told of.
BEFORE, TOLD = 7, 5


class Orchestrator(Agent):
    """The agent that is meant where none is named."""

    def __init__(self, program):
        super().__init__(program, "orchestrator")
        for file in IDENTITY:
            with open(f"{HOME}/agents/{self.name}/identity/{file}", "a") as about:
                about.write(f"\n{self.mark(file)}\n")

    def body(self, orders, more):
        return {"prompt": "\n".join([self.word, *orders]), **more}

    def becomes(self, program):
        self.program = program
        self.provider, self.api, (self.model, self.other), self.path = MODELS[program]
        model = f"{self.provider}/{self.model}"
        status, told = own("PUT", "/api/settings", {"cli": program, "model": model, "effort": "low"})
        wanted = {"agent": self.name, "cli": program, "model": model, "effort": "low"}
        self.check(f"{program} has its turns from now on", status == 200 and wanted.items() <= told.items(), (status, told))


def goes_from_one_to_the_next(agent, programs):
    """What was said goes with the conversation, whoever ran the turns, and nobody is told anything twice."""
    for number in range(BEFORE):
        own("POST", "/api/message", {"prompt": f"question-{number} " + "of many words " * 20})
    said = [f"question-{number} " for number in range(BEFORE)]
    missed = said[-TOLD:]
    for program in programs:
        agent.becomes(program)
        answer_is(agent, f"from {program}", missed, said)
        said.append(f"from {program}")
        missed = said[-TOLD:]
    if len(programs) > 1:
        # The first one has its own conversation still, and was away when the others had theirs.
        agent.becomes(programs[0])
        missed = [f"from {program}" for program in programs[1:]]
        found = answer_is(agent, "back again", missed, missed)
        new = said_of(found[-1])[-1] if found else ""
        agent.check(f"{programs[0]} is not told again what it has", f"from {programs[0]}" not in new, new)
    offered = {tool for one in agent.asked() for tool in one["tools"]}
    agent.check("it has the tools of its role", any("flock_create_agent" in tool for tool in offered), offered)


def answer_is(agent, text, missed, said):
    status, answer, found = agent.turn(f"say {text}")
    name = f"{agent.program}, {text}"
    agent.check(f"{name}: it answers", answer.get("content") == text and answer.get("cli") == agent.program, (status, answer))
    agent.prompt_is_native(name, found)
    new = said_of(found[-1])[-1] if found else ""
    agent.check(f"{name}: it is told once of what it has missed", new.count("[Recent Context]") == 1, new)
    at = [new.find(one) for one in missed]
    agent.check(f"{name}: all of that, the oldest first", -1 not in at and at == sorted(at), (missed, at, new))
    told = [one for one in said if one not in missed and one in new]
    agent.check(f"{name}: and nothing that is too long ago", not told, told)
    begin, _, current = new.partition("[Current Message]")
    agent.check(f"{name}: in at most 8,000 characters", 0 < len(begin) < 8100, len(begin))
    agent.check(f"{name}: what is new comes last and once", new.count(f"say {text}") == current.count(f"say {text}") == 1, new)
    return found


def talk_in_a_channel(first, second):
    """One posts with a tool, the other is called by that and answers."""
    channel = f"pair-{first.name}"
    flock("channel", "create", channel, "--topic", "Two", f"--member={first.name}", f"--member={second.name}")
    since = len(requests())
    message = f"@{second.name} {second.word}\nsay answered by {second.name}"
    call = json.dumps({"channelId": channel, "message": message})
    # In a session of its own: the word of the second would stand in all that the model is asked for the first one later.
    status, answer, found = first.turn(f"mcp flock_channel_post {call}", sessionKey=first.session("pair"))
    answered = until(120, lambda: [one for one in posts(channel) if one["author"] == second.name])
    wanted = [f"answered by {second.name}"]
    second.check(f"it answers what {first.name} has posted", [one["content"] for one in answered] == wanted, (answer, posts(channel)))
    own_requests = [one for one in second.asked(since) if first.word not in json.dumps(one["body"])]
    second.prompt_is_native(f"called by {first.name}", own_requests)
    authors = [one["author"] for one in posts(channel) if one["author"] in (first.name, second.name)]
    check(f"{channel}: each has posted once", authors == [first.name, second.name], posts(channel))
