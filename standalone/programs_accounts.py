"""Programs with the subscription that their user has logged in with, when its window is used up: programs_accounts.py PROGRAM...

The programs are the real ones, and ask the servers of their makers, with a login that was never one. A proxy stands for
the makers: its certificate is of an authority that only these programs are told to trust. It answers as the makers do while
a window is used up, and later as they do when it has begun anew.

Claude Code refuses to run on the host as root, so that this is run by programs_quota.py as another user of a namespace.
The home is FLOCK_HOME, and FLOCK_WORK has room for files.
"""

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time

from checking import HOME, check, finish, flock, free_port, must, parsed, posts, until
from programs_model import Answer, Anthropic, Completions, Responses

WORK = os.environ["FLOCK_WORK"]
USER = f"{WORK}/user"
ACCOUNT = "00000000-0000-4000-8000-000000004711"
# For each program the model that it is asked for, the server, the path of its model calls, and their API.
MAKERS = {
    "claude": ("anthropic/claude-sonnet-4-5", "api.anthropic.com", "/v1/messages", Anthropic()),
    "codex": ("openai/gpt-5.5", "chatgpt.com", "/backend-api/codex/responses", Responses()),
    "opencode": ("opencode-go/glm-5.3", "opencode.ai", "/zen/go/v1/chat/completions", Completions()),
}
# Seconds until the windows begin anew. Nobody waits for that here.
WINDOW = 2 * 3600
ANSWER = "understood"
# Programs that tell the time to the minute.
MINUTE = 60


class Go(Completions):
    """OpenCode's own subscription."""

    def spent(self, reset):
        left = reset - int(time.time())
        message = f"5-hour usage limit reached. Resets in {left // 3600}hr {left % 3600 // 60}min"
        error = {"type": "GoUsageLimitError", "message": message}
        metadata = {"workspace": "wrk_4711", "limitName": "5-hour"}
        return {"type": "error", "error": error, "metadata": metadata}, {"retry-after": left}


MAKERS["opencode"] = (*MAKERS["opencode"][:3], Go())


