"""What is said to one agent that a program runs, from its first turn to a failure, and what came of it."""

import base64
import json
import os
import re
import threading
import time

from checking import check, flock, posts, until
from programs_agents import IDENTITY, MODEL, STEERING, keys, requests, said_of, system_of

# How an agent's files of identity are marked: which, and whose.
MARK = "MARK-([A-Z]+)-([a-z-]+)-END"
# What a terminal would obey: clear, a new title, the clipboard, a link, text that is read from the right.
HOSTILE = (
    "\x1b[2J\x1b]0;taken\x07\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\"
    "\u202edetrever\u202c\x9b31m"
)


class Long:
    """A turn of each agent whose model takes longer to begin its answer than a program waits by itself, or may."""

    # Seconds; Gemini CLI would wait for 60.
    long = 65

    def __init__(self, agents):
        since = len(requests())
        self.turns = {agent: agent.begin("hold long", "say at last", sessionKey=agent.session("long")) for agent in agents}
        for agent in agents:
            # Each program starts anew, beside all the others.
            held = until(240, lambda: agent.asked(since))
            agent.check("a model begins to think for long", held, agent.processes())
        threading.Timer(self.long, lambda: open(f"{MODEL}/long", "w").close()).start()

    def ends(self):
        for agent, turn in self.turns.items():
            status, answer = turn.end()
            agent.check(f"an answer is waited for {self.long} s", answer.get("content") == "at last", (status, answer))


def everything(agent, is_short=False):
    begun = time.monotonic()
    begins(agent)
    goes_on(agent)
    begins_anew(agent)
    uses_flocks_tools(agent)
    runs_commands(agent)
    if not is_short:
        is_given_much(agent)
        fails(agent)
        falls_back(agent)
        two_at_once(agent)
        is_left(agent)
    agent.check(f"all of it took {time.monotonic() - begun:.0f} s", True)


def begins(agent):
    status, answer, found = agent.turn("say first answer")
    agent.check("a new session answers", answer.get("content") == "first answer", (status, answer))
    agent.check("by its program", answer.get("cli") == agent.program, answer)
    agent.check("the model was asked once", len(found) == 1, len(found))
    agent.prompt_is_native("new", found)
    said = said_of(found[-1])[-1] if found else ""
    agent.check("nothing was said before", "[Recent Context]" not in json.dumps(found), said)
    agent.check("its prompt begins with a line of flock's", "[Current Message]" in said, said)


def goes_on(agent):
    status, answer, found = agent.turn("say second answer")
    agent.check("a resumed session answers", answer.get("content") == "second answer", (status, answer))
    agent.prompt_is_native("resumed", found)
    whole = json.dumps(found)
    agent.check("the program remembers by itself", "first answer" in whole, said_of(found[-1]) if found else "")
    agent.check("and is told nothing of before", "[Recent Context]" not in whole, whole[:2000])


def begins_anew(agent):
    status, answer, found = agent.turn("say third answer", forceNew=True)
    agent.check("a forced new session answers", answer.get("content") == "third answer", (status, answer))
    agent.prompt_is_native("forced", found)
    said = "\n".join(said_of(found[-1])) if found else ""
    agent.check("it is told once of before", said.count("[Recent Context]") == 1, said)
    agent.check("the oldest first", 0 < said.find("first answer") < said.find("second answer"), said)
    agent.check("and then what is new", said.rfind("[Current Message]") > said.find("second answer"), said)
    agent.check("which is in it once", said.count("say third answer") == 1, said)


def uses_flocks_tools(agent):
    text, site = f"posted by {agent.name}", f"site-{agent.name}"
    # With nobody else in it, whom a post would give a turn.
    flock("channel", "create", site, "--topic", "Work", f"--member={agent.name}")
    call = json.dumps({"channelId": site, "message": text, "author": "human:ann"})
    status, answer, found = agent.turn(f"mcp flock_channel_post {call}")
    authors = [one["author"] for one in posts(site) if one["content"] == text]
    agent.check("flock_channel_post is in the channel as the agent's", authors == [agent.name], (answer, posts(site)))
    agent.prompt_is_native("with a call", found)
    whole = json.dumps(found)
    agent.check("with a call it is told nothing of before", "third answer" in whole and "[Recent Context]" not in said_new(found), said_new(found))
    offered = {tool for one in found for tool in one["tools"] if "flock_" in tool}
    alien = [tool for tool in offered if "create_agent" in tool or "triage" in tool or "audit" in tool]
    agent.check("tools of other roles are not offered", offered and not alien, offered)


