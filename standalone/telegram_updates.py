"""The updates that wait for a bot, and long polling, with the rules of Telegram's own Bot API server.

Delivery confirms nothing. Only a later request with a higher offset does, and until then the same updates come again.
"""

import asyncio
import json
import random

KINDS = ["message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "my_chat_member",
         "chat_member", "message_reaction", "message_reaction_count", "chat_join_request", "inline_query", "poll"]
# A bot that does not name these kinds does not get them.
ON_REQUEST = {"chat_member", "message_reaction", "message_reaction_count"}
KEPT = 24 * 3600
LONGEST_POLL = 50
# An answer carries at most this many bytes of updates.
LARGEST_ANSWER = 1 << 22


class Conflict(Exception):
    """The answer 409, with its text."""


class Updates:
    """The queue of one bot."""

    def __init__(self):
        self.queue, self.next = [], random.randrange(10 ** 8, 9 * 10 ** 8)
        self.allowed = set(KINDS) - ON_REQUEST
        self.webhook = ""
        self.forget_polls()

    def forget_polls(self):
        self.waiting, self.asked, self.last_offset, self.last_start, self.quiet_until = None, None, None, 0, 0

    def __getstate__(self):
        return {name: getattr(self, name) for name in ("queue", "next", "allowed", "webhook")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.forget_polls()

    def allow(self, text):
        """Takes over `allowed_updates`. Telegram ignores a value that it can't read; an empty list means the default."""
        try:
            names = json.loads(text)
        except ValueError:
            return
        if isinstance(names, list) and all(isinstance(one, str) for one in names):
            known = {one.lower() for one in names} & set(KINDS)
            self.allowed = known or set(KINDS) - ON_REQUEST

    def add(self, kind, content, now):
        if kind not in self.allowed:
            return
        self.queue.append((self.next, now + KEPT, {"update_id": self.next, kind: content}))
        self.next += 1
        if self.waiting and not self.waiting.done():
            # Telegram waits for two milliseconds, so that updates of one moment come together.
            asyncio.get_running_loop().call_later(0.002, self.wake)

    def wake(self):
        if self.waiting and not self.waiting.done():
            self.waiting.set_result(None)

    def fail(self, error):
        """Ends the long poll that waits, if there is one."""
        if self.waiting and not self.waiting.done():
            self.waiting.set_exception(error)

    def take(self, offset, limit, now):
        """Confirms what lies below the offset and gives the oldest of the rest."""
        self.queue = [one for one in self.queue if one[1] > now]
        if offset < 0:
            self.queue = self.queue[offset:]
        elif 0 < offset <= self.next:
            self.queue = [one for one in self.queue if one[0] >= offset]
        given, size = [], 0
        for _, _, update in self.queue[:limit]:
            size += 50 + len(json.dumps(update))
            if size > LARGEST_ANSWER:
                break
            given.append(update)
        return given

    async def poll(self, offset, limit, timeout, world):
        """Answers getUpdates. Raises Conflict if another poll takes over."""
        if self.webhook:
            raise Conflict("Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
        limit, timeout = min(max(limit, 1), 100), min(max(timeout, 0), LONGEST_POLL)
        clock = asyncio.get_running_loop().time()
        # Telegram slows down bots that ask for the same thing again and again.
        if offset == self.last_offset and world.settings["repeatedPolls"]:
            if timeout < 3 and clock < self.last_start + 3:
                timeout = 3
            if clock < self.last_start + 0.5:
                limit = 1
        self.last_offset, self.last_start = offset, clock
        given = self.take(offset, limit, world.now())
        if given or not timeout:
            return given
        self.fail(Conflict("Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"))
        mine = self.waiting = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(asyncio.shield(mine), timeout)
        except asyncio.TimeoutError:
            pass
        finally:
            if self.waiting is mine:
                self.waiting = None
        return self.take(max(offset, 0), limit, world.now())

    async def pause_before_conflict(self, world):
        """Telegram holds back a second conflict within three seconds."""
        clock = asyncio.get_running_loop().time()
        if clock < self.quiet_until:
            await asyncio.sleep(world.settings["conflictDelay"])
        else:
            self.quiet_until = clock + world.settings["conflictDelay"]
