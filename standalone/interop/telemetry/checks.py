"""Traces and metrics of flock, read with OpenTelemetry's own message definitions."""

import gzip
import http.server
import json
import secrets
import threading

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from checking import call, check, finish, flock, must, own_port, own_token, parsed, until

LIMIT = 30
MESSAGES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
# Texts of the conversations. None may reach a collector that was not told to get contents.
TEXTS = [b"planted-prompt", b"planted-answer", b"planted-argument"]


class Collector(http.server.BaseHTTPRequestHandler):
    """Refuses what a receiver of OTLP over HTTP refuses, and keeps the rest."""

    bodies, spans, metrics, refused = [], [], {}, []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = MESSAGES.get(self.path)
        if kind is None or self.headers["Content-Type"] != "application/x-protobuf":
            self.refused.append((self.path, self.headers["Content-Type"]))
            return self.answer(415, b"")
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        message = kind()
        # Bytes that the definitions don't know are an error here, not something to pass over.
        read = message.ParseFromString(body)
        if read != len(body) or message.SerializeToString() is None:
            self.refused.append((self.path, "unreadable"))
            return self.answer(400, b"")
        self.bodies.append(body)
        for resource in getattr(message, "resource_spans", []):
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.spans.extend((names, span) for scope in resource.scope_spans for span in scope.spans)
        for resource in getattr(message, "resource_metrics", []):
            self.metrics.update((one.name, one) for scope in resource.scope_metrics for one in scope.metrics)
        return self.answer(200, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def caller(sampled=True):
    """A trace and a span of a caller, and the header that says so."""
    trace, span = secrets.token_bytes(16), secrets.token_bytes(8)
    return trace, span, {"traceparent": f"00-{trace.hex()}-{span.hex()}-0{int(sampled)}"}


def brief(trace):
    return [(span.name, span.span_id.hex(), span.parent_span_id.hex()) for span in spans_of(trace)]


def spans_of(trace):
    return [span for _, span in Collector.spans if span.trace_id == trace]


def named(trace, *prefixes):
    """The spans of a trace with these names, in this order, once all are there."""
    def found():
        spans = spans_of(trace)
        firsts = [next((span for span in spans if span.name.startswith(prefix)), None) for prefix in prefixes]
        return firsts if all(firsts) else None

    return until(LIMIT, found) or [None] * len(prefixes)


def attributes(span):
    return {one.key: one.value for one in span.attributes}


def is_below(span, parent):
    return span is not None and parent is not None and span.parent_span_id == parent.span_id


def checks(port, token):
    def ask(path, body, headers):
        return call(port, token, "POST", path, body, headers)

    ways = {
        "a chat completion": ("/v1/chat/completions", {
            "model": "flock/coder", "messages": [{"role": "user", "content": "planted-prompt: keep it"}]}),
        "a response": ("/v1/responses", {"model": "flock/coder", "input": "planted-prompt: keep it"}),
    }
    for way, (path, body) in ways.items():
        trace, parent, headers = caller()
        status, answer = ask(path, body, headers)
        check(f"{way} is answered", status == 200 and "planted-answer" in answer, (status, answer))
        turn, model, tool = named(trace, "invoke_agent coder", "chat ", "execute_tool write")
        check(f"{way}: the turn is below the caller's span", turn and turn.parent_span_id == parent, brief(trace))
        check(f"{way}: the model and the tool are below the turn", is_below(model, turn) and is_below(tool, turn))
        kinds = turn and (turn.kind, model.kind)
        check(f"{way}: kinds of spans", kinds == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT), kinds)
        about = attributes(model) if model else {}
        check(f"{way}: the model call counts tokens",
              "gen_ai.usage.input_tokens" in about and about["gen_ai.operation.name"].string_value == "chat", about)
        ordered = turn and turn.start_time_unix_nano <= tool.start_time_unix_nano <= tool.end_time_unix_nano \
            <= turn.end_time_unix_nano
        check(f"{way}: times are in order and nothing failed",
              ordered and all(one.status.code != Status.STATUS_CODE_ERROR for one in (turn, model, tool)))

    trace, parent, headers = caller()
    status, answer = ask("/api/channels/build/messages", {"content": "@coder planted-prompt"}, headers)
    check("a message is posted", status in (200, 201, 202), (status, answer))
    post, wake, turn = named(trace, "post build", "wake coder", "invoke_agent coder")
    check("a message is below the caller's span", post and post.parent_span_id == parent, brief(trace))
    check("it wakes the agent, whose turn is below", is_below(wake, post) and is_below(turn, wake), brief(trace))
    check("producer and consumer", post and (post.kind, wake.kind) == (Span.SPAN_KIND_PRODUCER, Span.SPAN_KIND_CONSUMER))

    trace, parent, headers = caller()
    message = {"messageId": secrets.token_hex(8), "role": "ROLE_USER", "parts": [{"text": "planted-prompt"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    status, answer = ask("/flock/a2a/coder", body, {**headers, "A2A-Version": "1.0"})
    check("a task comes by A2A", status == 200 and "result" in parsed(answer), (status, answer))
    wake, turn = named(trace, "wake coder", "invoke_agent coder")
    check("it wakes the agent below the caller's span", wake and wake.parent_span_id == parent, brief(trace))
    check("and the turn is below that", is_below(turn, wake), brief(trace))

    trace, _, headers = caller(sampled=False)
    status, answer = ask(*ways["a chat completion"], headers)
    check("an unsampled caller is answered", status == 200, (status, answer))
    last, _, headers = caller()
    ask(*ways["a chat completion"], headers)
    named(last, "invoke_agent coder", "execute_tool write")
    check("and has no spans, though later ones came", not spans_of(trace), brief(trace))

    name = {one["service.name"] for one, _ in Collector.spans}
    check("all come from one service", name == {"flock"}, name)
    ids = [span.span_id for _, span in Collector.spans]
    check("no span is there twice, and all ids are whole",
          len(ids) == len(set(ids)) and all(len(one) == 8 for one in ids), len(ids))

    wanted = {"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.invoke_agent.duration",
              "gen_ai.execute_tool.duration"}
    check("the metrics come", until(LIMIT, lambda: wanted <= set(Collector.metrics)), sorted(Collector.metrics))
    for name in sorted(wanted & set(Collector.metrics)):
        metric = Collector.metrics[name]
        points = metric.histogram.data_points
        whole = points and all(sum(one.bucket_counts) == one.count > 0
                               and len(one.bucket_counts) == len(one.explicit_bounds) + 1 for one in points)
        check(f"{name} is a histogram in {metric.unit} that adds up", whole, metric)

    leaked = [text for text in TEXTS for body in Collector.bodies if text in body]
    check("no text of a conversation was sent", not leaked, leaked)
    check("the collector refused nothing", not Collector.refused, Collector.refused)
    told = parsed(flock("status", "--json")[1])["telemetry"]
    check("status counts what was sent, and no loss", told["sent"] >= len(ids) and not any(told["lost"].values()), told)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = "plugins.entries.flock.config.telemetry.otlp"
    otlp = {"endpoint": f"http://127.0.0.1:{server.server_port}", "metricsSeconds": 1}
    must("a collector is named", "config", "set", settings, json.dumps(otlp))
    must("the gateway starts", "start")
    must("a channel", "channel", "create", "build", "--topic", "to build", "--member", "coder")
    checks(own_port(), own_token())
    must("the gateway stops", "stop")
    finish()


main()
