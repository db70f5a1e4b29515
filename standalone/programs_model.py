"""A model that does what it is told, over the four APIs that agent programs speak: programs_model.py FOLDER

    POST /v1/messages                                  Anthropic, and /v1/messages/count_tokens
    POST /v1/responses                                 OpenAI
    POST /v1/chat/completions                          OpenAI, and those like it
    POST /v1beta/models/M:streamGenerateContent        Google, and :generateContent, :countTokens

FOLDER/keys.json holds the key of each API (anthropic, openai, google); any other is refused with 401. Its port is
written to FOLDER/port, and one line of JSON for each request to FOLDER/requests.jsonl: no keys, but whether the right
one came. What the real servers refuse is refused with 400.

What it does stands in the newest message of the user, one order a line; whatever else is there is passed over, and so
is everything before a line `[Current Message]`; a line of a channel's message may begin with `| `:

    say TEXT                  text; several are one answer
    shout BASE64              text with whatever bytes in it
    think TEXT                reasoning
    run COMMAND               calls the program's own shell tool
    mcp TOOL JSON             calls the offered tool whose name ends with TOOL
    force TOOL JSON           calls the tool of this name, offered or not; a JSON string is a custom tool's input
    slow SECONDS              stops that long in the middle of the answer
    hold NAME                 begins no answer before there is FOLDER/NAME, or nobody who waits for it
    fail STATUS [N [AFTER]]   refuses (the first N times only), with a Retry-After of AFTER seconds
    down STATUS MODEL         refuses whenever this model is asked
    spent NAME SECONDS        refuses for so long from the first time on, as the real API does whose quota is used up
    cut [N]                   breaks the connection off in the middle of the answer (the first N times only)
    empty                     an answer with nothing in it

Orders after a call are carried out once its result is there; where none are left, the result is repeated. A request
that offers no tools is one of the program's own (a title, a summary): it gets a short answer, or JSON after its schema.
"""

import base64
import http.server
import itertools
import json
import pathlib
import re
import socket
import sys
import threading
import time

ORDER = re.compile(r"^(say|shout|think|run|mcp|force|slow|hold|fail|down|spent|cut|empty)(?: (.*))?$")
# The shell tools of the programs, the first that is offered is called.
SHELLS = ("Bash", "run_shell_command", "bash", "exec_command", "shell_command", "shell", "local_shell", "execute_bash")
# Headers that carry keys.
SECRET = {"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"}
USAGE = {"input": 110, "cached": 40, "output": 70, "reasoning": 20}


class Refused(Exception):
    """What a real server says to a request that it does not take."""


def need(condition, message):
    if not condition:
        raise Refused(message)


