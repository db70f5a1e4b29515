"""acpx, a command line for agents of the protocol, against `flock acp`."""

import json
import os
import subprocess
import sys
from pathlib import Path

ACPX = sys.argv[1]
BINARY = os.environ["FLOCK_BINARY"]
WORK = Path(os.environ["FLOCK_WORK"])


def acpx(agent, *args):
    """Runs acpx for one agent in a home of its own, and gives its output."""
    home = WORK / "acpx"
    home.mkdir(exist_ok=True)
    command = [ACPX, "--agent", f"{BINARY} acp --agent {agent}", "--cwd", str(WORK), "--timeout", "60", *args]
    ran = subprocess.run(
        command, env={**os.environ, "HOME": str(home)}, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL
    )
    return ran.returncode, ran.stdout, ran.stderr


def answers():
    code, out, err = acpx("coder", "exec", "hello from acpx")
    assert code == 0 and "I heard: hello from acpx" in out, (code, out, err)


def calls():
    code, out, err = acpx("coder", "--format", "json", "exec", "write it")
    assert code == 0, (code, out, err)
    updates = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert "a.txt" in json.dumps(updates) and "tool_call" in json.dumps(updates), out


def permissions():
    for option, word, runs in [("--deny-all", "seventh", False), ("--approve-all", "eighth", True)]:
        code, out, err = acpx("sysadmin", "--format", "json", option, "exec", f"do the {word}")
        asked = [line for line in out.splitlines() if "session/request_permission" in line]
        assert len(asked) == 1 and word in asked[0], (code, out, err)
        ran = WORK / "ran.txt"
        assert (ran.exists() and word in ran.read_text()) == runs, (option, code, out, err)


def errors():
    code, out, err = acpx("nobody", "exec", "hello")
    assert code != 0 and "flock list" in out + err, (code, out, err)


for check in [answers, calls, permissions, errors]:
    check()
    print(f"  ok: {check.__name__}")
