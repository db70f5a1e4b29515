"""What all checks of a whole flock have in common: counting them, running the program, asking its gateway.

The home is FLOCK_HOME, the binary FLOCK_BINARY or the first `flock` on PATH.
"""

import collections
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HOME = os.environ["FLOCK_HOME"]
FLOCK = os.environ.get("FLOCK_BINARY") or "flock"
# Everything is there much sooner; this is when waiting ends.
SOON = 60
passed = 0
# What failed, for the end: of a long run often only the end is read.
failed = []
counting = threading.Lock()


def check(name, ok, seen=""):
    """Counts one check and says how it went; a failure says what was seen."""
    global passed
    with counting:
        line = f"ok    {name}" if ok else f"FAIL  {name}: {str(seen)[:3000]}"
        if ok:
            passed += 1
        else:
            failed.append(line)
        print(line)
    return bool(ok)


def same(name, wanted, found):
    """Checks that two lists are equal, and says what is lost, doubled or out of order."""
    if wanted == found:
        return check(name, wanted, "there are none")
    counted = collections.Counter(found)
    lost = [word for word in wanted if not counted[word]]
    twice = [word for word, count in counted.items() if count > 1]
    place = next((at for at, pair in enumerate(zip(wanted, found)) if pair[0] != pair[1]), min(len(wanted), len(found)))
    around = {"at": place, "wanted": wanted[place:place + 5], "found": found[place:place + 5]}
    return check(name, False, json.dumps({"lost": lost[:50], "twice": twice[:50], "first": around}))


def finish():
    """What failed once more, the last line, and the exit code: 0 only if nothing failed."""
    for line in failed:
        print(line[:1000])
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(1 if failed or not passed else 0)


def run(*args, stdin=None, limit=600, env=None):
    """Runs a program; gives exit code, stdout and stderr."""
    done = subprocess.run(
        args, input=stdin, capture_output=True, text=True, errors="replace", timeout=limit, check=False, env=env
    )
    return done.returncode, done.stdout, done.stderr


def flock(*args, **more):
    return run(FLOCK, *args, **more)


def must(name, *args, **more):
    """A command of flock's that has to succeed; its standard output."""
    begun = time.monotonic()
    code, out, err = flock(*args, **more)
    check(f"{name} ({time.monotonic() - begun:.1f} s)", code == 0, (code, out, err))
    return out


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


def until(limit, condition):
    """Waits until the condition holds, at most `limit` seconds; its last value."""
    end = time.monotonic() + limit
    while True:
        asked = time.monotonic()
        value = condition()
        now = time.monotonic()
        if value or now > end:
            return value
        # Many conditions start programs or read much. Most of the processor is left to what is waited for.
        time.sleep(min(1, max(0.05, 2 * (now - asked))))


def configuration():
    return json.load(open(f"{HOME}/config.json"))


def own_port():
    """The port of flock's own gateway."""
    return configuration()["plugins"]["entries"]["flock"]["config"]["gateway"]["port"]


def own_token():
    return configuration()["gateway"]["auth"]["token"]


def call(port, token, method, path, body=None, headers=None, limit=600):
    """A request to a gateway on this machine: the status, 0 where there is none, and the body's text."""
    headers = {"Content-Type": "application/json", **(headers or {})}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers, data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=limit) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def rows(query):
    connection = sqlite3.connect(f"file:{HOME}/data/flock.db?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


# What was read of each file of requests: the requests, and the place in the file after them.
requests_read = {}
reading = threading.Lock()


def requests_in(path, since=0):
    """What a model that writes down its requests was asked, from the one with this number on.

    The file only grows to many megabytes, so each line is read once. Callers share the requests and must not change them.
    """
    with reading:
        found, place = requests_read.get(path, ([], 0))
        try:
            with open(path, "rb") as file:
                file.seek(place)
                *whole, rest = file.read().split(b"\n")
                # What stands after the last line's end is still being written.
                place = file.tell() - len(rest)
        except FileNotFoundError:
            return []
        found += [json.loads(line) for line in whole]
        requests_read[path] = found, place
        return found[since:]


def posts(channel):
    """A channel's messages, the oldest first."""
    return parsed(flock("--json", "channel", "read", channel, "-n", "200")[1]).get("messages", [])


def files_with(folder, secrets, leave=()):
    """The files below a folder, but for some folders, in which one of these texts stands."""
    wanted, found = [one.encode() for one in secrets], []
    for at, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one not in leave and os.path.join(at, one) not in leave]
        for name in files:
            path = os.path.join(at, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                text = file.read()
            found += [path for one in wanted if one in text]
    return found


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def pid_of(name, home=None):
    """The PID of the gateway or the supervisor of a home, by the file that the supervisor writes; `None` if it does not run."""
    try:
        with open(f"{home or HOME}/run/{name}.pid") as file:
            pid = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if alive(pid) else None


def kill(pid):
    """Ends a process by SIGKILL; whether there was one."""
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except (ProcessLookupError, PermissionError, TypeError):
        return False


def own_processes():
    """The PIDs of all supervisors and gateways of the home."""
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and belongs(pid)]


def belongs(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return False
    return FLOCK.encode() in line and (b"supervise" in line or b"gateway" in line) and own_home(pid)


def own_home(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return HOME.encode() in file.read()
    except OSError:
        return False


def connects(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def lines(path):
    try:
        return open(path, errors="replace").readlines()
    except FileNotFoundError:
        return []
