"""The control API of the stand-in, which Telegram does not have: tests set up chats, play people and cause faults.

Every POST takes a JSON object and answers with one. A mistake of the test is answered with 400 and `error`. Accounts are
named by id, username or name; channels by chat id, by username, or by `@bot` for the private chat with a bot.
"""

import hashlib
import inspect

from aiohttp import web

from telegram_people import Mistake, People, person
from telegram_shapes import RIGHTS
from telegram_text import shown


def positive(value):
    return value if isinstance(value, int) and value > 0 else 1


def told_file(file):
    """A file of a message; one that has a size only has no hash."""
    content = file["content"]
    return {"name": file["name"], "mime": file["mime"], "size": file["size"],
            "sha256": None if content is None else hashlib.sha256(content).hexdigest(),
            "text": (content or b"")[:1 << 16].decode(errors="replace")}


class Control:
    def __init__(self, server):
        self.server, self.world = server, server.world
        self.people = People(server.world)

    def routes(self, app):
        for name in ("bot", "account", "chat", "member", "topic", "permissions", "scopes", "block", "migrate", "say",
                     "revoke", "fault", "limits", "settings", "clock", "drop", "save"):
            app.router.add_post(f"/_control/{name}", self.answered(getattr(self, name)))
        for name in ("messages", "requests", "updates", "actions", "callbacks"):
            app.router.add_get(f"/_control/{name}", self.answered(getattr(self, f"get_{name}")))

    def answered(self, method):
        async def handler(request):
            try:
                given = await request.json() if request.method == "POST" and request.can_read_body else dict(request.query)
                result = method(given)
                if inspect.isawaitable(result):
                    result = await result
                return web.json_response(result)
            except (Mistake, KeyError, ValueError) as error:
                return web.json_response({"error": f"{type(error).__name__}: {error}"}, status=400)
        return handler

    # Setting up.

    def bot(self, given):
        """{username, name?, privacy?}: a new bot; its id and token."""
        bot = self.world.add_bot(given.get("name", given["username"]), given["username"], given.get("privacy", True))
        return {"id": bot["id"], "token": bot["token"]}

    def account(self, given):
        """{name, username?, id?, bot?}: a new account; its id. `deactivated: true` ends an existing one."""
        user = self.world.user(given["account"]) if "account" in given else self.world.add_user(
            given["name"], given.get("username"), given.get("id"), bot=given.get("bot", False), privacy=False)
        user.update({key: given[key] for key in ("name", "username", "deactivated") if key in given})
        return {"id": user["id"]}

    def chat(self, given):
        """{title, type?, forum?, username?, members?}: a new group; its id. The first member is its owner. With `channel`
        an existing chat is changed: {channel, forum?, title?, by?}."""
        if "channel" in given:
            chat = self.people.channel(given["channel"])
            if "title" in given:
                chat["title"] = given["title"]
                self.world.post(chat, self.people.account(given["by"]), service={"new_chat_title": given["title"]})
            chat["forum"] = given.get("forum", chat["forum"])
            return {"id": chat["id"]}
        chat = self.world.add_chat(given.get("type", "supergroup"), given["title"], given.get("username"), given.get("forum", False))
        users = [self.people.account(one) for one in given.get("members", [])]
        for place, user in enumerate(users):
            self.world.set_member(chat, user, "member" if place else "creator", by=users[0])
        return {"id": chat["id"]}

    def member(self, given):
        """{channel, account, status, rights?, by?}: member, administrator, restricted, left or kicked; told to the bots."""
        chat, user = self.people.channel(given["channel"]), self.people.account(given["account"])
        rights = given.get("rights", RIGHTS)
        by = self.people.account(given["by"]) if "by" in given else None
        self.world.set_member(chat, user, given["status"], rights if given["status"] == "administrator" else (), by)
        return {}

    def topic(self, given):
        """{channel, account, name} opens a topic; {channel, account, thread, name | closed} changes one."""
        return self.people.topic(given)

    def permissions(self, given):
        """{channel, denied: [...]}: what ordinary members may not do, as `can_send_messages`."""
        self.people.channel(given["channel"])["denied"] = given["denied"]
        return {}

    def scopes(self, given):
        """{bot, privacy}: privacy mode, which counts in chats that the bot is added to later."""
        self.people.account(given["bot"])["privacy"] = given["privacy"]
        return {}

    def block(self, given):
        """{bot, account, blocked}: a person blocks a bot or lets it in again."""
        return self.people.block(given)

    def migrate(self, given):
        """{channel, account}: a small group becomes a supergroup; its new id."""
        chat = self.people.channel(given["channel"])
        return {"id": self.world.migrate(chat, self.people.account(given["account"]))["id"]}

    def say(self, given):
        return self.people.say(given)

    # Faults.

    def revoke(self, given):
        """{bot}: the bot's token is worth nothing any more; the new one."""
        bot = self.people.account(given["bot"])
        self.world.new_token(bot)
        # The long poll that waits is answered at once, and finds its token gone.
        self.world.updates[bot["id"]].wake()
        return {"token": bot["token"]}

    def fault(self, given):
        """{route, status?, times?, retryAfter?, after?, delay?, channel?, description?}; `route` is a method, `file` or `*`."""
        if given.get("after", "before") not in ("before", "after"):
            raise Mistake("after is before or after")
        self.server.faults.append({**given, "times": positive(given.get("times")), "after": given.get("after", "before"),
                                   "channel": str(given["channel"]) if "channel" in given else None})
        return {}

    def limits(self, given):
        """{all?, chat?, group?: [messages, seconds], edits?, enabled?}."""
        self.server.limits.change(given)
        return self.server.limits.rules

    def settings(self, given):
        """{repeatedPolls?, conflictDelay?}: the brakes on polling."""
        self.world.settings.update({name: given[name] for name in self.world.settings if name in given})
        return self.world.settings

    def clock(self, given):
        """{advance}: seconds by which Telegram's clock moves on."""
        self.world.shift += given["advance"]
        return {"now": self.world.now()}

    def drop(self, _):
        """Closes all long polls."""
        polls = [one for one in self.server.polls if one]
        for transport in polls:
            transport.abort()
        return {"dropped": len(polls)}

    def save(self, _):
        self.world.save()
        return {}

    # What happened.

    def get_messages(self, given):
        """?channel=…[&account=…][&since=ID]: everything in a chat, deleted messages too."""
        chat = self.people.channel(given["channel"], given.get("account"))
        since = int(given.get("since", 0))
        return {"messages": [self.told(one) for one in chat["messages"].values() if one["id"] > since]}

    def told(self, message):
        file = message.get("file")
        return {
            "id": message["id"], "author": person(self.world, message["author"]), "text": message["text"],
            "sent": message.get("sent", message["text"]), "shown": shown(message["text"], message["entities"]),
            "entities": message["entities"], "notifies": [person(self.world, one) for one in self.world.notified(message)],
            "silent": message.get("silent", False), "thread": message.get("thread"), "replyTo": message.get("reply_to"),
            "quote": message.get("quote"), "buttons": (message.get("markup") or {}).get("inline_keyboard", []),
            "service": message.get("service"), "anonymous": message.get("anonymous", False), "preview": message.get("preview"),
            "file": file and told_file(file),
            "reactions": [{"account": person(self.world, one), "emoji": emoji} for one, emoji in message["reactions"].items() if emoji],
            "edits": message["edits"], "edited": message["edited"], "deleted": message["deleted"],
            "date": message["date"], "arrived": message["arrived"]}

    def get_requests(self, given):
        """[?route=…][&since=N]: the requests from that number on; `unknown` counts those for routes that do not exist."""
        seen = self.server.requests[int(given.get("since", 0)):]
        wanted = [one for one in seen if given.get("route", one["route"]).lower() == one["route"]]
        return {"requests": wanted, "count": len(self.server.requests),
                "unknown": sum(not one["known"] for one in self.server.requests)}

    def get_updates(self, given):
        """?bot=…: the updates that wait for a bot; `polling` says that it waits for more."""
        updates = self.world.updates[self.people.account(given["bot"])["id"]]
        waiting = updates.waiting is not None and not updates.waiting.done()
        return {"pending": [one[2] for one in updates.queue], "polling": waiting, "allowed": sorted(updates.allowed)}

    def get_actions(self, given):
        """[?channel=…]: what bots said that they are doing, as typing."""
        chat = self.people.channel(given["channel"], given.get("account")) if "channel" in given else None
        return {"actions": [one for one in self.world.actions if not chat or one["channel"] == chat["key"]]}

    def get_callbacks(self, _):
        """The pressed buttons and their answers."""
        return {"callbacks": [{"id": number, **one} for number, one in self.world.callbacks.items()]}
