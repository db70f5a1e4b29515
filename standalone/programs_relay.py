"""What an agent's own shell could ask of models with what its program was given: nothing that would work elsewhere.

From the sandbox, with the token of a turn that runs, as a command of the agent's could.
"""

import json

from checking import parsed, run, until
from programs_agents import MODEL, requests

# Asks the relay from inside: the requests on standard input, a line each; their status and body come back.
INSIDE = """
import json, sys, urllib.error, urllib.request
for line in sys.stdin:
    url, headers, body = json.loads(line)
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            print(json.dumps([response.status, response.read().decode()]))
    except urllib.error.HTTPError as error:
        print(json.dumps([error.code, error.read().decode()]))
    except OSError as error:
        print(json.dumps([0, str(error)]))
"""
# Where the sandbox has its way to the gateway.
ORIGIN = "http://127.0.0.1:3128"
EVIL = "https://evil.example/secret"


def anthropic(model):
    picture = {"type": "image", "source": {"type": "url", "url": EVIL}}
    plain = {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
    return "/relay/anthropic/v1/messages", {"anthropic-version": "2023-06-01"}, plain, {
        "web search": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "web fetch": {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        "code that runs there": {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        "an MCP server": {"mcp_servers": [{"type": "url", "url": EVIL, "name": "evil"}]},
        "a picture's address": {"messages": [{"role": "user", "content": [picture]}]},
    }


def responses(model):
    def said(part):
        return {"input": [{"role": "user", "content": [part]}]}

    plain = {"model": model, "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}]}
    return "/relay/responses/v1/responses", {}, plain, {
        "web search": {"tools": [{"type": "web_search"}]},
        "code that runs there": {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        "an MCP server": {"tools": [{"type": "mcp", "server_label": "evil", "server_url": EVIL}]},
        "a picture's address": said({"type": "input_image", "image_url": EVIL}),
        "a file's address": said({"type": "input_file", "file_url": EVIL}),
        "a stored conversation": {"previous_response_id": "resp_1"},
    }


def google(model):
    part = {"fileData": {"mimeType": "text/plain", "fileUri": EVIL}}
    plain = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    return f"/relay/google/v1beta/models/{model}:generateContent", {}, plain, {
        "web search": {"tools": [{"googleSearch": {}}]},
        "web search, spelt otherwise": {"tools": [{"google_search": {}}]},
        "web fetch": {"tools": [{"urlContext": {}}]},
        "code that runs there": {"tools": [{"codeExecution": {}}]},
        "a file's address": {"contents": [{"role": "user", "parts": [part]}]},
    }


def completions(model):
    picture = {"type": "image_url", "image_url": {"url": EVIL}}
    plain = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    return "/relay/completions/v1/chat/completions", {}, plain, {
        "web search": {"web_search_options": {}},
        "a plugin": {"plugins": [{"id": "web"}]},
        "a picture's address": {"messages": [{"role": "user", "content": [picture]}]},
    }


ASKED = {"claude": anthropic, "codex": responses, "gemini": google, "opencode": completions}


def environment_of(agent):
    """What the program was given, as every process of the same user in the sandbox can read."""
    pids = [line.split()[0] for line in agent.processes("/opt/flock/")]
    found = {}
    for pid in pids:
        text = open(f"/proc/{pid}/environ").read()
        found |= dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
    return found


def leads_nowhere(agent):
    path, headers, plain, wrong = ASKED[agent.program](agent.model)
    given = environment_of(agent)
    tokens = sorted({value for name, value in given.items() if ("TOKEN" in name or "KEY" in name) and len(value) > 20})
    asked = [(token, "plain", plain) for token in tokens]
    asked += [(token, name, {**plain, **more}) for token in tokens for name, more in wrong.items()]
    headers = {"content-type": "application/json", **headers}
    url = ORIGIN + path
    lines = [json.dumps([url, {**headers, "authorization": f"Bearer {token}"}, body]) for token, _, body in asked]
    before = len(requests())
    code, out, err = run("docker", "exec", "-i", agent.container(), "python3", "-c", INSIDE, stdin="\n".join(lines))
    answers = [parsed(line) for line in out.splitlines()]
    if not agent.check("its relay is asked from the sandbox", tokens and len(answers) == len(asked), (code, out, err, list(given))):
        return
    seen = {}
    for (_, name, _), (status, body) in zip(asked, answers):
        seen.setdefault(name, []).append((status, body[:300]))
    # One of its tokens opens the relay, the other flock's tools.
    works = [at for at, (status, _) in enumerate(seen["plain"]) if status == 200]
    agent.check("an ordinary request is answered, with one of its tokens", len(works) == 1, seen["plain"])
    for name in wrong:
        refused = [status for status, _ in seen[name]]
        agent.check(f"{name} is refused", works and refused[works[0]] == 400 and 200 not in refused, seen[name])
    reached = [one for one in requests(before) if EVIL in json.dumps(one.get("body")) or "search" in json.dumps(one.get("body"))]
    reached = [one for one in reached if agent.word not in json.dumps(one["body"])]
    agent.check("and reaches no provider", not reached, reached)


def leads_nowhere_for_any(agents):
    for agent in agents:
        if not agent.on_host:
            leads_nowhere(agent)


def leads_nowhere_in_a_turn(agents):
    """The same, with turns of its own that wait for their models meanwhile."""
    inside = [agent for agent in agents if not agent.on_host]
    since = len(requests())
    turns = {agent: agent.begin("hold held-relay", "say held no more") for agent in inside}
    for agent in inside:
        held = until(120, lambda: any("held-relay" in json.dumps(one["body"]) for one in agent.asked(since)))
        agent.check("a turn waits for its model", held, agent.processes())
    leads_nowhere_for_any(inside)
    open(f"{MODEL}/held-relay", "w").close()
    for agent in inside:
        status, answer = turns[agent].end()
        agent.check("and is answered after that", answer.get("content") == "held no more", (status, answer))
