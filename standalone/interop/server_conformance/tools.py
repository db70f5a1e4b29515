"""The tools that MCP's conformance suite expects of a server, as far as flock can pass their results on. flock is granted
them as those of any MCP server at a URL.

Usage: tools.py PORT_FILE
"""

import http.server
import json
import os
import sys
import time

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# A header of a WAV file without any samples.
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
NOTHING = {"type": "object", "properties": {}}
# With what a schema of 2020-12 can have and older ones can not.
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
TOOLS = {
    "test_simple_text": (NOTHING, [{"type": "text", "text": "This is a simple text response for testing."}]),
    "test_image_content": (NOTHING, [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]),
    "test_audio_content": (NOTHING, [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]),
    "test_embedded_resource": (NOTHING, [{"type": "resource", "resource": {
        "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content."}}]),
    "test_multiple_content_types": (NOTHING, [
        {"type": "text", "text": "Multiple content types test:"},
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "test://mixed-content-resource", "mimeType": "application/json",
                                          "text": '{"test":"data","value":123}'}}]),
    "test_error_handling": (NOTHING, [{"type": "text", "text": "This tool intentionally returns an error"}]),
    "test_tool_with_progress": (NOTHING, [{"type": "text", "text": "done"}]),
    "test_tool_with_logging": (NOTHING, [{"type": "text", "text": "done"}]),
    "test_reconnection": (NOTHING, [{"type": "text", "text": "done"}]),
    "json_schema_2020_12_tool": (SCHEMA, [{"type": "text", "text": "done"}]),
}


def answer(method, params):
    if method == "initialize":
        versions = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "logging": {}}}
        return {**versions, "serverInfo": {"name": "suite", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "description": name, "inputSchema": one[0]} for name, one in TOOLS.items()]}
    if method == "tools/call":
        return {"content": TOOLS[params["name"]][1], "isError": params["name"] == "test_error_handling"}
    return {}


def progress(params):
    token = params.get("_meta", {}).get("progressToken")
    return [{"method": "notifications/progress", "params": {"progressToken": token, "progress": done, "total": 100}}
            for done in (0, 50, 100)]


def logs(_):
    said = ("Tool execution started", "Tool processing data", "Tool execution completed")
    return [{"method": "notifications/message", "params": {"level": "info", "data": text}} for text in said]


# What tools send before their results.
NEWS = {"test_tool_with_progress": progress, "test_tool_with_logging": logs}


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        result = answer(message["method"], message.get("params", {}))
        name = message.get("params", {}).get("name")
        if name in NEWS:
            self.stream(message, NEWS[name](message["params"]), result)
            return
        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, message, news, result):
        """Answers with notifications, and then the result."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        for part in [*news, {"id": message["id"], "result": result}]:
            self.wfile.write(b"data: %s\n\n" % json.dumps({"jsonrpc": "2.0", **part}).encode())
            self.wfile.flush()
            # The suite wants to see that they come one by one.
            time.sleep(0.05)

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
with open(sys.argv[1] + ".new", "w", encoding="ascii") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
