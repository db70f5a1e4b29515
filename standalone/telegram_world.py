"""The state of the stand-in: accounts, bots, chats, messages, files; and which bot learns of what.

`post` is the only way into a chat, for bots and people alike. Each bot gets only what Telegram would deliver to it:
never its own messages, never those of other bots, and with privacy mode on only what is meant for it.
"""

import os
import pickle
import re
import secrets
import time
import zlib

import telegram_shapes as shapes
from telegram_shapes import PRESENT
from telegram_text import cut
from telegram_updates import Updates

ECHOED = {"new_chat_title", "forum_topic_created", "forum_topic_edited", "forum_topic_closed", "forum_topic_reopened"}
STATE = ("users", "chats", "updates", "files", "callbacks", "shift", "counters", "settings", "revoked")


class Refusal(Exception):
    """An answer with `ok: false`."""

    def __init__(self, code, description, **parameters):
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


class World:
    def __init__(self, path=None):
        self.path = path
        self.users, self.chats, self.updates, self.files, self.callbacks = {}, {}, {}, {}, {}
        self.actions, self.revoked, self.shift = [], set(), 0
        self.settings = {"repeatedPolls": True, "conflictDelay": 3.0}
        # People's ids are beyond 32 bits, as those of new accounts are.
        self.counters = {"user": 5_500_000_000, "bot": 7_000_000_000, "group": 4_100_000, "supergroup": 2_000_000_000,
                         "message": 100, "file": 0, "callback": 10 ** 17}
        if path and os.path.exists(path):
            with open(path, "rb") as file:
                self.__dict__.update(pickle.load(file))

    def save(self):
        if not self.path:
            return
        with open(f"{self.path}.new", "wb") as file:
            pickle.dump({name: getattr(self, name) for name in STATE}, file)
        os.rename(f"{self.path}.new", self.path)

    def count(self, name):
        self.counters[name] += 1
        return self.counters[name]

    def now(self):
        return time.time() + self.shift

    # Accounts.

    def add_user(self, name, username=None, identifier=None, bot=False, **more):
        identifier = identifier or self.count("bot" if bot else "user")
        self.users[identifier] = {"id": identifier, "name": name, "username": username, "bot": bot, "language_code": None,
                                  "privacy": bot, "token": None, "commands": [], "deactivated": False, **more}
        return self.users[identifier]

    def add_bot(self, name, username, privacy=True):
        bot = self.add_user(name, username, bot=True)
        bot["privacy"] = privacy
        self.updates[bot["id"]] = Updates()
        self.new_token(bot)
        return bot

    def new_token(self, bot):
        if bot["token"]:
            self.revoked.add(bot["token"])
        bot["token"] = f"{bot['id']}:{secrets.token_urlsafe(26)[:35]}"

    def bot_of(self, token):
        return next((one for one in self.users.values() if one["token"] == token and token not in self.revoked), None)

    def user(self, reference):
        """An account by its id, its username with or without `@`, or its name; None if there is none."""
        if isinstance(reference, int) or str(reference).lstrip("-").isdigit():
            return self.users.get(int(reference))
        return self.named(reference) or next((one for one in self.users.values() if one["name"] == reference), None)

    def named(self, username):
        wanted = username.lstrip("@").lower()
        return next((one for one in self.users.values() if (one["username"] or "").lower() == wanted), None)

    # Chats.

    def add_chat(self, kind, title, username=None, forum=False):
        number = self.count("supergroup" if kind == "supergroup" else "group")
        identifier = -1_000_000_000_000 - number if kind == "supergroup" else -number
        self.chats[identifier] = {"id": identifier, "key": identifier, "type": kind, "title": title, "username": username,
                                  "forum": forum, "description": "", "members": {}, "messages": {}, "topics": {},
                                  "denied": [], "last_message": 0, "last_bot": None, "migrated_to": None}
        return self.chats[identifier]

    def private(self, bot, person):
        """The private chat of a bot and a person. Its id, as the bot sees it, is the person's."""
        key = f"{bot['id']}/{person['id']}"
        if key not in self.chats:
            self.chats[key] = {"id": person["id"], "key": key, "type": "private", "bot": bot["id"], "person": person["id"],
                               "started": False, "blocked": False, "messages": {}, "topics": {}, "denied": [],
                               "members": {}, "last_bot": None}
        return self.chats[key]

    def chat(self, reference):
        """A chat by its id, its username, or for a private one the key `bot id/person id`."""
        text = str(reference)
        if re.fullmatch(r"-?[0-9]+", text):
            return self.chats.get(int(text))
        if "/" in text:
            return self.chats.get(text)
        wanted = text.lstrip("@").lower()
        return next((one for one in self.chats.values() if (one.get("username") or "").lower() == wanted), None)

    def bots_in(self, chat):
        if chat["type"] == "private":
            return [chat["bot"]]
        # Bots that only write for a test have no updates.
        return [one for one, member in chat["members"].items() if one in self.updates and member["status"] in PRESENT]

    def set_member(self, chat, user, status, rights=(), by=None):
        """Changes somebody's place in a chat, and tells the bots that are to know."""
        old = shapes.member_json(self, chat, user["id"])
        before = old["status"] in PRESENT
        # A bot's privacy mode counts as it was when the bot was added.
        privacy = chat["members"][user["id"]]["privacy"] if before else user["privacy"]
        chat["members"][user["id"]] = {"status": status, "rights": list(rights), "privacy": privacy}
        change = {"chat": shapes.chat_json(self, chat), "from": shapes.user_json(by or user), "date": int(self.now()),
                  "old_chat_member": old, "new_chat_member": shapes.member_json(self, chat, user["id"])}
        if user["id"] in self.updates:
            self.updates[user["id"]].add("my_chat_member", change, self.now())
        for bot in self.bots_in(chat):
            if bot != user["id"] and chat["members"][bot]["status"] == "administrator":
                self.updates[bot].add("chat_member", change, self.now())
        if before != (status in PRESENT):
            service = {"joined": [user["id"]]} if status in PRESENT else {"left": user["id"]}
            self.post(chat, by or user, service=service, also=[user["id"]])

    # Messages.

    def post(self, chat, author, text="", entities=(), also=(), **more):
        """A new message; `also` names bots that are told although they have just left."""
        if chat["type"] == "supergroup":
            chat["last_message"] += 1
            number = chat["last_message"]
        else:
            # In private chats and small groups the numbers of an account run through all its chats.
            number = self.count("message")
        message = {"id": number, "chat": chat["key"], "author": author["id"], "date": self.now(), "arrived": time.time(),
                   "text": text, "entities": list(entities), "edited": None, "deleted": False, "reactions": {}, "edits": [], **more}
        answered = chat["messages"].get(message.get("reply_to") or 0)
        if not message.get("thread") and answered and chat["type"] == "supergroup" and not chat["forum"]:
            # In a supergroup without topics answers form threads of their own.
            message["thread"] = answered.get("thread") or answered["id"]
        service = message.get("service") or {}
        if "forum_topic_created" in service:
            message["thread"] = number
        chat["messages"][number] = message
        # Telegram decides about a general command by the bot that wrote last before it.
        self.tell("message", message, also, echo=bool(ECHOED & set(service)))
        if author["bot"] and not message.get("anonymous") and not service:
            chat["last_bot"] = author["id"]
        return message

    def tell(self, kind, message, also=(), echo=False):
        chat = self.chats[message["chat"]]
        for bot in {*self.bots_in(chat), *(one for one in also if one in self.updates)}:
            if bot == message["author"] and not echo and bot not in also:
                continue
            if self.sees(self.users[bot], chat, message):
                self.updates[bot].add(kind, shapes.message_json(self, message, bot), self.now())

    def sees(self, bot, chat, message):
        if message.get("service") or chat["type"] == "private":
            return True
        if self.users[message["author"]]["bot"] and not message.get("anonymous"):
            return False
        member = chat["members"][bot["id"]]
        return member["status"] == "administrator" or not member["privacy"] or self.meant_for(bot, chat, message)

    def meant_for(self, bot, chat, message):
        """Decides for a bot in privacy mode."""
        answered = chat["messages"].get(message.get("reply_to") or 0)
        if answered and answered["author"] == bot["id"]:
            return True
        name = f"@{bot['username']}".lower()
        for one in message["entities"]:
            said = cut(message["text"], one["offset"], one["length"]).lower()
            if one["type"] == "bot_command" and ("@" in said and said.endswith(name) or "@" not in said
                                                 and one["offset"] == 0 and chat["last_bot"] in (None, bot["id"])):
                return True
            if one["type"] == "mention" and said == name or one.get("user_id") == bot["id"]:
                return True
        return False

    def edit(self, message, text, entities, **more):
        message["edits"].append({"text": message["text"], "at": time.time()})
        # Telegram's dates have whole seconds; an edit in the message's own second has the same date.
        message.update(text=text, entities=entities, edited=self.now(), **more)
        self.tell("edited_message", message)

    def react(self, chat, message, user, emoji):
        """Somebody's reactions. Bots hear of them as administrators only, and never of other bots' reactions."""
        old, message["reactions"][user["id"]] = message["reactions"].get(user["id"], []), list(emoji)
        if user["bot"]:
            return
        change = {"chat": shapes.chat_json(self, chat), "message_id": message["id"], "user": shapes.user_json(user),
                  "date": int(self.now()), **{name: [{"type": "emoji", "emoji": one} for one in values]
                                              for name, values in (("old_reaction", old), ("new_reaction", emoji))}}
        for bot in self.bots_in(chat):
            if chat["type"] == "private" or chat["members"][bot]["status"] == "administrator":
                self.updates[bot].add("message_reaction", change, self.now())

    def press(self, chat, message, user, data):
        """Somebody presses a button."""
        number = self.count("callback")
        self.callbacks[str(number)] = {"bot": message["author"], "user": user["id"], "at": self.now(), "answer": None}
        shape = (shapes.message_json(self, message, message["author"]) if not message["deleted"] else
                 {"chat": shapes.chat_json(self, chat), "message_id": message["id"], "date": 0})
        self.updates[message["author"]].add("callback_query", {
            "id": str(number), "from": shapes.user_json(user), "message": shape, "chat_instance": str(zlib.crc32(str(chat["key"]).encode())),
            "data": data}, self.now())
        return str(number)

    def notified(self, message):
        """The ids of the people whom a message calls: by a mention, by a link to them, or as an answer to them."""
        chat, called = self.chats[message["chat"]], set()
        there = {chat["person"]} if chat["type"] == "private" else {
            one for one, member in chat["members"].items() if member["status"] in PRESENT}
        for one in message["entities"]:
            if one["type"] == "mention":
                user = self.named(cut(message["text"], one["offset"], one["length"]))
                called.add(user and user["id"])
            elif one["type"] == "text_mention":
                called.add(one["user_id"])
        answered = chat["messages"].get(message.get("reply_to") or 0)
        if answered:
            called.add(answered["author"])
        return sorted(one for one in called & there if one != message["author"] and not self.users[one]["bot"])

    def migrate(self, chat, by):
        """A small group becomes a supergroup: with a new id, and without the old messages."""
        new = self.add_chat("supergroup", chat["title"])
        new["members"] = {one: dict(member) for one, member in chat["members"].items()}
        chat["migrated_to"] = new["id"]
        self.post(chat, by, service={"migrate_to_chat_id": new["id"]})
        self.post(new, by, service={"migrate_from_chat_id": chat["id"]})
        return new

    def add_file(self, name, mime, content=None, size=None, kind="document", sends=None):
        """A file; one without content is as if it were full of zeros. It may send more bytes than its size says."""
        number = self.count("file")
        self.files[number] = {"number": number, "kind": kind, "name": name, "mime": mime, "content": content,
                              "size": len(content) if content is not None else size, "sends": sends or size,
                              "path": f"{kind}s/file_{number}{os.path.splitext(name)[1]}"}
        return self.files[number]