def runs_commands(agent):
    with open(f"{agent.workspace}/given.txt", "w") as file:
        file.write("given by the host\n")
    with open(f"{agent.workspace}/hostile.txt", "w") as file:
        file.write(HOSTILE)
    command = "id -u; pwd; env; cat given.txt; echo made > made.txt; cat hostile.txt; ls /home /root; touch /usr/x"
    shout = base64.b64encode(f"hostile answer {HOSTILE}".encode()).decode()
    status, answer, found = agent.turn(f"run {command}", f"shout {shout}")
    content = said_last(found)
    agent.check("its own shell runs", "given by the host" in content, (status, answer, content))
    agent.check("in the workspace", os.path.isfile(f"{agent.workspace}/made.txt"))
    where = agent.workspace if agent.on_host else "Read-only file system"
    agent.check("on the host" if agent.on_host else "in the sandbox", where in content, content)
    agent.check("no key is there", content and not any(key in content for key in keys().values()), content)
    listed = agent.messages()
    fields = {"id", "role", "content", "cli", "model", "created_at"}
    agent.check("messages have their fields", listed and all(fields <= set(one) for one in listed), listed)
    agent.check("and no trace", not any(one.get("trace") for one in listed), listed[-1:])
    traces = "\n".join(one.get("trace") or "" for one in agent.messages(includeTrace=1))
    agent.check("the trace has the command", "cmd: " in traces and "given.txt" in traces, traces[-2000:])
    agent.check("and no JSON", '{"' not in traces, traces[-2000:])
    agent.check("and nothing that steers a terminal", not STEERING.search(traces), repr(traces[-2000:]))
    agent.check("a hostile answer is one all the same", "hostile answer" in (answer.get("content") or ""), answer)
    shown = flock("session", "show", agent.session("x"))[1] + flock("logs", "-n", "2000")[1]
    agent.check("nothing that is shown steers a terminal", not STEERING.search(shown), repr(shown[-2000:]))


def said_new(found):
    """What the user says last in the newest request."""
    return said_of(found[-1])[-1] if found else ""


def said_last(found):
    """What came back of the calls, as the model was told."""
    return json.dumps(found[-1]["body"], ensure_ascii=False).replace("\\n", "\n") if found else ""


def is_given_much(agent):
    """More than fits into one argument of a program."""
    text = "much to read " * 20_000
    status, answer, found = agent.turn(text, "say read all of it", sessionKey=agent.session("much"))
    agent.check("a long prompt is answered", answer.get("content") == "read all of it", (status, str(answer)[:500]))
    whole = "\n".join(said_of(found[-1])) if found else ""
    agent.check("and arrived whole", text.strip() in whole, len(whole))


def fails(agent):
    status, answer, found = agent.turn("fail 401")
    agent.check("a refused key is a failure", status >= 400 and found, (status, answer))
    agent.check("which says so", "401" in json.dumps(answer), answer)
    agent.check("and the model is asked once", [one["status"] for one in found] == [401], [one["status"] for one in found])
    agent.prompt_is_native("refused", found)
    status, answer, found = agent.turn("fail 500")
    agent.prompt_is_native("down", found)
    agent.of_unknown_use += 1
    asked = [one["status"] for one in found]
    agent.check("one that is down is asked by flock alone", status >= 400 and asked == [500] * 4, (status, answer, asked))
    status, answer, found = agent.turn("fail 500 1", "cut 1", "say whole again")
    agent.prompt_is_native("tried again", found)
    agent.check("a passing failure is tried again", [one["status"] for one in found][:2] == [500, 200], (status, answer))
    if agent.program == "gemini":
        # It gives up where the rest of an answer does not come; 424 where the turn has done something until then.
        told = answer.get("error", {}).get("message", "")
        agent.check("an answer that broke off is none", status in (424, 503) and "broke" in told, (status, answer))
    else:
        agent.check("an answer that broke off is asked for again", answer.get("content") == "whole again", (status, answer))


