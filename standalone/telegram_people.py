"""People, played by a test: they write, edit, delete, react, press buttons, forward, open topics, block bots."""

import base64
import re

import telegram_chats
from telegram_shapes import chat_json, user_json
from telegram_text import cleaned, cut, parse_html, units, with_found

LONGEST = 4096


class Mistake(Exception):
    """A request of a test that makes no sense."""


def person(world, identifier):
    user = world.users[identifier]
    return {"id": user["id"], "username": user["username"], "name": user["name"], "bot": user["bot"]}


class People:
    def __init__(self, world):
        self.world = world

    def account(self, reference, name=None, bot=False):
        """The account; a new one if there is none of that name."""
        user = self.world.user(reference)
        if user:
            if name:
                user["name"] = name
            return user
        if isinstance(reference, int):
            return self.world.add_user(name or str(reference), None, reference, bot=bot)
        username = reference.lstrip("@")
        username = username if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{1,31}", username) else None
        return self.world.add_user(name or reference, username, bot=bot)

    def channel(self, reference, account=None):
        user = self.world.user(reference)
        if user and user["bot"]:
            if account is None:
                raise Mistake("the private chat with a bot needs an account")
            return self.world.private(user, self.account(account))
        chat = self.world.chat(reference)
        if not chat:
            raise Mistake(f"there is no channel {reference}")
        return chat

    def say(self, given):
        """{account, name?, channel, text?, html?, thread?, replyTo?, quote?, attachments?, forward?, bot?, anonymous?, silent?}
        writes; {…, edit: ID, text}, {…, delete: ID}, {…, reaction: {message, emoji}} and {…, press: {message, data}} do
        something to a message. A text that is too long becomes several messages, as in Telegram's own programs."""
        user = self.account(given["account"], given.get("name"), given.get("bot", False))
        chat = self.channel(given["channel"], user["id"])
        if "delete" in given:
            # Bots are told nothing of this.
            self.message(chat, given["delete"])["deleted"] = True
            return {}
        if "reaction" in given:
            emoji = given["reaction"]["emoji"]
            message = self.message(chat, given["reaction"]["message"])
            self.world.react(chat, message, user, [emoji] if isinstance(emoji, str) else emoji)
            return {}
        if "press" in given:
            return self.press(chat, user, given["press"])
        if "edit" in given:
            message = self.message(chat, given["edit"])
            if message["author"] != user["id"]:
                raise Mistake("only the author edits a message")
            self.world.edit(message, *self.formatted(given), sent=given.get("html", given.get("text", "")))
            return {"id": message["id"]}
        self.enter(chat, user)
        return self.write(chat, user, given)

    def write(self, chat, user, given):
        more = {"thread": given.get("thread"), "reply_to": given.get("replyTo"), "quote": given.get("quote"),
                "anonymous": given.get("anonymous", False), "silent": given.get("silent", False)}
        if more["thread"] and more["thread"] not in chat["topics"]:
            raise Mistake("there is no such topic")
        if "forward" in given:
            more["forward"] = self.origin(given["forward"])
        text, entities = self.formatted(given)
        posted, first = [], True
        for attachment in given.get("attachments", []):
            caption = {"text": text, "entities": entities} if first else {}
            posted.append(self.world.post(chat, user, file=self.file(attachment), **caption, **more))
            first = False
        if not posted:
            for part, within in parts(text, entities):
                posted.append(self.world.post(chat, user, part, within, **more))
        if not posted:
            raise Mistake("nothing to say")
        return {"id": posted[0]["id"], "messages": [one["id"] for one in posted]}

    def enter(self, chat, user):
        """Whoever writes is there. A test that is about joining uses `/_control/member`."""
        if chat["type"] == "private":
            chat.update(started=True, blocked=False)
        elif chat["members"].get(user["id"], {}).get("status") not in ("creator", "administrator", "member"):
            chat["members"][user["id"]] = {"status": "member", "rights": [], "privacy": False}

    @staticmethod
    def message(chat, number):
        if number not in chat["messages"]:
            raise Mistake(f"there is no message {number}")
        return chat["messages"][number]

    @staticmethod
    def formatted(given):
        text, entities = parse_html(given["html"]) if "html" in given else (given.get("text", ""), [])
        text, entities = cleaned(text, entities)
        return text, with_found(text, entities)

    def file(self, given):
        """{name, text | base64 | size and sends?, mime?, kind?}."""
        content = base64.b64decode(given["base64"]) if "base64" in given else None
        if "text" in given:
            content = given["text"].encode()
        return self.world.add_file(given["name"], given.get("mime", "application/octet-stream"), content,
                                   given.get("size", 0), given.get("kind", "document"), given.get("sends"))

    def origin(self, given):
        """{user} an open account, {hidden} somebody who hides, {channel, message}: where a message was forwarded from."""
        date = int(self.world.now()) - 60
        if "user" in given:
            return {"type": "user", "user": self.account(given["user"])["id"], "date": date}
        if "hidden" in given:
            return {"type": "hidden_user", "name": given["hidden"], "date": date}
        return {"type": "channel", "chat": -1_001_999_999_999, "title": given["channel"], "message_id": given.get("message", 1),
                "date": date}

    def press(self, chat, user, given):
        message = self.message(chat, given["message"])
        buttons = [one for row in (message.get("markup") or {}).get("inline_keyboard", []) for one in row]
        if given.get("data") not in [one.get("callback_data") for one in buttons] and not given.get("stale"):
            raise Mistake("there is no such button")
        return {"callback": self.world.press(chat, message, user, given["data"])}

    def topic(self, given):
        chat, user = self.channel(given["channel"]), self.account(given["account"])
        self.enter(chat, user)
        if "thread" not in given:
            return {"thread": telegram_chats.new_topic(self.world, chat, user, given["name"])["message_thread_id"]}
        found = chat["topics"][given["thread"]]
        if "name" in given:
            telegram_chats.rename_topic(self.world, chat, user, found, given["name"])
        if "closed" in given:
            telegram_chats.set_closed(self.world, chat, user, found, given["closed"])
        return {"thread": given["thread"]}

    def block(self, given):
        bot, user = self.account(given["bot"]), self.account(given["account"])
        chat = self.world.private(bot, user)
        chat["blocked"] = given["blocked"]
        status = ["member", "kicked"] if given["blocked"] else ["kicked", "member"]
        members = [{"user": user_json(bot), "status": one, **({"until_date": 0} if one == "kicked" else {})} for one in status]
        self.world.updates[bot["id"]].add("my_chat_member", {
            "chat": chat_json(self.world, chat), "from": user_json(user), "date": int(self.world.now()),
            "old_chat_member": members[0], "new_chat_member": members[1]}, self.world.now())
        return {}


def parts(text, entities):
    """The text in pieces that fit into a message; entities of a text in several pieces are found anew."""
    if units(text) <= LONGEST:
        return [(text, entities)] if text else []
    pieces, at = [], 0
    while at < units(text):
        piece = cut(text, at, LONGEST)
        pieces.append((piece, with_found(piece, [])))
        at += LONGEST
    return pieces
