"""A model on loopback that answers `question N` by `answer N` at once, and notes when it was asked."""

import http.server
import json
import re
import threading
import time


class Model(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        # When the request with each question was there, in Unix seconds.
        self.asked = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def provider(self):
        """Its entry in flock's configuration."""
        return {
            "baseUrl": f"http://127.0.0.1:{self.server_port}/v1", "apiKey": "none", "api": "openai-completions",
            "models": [{"id": "instant", "contextWindow": 128_000, "maxTokens": 4096}],
        }


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Else the small last packet of an answer waits for an acknowledgement.
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self):
        at = time.time()
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        found = re.findall(r"question (\d+)", body)
        if found:
            self.server.asked.setdefault(int(found[-1]), at)
        answer = answered(f"answer {found[-1]}" if found else "")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """It is quiet."""


def answered(text):
    def piece(delta, finish, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": choices, **more}).encode() + b"\n\n"

    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    return piece({"role": "assistant", "content": text}, None) + piece({}, "stop", usage=usage) + b"data: [DONE]\n\n"