class Makers(http.server.ThreadingHTTPServer):
    """The proxy, and the servers behind it."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Maker)
        self.reset = int(time.time()) + WINDOW
        self.is_open, self.asked, self.noting = False, [], threading.Lock()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*certificate())

    def handle_error(self, *_):
        """A client that goes away is not worth a word."""

    def statuses(self, program):
        with self.noting:
            return [status for name, status in self.asked if name == program]


def certificate():
    """A certificate for the makers' servers and its key; its authority's is in authority.pem."""
    names = ",".join(f"DNS:{host}" for _, host, _, _ in MAKERS.values())
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    run = lambda *args: subprocess.run(["openssl", *args], cwd=WORK, check=True, capture_output=True)
    run("req", "-x509", *curve, "-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=authority of a test",
        "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    run("req", *curve[:-2], "-keyout", "makers.key", "-out", "makers.csr", "-subj", "/CN=makers of a test")
    with open(f"{WORK}/makers.ext", "w") as file:
        file.write(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
    run("x509", "-req", "-in", "makers.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial",
        "-days", "2", "-extfile", "makers.ext", "-out", "makers.pem")
    return f"{WORK}/makers.pem", f"{WORK}/makers.key"


class Maker(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    host = None

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        host = self.path.partition(":")[0]
        if host not in [known for _, known, _, _ in MAKERS.values()]:
            return self.reply(502, {"error": "no such server here"})
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        secured = self.server.tls.wrap_socket(self.connection, server_side=True)
        # It serves the connection to its end.
        type("Inside", (Maker,), {"host": host})(secured, self.client_address, self.server)
        return None

    def do_GET(self):
        if self.path.startswith("/backend-api/wham/accounts/check"):
            # Without an answer Codex asks no model.
            free = {"workspace_backend_origin": "NO_CONSTRAINT", "account_routing_override": "NO_CONSTRAINT"}
            account = {"id": ACCOUNT, "structure": "personal", **free}
            return self.reply(200, {"accounts": [account], "account_ordering": [ACCOUNT], "default_account_id": ACCOUNT})
        # 426 says that model calls are not to be made over a WebSocket.
        return self.reply(426 if self.headers.get("upgrade") else 404, {})

    def do_POST(self):
        # Codex compresses what it sends, so that nothing here depends on it.
        self.rfile.read(int(self.headers.get("content-length", 0)))
        found = [name for name, (_, host, path, _) in MAKERS.items() if host == self.host and self.path.split("?")[0] == path]
        if not found:
            return self.reply(404, {})
        api, status = MAKERS[found[0]][3], 200 if self.server.is_open else 429
        with self.server.noting:
            self.server.asked.append((found[0], status))
        if status == 429:
            told, headers = api.spent(self.server.reset)
            return self.reply(429, told, headers)
        answer = Answer()
        answer.texts = [ANSWER]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event, data in api.stream({"model": "m"}, answer):
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write((f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode())
        self.close_connection = True
        return None

    def reply(self, status, value, headers=None):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, content in {"content-type": "application/json", "content-length": len(data), **(headers or {})}.items():
            self.send_header(name, str(content))
        self.end_headers()
        self.wfile.write(data)


def has(name, value):
    path = f"{USER}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        json.dump(value, file)


def log_in():
    """What the programs have in their users' folders after a login."""
    later = int(time.time()) + 86_400
    has(".claude/.credentials.json", {"claudeAiOauth": {
        "accessToken": "sk-ant-oat01-of-nobody", "refreshToken": "sk-ant-ort01-of-nobody", "expiresAt": later * 1000,
        "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
    }})
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
    about = {"chatgpt_plan_type": "plus", "chatgpt_account_id": ACCOUNT, "chatgpt_user_id": "user-4711"}
    claims = {"email": "ann@example.com", "exp": later, "https://api.openai.com/auth": about}
    token = f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.nobody"
    tokens = {"id_token": token, "access_token": token, "refresh_token": "of-nobody", "account_id": ACCOUNT}
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    has(".codex/auth.json", {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": now})
    has(".local/share/opencode/auth.json", {"opencode-go": {"type": "api", "key": "of-nobody"}})


def parks():
    code, out, _ = flock("--json", "status")
    return parsed(out).get("parked", []) if code == 0 else []


def park_of(program):
    return next((park for park in parks() if park["credential"] == f"{program}-login" and park["agents"]), None)


def parks_by_its_words(makers, program):
    park = until(120, lambda: park_of(program))
    check(f"{program}-login: the words of its program park it", park, (makers.statuses(program), flock("logs", "-n", "60")[1][-3000:]))
    if park:
        off = makers.reset - park["until"] / 1000
        check(f"{program}-login: until the time that they name", park["named"] and -MINUTE < off < 2 * MINUTE, (park, makers.reset))


def goes_on(makers, program):
    agent = f"{program}-own"
    before = len(makers.statuses(program))
    must(f"{program}-login: resume", "resume", "--credential", f"{program}-login")
    said = until(120, lambda: [one for one in posts("work") if one["author"] == agent and one["content"] == ANSWER])
    asked = makers.statuses(program)[before:]
    check(f"{program}-login: it goes on when the window has begun anew", said, (asked, posts("work")))
    check(f"{program}-login: and nothing is parked", until(30, lambda: not park_of(program)), parks())


def main():
    programs = [program for program in sys.argv[1:] if program in MAKERS]
    makers = Makers()
    threading.Thread(target=makers.serve_forever, daemon=True).start()
    log_in()
    authority = f"{WORK}/authority.pem"
    os.environ |= {
        "HTTPS_PROXY": f"http://127.0.0.1:{makers.server_address[1]}", "NODE_EXTRA_CA_CERTS": authority, "SSL_CERT_FILE": authority,
    }
    must("a home for logins", "init", "--yes", "--no-images", "--model", "script/demo", "--port", str(free_port()))
    for program in programs:
        must(f"add {program}-own", "add", f"{program}-own", "--runtime", program, "--on-host", "--model", MAKERS[program][0])
    try:
        must("start it", "start")
        members = [f"--member={program}-own" for program in programs]
        flock("channel", "create", "work", "--topic", "Work", *members)
        flock("channel", "post", "work", "@all what is new?")
        for program in programs:
            parks_by_its_words(makers, program)
        makers.is_open = True
        for program in programs:
            goes_on(makers, program)
    finally:
        must("stop it", "stop")
    finish()


if __name__ == "__main__":
    main()
