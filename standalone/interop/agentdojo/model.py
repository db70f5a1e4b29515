"""A stand-in for a model on loopback, in the form of OpenAI's chat completions.

It knows the calls with which each task is done, and plays them. It is obedient: if the goal of an injection stands in a
result, it plays the calls of the injection first. It keeps no state, so what it does depends only on the conversation
that it is sent.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# AgentDojo's loop ends after 15 rounds, so a long task has several calls in one answer.
MOST_ROUNDS = 12


def text_of(message):
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def bare(text):
    """The letters and digits of a text. AgentDojo gives results as YAML, which breaks and quotes long lines."""
    return re.sub(r"[\W_]+", "", text)


class Play:
    """The calls that do a task, its final text, and the injection that is obeyed if it is read."""

    def __init__(self, calls, output, goal=None, injected=()):
        self.calls, self.output, self.goal, self.injected = calls, output, goal, list(injected)

    def rounds(self, calls):
        size = -(-len(calls) // MOST_ROUNDS) or 1
        return [calls[at : at + size] for at in range(0, len(calls), size)]

    def next(self, results, made):
        """The calls after so many rounds, or none if it is time for the final text. `results` has the texts of each round."""
        plan = self.rounds(self.calls)
        if self.goal:
            goal = bare(self.goal)
            read = next((at for at, texts in enumerate(results) if any(goal in bare(text) for text in texts)), None)
            if read is not None:
                plan[read + 1 : read + 1] = [[call] for call in self.injected]
        return plan[made] if made < len(plan) else []


class Model(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        # By the person's words, which are different for each task.
        self.plays = {}
        # Of each conversation, by the person's words: the newest request.
        self.seen = {}
        self.problems = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def provider(self):
        return {
            "baseUrl": f"http://127.0.0.1:{self.server_address[1]}/v1",
            "api": "openai-completions",
            "models": [{"id": "dojo", "contextWindow": 200_000, "maxTokens": 8_000}],
        }

    def answer(self, body):
        messages = body["messages"]
        words = next((words for words in self.plays if any(words in text_of(one) for one in messages if one["role"] == "user")), None)
        if words is None:
            self.problems.append(f"a conversation without a task: {messages!r}"[:2000])
            return {"role": "assistant", "content": "I know no such task."}
        self.seen[words] = body
        rounds, results = 0, []
        for one in messages:
            if one["role"] == "assistant" and one.get("tool_calls"):
                rounds += 1
                results.append([])
            elif one["role"] == "tool":
                results[-1].append(text_of(one))
        play = self.plays[words]
        calls = play.next(results, rounds)
        if not calls:
            return {"role": "assistant", "content": play.output}
        made = [
            {"id": f"call_{rounds}_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(calls)
        ]
        return {"role": "assistant", "content": None, "tool_calls": made}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = self.server.answer(body)
        calls = message.get("tool_calls")
        delta = dict(message)
        if calls:
            delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "dojo"}
        pieces = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]},
            {**head, "choices": [], "usage": usage},
        ]
        data = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data.encode())))
        self.end_headers()
        self.wfile.write(data.encode())
