"""The stage of Discord: the stand-in with a bot, three people and channels."""

import base64
import re
import time
import urllib.request

import bridge_stage
from bridge_stage import Shown
from checking import SOON, check, connects, free_port, until
from discord_driving import PATIENCE, StandIn
from discord_parts import buttons_of

BOT = "flock-bot"
RIGHTS = ["MANAGE_CHANNELS", "MANAGE_WEBHOOKS", "MENTION_EVERYONE"]
EXECUTE, WRITE = "POST /webhooks/{webhook}/{token}", "POST /channels/{channel}/messages"
# The author before a text that flock's bot sends itself.
AUTHOR = re.compile(r"\*\*\[([^\]\n]*)\]\*\*\s")
# What is asked for as a whole: changes of these messages are seen.
FEW = 1_000


class Stage(bridge_stage.Stage):
    platform = "discord"
    can = bridge_stage.Can(part=1_900)

    def __init__(self, folder):
        super().__init__(folder)
        self.server, self.seen, self.tokens = None, {}, []
        self.typing_since = 0

    def open(self):
        self.server = StandIn(self.folder, "--state", f"{self.folder}/state")
        self.server.control("gateway", identify=1)
        self.people = {name: self.server.control("person", account=name)["id"] for name in ("alice", "bob", "mallory")}
        made = self.server.control("bot", name=BOT, intents=["MESSAGE_CONTENT"], permissions=RIGHTS)
        self.id, self.token = made["id"], made["token"]
        # The right to call everybody, so that only flock keeps its messages from doing so.
        self.storm = f"@everyone, @here, <@{self.people['alice']}>, <@!{self.people['alice']}>: look here."
        self.private = self.channel("private", ("alice", "bob"))
        self.public = self.server.control("channel", name="public")["id"]
        self.limit(False)

    def close(self):
        if self.server:
            self.server.stop()
            check("the stand-in is gone", not connects(self.server.port))

    def restart(self):
        self.server.kill()
        self.server.start()
        self.server.control("gateway", identify=1)
        self.limit(False)
        return True

    def limit(self, is_limited):
        most = 2 if is_limited else 40
        for route in (EXECUTE, WRITE):
            self.server.control("limits", route=route, limit=most, per=1)
        # More people are answered alone in a short time than anywhere else.
        self.server.control("limits", route="POST /users/@me/channels", limit=40, per=1)

    def revoke(self):
        self.token = self.server.control("revoke", bot=BOT)["token"]

    def credentials(self):
        return self.at(self.server.url, "token", self.token)

    def at(self, url, name, token):
        self.tokens.append(token)
        return ["--api", url, "--token-file", self.file(name, token)]

    def refused(self):
        blind = self.server.control("bot", name="blind")["token"]
        nobody = f"http://127.0.0.1:{free_port()}"
        page = "https://discord.com/developers/applications"
        return [
            ("a wrong token", self.at(self.server.url, "wrong", "bm90.a.token"), ["token", self.server.url, page]),
            ("a bot without its intent", self.at(self.server.url, "blind", blind), ["Message Content Intent", page]),
            ("a Discord that does not answer", self.at(nobody, "token", self.token), [nobody]),
        ]

    def secrets(self):
        return [*dict.fromkeys(self.tokens), *(hook["token"] for hook in self.server.look("world")["webhooks"])]

    def bot(self):
        return self.id

    def unfit(self):
        forum = self.server.control("channel", name="forum", type="forum")["id"]
        hidden = self.server.control("channel", name="hidden", private=True)["id"]
        mute = self.server.control("channel", name="mute")["id"]
        self.server.control("scopes", bot=BOT, channel=mute, deny=["SEND_MESSAGES"])
        return [
            ("a forum", forum, ["forum"]),
            ("a channel that the bot can't see", hidden, ["View Channel"]),
            ("a channel in which it may not write", mute, ["Send Messages", "#mute"]),
            ("a name that no channel has", "#nothing", ["#nothing"]),
        ]

    def apart(self, person, channel, since):
        return [one for dm in self.direct(person) for one in self.shown(dm) if one.is_ours]

    def told(self, person, channel):
        return [one for one in self.apart(person, channel, None) if "the agents do not see" in one.text]

    def direct(self, person):
        """The direct channels of a person."""
        directs = self.insist(lambda: self.server.look("world"))["directs"]
        return [one["id"] for one in directs if self.people[person] in one["accounts"]]

    def account(self, person):
        return self.people[person]

    def channel(self, name, people=("alice",)):
        seen_by = [self.id, *(self.people[person] for person in people)]
        return self.server.control("channel", name=name, private=True, to=seen_by)["id"]

    def join(self, person, channel):
        """People of the stand-in write where they want."""

    def say(self, person, channel, text, to=None):
        more = {"reply": to} if to else {}
        return self.insist(lambda: self.server.say(person, text, channel=channel, **more))["id"]

    def insist(self, ask):
        """Asks until the stand-in answers, which may be restarting."""
        answers = []

        def asked():
            try:
                answers.append(ask())
            except (OSError, ValueError):
                return False
            return True

        if not until(PATIENCE, asked):
            raise TimeoutError("the stand-in does not answer")
        return answers[0]

    def edit(self, person, channel, message, text):
        self.server.say(person, text, edit=message)

    def delete(self, person, channel, message):
        self.server.say(person, delete=message)

    def alone(self, person):
        return self.as_bot("POST", "/users/@me/channels", {"recipient_id": self.people[person]})["id"]

    def as_bot(self, method, path, body=None):
        return self.server.ask(method, f"/api/v10{path}", body, {"Authorization": f"Bot {self.token}"})[2]

    def content(self, shown):
        with urllib.request.urlopen(shown.raw["attachments"][0]["url"], timeout=SOON) as response:
            return response.read()

    def topic(self, channel):
        return self.as_bot("GET", f"/channels/{channel}").get("topic")

    def saw_typing(self, channel):
        since, self.typing_since = self.typing_since, time.time()
        return any(f"/{channel}/" in one["path"] for one in self.asked("POST /channels/{channel}/typing", since))

    def upload(self, person, channel, name, content, text=""):
        return self.attach(person, channel, text, {"name": name, "data": base64.b64encode(content).decode()})

    def upload_large(self, person, channel, name, size, claimed):
        return self.attach(person, channel, "", {"name": name, "size": size, "claimed": claimed})

    def attach(self, person, channel, text, file):
        return self.server.say(person, text, channel=channel, attachments=[file])["id"]

    def forward(self, person, channel, text):
        self.server.say(person, "", channel=channel, forward=text)

    def called_so(self, name, channel):
        self.people[name] = self.server.control("person", account=name, name=name, nick=name)["id"]
        return name

    def robot(self, channel):
        return self.server.control("person", account="robot", bot=True)["id"]

    def robot_says(self, channel, text):
        self.server.say("robot", text, channel=channel, bot=True)

    def namesake(self, person, channel):
        self.people["namesake"] = self.server.control("person", account="namesake", name=person, nick=person)["id"]
        return "namesake"

    def buttons(self, shown):
        return {one["label"]: one["custom_id"] for one in buttons_of(shown.raw["components"])}

    def press(self, person, channel, shown, label):
        pressed = {"message": shown.id, "custom_id": self.buttons(shown)[label]}
        self.insist(lambda: self.server.say(person, press=pressed, channel=channel, wait=False))

    def react(self, person, channel, message, emoji):
        self.insist(lambda: self.server.say(person, react={"message": message, "emoji": emoji}))

    def mark(self, channel):
        seen = self.all(channel)
        return int(seen[-1]["id"]) if seen else 0

    def shown(self, channel, since=None):
        seen = (one for one in self.all(channel) if int(one["id"]) > (since or 0))
        return [self.read(one) for one in seen if not one["deleted"] and not one["only"]]

    def history(self, channel):
        self.seen.pop(channel, None)
        return self.shown(channel)

    def all(self, channel):
        """All messages of a channel. Many of them are asked for once only."""
        seen = self.seen.setdefault(channel, [])
        if len(seen) < FEW:
            seen.clear()
        after = seen[-1]["id"] if seen else "0"
        seen += self.insist(lambda: self.server.look("messages", channel=channel, after=after))
        return seen

    def read(self, one):
        text, author, kind = one["content"], one["author"]["name"], one["author"]["kind"]
        is_ours = one["author"]["id"] == self.id or one["author"]["application"] == self.id
        if kind == "bot" and is_ours:
            found = AUTHOR.match(text)
            text, author = (text[found.end():], found[1]) if found else (text, "")
        return Shown(one["id"], text, author, is_ours, one, tuple(file["filename"] for file in one["attachments"]))

    def called(self):
        pings = ((one["id"], one["pings"]) for one in self.server.look("messages", channel=self.private))
        return [id for id, found in pings if found["everyone"] or found["roles"] or self.people["alice"] in found["users"]]

    # For Discord's own checks.

    def asked(self, route, since=0):
        """The requests of a route after a time."""
        return [one for one in self.server.look("requests") if one["route"] == route and one["at"] >= since]

    def sessions(self):
        return [one["id"] for one in self.server.look("sessions") if one["bot"] == BOT]

