"""A model that does what it is told, in the formats of OpenAI, Anthropic and Google: openclaw_model.py FOLDER

Writes its port to FOLDER/port and one line of JSON for each request to FOLDER/requests.jsonl. FOLDER/keys.json has the
key that each format's requests must carry; any other is refused. A message `CALL tool {...}` is answered by that call
of a tool, a tool's result by `RESULT ` and that result, and anything else by how many messages of the user there are.
"""

import http.server
import json
import os
import re
import sys
import threading

FOLDER = sys.argv[1]
KEYS = json.load(open(f"{FOLDER}/keys.json"))
writing = threading.Lock()
# What OpenClaw says beside a person's words, as messages of the user.
NOT_A_PERSONS = "BEGIN_OPENCLAW_INTERNAL"


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or [] if isinstance(part, dict))


def openai(body):
    """Messages as (role, text), and the tools."""
    found = [(message["role"], text_of(message.get("content"))) for message in body["messages"]]
    return found, [tool["function"]["name"] for tool in body.get("tools", [])]


def anthropic(body):
    found = []
    for message in body["messages"]:
        content = message["content"] if isinstance(message["content"], list) else []
        results = [part for part in content if part["type"] == "tool_result"]
        if results:
            found.append(("tool", text_of(results[-1]["content"])))
        else:
            found.append((message["role"], text_of(message["content"])))
    return found, [tool["name"] for tool in body.get("tools", [])]


def google(body):
    found = []
    for content in body["contents"]:
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if results:
            found.append(("tool", json.dumps(results[-1]["response"])))
        else:
            found.append((content.get("role", "user"), text_of(content["parts"])))
    declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    return found, [tool["name"] for tool in declared]


def decide(messages):
    """The text of the answer, or a tool and its arguments."""
    said = [(role, text) for role, text in messages if NOT_A_PERSONS not in text]
    role, text = said[-1]
    if role == "tool":
        return f"RESULT {text}", None
    called = re.search(r"CALL (\w+) (\{.*\})", text, re.DOTALL)
    if role == "user" and called:
        return None, (called[1], json.loads(called[2]))
    return f"MODEL heard {sum(role == 'user' for role, _ in said)}", None


def openai_events(text, call):
    delta = {"role": "assistant", "content": text}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": call_id(), "type": "function", "function": function}]}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    for delta, end in ((delta, None), ({}, "tool_calls" if call else "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "model", "choices": [choice]}
        yield None, {**chunk, "usage": usage} if end else chunk
    yield None, "[DONE]"


def anthropic_events(text, call):
    begun = {"id": "msg_1", "type": "message", "role": "assistant", "model": "model", "content": []}
    usage = {"input_tokens": 11, "output_tokens": 1}
    yield "message_start", {"message": {**begun, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    if call:
        block = {"type": "tool_use", "id": call_id(), "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield "message_delta", {"delta": end, "usage": {"output_tokens": 7}}
    yield "message_stop", {}


def google_events(text, call):
    part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    yield None, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "model"}


calls = 0


def call_id():
    global calls
    with writing:
        calls += 1
        return f"call_{calls}"


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def key(self):
        given = self.headers.get("authorization", "").removeprefix("Bearer ")
        return given or self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or ""

    def answer(self, status, kind, text):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.split("?")[0]
        if path.endswith("/chat/completions"):
            api, read, events = "openai", openai, openai_events
        elif path == "/v1/messages":
            api, read, events = "anthropic", anthropic, anthropic_events
        elif path.startswith("/v1beta/models/") and path.endswith(":streamGenerateContent"):
            api, read, events = "google", google, google_events
        else:
            return self.answer(404, "application/json", b'{"error":{"message":"no such path"}}')
        messages, tools = read(body)
        is_right = self.key() == KEYS[api]
        with writing, open(f"{FOLDER}/requests.jsonl", "a") as log:
            log.write(json.dumps({"api": api, "path": path, "key": is_right, "tools": tools, "messages": messages}) + "\n")
        if not is_right:
            return self.answer(401, "application/json", b'{"error":{"message":"this is not the key"}}')
        lines = []
        for event, data in events(*decide(messages)):
            if event:
                lines.append(f"event: {event}\n")
                data = {"type": event, **data}
            lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
        self.answer(200, "text/event-stream", "".join(lines).encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
with open(f"{FOLDER}/port.new", "w") as port:
    port.write(str(server.server_address[1]))
os.rename(f"{FOLDER}/port.new", f"{FOLDER}/port")
server.serve_forever()
