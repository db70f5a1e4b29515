"""People write on both sides of a link while the gateway is killed and the platform restarted.

`bridge_compare` says what is compared at the end.
"""

import collections
import random
import threading
import time

from bridge_compare import OURS, THEIRS, WORD, compare
from bridge_flock import link_private
from bridge_home import LOAD
from checking import call, check, flock, kill, own_port, own_token, pid_of, rows, until

# How far those who write get ahead of what arrived: more than a page of most platforms, but less where everything would
# be written before the first kill.
AHEAD = 250


class Writer(threading.Thread):
    """Somebody who has a share of the messages to write."""

    def __init__(self, name, share, send, may_write):
        super().__init__(daemon=True)
        self.name, self.share, self.send, self.may_write = name, share, send, may_write
        self.acknowledged, self.tried, self.missed, self.ended = [], 0, 0, False

    def run(self):
        while len(self.acknowledged) < self.share and not self.ended:
            until(600, lambda: self.ended or self.may_write())
            self.tried += 1
            word = f"{self.name}-{self.tried}"
            if self.send(self, word):
                self.acknowledged.append(word)
            else:
                self.missed += 1


class Side:
    """Those who write on one side, and how many of their messages were seen on the other one."""

    def __init__(self, names, options, send, came):
        each = options.messages // 2
        self.ahead = min(AHEAD, max(10, options.messages // 10))
        self.came, self.looking = came, threading.Lock()
        shares = (each, options.messages - each)
        self.writers = [Writer(name, share, send, self.may_write) for name, share in zip(names, shares)]

    def acknowledged(self):
        return sum(len(writer.acknowledged) for writer in self.writers)

    def may_write(self):
        with self.looking:
            return self.acknowledged() < self.came() + self.ahead


class Campaign:
    """Two people on each side of a link to the platform's channel `room`."""

    def __init__(self, stage, room, options):
        self.stage, self.room, self.options = stage, room, options
        self.port, self.token = own_port(), own_token()
        self.arrived, self.looked_at = set(), stage.mark(room)
        self.ours = Side(OURS, options, self.post, self.came_out)
        self.theirs = Side(THEIRS, options, self.say, self.came_in)
        self.writers = [*self.ours.writers, *self.theirs.writers]

    def post(self, writer, word):
        """Somebody posts in flock; whether it was acknowledged."""
        body = {"content": f"note {word}", "as": writer.name}
        status, _ = call(self.port, self.token, "POST", f"/api/channels/{LOAD}/messages", body, limit=60)
        if status not in (200, 201):
            until(60, lambda: writer.ended or call(self.port, None, "GET", "/health", limit=5)[0])
        return status in (200, 201)

    def say(self, writer, word):
        try:
            return self.stage.say(writer.name, self.room, f"note {word}")
        except (OSError, RuntimeError, TimeoutError) as error:
            return check(f"the platform takes {word}", False, repr(error))

    def came_out(self):
        """How many different messages of flock's side were seen on the platform."""
        end = self.stage.mark(self.room)
        for one in self.stage.shown(self.room, self.looked_at):
            if one.is_ours and (found := WORD.search(one.text)):
                self.arrived.add(found[0])
        self.looked_at = end
        return len(self.arrived)

    def came_in(self):
        """How many messages of the platform's side are in the channel."""
        return self.count(THEIRS)

    def count(self, names):
        authors = ", ".join(f"'human:{name}'" for name in names)
        query = f"SELECT count(*) FROM message WHERE channel = '{LOAD}' AND author IN ({authors})"
        return rows(f"{query} AND content LIKE '%note %'")[0][0]

    def progress(self):
        with self.ours.looking:
            return self.came_out() + self.theirs.acknowledged()

    def schedule(self):
        """After how many messages what happens: spread over the whole, and not twice the same."""
        choose = random.Random(self.options.seed)
        what = ["kill"] * self.options.kills + ["restart"] * self.options.restarts
        choose.shuffle(what)
        step = 2 * self.options.messages / (len(what) + 1)
        return [(round(step * (number + choose.uniform(0.6, 1.4))), one) for number, one in enumerate(what)]

    def run(self):
        begun, done = time.monotonic(), collections.Counter()
        for writer in self.writers:
            writer.start()
        for place, what in self.schedule():
            # A kill that stops everything for good is found here, not by waiting for the end.
            if not until(180, lambda: self.progress() >= place):
                check(f"the campaign gets to message {place}", False, self.progress())
                break
            done[what] += bool(self.kill() if what == "kill" else self.stage.restart())
        self.end()
        kills, restarts = self.options.kills, self.options.restarts
        check(f"the gateway was killed {kills} times, the platform restarted {restarts} times",
              (done["kill"], done["restart"]) == (kills, restarts), done)
        missed = {writer.name: writer.missed for writer in self.writers}
        print(f"      written in {time.monotonic() - begun:.0f} s; not acknowledged: {missed}")
        self.settle()
        print(f"      all there after {time.monotonic() - begun:.0f} s")
        compare(self.stage, self.room, self.writers, kills + restarts)

    def end(self):
        """Waits for those who write."""
        def is_over():
            return not any(writer.is_alive() for writer in self.writers)

        until(180 + self.options.messages // 5, is_over)
        check("everybody came to an end", is_over(), self.progress())
        for writer in self.writers:
            writer.ended = True
            writer.join(90)

    def kill(self):
        """Kills the gateway, and has everything up again; whether both went well."""
        return kill(until(60, lambda: pid_of("gateway"))) and until(120, lambda: flock("start")[0] == 0)

    def settle(self):
        """Waits until both sides have the same number of messages of each other's."""
        spoken = self.theirs.acknowledged()
        until(300, lambda: self.came_out() >= self.count(OURS) and self.count(THEIRS) >= spoken)


def campaign(stage, options):
    room = stage.channel("load", ("alice", "bob"))
    code, text, _ = link_private(stage, LOAD, room)
    check("the channel of the campaign is linked", code == 0, (code, text))
    Campaign(stage, room, options).run()