def text_of(content):
    """The text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = (part for part in content or [] if isinstance(part, dict))
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


class Talk:
    """What a request says, whatever its API: user texts and results in their order, and the tools on offer."""

    def __init__(self):
        self.said, self.open, self.ids = [], [], set()

    def user(self, text):
        self.said.append(("user", text))

    def call(self, name):
        need(name not in self.ids, f"duplicate call id {name}")
        self.ids.add(name)
        self.open.append(name)

    def result(self, name, text):
        need(name in self.open, f"no tool call found for the result with id {name}")
        self.open.remove(name)
        self.said.append(("result", text))

    def closed(self):
        need(not self.open, f"no result for the tool calls {self.open}")


class Answer:
    def __init__(self):
        self.thoughts, self.texts, self.call, self.pause, self.cut = "", [], None, 0.0, False
        self.held = None

    @property
    def text(self):
        return "".join(self.texts)


class Anthropic:
    name = "anthropic"

    def matches(self, path):
        return path == "/v1/messages"

    def key(self, headers):
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def read(self, body, headers, path):
        need(headers.get("anthropic-version"), "anthropic-version: header is required")
        need(body.get("model"), "model: Field required")
        need(body.get("max_tokens", 0) > 0, "max_tokens: Field required")
        thinking = body.get("thinking") or {}
        if thinking.get("type") == "enabled":
            need(1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"], "thinking.budget_tokens")
        need(json.dumps(body).count('"cache_control"') <= 4, "a maximum of 4 blocks with cache_control")
        messages = body.get("messages") or []
        need(messages and messages[0]["role"] == "user", 'messages: first message must use the "user" role')
        talk = Talk()
        for message in messages:
            content = message["content"]
            need(message["role"] in ("user", "assistant", "system"), "messages.role")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            need(blocks or message is messages[-1], "messages: all messages must have non-empty content")
            waiting = set(talk.open)
            for block in blocks:
                kind = block["type"]
                need(kind != "text" or block["text"].strip(), "messages: text content blocks must be non-empty")
                if kind == "tool_result":
                    need(message["role"] == "user", "tool_result blocks can only be in user messages")
                    waiting.discard(block["tool_use_id"])
                    talk.result(block["tool_use_id"], text_of(block.get("content")))
                elif kind == "tool_use":
                    need(message["role"] == "assistant", "tool_use blocks can only be in assistant messages")
                    need(isinstance(block["input"], dict), "tool_use.input: Input should be a valid dictionary")
                    talk.call(block["id"])
                elif kind == "text" and message["role"] == "user":
                    talk.user(block["text"])
            need(not waiting, "tool_use ids were found without tool_result blocks immediately after")
        talk.closed()
        tools = [tool for tool in body.get("tools") or [] if "input_schema" in tool]
        return talk, {tool["name"]: tool["input_schema"] for tool in tools}

    def blocks(self, answer):
        if answer.thoughts:
            signature = base64.b64encode(b"signed").decode()
            yield {"type": "thinking", "thinking": answer.thoughts, "signature": signature}
        if answer.texts:
            yield {"type": "text", "text": answer.text}
        if answer.call:
            yield {"type": "tool_use", "id": answer.call[0], "name": answer.call[1], "input": answer.call[2]}

    def usage(self):
        new = USAGE["input"] - USAGE["cached"]
        return {
            "input_tokens": new, "cache_creation_input_tokens": 0, "cache_read_input_tokens": USAGE["cached"],
            "output_tokens": USAGE["output"],
        }

    def whole(self, body, answer):
        stop = "tool_use" if answer.call else "end_turn"
        return {
            "id": new_id("msg"), "type": "message", "role": "assistant", "model": body["model"],
            "content": list(self.blocks(answer)), "stop_reason": stop, "stop_sequence": None, "usage": self.usage(),
        }

    def stream(self, body, answer):
        whole = self.whole(body, answer)
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**self.usage(), "output_tokens": 1}}
        events = [{"type": "message_start", "message": begun}, {"type": "ping"}]
        for at, block in enumerate(whole["content"]):
            if block["type"] == "thinking":
                start = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            elif block["type"] == "text":
                start = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": text} for text in answer.texts]
            else:
                start = {**block, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(block["input"])]
            events.append({"type": "content_block_start", "index": at, "content_block": start})
            events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": at})
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": end, "usage": self.usage()})
        events.append({"type": "message_stop"})
        return [(event["type"], event) for event in events]

    def error(self, status, message):
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}

    def spent(self, reset):
        """The window of five hours of a subscription."""
        prefix = "anthropic-ratelimit-unified"
        headers = {
            f"{prefix}-status": "rejected", f"{prefix}-reset": reset, f"{prefix}-representative-claim": "five_hour",
            f"{prefix}-5h-status": "rejected", f"{prefix}-5h-reset": reset, f"{prefix}-5h-utilization": "1.0",
            f"{prefix}-7d-status": "allowed", f"{prefix}-7d-reset": reset + 200_000, f"{prefix}-7d-utilization": "0.4",
            "retry-after": reset - int(time.time()), "x-should-retry": "false",
        }
        return self.error(429, "This request would exceed your account's rate limit. Please try again later."), headers


class OpenAi:
    def key(self, headers):
        return headers.get("authorization", "").removeprefix("Bearer ")

    def error(self, status, message):
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class Responses(OpenAi):
    name = "openai"

    def spent(self, reset):
        """The window of five hours of ChatGPT's plans, of which no Retry-After tells."""
        error = {
            "type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
            "resets_at": reset, "resets_in_seconds": reset - int(time.time()),
        }
        headers = {
            "x-codex-primary-used-percent": "100.0", "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": reset, "x-codex-secondary-used-percent": "30.0",
            "x-codex-secondary-window-minutes": "10080", "x-codex-secondary-reset-at": reset + 200_000,
        }
        return {"error": error}, headers

    def matches(self, path):
        return path == "/v1/responses"

    def read(self, body, headers, path):
        need(body.get("model"), "Missing required parameter: 'model'")
        need(body.get("input"), "Missing required parameter: 'input'")
        talk = Talk()
        items = body["input"]
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        for item in items:
            kind = item.get("type", "message")
            if kind == "message":
                need(item["role"] in ("user", "assistant", "developer", "system"), "input.role: Invalid value")
                for part in item["content"] if isinstance(item["content"], list) else []:
                    side = "output_text" if item["role"] == "assistant" else "input_text"
                    need(part["type"] in (side, "input_image", "refusal"), f"Invalid value: '{part['type']}'")
                if item["role"] == "user":
                    talk.user(text_of(item["content"]))
            elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
                if kind == "function_call":
                    json.loads(item["arguments"])
                talk.call(item["call_id"])
            elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
                output = item["output"]
                talk.result(item["call_id"], output if isinstance(output, str) else text_of(output))
            else:
                known = ("reasoning", "web_search_call", "compaction", "item_reference", "additional_tools")
                need(kind in known, f"Invalid value: '{kind}'. Supported values are: 'message', ...")
        talk.closed()
        # Some models are offered their tools in the input.
        offered = [tool for item in items if isinstance(item, dict) for tool in item.get("tools", [])]
        tools = {}
        for tool in (body.get("tools") or []) + offered:
            inside = tool["tools"] if tool.get("type") == "namespace" else [tool]
            prefix = f"{tool['name']}/" if tool.get("type") == "namespace" else ""
            tools |= {prefix + inner["name"]: self.schema(inner) for inner in inside if "name" in inner}
        return talk, tools

    def schema(self, tool):
        """What a tool takes; a custom one takes text, and its description says of what kind."""
        return {"custom": tool["description"]} if tool["type"] == "custom" else tool.get("parameters", {})

    def items(self, answer):
        if answer.thoughts:
            summary = [{"type": "summary_text", "text": answer.thoughts}]
            encrypted = base64.b64encode(answer.thoughts.encode()).decode()
            yield {"type": "reasoning", "id": new_id("rs"), "summary": summary, "encrypted_content": encrypted}
        if answer.texts:
            content = [{"type": "output_text", "text": answer.text, "annotations": []}]
            yield {"type": "message", "id": new_id("msg"), "role": "assistant", "status": "completed", "content": content}
        if answer.call:
            name, _, inner = answer.call[1].rpartition("/")
            call = {"call_id": answer.call[0], "status": "completed", "name": inner}
            if isinstance(answer.call[2], str):
                call |= {"type": "custom_tool_call", "id": new_id("ctc"), "input": answer.call[2]}
            else:
                call |= {"type": "function_call", "id": new_id("fc"), "arguments": json.dumps(answer.call[2])}
            yield {**call, "namespace": name} if name else call

    def whole(self, body, answer, items=None):
        usage = {
            "input_tokens": USAGE["input"], "input_tokens_details": {"cached_tokens": USAGE["cached"]},
            "output_tokens": USAGE["output"], "output_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
            "total_tokens": USAGE["input"] + USAGE["output"],
        }
        items = list(self.items(answer)) if items is None else items
        return {
            "id": new_id("resp"), "object": "response", "created_at": int(time.time()), "model": body["model"],
            "status": "completed", "output": items, "usage": usage, "error": None, "incomplete_details": None,
        }

    def stream(self, body, answer):
        items = list(self.items(answer))
        whole = self.whole(body, answer, items)
        events = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}]
        for at, item in enumerate(items):
            where = {"item_id": item["id"], "output_index": at}
            part = {**where, "content_index": 0}
            if item["type"] == "reasoning":
                start, deltas = {**item, "summary": []}, []
                summary = {**where, "summary_index": 0}
                deltas.append({"type": "response.reasoning_summary_part.added", **summary, "part": {"type": "summary_text", "text": ""}})
                deltas.append({"type": "response.reasoning_summary_text.delta", **summary, "delta": answer.thoughts})
                deltas.append({"type": "response.reasoning_summary_text.done", **summary, "text": answer.thoughts})
                deltas.append({"type": "response.reasoning_summary_part.done", **summary, "part": item["summary"][0]})
            elif item["type"] == "message":
                start = {**item, "content": [], "status": "in_progress"}
                empty = {"type": "output_text", "text": "", "annotations": []}
                deltas = [{"type": "response.content_part.added", **part, "part": empty}]
                deltas += [{"type": "response.output_text.delta", **part, "delta": text} for text in answer.texts]
                deltas.append({"type": "response.output_text.done", **part, "text": answer.text})
                deltas.append({"type": "response.content_part.done", **part, "part": item["content"][0]})
            else:
                field, kind = ("input", "custom_tool_call_input") if "input" in item else ("arguments", "function_call_arguments")
                start = {**item, field: "", "status": "in_progress"}
                pieces = halves(answer.call[2])
                deltas = [{"type": f"response.{kind}.delta", **where, "delta": piece} for piece in pieces]
                deltas.append({"type": f"response.{kind}.done", **where, field: item[field]})
            events.append({"type": "response.output_item.added", "output_index": at, "item": start})
            events += deltas
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        events.append({"type": "response.completed", "response": whole})
        return [(event["type"], {**event, "sequence_number": at}) for at, event in enumerate(events)]


