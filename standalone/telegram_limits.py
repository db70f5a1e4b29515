"""Telegram's flood limits: so many messages in so many seconds, for the whole bot, for each chat, for each group.

Telegram publishes the rough numbers only. A request that is refused changes nothing and is not counted.
"""

import collections
import math
import time

USUAL = {"all": [30, 1], "chat": [1, 1], "group": [20, 60], "edits": True, "enabled": True}


class Limits:
    def __init__(self):
        self.rules, self.sent = dict(USUAL), collections.defaultdict(collections.deque)

    def change(self, rules):
        self.rules.update({name: value for name, value in rules.items() if name in USUAL})
        self.sent.clear()

    def wait(self, bot, chat, group, edit=False):
        """Counts one message; seconds to wait if it is one too many, else 0."""
        if not self.rules["enabled"] or edit and not self.rules["edits"]:
            return 0
        now = time.monotonic()
        scopes = [("all", bot), ("chat", bot, chat)] + ([("group", bot, chat)] if group else [])
        wait = 0
        for scope in scopes:
            number, seconds = self.rules[scope[0]]
            times = self.sent[scope]
            while times and times[0] <= now - seconds:
                times.popleft()
            if len(times) >= number:
                wait = max(wait, math.ceil(times[len(times) - number] + seconds - now))
        if not wait:
            for scope in scopes:
                self.sent[scope].append(now)
        return wait
