"""The people on the stand-in: they write, answer, edit, delete, react, type, press buttons and use commands."""

import base64
import re

from discord_commands import CHAT_INPUT, MESSAGE, USER
from discord_compose import attach, create, mentions
from discord_interactions import COMMAND, COMPONENT
from discord_messages import add_reaction, take_reaction
from discord_parts import buttons_of
from discord_store import stamp
from discord_world import bits

# The longest message of a subscriber; others may write half of it.
LONGEST = 4000
STRING, INTEGER, BOOLEAN, NUMBER = 3, 4, 5, 10


class Wrong(Exception):
    """A request of a test that cannot be carried out."""


class People:
    """People of the server. One that nobody has heard of joins when they first do something."""

    def __init__(self, world, hub):
        self.world = world
        self.hub = hub

    def account(self, body):
        """The account of a request, by id or by name."""
        wanted = str(body.get("account") or "")
        known = self.world.store.get("users", wanted)
        known = known or next((one for one in self.world.store.all("users") if one["username"] == wanted), None)
        if not known:
            if not wanted or wanted.isdigit():
                raise Wrong(f"no account {wanted}")
            known = self.world.add_user(wanted, body.get("name"), bool(body.get("bot")))
            self.enter(known, self.world.first_guild())
        if "name" in body and known["global_name"] != body["name"]:
            known["global_name"] = body["name"]
            self.world.save("users", known)
            for guild in self.world.guilds_of(known["id"]):
                member = {**self.world.member_view(guild["id"], known["id"]), "guild_id": guild["id"]}
                self.hub.publish("GUILD_MEMBER_UPDATE", None, member, guild["id"])
        return known

    def enter(self, user, guild):
        self.world.join(guild, user, [])
        member = {**self.world.member_view(guild["id"], user["id"]), "guild_id": guild["id"]}
        self.hub.publish("GUILD_MEMBER_ADD", None, member, guild["id"])

    def app(self, wanted):
        found = self.world.store.get("apps", str(wanted))
        found = found or next((one for one in self.world.store.all("apps") if one["name"] == wanted), None)
        if not found:
            raise Wrong(f"no bot {wanted}")
        return found

    def place(self, body, user):
        """The channel of a request: by id or name, a thread, or the direct one with a bot."""
        if body.get("dm"):
            return self.world.open_dm(self.app(body["dm"])["id"], user["id"])
        wanted = str(body.get("thread") or body.get("channel") or "general")
        return self.channel(wanted)

    def channel(self, wanted):
        found = self.world.store.get("channels", wanted)
        found = found or next((one for one in self.world.store.all("channels") if one.get("name") == wanted), None)
        if not found:
            raise Wrong(f"no channel {wanted}")
        return found

    def message(self, id):
        found = self.world.store.get("messages", str(id))
        if not found or found.get("_deleted"):
            raise Wrong(f"no message {id}")
        return found

    async def say(self, body):
        """Does the one thing that a request asks for."""
        user = self.account(body)
        for key, action in (
            ("edit", self.edit), ("delete", self.delete), ("react", self.react), ("press", self.press), ("slash", self.slash),
            ("typing", self.type),
        ):
            if body.get(key):
                return await action(user, body)
        return self.write(user, body)

    def write(self, user, body):
        channel, text = self.place(body, user), body.get("text") or ""
        if len(text) > LONGEST:
            raise Wrong(f"people write at most {LONGEST} characters")
        files = {str(at): file_of(one) for at, one in enumerate(body.get("attachments") or [])}
        reply = self.message(body["reply"]) if body.get("reply") else None
        everyone = channel.get("guild_id") and self.world.may(user["id"], channel) & bits(["MENTION_EVERYONE"])
        pings = mentions(self.world, channel, text, None, ("users", "roles", "everyone"), bool(everyone), reply)
        if "member_ids" in channel and user["id"] not in channel["member_ids"]:
            channel["member_ids"].append(user["id"])
        passed = {}
        if "forward" in body:
            # Discord keeps a copy of what was passed on beside an empty text.
            passed["message_reference"] = {"type": 1, "channel_id": channel["id"], "message_id": self.world.store.snowflake()}
            passed["message_snapshots"] = [{"message": {"content": body["forward"], "type": 0, "attachments": [], "embeds": []}}]
        message = create(
            self.world, channel, self.world.user_view(user["id"]), text.strip(), reply=reply, raw=text, pings=pings,
            attachments=attach(self.world, channel["id"], files, {}), **passed,
        )
        self.hub.message("MESSAGE_CREATE", message)
        return {"id": message["id"], "channel": channel["id"], "account": user["id"]}

    def own(self, user, id):
        message = self.message(id)
        if message["author"]["id"] != user["id"]:
            raise Wrong("people change their own messages only")
        return message

    async def edit(self, user, body):
        message = self.own(user, body["edit"])
        channel = self.world.store.get("channels", message["channel_id"])
        text = body.get("text") or ""
        message["mentions"] = mentions(self.world, channel, text, None, ("users",), False)[0]
        message.update(content=text.strip(), _raw=text, edited_timestamp=stamp())
        self.world.save("messages", message)
        self.hub.message("MESSAGE_UPDATE", message)
        return {"id": message["id"]}

    async def delete(self, user, body):
        message = self.message(body["delete"])
        message["_deleted"] = True
        self.world.save("messages", message)
        self.hub.deleted(message)
        return {"id": message["id"], "account": user["id"]}

    async def react(self, user, body):
        wanted = body["react"]
        act = take_reaction if wanted.get("remove") else add_reaction
        act(self.world, self.hub, self.message(wanted["message"]), wanted["emoji"], user["id"])
        return {"account": user["id"]}

    async def type(self, user, body):
        self.hub.typing(self.place(body, user), user["id"])
        return {"account": user["id"]}

    async def press(self, user, body):
        wanted = body["press"]
        message = self.message(wanted["message"])
        if message.get("_only") not in (None, user["id"]):
            raise Wrong("this message is not shown to them")
        part = next((one for one in buttons_of(message["components"]) if one["custom_id"] == wanted["custom_id"]), None)
        if not part or part.get("disabled"):
            raise Wrong("the message has no such button")
        app = self.world.store.get("apps", message.get("application_id") or message["author"]["id"])
        if not app:
            raise Wrong("no application answers for this message")
        data = {"custom_id": part["custom_id"], "component_type": part["type"], "id": part.get("id", 1)}
        if part["type"] != 2:
            data["values"] = wanted.get("values") or []
        channel = self.world.store.get("channels", message["channel_id"])
        return await self.begun(body, app, user, channel, COMPONENT, data, message)

    async def slash(self, user, body):
        wanted, channel = body["slash"], self.place(body, user)
        apps = [self.app(wanted["bot"])] if wanted.get("bot") else list(self.world.store.all("apps"))
        for app in apps:
            guild = channel.get("guild_id") or ""
            offered = [*(self.world.store.get("commands", f"{app['id']}:{guild}") or [])]
            offered += (self.world.store.get("commands", f"{app['id']}:") or []) if guild else []
            command = next((one for one in offered if one["name"] == wanted["name"]), None)
            if command:
                data = {"id": command["id"], "name": command["name"], "type": command["type"]}
                if command["type"] == CHAT_INPUT:
                    data["options"] = chosen(command["options"], wanted.get("options") or {}, wanted.get("path") or [])
                elif command["type"] == MESSAGE:
                    data["target_id"] = str(wanted["target"])
                elif command["type"] == USER:
                    data["target_id"] = str(wanted["target"])
                return await self.begun(body, app, user, channel, COMMAND, data)
        raise Wrong(f"no command /{wanted['name']}")

    async def begun(self, body, app, user, channel, kind, data, message=None):
        """Begins an interaction. Unless the request says otherwise it waits until it is answered, or too late."""
        state = self.hub.interactions.begin(app, user["id"], channel, kind, data, message)
        if body.get("wait", True):
            await state["done"].wait()
        return self.hub.interactions.report(state)