class Completions(OpenAi):
    name = "openai"

    def spent(self, reset):
        """The requests of a day."""
        left = f"{reset - int(time.time())}s"
        error = {
            "message": f"Rate limit reached for requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in {left}.",
            "type": "requests", "param": None, "code": "rate_limit_exceeded",
        }
        headers = {
            "x-ratelimit-limit-requests": "200", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": left,
            "x-ratelimit-limit-tokens": "90000", "x-ratelimit-remaining-tokens": "89000", "x-ratelimit-reset-tokens": "666ms",
        }
        return {"error": error}, headers

    def matches(self, path):
        return path == "/v1/chat/completions"

    def read(self, body, headers, path):
        need(body.get("model"), "you must provide a model parameter")
        need(body.get("messages"), "messages: too short")
        talk = Talk()
        for message in body["messages"]:
            role, content = message["role"], message.get("content")
            need(role in ("system", "developer", "user", "assistant", "tool"), f"'{role}' is not a role")
            if role == "tool":
                talk.result(message["tool_call_id"], text_of(content))
                continue
            talk.closed()
            if role == "user":
                need(content, "user: content is needed")
                talk.user(text_of(content))
            elif role == "assistant":
                need(content is not None or message.get("tool_calls"), "assistant: content is null")
                for call in message.get("tool_calls") or []:
                    json.loads(call["function"]["arguments"])
                    talk.call(call["id"])
        talk.closed()
        functions = [tool["function"] for tool in body.get("tools") or []]
        return talk, {function["name"]: function.get("parameters", {}) for function in functions}

    def usage(self):
        return {
            "prompt_tokens": USAGE["input"], "completion_tokens": USAGE["output"],
            "total_tokens": USAGE["input"] + USAGE["output"],
            "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
            "completion_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
        }

    def message(self, answer):
        message = {"role": "assistant", "content": answer.text or None}
        if answer.thoughts:
            message["reasoning_content"] = answer.thoughts
        if answer.call:
            function = {"name": answer.call[1], "arguments": json.dumps(answer.call[2])}
            message["tool_calls"] = [{"id": answer.call[0], "type": "function", "function": function}]
        return message

    def frame(self, body, kind):
        return {"id": new_id("chatcmpl"), "object": kind, "created": int(time.time()), "model": body["model"]}

    def whole(self, body, answer):
        choice = {"index": 0, "message": self.message(answer), "finish_reason": "tool_calls" if answer.call else "stop"}
        return {**self.frame(body, "chat.completion"), "choices": [choice], "usage": self.usage()}

    def stream(self, body, answer):
        frame = self.frame(body, "chat.completion.chunk")
        deltas = [{"role": "assistant", "content": ""}]
        if answer.thoughts:
            deltas.append({"reasoning_content": answer.thoughts})
        deltas += [{"content": text} for text in answer.texts]
        for call in self.message(answer).get("tool_calls", []):
            deltas.append({"tool_calls": [{**call, "index": 0, "function": {**call["function"], "arguments": ""}}]})
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in halves(answer.call[2])]
        chunks = [{**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        finish = "tool_calls" if answer.call else "stop"
        chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**frame, "choices": [], "usage": self.usage()})
        return [(None, chunk) for chunk in chunks] + [(None, "[DONE]")]


