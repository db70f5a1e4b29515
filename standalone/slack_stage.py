"""The stage of Slack: the stand-in with an app, three people and channels."""

import base64
import json
import os
import re
import threading
import time
import urllib.parse
import urllib.request

import bridge_stage
from bridge_stage import Shown
from checking import check, connects, free_port, until
from slack_stand import SOON, Stand

MANIFEST = f"{os.path.dirname(os.path.abspath(__file__))}/../docs/bridges.md"
PEOPLE = ("alice", "bob", "mallory")
# Slack's names of emoji.
NAMES = {"👍": "+1", "👎": "-1", "👀": "eyes"}
WRONG_BOT, WRONG_APP = "xoxb-000000000000-wrong", "xapp-1-A000000000-wrong"


def listed(name):
    """The entries of a list in the app's manifest, which is on the page for those who make the app."""
    with open(MANIFEST) as page:
        found = re.search(rf"^ +{name}:\n((?: +- .+\n)+)", page.read(), re.MULTILINE)
    return re.findall(r"- (.+)", found[1])


class Stage(bridge_stage.Stage):
    platform = "slack"
    # A part is counted with Slack's escapes, and has room for an author and mentions.
    can = bridge_stage.Can(part=3_400)

    def __init__(self, folder):
        super().__init__(folder)
        self.stand, self.gone = Stand(f"{folder}/slack", keeps_state=True), threading.Lock()

    def open(self):
        begun = time.monotonic()
        self.stand.start()
        check(f"the stand-in answers ({time.monotonic() - begun:.1f} s)", self.stand.workspace)
        self.given = self.stand.workspace
        self.people = {name: self.control("user", {"account": name})["user"] for name in PEOPLE}
        self.names = {account: name for name, account in self.people.items()}
        # As the documentation has it made: what is missing there is missing here.
        self.control("scopes", {"token": self.given["botToken"], "set": listed("bot")})
        self.control("app", {"events": listed("bot_events")})
        self.limit(False)
        self.private = self.channel("private", ("alice", "bob"))
        self.public = self.made("public", ("alice", "flock"))
        words = "<!channel>, <!here>, <!everyone>, <!subteam^S0123456|@all>, @channel, @here, @everyone, @mallory"
        self.storm = f"{words} and <@{self.people['alice']}>: look here."

    def control(self, name, body=None, **query):
        """A request to the stand-in, after its restart if there is one."""
        with self.gone:
            return self.stand.control(name, body, **query)

    def close(self):
        self.stand.stop()
        check("the stand-in is gone", not connects(self.stand.port))
        check("and has reported no error of its own", "Traceback" not in self.stand.log(), self.stand.log())

    def restart(self):
        with self.gone:
            self.stand.kill()
            self.stand.start()
            self.stand.control("limits", {"scale": 100})
        return True

    def limit(self, is_limited):
        self.control("limits", {"scale": 1, "postsPerSecond": 2, "postBurst": 1} if is_limited else {"scale": 100})

    # The app.

    def add(self, bot=None, app=None, base=None):
        """The arguments of `bridge add` with these tokens."""
        bot = self.file("bot", bot or self.given["botToken"])
        app = self.file("app", app or self.given["appToken"])
        return ["--api", f"{base or self.stand.base}/api", "--token-file", bot, "--app-token-file", app]

    def credentials(self):
        return self.add()

    def refused(self):
        nobody = f"http://127.0.0.1:{free_port()}"
        yield "a wrong bot token", self.add(bot=WRONG_BOT), ["invalid_auth", "bot token", "api.slack.com/apps"]
        yield "a wrong app-level token", self.add(app=WRONG_APP), ["invalid_auth", "app-level token"]
        yield "an app-level token as bot token", self.add(bot=self.given["appToken"]), ["bot token"]
        yield "a bot token as app-level token", self.add(app=self.given["botToken"]), ["xapp-"]
        yield "an API that does not answer", self.add(base=nobody), [nobody]
        for kind, scope in (("botToken", "chat:write"), ("botToken", "groups:history"), ("appToken", "connections:write")):
            token = self.given[kind]
            self.control("scopes", {"token": token, "remove": [scope]})
            yield f"a token without {scope}", self.add(), [scope, "api.slack.com/apps"]
            self.control("scopes", {"token": token, "add": [scope]})
        self.control("revoke", {"token": self.given["botToken"], "as": "account_inactive"})
        yield "a revoked token", self.add(), ["account_inactive"]
        self.control("revoke", {"token": self.given["botToken"], "as": None})

    def secrets(self):
        return [self.given["botToken"], self.given["appToken"], WRONG_BOT, WRONG_APP]

    def bot(self):
        return self.given["bot"]

    def unfit(self):
        archived = self.made("archived", ("flock",))
        self.control("channel", {"name": "archived", "archived": True})
        return [
            ("a private channel without the app", self.made("elsewhere", ("alice",), private=True), ["/invite"]),
            ("an archived channel", archived, ["archived"]),
            ("a channel that does not exist", "#nothing", ["no channel #nothing"]),
        ]

    # People and channels.

    def account(self, person):
        return self.people[person]

    def made(self, name, members, **more):
        return self.control("channel", {"name": name, "members": list(members), **more})["channel"]

    def channel(self, name, people=("alice",)):
        return self.made(name, ("flock", *people), private=True)

    def join(self, person, channel):
        self.control("channel", {"name": channel, "channel": channel, "members": [person]})

    def does(self, person, channel, **what):
        given = {"channel": channel, "account": person, "join": False, **what}
        return until(SOON, lambda: self.attempt(given))

    def attempt(self, given):
        try:
            return self.control("say", given)
        except ConnectionRefusedError:
            return None

    def say(self, person, channel, text, to=None):
        # An answer is a reply in the message's thread, which its writer shows in the channel too.
        thread = {"thread": to, "broadcast": True} if to else {}
        return self.does(person, channel, text=text, **thread)["ts"]

    def edit(self, person, channel, message, text):
        self.does(person, channel, edit=message, text=text)

    def delete(self, person, channel, message):
        self.does(person, channel, delete=message)

    def upload(self, person, channel, name, content, text=""):
        return self.attach(person, channel, text, {"name": name, "base64": base64.b64encode(content).decode()})

    def upload_large(self, person, channel, name, size, claimed):
        return self.attach(person, channel, "", {"name": name, "size": size, "claimed": claimed})

    def attach(self, person, channel, text, file):
        return self.does(person, channel, text=text, files=[file])["ts"]

    def content(self, shown):
        return base64.b64decode(self.control("file", id=shown.raw["files"][0])["content"])

    def topic(self, channel):
        asked = urllib.parse.urlencode({"token": self.given["botToken"], "channel": channel}).encode()
        with urllib.request.urlopen(f"{self.stand.base}/api/conversations.info", asked, timeout=SOON) as response:
            return json.load(response)["channel"]["topic"]["value"]

    def alone(self, person):
        return self.control("messages", channel=f"@{self.given['bot']}", account=self.people[person])["channel"]

    def called_so(self, name, channel):
        word = f"hostile-{len(self.people)}"
        shown = {"name": word, "display_name": name, "real_name": name}
        self.people[word] = self.control("user", {"account": word, **shown})["user"]
        self.names[self.people[word]] = word
        self.join(word, channel)
        return word

    def robot(self, channel):
        # The messages of a program have the id of a bot.
        user = self.control("user", {"account": "robot", "is_bot": True})["user"]
        self.join("robot", channel)
        return f"B{user[1:]}"

    def robot_says(self, channel, text):
        self.does("robot", channel, text=text, bot=True)

    def namesake(self, person, channel):
        shown = {"display_name": person, "real_name": person}
        self.people["namesake"] = self.control("user", {"account": "namesake", **shown})["user"]
        self.names[self.people["namesake"]] = "namesake"
        self.join("namesake", channel)
        return "namesake"

    def buttons(self, shown):
        parts = [part for block in shown.raw["blocks"] or [] for part in block.get("elements", []) if part["type"] == "button"]
        return {one["text"]["text"]: one["action_id"] for one in parts}

    def press(self, person, channel, shown, label):
        self.does(person, channel, press=shown.id, action=self.buttons(shown)[label])

    def react(self, person, channel, message, emoji):
        self.does(person, channel, react=message, reaction=NAMES[emoji])

    # What a person sees.

    def mark(self, channel):
        return self.control("messages", channel=channel, since=time.time())["now"]

    def seen(self, channel, since=None):
        return self.control("messages", channel=channel, since=since or 0)["messages"]

    def shown(self, channel, since=None):
        said = [one for one in self.seen(channel, since) if not one["deleted"]]
        return [self.read(one) for one in said if one["subtype"] in (None, "bot_message", "thread_broadcast", "file_share")]

    def read(self, one):
        is_ours = one["author"] in (self.given["bot"], self.given["botId"])
        # Flock itself has the app's name.
        named = one["name"] if one["subtype"] == "bot_message" else ""
        author = named.removeprefix("human:") if is_ours else self.names.get(one["author"], one["author"])
        files = tuple(self.control("file", id=id)["name"] for id in one["files"])
        return Shown(one["ts"], one["shown"], author, is_ours, one, files)

    def called(self):
        calls = {self.people["alice"], "channel", "here", "everyone"}
        channels = [*self.given["channels"].values(), self.private, self.public]
        seen = [one for channel in set(channels) for one in self.seen(channel)]
        return sorted(one["ts"] for one in seen if calls & set(one["notifies"]))
