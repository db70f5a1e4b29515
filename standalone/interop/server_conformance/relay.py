"""Lends the token of a turn to MCP's conformance suite, which sends none, and passes everything else on as it is.

Usage: relay.py GATEWAY_PORT TOKEN_FILE PORT_FILE

The suite has fixed names for what it reads and calls. The relay translates these names alone: the addresses of flock for
the same contents, the prefix that flock gives to tools of an MCP server, and the gateway's port in Host and Origin. It
makes no answer of its own.
"""

import http.client
import http.server
import json
import os
import sys

GATEWAY = int(sys.argv[1])
with open(sys.argv[2], encoding="ascii") as file:
    TOKEN = file.read()
ADDRESSES = {
    "test://static-text": "flock://vault/suite/static-text.txt",
    "test://static-binary": "flock://findings/main/static-binary.png",
    "test://template/123/data": "flock://vault/suite/template/123/data.json",
    "test://watched-resource": "flock://channel/suite",
}
OF_SUITE = {flock: suite for suite, flock in ADDRESSES.items()}
# The names of the tools of the server `suite`.
PREFIX = "mcp_suite_"
# They belong to one connection.
OWN = {"connection", "keep-alive", "transfer-encoding", "content-length"}


def translated(body):
    """A request with flock's names."""
    try:
        message = json.loads(body)
        params = message["params"]
        if message["method"] in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
            params["uri"] = ADDRESSES.get(params["uri"], params["uri"])
        elif message["method"] == "tools/call":
            params["name"] = PREFIX + params["name"]
        else:
            return body
    except (ValueError, KeyError, TypeError):
        return body
    return json.dumps(message).encode()


def named(text):
    """An answer or a notification with the suite's names."""
    try:
        message = json.loads(text)
        if message.get("method") == "notifications/resources/updated":
            message["params"]["uri"] = OF_SUITE.get(message["params"]["uri"], message["params"]["uri"])
        else:
            for tool in message["result"]["tools"]:
                tool["name"] = tool["name"].removeprefix(PREFIX)
    except (ValueError, KeyError, TypeError, AttributeError):
        return text
    return json.dumps(message).encode()


def named_line(line):
    """A line of a stream of events with the suite's names."""
    if not line.startswith(b"data: "):
        return line
    return b"data: " + named(line[len(b"data: "):].rstrip(b"\n")) + b"\n"


class Relay(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        own, gateway = f":{self.server.server_port}", f":{GATEWAY}"
        connection = http.client.HTTPConnection("127.0.0.1", GATEWAY, timeout=60)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() in ("host", "origin") and value.endswith(own):
                value = value.removesuffix(own) + gateway
            if name.lower() not in OWN:
                connection.putheader(name, value)
        if "authorization" not in self.headers:
            connection.putheader("Authorization", f"Bearer {TOKEN}")
        body = translated(body)
        if self.command == "POST":
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body if self.command == "POST" else None)
        answer = connection.getresponse()
        is_stream = answer.getheader("content-type", "").startswith("text/event-stream")
        text = b"" if is_stream else named(answer.read())
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OWN and name.lower() not in ("date", "server"):
                self.send_header(name, value)
        if is_stream:
            # Its end is that of the connection.
            self.send_header("Connection", "close")
            self.close_connection = True
        elif answer.status != 204:
            self.send_header("Content-Length", str(len(text)))
        try:
            self.end_headers()
            self.wfile.write(text)
            while is_stream and (line := answer.readline()):
                self.wfile.write(named_line(line))
                self.wfile.flush()
        except (OSError, http.client.HTTPException):
            # The suite reads only the status of some answers, and closes its streams when it has seen enough.
            self.close_connection = True
        connection.close()

    do_GET = do_POST = do_DELETE = do_any

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay)
with open(sys.argv[3] + ".new", "w", encoding="ascii") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[3] + ".new", sys.argv[3])
server.serve_forever()
