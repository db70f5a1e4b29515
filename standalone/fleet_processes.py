"""Processes by their parents: a server is ended, stopped and continued with all that it has started."""

import os
import signal

from checking import alive, until


def parents():
    """Each process with its parent; a zombie has none of interest."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as stat:
                state, parent = stat.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            found[int(name)] = int(parent)
    return found


def tree(root):
    """A process that lives, and all of its descendants, parents first."""
    known = parents()
    if root not in known:
        return []
    found, at = [root], 0
    while at < len(found):
        found += [pid for pid, parent in known.items() if parent == found[at]]
        at += 1
    return found


def tell(pids, what):
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass


def kill_tree(root):
    """Ends a process and its descendants as a power cut would: none of them sees another one end."""
    pids = tree(root)
    tell(pids, signal.SIGSTOP)
    tell(pids, signal.SIGKILL)
    gone(pids)


def gone(pids, limit=30):
    """Waits until none of the processes lives."""
    return until(limit, lambda: not any(alive(pid) for pid in pids))


def pid_in(path):
    """The number in the first line of a file, or `None`."""
    try:
        with open(path) as file:
            return int(file.readline())
    except (OSError, ValueError):
        return None
