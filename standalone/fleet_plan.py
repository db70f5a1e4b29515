"""The faults of a fleet campaign: what fails, how, for how long and when, from a seed alone."""

import collections
import itertools
import random

# A fault: the pause before it in seconds, its kind, the thing that it falls on, the numbers of the gateway and of the engine
# that are concerned, how, and how long it lasts in seconds.
Fault = collections.namedtuple("Fault", "wait kind target gateway engine how seconds")

# The kinds with their weights. Those of databases and networks are what the fleet is about; kills.sh has more of those of one home.
KINDS = {
    ("kill", "gateway"): 4,
    ("kill", "double"): 2,
    ("kill", "machine"): 3,
    ("kill", "supervisor"): 1,
    ("kill", "sandbox"): 1,
    ("kill", "helper"): 1,
    ("kill", "dockerd"): 1,
    ("kill", "sshd"): 2,
    ("kill", "containerd"): 1,
    ("kill", "podman"): 1,
    ("kill", "postgres"): 2,
    ("kill", "backend"): 2,
    ("pause", "gateway"): 4,
    ("pause", "postgres"): 2,
    ("pause", "replica"): 1,
    ("pause", "dockerd"): 1,
    ("cut", "database"): 4,
    ("cut", "engine"): 3,
    ("cut", "replica"): 2,
    ("cut", "peer"): 3,
    ("restart", "gateway"): 2,
    ("restart", "postgres"): 2,
    ("update", "gateway"): 2,
    ("failover", "postgres"): 2,
    ("replace", "gateway"): 3,
    ("skew", "clock"): 3,
}
# Only runs with a second program have this kind.
UPDATE = ("update", "gateway")
# The kinds that also a run with few faults has. They are what a group has to survive on any day.
ALWAYS = [("failover", "postgres"), ("kill", "gateway"), ("pause", "gateway"), ("cut", "database"), ("cut", "peer"), ("kill", "dockerd")]
HOWS = {
    # One of them, or all at the same moment.
    ("kill", "gateway"): ["alone", "alone", "with all others"],
    # The gateway again, as soon as it has started anew, or one that is to take over from it.
    ("kill", "double"): ["in its recovery", "in the takeover"],
    # Its gateway ends by itself, unless somebody starts it again before that.
    ("kill", "supervisor"): ["while its gateway runs", "until its gateway has ended"],
    # Its supervisor may see that it stands still, or stand still with it.
    ("pause", "gateway"): ["alone", "with its supervisor"],
    # Packets of one direction may be lost alone: the other side then goes on as if all were well.
    ("cut", "database"): ["both", "in", "out"],
    ("cut", "replica"): ["both", "in", "out"],
    ("cut", "peer"): ["both", "in", "out"],
    # The streams go on after the break, or they are reset.
    ("cut", "engine"): ["both", "in", "out", "reset"],
    # The old primary is stopped in order, or it is killed.
    ("failover", "postgres"): ["switch", "crash"],
    # What happens to the gateway whose agents others take before it comes back.
    ("replace", "gateway"): ["pause", "pause with its supervisor", "cut"],
    # Of which machine, and by how many seconds.
    ("skew", "clock"): ["gateway +300", "gateway -300", "primary +300", "primary -300", "replica +300", "replica -300"],
}
LASTING = {"pause", "cut"}
# The things of which each gateway has one, and those of which each engine has one.
OF_GATEWAYS = {"gateway", "double", "supervisor", "machine", "sandbox", "helper", "database", "engine", "peer", "clock"}
OF_ENGINES, OF_DOCKER = {"dockerd", "containerd", "engine", "sshd"}, {"dockerd", "containerd"}
# Which of three gateways change their program, one after the other. All are updated first. Until all have their first program
# again, each mixture of the two programs comes once.
STEPS = [0, 1, 2, 1, 0, 1, 2, 1]
# The engine that gateways reach by ssh, and Podman, which comes after those of Docker and may be missing.
BY_SSH, PODMAN = 1, 2
# The engine of what only one of them has.
ONLY = {"sshd": BY_SSH, "podman": PODMAN}


def plan(seed, count, *, long=False, minute=False, update=False, without=(), gateways=3, engines=3):
    """The faults of a run. `long` makes those that last take up to a minute, and `minute` makes one of them a gateway that stands
    still for a minute; `update` has gateways change between two programs; `without` leaves kinds out."""
    choose = random.Random(seed)
    without = {*without, *(["kill/podman"] if engines <= PODMAN else []), *([] if update else ["/".join(UPDATE)])}
    kinds = [key for key in KINDS if key[0] not in without and "/".join(key) not in without]
    # Half of the faults are updates, until each mixture of two programs was there; the other ones fall on those mixtures.
    # Each kind once, if there is room for all, so that a run says something about each. Otherwise the most important ones come
    # first. What is left is chosen by weight.
    chosen = [UPDATE] * min(len(STEPS), (count + 1) // 2) if UPDATE in kinds else []
    for group in ([key for key in kinds if key in ALWAYS], [key for key in kinds if key not in (*ALWAYS, UPDATE)]):
        chosen += choose.sample(group, min(count - len(chosen), len(group)))
    chosen += choose.choices(kinds, [KINDS[key] for key in kinds], k=max(0, count - len(chosen)))
    choose.shuffle(chosen)
    faults = [fault(choose, key, long, gateways, engines) for key in chosen]
    steps = itertools.cycle(STEPS)
    for at, key in enumerate(chosen):
        if key == UPDATE:
            faults[at] = faults[at]._replace(gateway=next(steps))
    if minute:
        # In place of the first other fault if there is none of its kind.
        at = next((at for at, key in enumerate(chosen) if key == ("pause", "gateway")),
                  next((at for at, key in enumerate(chosen) if key != UPDATE), 0))
        faults[at] = faults[at]._replace(kind="pause", target="gateway", how="with its supervisor", seconds=60.0)
    return faults


def fault(choose, key, long, gateways, engines):
    seconds = 0.0
    if key[0] in LASTING:
        # Around the limits of the program: 3 s (late), 6 s (dead), 7 s (a connection), and in the long form a minute.
        longest = choose.choice([1, 2, 4, 8, 15, 60] if long else [0.5, 1, 2, 4])
        seconds = round(longest * choose.uniform(0.5, 1.0), 2)
    gateway = choose.randrange(gateways)
    engine = ONLY.get(key[1], choose.randrange(PODMAN if key[1] in OF_DOCKER else engines))
    how = choose.choice(HOWS[key]) if key in HOWS else ""
    return Fault(round(choose.uniform(0.1, 1.0), 2), *key, gateway, engine, how, seconds)


def say(one):
    """A fault as a line for people."""
    parts = [one.kind, one.target, one.how]
    if one.target in OF_ENGINES:
        parts[1] += f" {one.engine}"
    if one.target in OF_GATEWAYS:
        parts[1] += f" of gateway {one.gateway}" if one.target not in ("gateway", "supervisor", "machine") else f" {one.gateway}"
    return " ".join(part for part in [*parts, f"for {one.seconds} s" if one.seconds else ""] if part)