def falls_back(agent):
    """The agent's first model is out of order, its second answers."""
    status = {"claude": 529, "codex": 503, "gemini": 429, "opencode": 503}[agent.program]
    entry = f"agents.list[{agent.name}].model.fallbacks"
    before = {model: agent.spent(model) for model in (agent.model, agent.other)}
    flock("config", "set", entry, json.dumps([f"{agent.provider}/{agent.other}"]))
    code, answer, found = agent.turn(f"down {status} {agent.model}", "say by the other")
    agent.check(f"after {status} the second model answers", answer.get("content") == "by the other", (code, answer))
    asked = [one for one in found if agent.other in json.dumps(one["body"].get("model", "")) + one["path"]]
    agent.check("which was asked once", [one["status"] for one in asked] == [200], [one["path"] for one in found])
    agent.prompt_is_native("by the second model", asked, agent.other)
    counted = {model: agent.spent(model) - calls for model, calls in before.items()}
    # What limits requests has taken none; of what fails nobody knows. Where the model has just failed another agent, it
    # is not asked at all.
    taken = int(status == 503 and len(found) > len(asked))
    agent.of_unknown_use += taken
    wanted = {agent.model: taken, agent.other: 1}
    agent.check("and counted once", counted == wanted, counted)
    flock("config", "set", entry, "[]")


def two_at_once(agent):
    """Two sessions: each its own conversation, at the same time."""
    first, second = (agent.session(name) for name in ("left", "right"))
    for number in (1, 2):
        since = len(requests())
        askings = [
            agent.begin(f"about-{name}-{number}", f"say answer {name} {number}", sessionKey=session)
            for name, session in (("left", first), ("right", second))
        ]
        answers = [asking.end()[1].get("content") for asking in askings]
        agent.check(f"two sessions at once answer, {number}", answers == [f"answer {name} {number}" for name in ("left", "right")], answers)
        for name, other in (("left", "right"), ("right", "left")):
            found = [one for one in agent.asked(since) if f"about-{name}-{number}" in json.dumps(one["body"])]
            mixed = [one for one in found if f"about-{other}" in json.dumps(one["body"])]
            agent.check(f"{name} {number} hears nothing of {other}", found and not mixed, [said_of(one) for one in found])
            if number == 2:
                agent.check(f"{name} goes on", f"answer {name} 1" in json.dumps(found), [said_of(one) for one in found])


def is_left(agent):
    """The client of a turn goes away, and with it the turn."""
    since = len(requests())
    asking = agent.begin("run sleep 7077", "say slept")
    running = until(60, lambda: agent.processes("sleep 7077"))
    agent.check("a long command runs", running, agent.processes())
    asking.leave()
    gone = until(20, lambda: not agent.processes("sleep 7077"))
    agent.check("nothing of a turn is left that nobody waits for", gone, agent.processes())
    agent.check("and its model is not asked again", len(agent.asked(since)) == 1, [said_of(one)[-1:] for one in agent.asked(since)])
    # The same while its model thinks, which is to know at once.
    since, held = len(requests()), f"left-{agent.name}"
    asking = agent.begin(f"hold {held}", "say nobody hears")
    agent.check("a model thinks", until(60, lambda: agent.asked(since)), agent.processes())
    asking.leave()
    told = until(20, lambda: [one for one in requests(since) if one.get("held") == held])
    agent.check("the request of a turn that nobody waits for is closed", told, requests(since)[-1:])
    status, answer, found = agent.turn("say after leaving")
    agent.check("after that it answers", answer.get("content") == "after leaving", (status, answer))
    agent.prompt_is_native("after leaving", found)
    agent.check("and goes on with its conversation", "by the other" in json.dumps(found), said_new(found))


def each_request_is_of_one_agent():
    """Of all that models were asked in turns: each agent's own prompt, once, and where the API has it."""
    asked = [one for one in requests() if one.get("tools")]
    wrong = []
    for one in asked:
        whole, marks = json.dumps(one["body"]), re.findall(MARK, system_of(one))
        names = {name for _, name in marks}
        if len(names) != 1 or len(marks) != len(IDENTITY) or len(re.findall(MARK, whole)) != len(IDENTITY):
            wrong.append((one["path"], marks, re.findall(MARK, whole)))
    check(f"each of {len(asked)} requests has the prompt of one agent, once, in its place", asked and not wrong, wrong[:3])
