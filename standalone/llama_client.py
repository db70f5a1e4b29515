"""Talks to a flock whose model runs in a llama.cpp server: llama_client.py PORT CONFIG."""

import json
import sys
import urllib.request

port, config = int(sys.argv[1]), sys.argv[2]
token = json.load(open(config))["gateway"]["auth"]["token"]
session = "agent:tiny:flock:main:llama"
checked = 0


def check(what, holds):
    global checked
    if not holds:
        sys.exit(f"FAILED: {what}")
    checked += 1
    print(f"ok   {what}")


def ask(text):
    """The pieces of a streamed answer, why it ended, and its usage."""
    body = {
        "model": "tiny",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": text}],
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "X-OpenClaw-Session-Key": session,
        },
    )
    pieces, end, usage, last = [], None, None, ""
    with urllib.request.urlopen(request, timeout=300) as answer:
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            last = line[6:].strip().decode()
            if last == "[DONE]":
                break
            event = json.loads(last)
            for choice in event.get("choices", []):
                pieces.append(choice["delta"].get("content") or "")
                end = choice.get("finish_reason") or end
            usage = event.get("usage") or usage
    check("the stream has its end", last == "[DONE]" and end in ("stop", "length"))
    return [piece for piece in pieces if piece], usage


pieces, usage = ask("What is the capital of France? Answer in one sentence.")
print("     " + "".join(pieces))
check("the answer came in pieces", len(pieces) > 1)
check("its tokens are counted", usage["prompt_tokens"] > 50 and usage["completion_tokens"] >= 2)
first = usage["prompt_tokens"]

pieces, usage = ask("And of Italy?")
print("     " + "".join(pieces))
check("the second request holds the first", usage["prompt_tokens"] > first)
cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
print(f"     {cached} of {usage['prompt_tokens']} tokens were in the server's cache")
# The bytes of a session's requests begin alike, so the server finds what it has read before.
check("the server had the first request in its cache", cached >= first * 9 // 10)
print(f"{checked} checks passed")
