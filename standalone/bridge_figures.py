"""Measures what bridges have to reach: bridge_figures.py FOLDER [OPTIONS], see bridge_figures.sh.

Flock, the platforms and this process are on one machine and read the same clock, so times that two of them noted can be
compared.
"""

import argparse
import collections
import http.client
import json
import os
import socket
import statistics
import time

import discord_stage
import matrix_stage
import slack_stage
import telegram_stage
from bridge_figures_model import Model
from bridge_flock import bridge, heard, link_private, post, state
from checking import HOME, SOON, configuration, flock, free_port, must, own_port, own_token, pid_of, rows, until
from discord_stage import EXECUTE

PARTS = ("first", "idle", "posts", "turns")
CHANNELS = 50
# Discord takes five messages in two seconds from a webhook, and a channel has one. These many posts in a second over all
# channels, or turns in one channel, stay below that, so that no limit is in what is measured.
POST_PACE, TURN_PACE = 20, 2
# About what Discord takes to answer over the internet.
FAR = 0.1
AGENT = "helper"
MINUTE = 60


class Table:
    """The figures, and whether each is within its limit."""

    def __init__(self):
        self.rows = []

    def add(self, what, value, unit, limit=None, more=""):
        within = "" if limit is None else "yes" if value <= limit else "NO"
        shown = f"{limit:g} {unit}" if limit is not None else ""
        self.rows.append((what, shown, f"{value:.1f} {unit}{more}", within))
        print("      " + "  ".join(filter(None, self.rows[-1])))

    def times(self, what, times, limit=None):
        """Durations in seconds, as median, 95th percentile and maximum."""
        times = sorted(1000 * one for one in times)
        late = f" (p95 {times[len(times) * 95 // 100]:.1f}, max {times[-1]:.1f})"
        self.add(f"{what}, median of {len(times)}", statistics.median(times), "ms", limit, late)

    def print(self):
        print("\n| figure | limit | flock | within |\n|---|---|---|---|")
        for row in self.rows:
            print(f"| {' | '.join(row)} |")


def insist(ok, what):
    """What makes figures worthless ends the run."""
    if not ok:
        raise SystemExit(f"nothing is measured: {what}")
    return ok


# The home.


def make(model):
    must("init", "init", "--yes", "--no-images", "--model", "script/demo", "--port", str(free_port()), limit=300)
    path, config = f"{HOME}/config.json", configuration()
    config.setdefault("models", {}).setdefault("providers", {})["figures"] = model.provider()
    with open(os.open(f"{path}.new", os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        json.dump(config, file)
    os.rename(f"{path}.new", path)
    must("add the agent", "add", AGENT, "--no-container", "--model", "figures/instant")
    must("start", "start")


def restart(stages=()):
    """A gateway that has done nothing yet, with these bridges connected."""
    must("stop", "stop")
    must("start", "start")
    for stage in stages:
        insist(until(SOON, lambda: state(stage).get("state") == "connected"), f"{stage.bridge} does not connect")


# From nothing to the first message both ways.


def first(stage, table):
    channel, name = f"first-{stage.platform}", stage.platform
    must(f"channel {channel}", "channel", "create", channel, "--topic", "first")
    begun = time.monotonic()
    code, out, err = bridge("add", stage.platform, "--name", stage.bridge, *stage.credentials())
    insist(code == 0, (code, out, err))
    code, said, _ = link_private(stage, channel, stage.private)
    insist(code == 0, said)
    post(channel, "the first out")
    insist(stage.arrives(stage.private, "the first out"), f"no post arrives at {name}")
    stage.say("alice", stage.private, "the first in")
    insist(heard(channel, "the first in"), f"nothing arrives from {name}")
    table.add(f"{name}: `bridge add`, `link`, the first message each way", time.monotonic() - begun, "s", 120)


# An idle gateway.


def idle():
    """What the gateway has and uses in a minute in which nothing happens: MiB by kind, and milliseconds of processor."""
    pid = insist(pid_of("gateway"), "no gateway")
    # The kernel counts the time of a process by nanoseconds, and shows it only by this clock.
    clock = (~pid << 3) | 2
    begun = time.clock_gettime(clock)
    time.sleep(MINUTE)
    used = 1000 * (time.clock_gettime(clock) - begun)
    sizes = collections.Counter()
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file.readlines()[1:]:
            name, size = line.split()[:2]
            sizes[name.rstrip(":")] = int(size) / 1024
    return {"resident": sizes["Rss"], "PSS": sizes["Pss"], "private": sizes["Private_Clean"] + sizes["Private_Dirty"],
            "anonymous": sizes["Anonymous"], "CPU": used}


def compare(before, after, table):
    for kind in ("resident", "PSS", "private", "anonymous"):
        seen = f" ({before[kind]:.1f} and {after[kind]:.1f})"
        limit = 8 if kind in ("resident", "PSS", "private") else None
        table.add(f"idle with four bridges, against none: {kind} memory", after[kind] - before[kind], "MiB", limit, seen)
    table.add("idle without bridges: CPU time in a minute", before["CPU"], "ms")
    table.add("idle with four bridges: CPU time in a minute", after["CPU"], "ms")


# Posts and turns over Discord.


def paced(count, pace):
    """Numbers, each at its time. The pace is a part of what is measured, so it is kept by the clock."""
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number / pace - time.monotonic()))
        yield number


