"""What the Slack stand-in knows: workspaces, people, channels, messages, apps, tokens and files, as plain dictionaries.

With a file, each change is written to it at once (SQLite), so that a stand-in that is killed continues where it was.
"""

import json
import secrets
import sqlite3
import time

KINDS = ("team", "user", "channel", "app", "token", "file", "message")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

# A bridge needs these. Each can be taken away by `/_control/scopes`.
BOT_SCOPES = [
    "app_mentions:read", "channels:history", "channels:join", "channels:manage", "channels:read", "chat:write",
    "chat:write.customize", "commands", "files:read", "files:write", "groups:history", "groups:read", "groups:write",
    "im:history", "im:read", "im:write", "mpim:history", "mpim:read", "mpim:write", "reactions:read", "reactions:write",
    "team:read", "users:read",
]  # fmt: skip
USER_SCOPES = [
    "channels:history", "channels:read", "channels:write", "chat:write", "files:read", "files:write", "groups:history",
    "groups:read", "groups:write", "im:history", "im:read", "im:write", "reactions:read", "reactions:write",
    "team:read", "users:read",
]  # fmt: skip
EVENTS = [
    "app_mention", "channel_archive", "channel_created", "channel_rename", "channel_unarchive", "file_shared",
    "group_archive", "group_rename", "group_unarchive", "member_joined_channel", "member_left_channel",
    "message.channels", "message.groups", "message.im", "message.mpim", "reaction_added", "reaction_removed",
    "team_join", "user_change",
]  # fmt: skip


def new_id(letter):
    return letter + "0" + "".join(secrets.choice(ALPHABET) for _ in range(9))


def new_token(prefix):
    return f"{prefix}-{secrets.randbelow(10**12):012d}-{secrets.randbelow(10**12):012d}-{secrets.token_hex(12)}"


class State:
    def __init__(self, path=None):
        self.tables = {kind: {} for kind in KINDS}
        self.messages, self.last, self.database = {}, 0, None
        if path:
            self.database = sqlite3.connect(path, isolation_level=None)
            self.database.execute("PRAGMA journal_mode=WAL")
            # What is written survives the process. It need not survive the machine.
            self.database.execute("PRAGMA synchronous=OFF")
            self.database.execute("CREATE TABLE IF NOT EXISTS things (kind, key, value, PRIMARY KEY (kind, key))")
            for kind, key, value in self.database.execute("SELECT kind, key, value FROM things ORDER BY rowid"):
                self.remember(kind, key, json.loads(value))

    def remember(self, kind, key, value):
        self.tables[kind][key] = value
        if kind == "message":
            channel, ts = key.split(" ")
            self.messages.setdefault(channel, {})[ts] = value
            self.last = max(self.last, int(ts.replace(".", "")))

    def put(self, kind, key, value):
        """Stores a thing, new or changed."""
        self.remember(kind, key, value)
        if self.database:
            self.database.execute(
                "INSERT INTO things VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
                (kind, key, json.dumps(value)),
            )

    def stamp(self):
        """A timestamp as Slack's messages have it, later than every other one."""
        self.last = max(time.time_ns() // 1000, self.last + 1)
        return f"{self.last // 10**6}.{self.last % 10**6:06d}"

    def get(self, kind, key):
        return self.tables[kind].get(key)

    def of_team(self, kind, team):
        return [thing for thing in self.tables[kind].values() if thing["team"] == team]

    def message(self, channel, ts):
        """The record of a message that was not deleted."""
        record = self.messages.get(channel, {}).get(ts)
        return record if record and not record["deleted"] else None

    def app_of(self, team):
        return self.of_team("app", team)[0]

    def make_user(self, team, name, **more):
        user = {
            "id": more.pop("id", None) or new_id("U"), "team": team, "name": name, "real_name": name.capitalize(),
            "display_name": name, "is_bot": False, "deleted": False, "is_admin": False, **more,
        }  # fmt: skip
        self.put("user", user["id"], user)
        return user

    def make_channel(self, team, name, kind="public", creator=None, members=()):
        channel = {
            "id": new_id("D" if kind == "im" else "C"), "team": team, "name": name, "kind": kind, "creator": creator,
            "members": list(members), "topic": "", "purpose": "", "archived": False, "created": int(time.time()),
        }  # fmt: skip
        self.put("channel", channel["id"], channel)
        return channel

    def make_token(self, kind, team, app, user, scopes):
        prefix = {"bot": "xoxb", "user": "xoxp", "app": f"xapp-1-{app}"}[kind]
        token = {
            "token": new_token(prefix), "kind": kind, "team": team, "app": app, "user": user,
            "scopes": list(scopes), "fault": None,
        }  # fmt: skip
        self.put("token", token["token"], token)
        return token["token"]

    def make_team(self, name):
        """A workspace with its owner, `#general`, and an app that is installed there."""
        team = new_id("T")
        self.put("team", team, {"id": team, "team": team, "name": name, "domain": name.lower().replace(" ", "-")})
        owner = self.make_user(team, "ada", is_admin=True)
        bot = self.make_user(team, "flock", is_bot=True)
        app = {
            "id": new_id("A"), "team": team, "name": "flock", "bot_id": new_id("B"), "bot_user": bot["id"],
            "events": list(EVENTS), "commands": ["/flock"], "owner": owner["id"],
        }  # fmt: skip
        bot["bot_id"], bot["app"] = app["bot_id"], app["id"]
        self.put("user", bot["id"], bot)
        self.put("app", app["id"], app)
        self.make_channel(team, "general", creator=owner["id"], members=[owner["id"], bot["id"]])
        self.make_token("bot", team, app["id"], bot["id"], BOT_SCOPES)
        self.make_token("app", team, app["id"], None, ["connections:write"])
        self.make_token("user", team, app["id"], owner["id"], USER_SCOPES)
        return team

    def describe(self, team):
        """What a test needs to know of a workspace: ids by name, and the tokens."""
        app = self.app_of(team)
        tokens = {token["kind"]: token["token"] for token in self.of_team("token", team) if token["user"] != "-"}
        people = {user["name"]: user["id"] for user in self.of_team("user", team)}
        channels = {one["name"]: one["id"] for one in self.of_team("channel", team) if one["kind"] != "im"}
        return {
            "team": team, "name": self.get("team", team)["name"], "app": app["id"], "bot": app["bot_user"],
            "botId": app["bot_id"], "owner": app["owner"], "botToken": tokens["bot"], "appToken": tokens["app"],
            "userToken": tokens["user"], "users": people, "channels": channels,
        }  # fmt: skip

    def person(self, team, who, **more):
        """Somebody by id or name, who is made if there is nobody of that name."""
        for user in self.of_team("user", team):
            if who in (user["id"], user["name"]):
                return user
        is_id = who[:1] in "UW" and who == who.upper()
        return self.make_user(team, more.pop("name", who), id=who if is_id else None, **more)

    def im(self, team, one, other):
        """The direct messages of two, opened if they are not."""
        pair = {one, other}
        for channel in self.of_team("channel", team):
            if channel["kind"] == "im" and set(channel["members"]) == pair:
                return channel
        return self.make_channel(team, "", "im", one, [one, other])

    def find_channel(self, team, which):
        """A channel by its id, `name` or `#name`."""
        for channel in self.of_team("channel", team):
            if which == channel["id"] or (channel["name"] and which.removeprefix("#") == channel["name"]):
                return channel
        return None
