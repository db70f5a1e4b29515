"""Slack's rate limits: a number of requests a minute for each method, by its tier, and one message a second and channel.

Slack says that it allows bursts, but not how many. Here a minute's worth may be used at once, and five messages.
"""

import math
import time

TIERS = {1: 1, 2: 20, 3: 50, 4: 100, "special": 600}


class Limits:
    def __init__(self):
        self.buckets, self.refused = {}, 0
        # `scale` multiplies all of them; 0 takes them away.
        self.settings = {"scale": 1, "postsPerSecond": 1, "postBurst": 5, "postsPerMinute": 300}

    def set(self, changes):
        self.settings.update({key: value for key, value in changes.items() if key in self.settings})
        self.buckets.clear()

    def take(self, key, each_second, burst):
        """Takes one from a bucket; the seconds to wait where it is empty."""
        scale = self.settings["scale"]
        if not scale:
            return 0
        now = time.monotonic()
        level, then = self.buckets.get(key, (burst * scale, now))
        level = min(burst * scale, level + (now - then) * each_second * scale)
        if level < 1:
            self.buckets[key] = level, now
            self.refused += 1
            return max(1, math.ceil((1 - level) / (each_second * scale)))
        self.buckets[key] = level - 1, now
        return 0

    def method(self, token, name, tier):
        minute = TIERS[tier]
        return self.take((token["app"], token["team"], name), minute / 60, minute)

    def post(self, token, channel):
        """The limit of messages: those of the channel, and all that the app posts in the workspace."""
        settings = self.settings
        wait = self.take(("post", token["app"], channel), settings["postsPerSecond"], settings["postBurst"])
        minute = settings["postsPerMinute"]
        return wait or self.take(("posts", token["app"], token["team"]), minute / 60, minute)