def crowd(stage):
    """The channels of Discord and of flock, linked; the external id of each by its name."""
    linked = {}
    for number in range(CHANNELS):
        name = f"crowd-{number}"
        insist(flock("channel", "create", name, "--topic", "posts")[0] == 0, f"no channel {name}")
        linked[name] = stage.channel(name)
        code, said, _ = link_private(stage, name, linked[name])
        insist(code == 0, said)
    # Discord's own limit, in place of the one with which the checks are fast.
    stage.server.control("limits", route=EXECUTE, limit=5, per=2)
    # The first message makes a channel's webhook.
    for name, room in linked.items():
        post(name, "the first one")
        insist(stage.arrives(room, "the first one"), f"no post arrives from {name}")
    return linked


class Poster:
    """Posts over a kept connection, so that no start of a process is measured."""

    def __init__(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", own_port(), timeout=SOON)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = {"Authorization": f"Bearer {own_token()}", "Content-Type": "application/json"}

    def post(self, channel, text):
        """The number of the message."""
        body = json.dumps({"as": "kim", "content": text, "notify": False})
        self.connection.request("POST", f"/api/channels/{channel}/messages", body, self.headers)
        answer = self.connection.getresponse()
        said = answer.read()
        insist(answer.status == 201, said)
        return json.loads(said)["seq"]


def handed(stage, count):
    """When the stand-in was asked to show the messages of each channel, the oldest first."""
    channels = {hook["id"]: hook["channel_id"] for hook in stage.server.look("world")["webhooks"]}

    def all_there():
        asked = stage.asked(EXECUTE)
        return asked if len(asked) >= count and all(one["status"] for one in asked) else None

    asked = insist(until(SOON, all_there), f"fewer than {count} requests")
    refused = [one["status"] for one in asked if one["status"] != 200]
    insist(not refused and len(asked) == count, f"the platform refused {refused}, {len(asked)} of {count}")
    found = collections.defaultdict(list)
    for one in asked:
        found[channels[one["path"].split("/")[4]]].append(one["at"])
    return found


def posts(stage, linked, count, table, what="", limit=None):
    """From the time that a post has in the database, which is that before its commit, to the request to the platform."""
    stage.server.control("forget")
    poster, names, made = Poster(), list(linked), collections.defaultdict(list)
    for number in paced(count, POST_PACE):
        name, called = names[number % len(names)], time.time()
        made[name].append((called, poster.post(name, f"post {number}")))
    arrived = handed(stage, count)
    stored = dict(rows("SELECT channel || ' ' || seq, created_at FROM message WHERE channel LIKE 'crowd-%'"))
    committed, called = [], []
    for name, messages in made.items():
        for (call, seq), there in zip(messages, arrived[linked[name]], strict=True):
            committed.append(there - stored[f"{name} {seq}"] / 1000)
            called.append(there - call)
    table.times(f"a post, committed to handed over, {CHANNELS} linked channels{what}", committed, limit)
    table.times(f"the same from the call that posts{what}", called)


def turns(stage, model, count, table):
    """People write one message after the other; each is answered before the next."""
    must("channel work", "channel", "create", "work", "--topic", "turns", "--member", AGENT)
    room = stage.channel("work")
    insist(link_private(stage, "work", room)[0] == 0, "work is not linked")
    # The first one makes the webhook, and the agent's session.
    stage.say("alice", room, f"@{AGENT} question 0")
    insist(stage.arrives(room, "answer 0"), "no answer")
    since = stage.mark(room)
    stage.server.control("forget")
    for number in (at + 1 for at in paced(count, TURN_PACE)):
        stage.say("alice", room, f"@{AGENT} question {number}")
        insist(until(SOON, lambda: len(stage.asked(EXECUTE)) == number), f"no answer to {number}")
    insist(until(SOON, lambda: len(stage.shown(room, since)) == 2 * count), "not every message is shown")
    said = [one.raw for one in stage.shown(room, since)]
    emitted = [one["arrived"] for one in said if one["author"]["kind"] == "person"]
    begun = [model.asked[number] for number in range(1, count + 1)]
    table.times("a message on the platform to the agent's model being asked", map(lambda at, to: to - at, emitted, begun), 50)
    made = [at / 1000 for (at,) in rows(f"SELECT created_at FROM message WHERE channel = 'work' AND author = '{AGENT}' "
                                        "ORDER BY seq")][1:]
    there = [one["arrived"] for one in said if one["author"]["kind"] == "webhook"]
    table.times("an agent's post to its message on the platform", map(lambda at, to: to - at, made, there), 1000)


def measure(stages, model, options, table):
    print(f"      {os.cpu_count()} processors, load before: {os.getloadavg()[0]:.2f}")
    by_name = {stage.platform: stage for stage in stages}
    parts = options.only or PARTS
    without = idle() if "idle" in parts else None
    for stage in stages:
        first(stage, table)
    if "idle" in parts:
        restart(stages)
        compare(without, idle(), table)
    discord = by_name["discord"]
    if "posts" in parts:
        linked = crowd(discord)
        posts(discord, linked, options.posts, table, limit=20)
        discord.server.control("fault", route=EXECUTE, delay=FAR, times=options.posts)
        far = f", a platform that answers after {FAR * 1000:.0f} ms"
        posts(discord, linked, options.posts, table, far, limit=20)
    if "turns" in parts:
        turns(discord, model, options.turns, table)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--posts", type=int, default=500)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--only", nargs="*", choices=PARTS)
    options = parser.parse_args()
    model, table, stages = Model(), Table(), []
    try:
        for module in (matrix_stage, discord_stage, slack_stage, telegram_stage):
            folder = f"{options.folder}/{module.Stage.platform}"
            os.mkdir(folder)
            stages.append(module.Stage(folder))
            stages[-1].bridge = module.Stage.platform
            stages[-1].open()
        make(model)
        measure(stages, model, options, table)
        must("stop for good", "stop")
    finally:
        for stage in stages:
            stage.close()
    table.print()


if __name__ == "__main__":
    main()
