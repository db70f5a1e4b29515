"""The stage of Telegram: the stand-in with a bot, three people and groups."""

import base64
import re
import threading

import bridge_stage
from bridge_stage import Shown
from checking import check, connects, free_port
from telegram_asking import Standin

BOT = "flock_bot"
# Flock shows the author before the text.
AUTHOR = re.compile(r"\[([^\]\n]*)\]\s")
WRONG = f"7000000009:{'wrong' * 7}"


class Stage(bridge_stage.Stage):
    platform = "telegram"
    # Bots learn neither who is in a group nor what is deleted, and can't look back.
    can = bridge_stage.Can(
        part=3_500, is_once=False, knows_members=False, creates=False, deletes=False, has_history=False,
    )
    storm = "@everyone, @here, @&#97;lice, @**alice**, @\u202ealice, [x](tg://user?id=5500000001): look here."

    def __init__(self, folder):
        super().__init__(folder)
        # The stand-in is asked from several threads, and not while it restarts.
        self.standin, self.asking, self.channels = None, threading.RLock(), []
        self.revoked, self.typed = [], {}

    def open(self):
        self.standin = Standin(self.folder)
        self.limit(False)
        self.people = {name: self.post("account", name=name, username=name)["id"] for name in ("alice", "bob", "mallory")}
        made = self.post("bot", username=BOT, name="flock", privacy=False)
        self.id, self.token = str(made["id"]), made["token"]
        # A bot that another program uses.
        self.used = self.post("bot", username="used_bot")["token"]
        self.as_bot(self.used, "setWebhook", url="https://bots.example.org/hook")
        self.private = self.channel("private", ("alice", "bob"))
        self.public = self.channel("public", ("alice",), username="flock_team")
        check("a private and a public group are there", self.private and self.public)

    def close(self):
        if self.standin:
            self.standin.end()
            check("the stand-in is gone", not connects(self.standin.port))

    def restart(self):
        with self.asking:
            self.standin.end()
            self.standin.start()
            # A new process has Telegram's usual limits.
            self.limit(False)
        return True

    def limit(self, is_limited):
        self.post("limits", chat=[2, 1], group=[1000, 60], enabled=is_limited)

    # The stand-in.

    def post(self, name, /, **given):
        with self.asking:
            return self.standin.post(name, **given)

    def as_bot(self, token, method, /, **given):
        with self.asking:
            return self.standin.bot(token, method, **given)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.standin.port}"

    # Flock's account.

    def revoke(self):
        self.revoked.append(self.token)
        self.token = self.post("revoke", bot=BOT)["token"]

    def credentials(self):
        return ["--api", self.url, "--token-file", self.file("token", self.token)]

    def refused(self):
        nobody = f"http://127.0.0.1:{free_port()}"
        return [
            ("a wrong token", ["--api", self.url, "--token-file", self.file("wrong", WRONG)], ["@BotFather", self.url]),
            ("what is no token", ["--api", self.url, "--token-file", self.file("none", "xoxb-wrong")], ["looks like"]),
            ("a bot with a webhook", ["--api", self.url, "--token-file", self.file("used", self.used)],
             ["webhook", "deleteWebhook"]),
            ("an API that does not answer", ["--api", nobody, *self.credentials()[2:]], [nobody]),
        ]

    def secrets(self):
        return [one.split(":")[1] for one in (self.token, WRONG, self.used, *self.revoked)]

    def bot(self):
        return self.id

    def unfit(self):
        mute = self.channel("mute")
        self.post("permissions", channel=mute, denied=["can_send_messages"])
        elsewhere = self.post("chat", title="elsewhere", members=["alice"])["id"]
        left = self.channel("left")
        self.post("member", channel=left, account=BOT, status="left", by="alice")
        return [
            ("a group without the bot", elsewhere, [f"@{BOT}", "add the bot"]),
            ("a group that the bot has left", left, ["not a member"]),
            ("a group in which members can't write", mute, ["may not write", "Permissions"]),
            ("a topic of a group without topics", f"{self.private}/5", ["no topics"]),
            ("a name that is not public", "private", ["add @flock_bot", "id"]),
        ]

    # People and channels.

    def account(self, person):
        return str(self.people[person])

    def channel(self, name, people=("alice",), **more):
        made = self.post("chat", title=name, members=[*people, BOT], **more)
        self.channels.append(made["id"])
        return str(made["id"])

    def join(self, person, channel):
        self.post("member", channel=chat_of(channel), account=person, status="member")

    def say(self, person, channel, text, to=None, **more):
        if to:
            more["replyTo"] = int(to)
        if topic_of(channel):
            more["thread"] = topic_of(channel)
        return str(self.post("say", account=person, channel=chat_of(channel), text=text, **more)["id"])

    def edit(self, person, channel, message, text):
        self.post("say", account=person, channel=chat_of(channel), edit=int(message), text=text)

    def delete(self, person, channel, message):
        self.post("say", account=person, channel=chat_of(channel), delete=int(message))

    def upload(self, person, channel, name, content, text=""):
        return self.say(person, channel, text, attachments=[{"name": name, "base64": base64.b64encode(content).decode()}])

    def upload_large(self, person, channel, name, size, claimed):
        return self.say(person, channel, "", attachments=[{"name": name, "size": claimed, "sends": size}])

    def content(self, shown):
        return shown.raw["file"]["text"].encode()

    def saw_typing(self, channel):
        with self.asking:
            seen = self.standin.get("actions", channel=chat_of(channel))["actions"]
        before, self.typed[channel] = self.typed.get(channel, 0), len(seen)
        return any(one["action"] == "typing" for one in seen[before:])

    def alone(self, person):
        self.post("block", bot=BOT, account=self.people[person], blocked=False)
        return f"{self.id}/{self.people[person]}"

    def apart(self, person, channel, since):
        """A bot writes to a person alone if they began to talk with it, and answers in the group otherwise."""
        alone = [one for one in self.shown(self.alone(person)) if one.is_ours]
        return [*super().apart(person, channel, since), *alone]

    def forward(self, person, channel, text):
        self.say(person, channel, text, forward={"hidden": "Somebody"})

    def called_so(self, name, channel):
        word = f"hostile_{len(self.people)}"
        self.people[word] = self.post("account", name=name, username=word)["id"]
        self.join(word, channel)
        return word

    def tell_reactions(self, channel):
        """Telegram tells administrators only."""
        self.post("member", channel=chat_of(channel), account=BOT, status="administrator", by="alice")

    def namesake(self, person, channel):
        self.people["namesake"] = self.post("account", name=person, username="namesake")["id"]
        self.join("namesake", channel)
        return "namesake"

    def buttons(self, shown):
        return {one["text"]: one["callback_data"] for row in shown.raw["buttons"] for one in row}

    def press(self, person, channel, shown, label):
        pressed = {"message": int(shown.id), "data": self.buttons(shown)[label]}
        self.post("say", account=person, channel=chat_of(channel), press=pressed)

    def react(self, person, channel, message, emoji):
        self.post("say", account=person, channel=chat_of(channel), reaction={"message": int(message), "emoji": emoji})

    # What a person sees.

    def messages(self, channel, since=0):
        with self.asking:
            found = self.standin.messages(chat_of(channel), since=since)
        thread = topic_of(channel)
        return [one for one in found if thread is None or one["thread"] == thread]

    def mark(self, channel):
        return max((one["id"] for one in self.messages(channel)), default=0)

    def shown(self, channel, since=None):
        return [read(one) for one in self.messages(channel, since or 0)
                if not one["deleted"] and not one["service"] and (one["text"] or one["file"])]

    def called(self):
        return {(channel, one["id"]) for channel in self.channels for one in self.messages(str(channel))
                if any(person["username"] == "alice" for person in one["notifies"])}

    def is_whole(self, shown):
        return shown.raw["sent"].count("<pre") == shown.raw["sent"].count("</pre>")


def chat_of(channel):
    """The id of a group; that of a private chat has both accounts in it."""
    return int(channel.split("/")[0]) if channel.startswith("-") else channel


def topic_of(channel):
    """The topic of a channel, if it is one."""
    return int(channel.split("/")[1]) if channel.startswith("-") and "/" in channel else None


def read(message):
    text, author = message["text"], message["author"]["username"]
    files = (message["file"]["name"],) if message["file"] else ()
    if author != BOT:
        return Shown(str(message["id"]), text, author, False, message, files)
    shown = AUTHOR.match(text)
    name, text = (shown[1], text[shown.end():]) if shown else ("", text)
    return Shown(str(message["id"]), text, name.removeprefix("human:"), True, message, files)