def chosen(options, given, path):
    """The options of a command as a person has filled them in. `path` names a group and a subcommand."""
    if path:
        inner = next((one for one in options if one["name"] == path[0]), None)
        if not inner:
            raise Wrong(f"no subcommand {path[0]}")
        return [{"name": inner["name"], "type": inner["type"], "options": chosen(inner.get("options") or [], given, path[1:])}]
    kinds = {STRING: str, INTEGER: int, BOOLEAN: bool, NUMBER: (int, float)}
    found = []
    for option in options:
        if option["name"] in given:
            value = given[option["name"]]
            if not isinstance(value, kinds.get(option["type"], str)):
                raise Wrong(f"{option['name']} is of another type")
            found.append({"name": option["name"], "type": option["type"], "value": value})
        elif option.get("required"):
            raise Wrong(f"{option['name']} is required")
    return found


def file_of(given):
    """A file of a person: its bytes in base64, or only a size, whose bytes are zeros. `claimed` is what Discord says of it."""
    data = base64.b64decode(given["data"]) if "data" in given else b""
    size = given.get("size", len(data))
    more = {"length": size, "claimed": given.get("claimed", size)} if "size" in given else {}
    return {"name": given.get("name", "unknown"), "type": given.get("type", "application/octet-stream"), "data": data, **more}


def shown(world, message):
    """The text of a message as people read it: names in place of ids."""
    def name(found):
        user = world.store.get("users", found[1])
        return f"@{user['global_name'] or user['username']}" if user else found[0]

    def role(found):
        known = {one["id"]: one["name"] for guild in world.store.all("guilds") for one in guild["roles"]}
        return f"@{known.get(found[1], 'unknown-role')}"

    def channel(found):
        known = world.store.get("channels", found[1])
        return f"#{known['name']}" if known and known.get("name") else found[0]

    text = re.sub(r"<@!?(\d+)>", name, message["content"])
    return re.sub(r"<#(\d+)>", channel, re.sub(r"<@&(\d+)>", role, text))
