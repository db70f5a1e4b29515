"""The faults of a fleet campaign: what fails, how, for how long and when, from a seed alone."""

import collections
import random

# A fault: the pause before it in seconds, its kind, the thing that it falls on, how, and how long it lasts in seconds.
Fault = collections.namedtuple("Fault", "wait kind target how seconds")

# The kinds with their weights. Those of databases and networks are what the fleet is about; kills.sh has more of kills.
KINDS = {
    ("kill", "gateway"): 4,
    ("kill", "machine"): 2,
    ("kill", "dockerd"): 2,
    ("kill", "containerd"): 2,
    ("kill", "postgres"): 2,
    ("pause", "gateway"): 3,
    ("pause", "postgres"): 3,
    ("pause", "replica"): 1,
    ("pause", "dockerd"): 1,
    ("cut", "database"): 4,
    ("cut", "engine"): 3,
    ("restart", "postgres"): 2,
    ("failover", "postgres"): 2,
    ("replace", "gateway"): 2,
    ("skew", "clock"): 3,
}
HOWS = {
    # Packets of one direction may be lost alone: the other side then goes on as if all were well.
    ("cut", "database"): ["both", "in", "out"],
    # The stream goes on after the break, or it is reset.
    ("cut", "engine"): ["stall", "reset"],
    # The old primary is stopped in order, or it is killed and its last milliseconds are lost.
    ("failover", "postgres"): ["switch", "crash"],
    # What happens to the gateway in whose place another one starts.
    ("replace", "gateway"): ["pause", "cut", "kill"],
    # Of which machine, and by how many seconds.
    ("skew", "clock"): ["gateway +300", "gateway -300", "primary +300", "primary -300", "replica +300", "replica -300"],
}
LASTING = {"pause", "cut"}


def plan(seed, count, *, full, without=(), gateways=1, engines=2):
    """The faults of a run. `full` makes those that last take up to a minute; `without` leaves kinds out."""
    choose = random.Random(seed)
    kinds = [key for key in KINDS if key[0] not in without and "/".join(key) not in without]
    # A short run has each kind once, so that it says something about each; what is left is chosen by weight.
    chosen = kinds[:count]
    chosen += choose.choices(kinds, [KINDS[key] for key in kinds], k=max(0, count - len(chosen)))
    choose.shuffle(chosen)
    return [fault(choose, key, full, gateways, engines) for key in chosen]


def fault(choose, key, full, gateways, engines):
    kind, target = key
    seconds = 0.0
    if kind in LASTING:
        # Around the limits of the program: 3 s (late), 6 s (dead), 7 s (a connection), and in the whole campaign a minute.
        longest = choose.choice([1, 2, 4, 8, 15, 60] if full else [0.5, 1, 2, 4])
        seconds = round(longest * choose.uniform(0.5, 1.0), 2)
    if kind in ("pause", "cut", "kill") and target in ("gateway", "machine", "database"):
        target = f"{target} {choose.randrange(gateways)}"
    elif target in ("dockerd", "containerd", "engine"):
        target = f"{target} {choose.randrange(engines)}"
    how = choose.choice(HOWS[key]) if key in HOWS else ""
    return Fault(round(choose.uniform(0.1, 1.0), 2), kind, target, how, seconds)


def say(one):
    """A fault as a line for people."""
    parts = [one.kind, one.target, one.how, f"for {one.seconds} s" if one.seconds else ""]
    return " ".join(part for part in parts if part)
