"""The client of a scenario of MCP's conformance suite: adds the scenario's server to flock, signs in if it has to, and has
an agent call each of its tools. The suite starts it with the server's URL."""

import json
import os
import subprocess
import sys
import threading
import urllib.request

FLOCK = os.environ["FLOCK_BINARY"]
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
NAME = "conform"
DONE = threading.Event()
# The first sign-in, and one with more scopes.
SIGN_INS = 2


def flock(*arguments):
    done = subprocess.run([FLOCK, *arguments], capture_output=True, text=True, timeout=50, check=False)
    print(arguments, done.returncode, done.stdout, done.stderr, flush=True)
    return done


def wants_sign_in(done):
    return f"flock mcp login {NAME}" in done.stdout + done.stderr


def answer_questions(done):
    """Does what a person does who accepts every question as it is: the defaults count."""
    while not done.is_set():
        listed = json.loads(flock("--json", "approvals", "list").stdout or "{}")
        for request in listed.get("requests", []):
            if request["kind"] == "mcp-question":
                flock("approvals", "answer", request["id"])
        done.wait(0.2)


def client():
    """Returns the options that name the client, and its secret, if the scenario has one."""
    if SCENARIO == "auth/basic-cimd":
        return ["--client-id", "https://conformance-test.local/client-metadata.json"], None
    if "client_id" in CONTEXT:
        return ["--client-id", CONTEXT["client_id"], "--client-secret"], CONTEXT["client_secret"]
    return [], None


def sign_in():
    """Does what a person with a browser does: opens the address, and is led back."""
    options, secret = client()
    login = subprocess.Popen(
        [FLOCK, "--json", "mcp", "login", NAME, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    login.stdin.write(secret or "")
    login.stdin.close()
    line = login.stdout.readline()
    print("login:", line, flush=True)
    if '"open"' in line:
        with urllib.request.urlopen(json.loads(line)["open"], timeout=20) as page:
            print("browser:", page.status, flush=True)
    print(login.stdout.read(), flush=True)
    return login.wait(timeout=30) == 0


class Session:
    """What an agent can do at the server, with as many sign-ins as a person has patience for."""

    def __init__(self):
        self.left = SIGN_INS

    def run(self, *arguments):
        done = flock(*arguments)
        while wants_sign_in(done) and self.left:
            self.left -= 1
            if not sign_in():
                break
            done = flock(*arguments)
        return done


def main(url):
    flock("mcp", "remove", NAME, "--yes")
    if flock("mcp", "add", NAME, url, "--allow-local").returncode:
        return 1
    session = Session()
    listed = session.run("--json", "mcp", "test", NAME)
    if listed.returncode:
        return 1
    tools = [tool["name"] for tool in json.loads(listed.stdout)["tools"]]
    if tools and flock("mcp", "grant", NAME, "coder", "--yes").returncode:
        return 1
    if SCENARIO.startswith("elicitation"):
        if flock("mcp", "grant", NAME, "coder", "--elicitation", "--yes").returncode:
            return 1
        threading.Thread(target=answer_questions, args=(DONE,), daemon=True).start()
    for tool in tools:
        said = session.run("chat", "coder", tool)
        if f"result of the tool {tool}" not in said.stdout:
            return 1
    DONE.set()
    flock("mcp", "logout", NAME)
    # The suite waits until the last connection is closed.
    flock("mcp", "remove", NAME, "--yes")
    return 0


sys.exit(main(sys.argv[-1]))