class Google:
    name = "google"

    def matches(self, path):
        return path.startswith("/v1beta/models/") and path.rpartition(":")[2] in ("streamGenerateContent", "generateContent")

    def key(self, headers):
        return headers.get("x-goog-api-key", "")

    def read(self, body, headers, path):
        contents = body.get("contents") or []
        need(contents and contents[0].get("role", "user") == "user", "Please ensure that contents begin with a user turn")
        talk, calls = Talk(), []
        for content in contents:
            need(content.get("role", "user") in ("user", "model"), "Please use a valid role: user, model.")
            need(content.get("parts"), "contents.parts must not be empty")
            results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
            if calls:
                need(
                    len(results) == len(calls),
                    "the number of function response parts must equal that of the function call parts of the function call turn",
                )
            for number, result in enumerate(results):
                need(calls, "function response turn must come immediately after a function call turn")
                need(calls[number][1] == result["name"], "function response of another function")
                response = result["response"]
                talk.result(calls[number][0], response.get("output") or response.get("error") or json.dumps(response))
            calls = []
            for part in content["parts"]:
                if "functionCall" in part:
                    need(content["role"] == "model", "function calls are the model's")
                    calls.append((f"{len(talk.ids)}", part["functionCall"]["name"]))
                    talk.call(calls[-1][0])
                elif "text" in part and content.get("role", "user") == "user":
                    talk.user(part["text"])
        talk.closed()
        declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
        return talk, {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in declared}

    def parts(self, answer):
        if answer.thoughts:
            yield {"text": answer.thoughts, "thought": True}
        for text in answer.texts:
            yield {"text": text}
        if answer.call:
            call = {"name": answer.call[1], "args": answer.call[2]}
            yield {"functionCall": call, "thoughtSignature": base64.b64encode(b"signed").decode()}

    def frame(self, parts, finish):
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
        usage = {
            "promptTokenCount": USAGE["input"], "cachedContentTokenCount": USAGE["cached"],
            "candidatesTokenCount": USAGE["output"] - USAGE["reasoning"], "thoughtsTokenCount": USAGE["reasoning"],
            "totalTokenCount": USAGE["input"] + USAGE["output"],
        }
        frame = {"candidates": [candidate], "modelVersion": "stub", "responseId": "r1"}
        return {**frame, "candidates": [{**candidate, "finishReason": "STOP"}], "usageMetadata": usage} if finish else frame

    def whole(self, body, answer):
        return self.frame(list(self.parts(answer)), True)

    def stream(self, body, answer):
        parts = list(self.parts(answer)) or [{"text": ""}]
        frames = [self.frame([part], False) for part in parts[:-1]] + [self.frame(parts[-1:], True)]
        return [(None, frame) for frame in frames]

    def error(self, status, message):
        kinds = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
        return {"error": {"code": status, "message": message, "status": kinds.get(status, "UNKNOWN")}}

    def spent(self, reset):
        """The quota of a plan."""
        left = f"{reset - int(time.time())}s"
        told = self.error(429, f"You have exhausted your capacity on this model. Your quota will reset after {left}.")
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "QUOTA_EXHAUSTED", "metadata": {"quotaResetDelay": left}}
        told["error"]["details"] = [reason, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": left}]
        return told, {}


APIS = (Anthropic(), Responses(), Completions(), Google())


def halves(arguments):
    """Arguments in two pieces, as streams have them."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return [text[: len(text) // 2], text[len(text) // 2 :]]


numbers = itertools.count(1)


def new_id(prefix):
    return f"{prefix}_{next(numbers):06}"


def sample(schema):
    """The smallest value that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = (kind[0] if isinstance(kind, list) else kind or "string").lower()
    if kind == "object":
        return {name: sample(inner) for name, inner in schema.get("properties", {}).items()}
    return {"string": "-", "number": 1, "integer": 1, "boolean": False, "array": []}.get(kind)


def own_request(body):
    """The answer to a request that is not part of the conversation."""
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    answer = Answer()
    answer.texts = [json.dumps(sample(schema)) if schema else "A short title"]
    return answer


def orders(talk):
    """The orders of the newest message that has some, and the results that have come since. A turn that was broken off goes
    on with the orders above."""
    for at in reversed(range(len(talk.said))):
        kind, text = talk.said[at]
        if kind != "user":
            continue
        current = text.rpartition("[Current Message]")[2]
        text = text if "Your last turn here was broken off" in current else current
        found = [match.groups() for line in text.splitlines() if (match := ORDER.match(line.strip(" |")))]
        if found:
            return found, [text for kind, text in talk.said[at:] if kind == "result"], text
    return [], [], ""


counts, resets = {}, {}


def is_over(*what, times):
    """Whether this has come more than so many times; 0 is never."""
    with counting:
        counts[what] = counts.get(what, 0) + 1
        return bool(times) and counts[what] > times


def refusal(api, text, argument):
    """The status and delay to refuse with, or nothing."""
    status, times, after = (argument.split() + ["0", ""])[:3] if argument.count(" ") else (argument, "0", "")
    return None if is_over("fail", api, text, times=int(times)) else (int(status), after)


def reset_of(argument):
    """The time at which a quota begins anew that is used up since it was asked for first, or nothing if it has."""
    name, _, seconds = argument.partition(" ")
    with counting:
        reset = resets.setdefault(name, int(time.time()) + int(seconds))
    return reset if time.time() < reset else None


def script(function, arguments):
    """A call of a program's function as the input of a tool that runs scripts."""
    return f"const result = await tools.{function}({json.dumps(arguments)});\ntext(result.output ?? result);\n"


def named(tools, name):
    """The tool whose name ends so, by its whole name, and what makes its arguments."""
    # A name of its own comes before one that only ends like it.
    for full in sorted((full for full in tools if full.endswith(name)), key=len):
        return full, lambda arguments: arguments
    for full, schema in tools.items():
        if found := re.search(rf"`(\w*{re.escape(name)})`", schema.get("custom", "")):
            return full, lambda arguments, function=found[1]: script(function, arguments)
    return None, None


def shell(tools, command):
    if not any(name in tools for name in SHELLS):
        full, make = named(tools, "exec_command")
        return full, make({"cmd": command})
    name = next(name for name in SHELLS if name in tools)
    schema = tools[name].get("properties", {})
    required = tools[name].get("required", [])
    arguments = {name: sample(schema[name]) for name in required if name in schema}
    key = next(key for key in ("command", "cmd") if key in schema)
    arguments[key] = ["sh", "-c", command] if schema[key].get("type") == "array" else command
    return name, arguments


def decide(api, talk, tools, model):
    """The answer, or a refusal: its status and delay."""
    found, results, text = orders(talk)
    answer = Answer()
    if not found:
        people = sum(kind == "user" for kind, _ in talk.said)
        answer.texts = [f"heard {people} messages"]
        return answer, None
    for name, argument in found:
        argument = argument or ""
        if name == "fail" and (refused := refusal(type(api), text, argument)):
            return None, refused
        if name == "spent" and (reset := reset_of(argument)):
            return None, (429, reset)
        if name == "down" and argument.partition(" ")[2] == model:
            return None, (int(argument.partition(" ")[0]), "")
        if name in ("run", "mcp", "force") and results:
            last = results.pop(0)
            answer = Answer()
            answer.texts = [f"it said: {last}"] if (name, argument) == found[-1] else []
        elif name == "run":
            answer.call = (new_id("call"), *shell(tools, argument))
            break
        elif name == "force":
            tool, _, given = argument.partition(" ")
            answer.call = (new_id("call"), tool, json.loads(given or "{}"))
            break
        elif name == "mcp":
            tool, _, given = argument.partition(" ")
            full, make = named(tools, tool)
            if full is None:
                answer.texts.append(f"no tool {tool} among {', '.join(tools)}")
            else:
                answer.call = (new_id("call"), full, make(json.loads(given or "{}")))
            break
        elif name == "say":
            answer.texts.append(argument if not answer.texts else f"\n{argument}")
        elif name == "shout":
            answer.texts.append(base64.b64decode(argument).decode())
        elif name == "think":
            answer.thoughts += argument
        elif name == "slow":
            answer.pause = float(argument)
        elif name == "hold":
            answer.held = argument
        elif name == "cut":
            answer.cut = not is_over("cut", type(api), text, times=int(argument or 0))
    if (answer.pause or answer.cut) and not answer.call and not answer.texts:
        answer.texts = ["slowly", " done"]
    if answer.cut and len(answer.texts) == 1:
        # There has to be a middle.
        answer.texts = [answer.text[:3], answer.text[3:]]
    return answer, None


class Stub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Else each answer would wait for the word that its beginning has come.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def note(self, **entry):
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in SECRET}
        about = {"at": time.time(), "method": self.command, "path": self.path, "headers": headers}
        with writing, open(folder / "requests.jsonl", "a") as log:
            log.write(json.dumps(about | entry) + "\n")

    def reply(self, status, value, headers=()):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, content in (("content-type", "application/json"), ("content-length", str(len(data))), *headers):
            self.send_header(name, content)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.note(api=None)
        models = [{"id": "stub-model", "object": "model"}]
        if self.path.split("?")[0] == "/v1/models":
            return self.reply(200, {"object": "list", "data": models})
        return self.reply(404, {"error": {"message": "no such path"}})

    do_HEAD = do_GET

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        try:
            body = json.loads(data)
        except ValueError:
            self.note(api=None, raw=data[:200].decode("latin-1"))
            return self.reply(400, {"error": {"message": "not JSON"}})
        if path.endswith("/count_tokens"):
            self.note(api="anthropic", body=body)
            return self.reply(200, {"input_tokens": USAGE["input"]})
        if path.endswith(":countTokens"):
            self.note(api="google", body=body)
            return self.reply(200, {"totalTokens": USAGE["input"]})
        api = next((api for api in APIS if api.matches(path)), None)
        if api is None:
            self.note(api=None, body=body)
            return self.reply(404, {"error": {"message": "no such path"}})
        given = api.key({name.lower(): value for name, value in self.headers.items()})
        key = "missing" if not given else "right" if given == keys[api.name] else "wrong"
        entry = {"api": api.name, "key": key, "body": body}
        if key != "right":
            self.note(status=401, **entry)
            return self.reply(401, api.error(401, "this is not the key"))
        try:
            talk, tools = api.read(body, self.headers, path)
        except (Refused, KeyError, TypeError, ValueError) as refused:
            why = str(refused) if isinstance(refused, Refused) else f"{type(refused).__name__}: {refused}"
            self.note(status=400, why=why, **entry)
            return self.reply(400, api.error(400, why))
        model = body.get("model") or path.rpartition("/")[2].partition(":")[0]
        answer, refused = decide(api, talk, tools, model) if tools else (own_request(body), None)
        if refused:
            status, after = refused
            if isinstance(after, int):
                self.note(status=status, reset=after, tools=list(tools), **entry)
                told, headers = api.spent(after)
                return self.reply(status, told, [(name, str(value)) for name, value in headers.items()])
            self.note(status=status, tools=list(tools), **entry)
            return self.reply(status, api.error(status, "told to fail"), [("retry-after", after)] if after else ())
        self.note(status=200, tools=list(tools), **entry)
        if answer.held and not self.held(folder / answer.held):
            return None
        if body.get("stream") or path.endswith(":streamGenerateContent"):
            return self.stream(api.stream(body, answer), answer)
        time.sleep(answer.pause)
        return self.reply(200, api.whole(body, answer))

    def stream(self, events, answer):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        middle = len(events) // 2
        try:
            for at, (event, data) in enumerate(events):
                if at == middle and answer.cut:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                if at == middle and answer.pause:
                    self.wait(answer.pause)
                line = f"event: {event}\n" if event else ""
                text = data if isinstance(data, str) else json.dumps(data)
                self.chunk(f"{line}data: {text}\n\n".encode())
            self.chunk(b"")
        except OSError:
            self.close_connection = True
            self.note(gone=True)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def held(self, path):
        """Waits until there is such a file; whether the client has waited, too."""
        while not path.exists():
            try:
                self.wait(0.1)
            except OSError:
                self.close_connection = True
                self.note(gone=True, held=path.name)
                return False
        return True

    def wait(self, seconds):
        """Waits, and fails as soon as the client has gone."""
        self.connection.settimeout(seconds)
        try:
            if not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError
        except TimeoutError:
            pass
        finally:
            self.connection.settimeout(None)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that goes away is not worth a word."""


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    keys = json.loads((folder / "keys.json").read_text())
    writing, counting = threading.Lock(), threading.Lock()
    server = Server(("127.0.0.1", 0), Stub)
    (folder / "port.new").write_text(str(server.server_address[1]))
    (folder / "port.new").rename(folder / "port")
    server.serve_forever()
