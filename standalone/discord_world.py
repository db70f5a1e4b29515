"""The accounts, servers, channels and permissions that Discord's stand-in knows."""

import base64
import secrets

from discord_api import Refusal, missing_access, missing_permissions, unknown
from discord_store import Store, stamp

PERMISSIONS = {
    "ADMINISTRATOR": 3, "MANAGE_CHANNELS": 4, "MANAGE_GUILD": 5, "ADD_REACTIONS": 6, "VIEW_CHANNEL": 10, "SEND_MESSAGES": 11,
    "MANAGE_MESSAGES": 13, "EMBED_LINKS": 14, "ATTACH_FILES": 15, "READ_MESSAGE_HISTORY": 16, "MENTION_EVERYONE": 17,
    "MANAGE_ROLES": 28, "MANAGE_WEBHOOKS": 29, "USE_APPLICATION_COMMANDS": 31, "MANAGE_THREADS": 34,
    "CREATE_PUBLIC_THREADS": 35, "CREATE_PRIVATE_THREADS": 36, "SEND_MESSAGES_IN_THREADS": 38,
}
EVERYTHING = (1 << 53) - 1
# The rights of everyone in a new server.
ORDINARY = (
    "ADD_REACTIONS", "VIEW_CHANNEL", "SEND_MESSAGES", "EMBED_LINKS", "ATTACH_FILES", "READ_MESSAGE_HISTORY",
    "USE_APPLICATION_COMMANDS", "CREATE_PUBLIC_THREADS", "CREATE_PRIVATE_THREADS", "SEND_MESSAGES_IN_THREADS",
)
# For each privileged intent its bit in IDENTIFY, and the flag of an application that has it while it is in few servers.
PRIVILEGED = {"GUILD_MEMBERS": (1, 15), "GUILD_PRESENCES": (8, 13), "MESSAGE_CONTENT": (15, 19)}
TEXT, DM, CATEGORY, NEWS, NEWS_THREAD, THREAD, PRIVATE_THREAD, FORUM = 0, 1, 4, 5, 10, 11, 12, 15
THREADS = (NEWS_THREAD, THREAD, PRIVATE_THREAD)


def bits(names):
    return sum(1 << PERMISSIONS[name] for name in set(names))


class World:
    """All that is known, and who may do what with it."""

    def __init__(self, path=None):
        self.store = Store(path)
        self.address = ""
        # The ids of each channel's messages, the oldest first.
        self.history = {}
        for message in self.store.all("messages"):
            self.history.setdefault(message["channel_id"], []).append(message["id"])
        for ids in self.history.values():
            ids.sort(key=int)
        if not self.store.tables["guilds"]:
            self.add_guild("flock")

    def save(self, table, value):
        return self.store.put(table, value["id"], value)

    def add_user(self, name, display=None, bot=False, **more):
        return self.save("users", {
            "id": self.store.snowflake(), "username": name, "global_name": display, "discriminator": "0", "avatar": None,
            "bot": bot, "public_flags": 0, **more,
        })

    def add_app(self, name, intents=(), permissions=()):
        """An application with a bot, which is in the first server."""
        user = self.add_user(name, bot=True)
        app = self.save("apps", {"id": user["id"], "name": name, "intents": list(intents), "token": new_token(user["id"])})
        self.invite(app, self.first_guild(), permissions)
        return app

    def invite(self, app, guild, permissions):
        """A bot joins a server with a role of its own, which has its permissions."""
        role = self.add_role(guild, app["name"], bits(permissions), managed=True)
        self.join(guild, app, [role["id"]])

    def first_guild(self):
        return next(iter(self.store.all("guilds")))

    def add_guild(self, name):
        owner = self.add_user("owner", "Owner")
        guild = {"id": self.store.snowflake(), "name": name, "owner_id": owner["id"], "roles": []}
        self.save("guilds", guild)
        self.add_role(guild, "@everyone", bits(ORDINARY), id=guild["id"])
        self.join(guild, owner, [])
        self.add_channel(guild, "general")
        return guild

    def add_role(self, guild, name, permissions=0, managed=False, mentionable=False, id=None):
        role = {
            "id": id or self.store.snowflake(), "name": name, "permissions": str(permissions), "position": len(guild["roles"]),
            "color": 0, "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None}, "hoist": False,
            "managed": managed, "mentionable": mentionable, "icon": None, "unicode_emoji": None, "flags": 0,
        }
        guild["roles"].append(role)
        self.save("guilds", guild)
        return role

    def join(self, guild, user, roles):
        member = {"user_id": user["id"], "guild_id": guild["id"], "nick": None, "roles": roles, "joined_at": stamp()}
        return self.store.put("members", f"{guild['id']}:{user['id']}", member)

    def add_channel(self, guild, name, type=TEXT, **more):
        channel = {
            "id": self.store.snowflake(), "type": type, "guild_id": guild["id"], "name": name, "topic": None,
            "position": len(self.channels_of(guild["id"])), "permission_overwrites": [], "parent_id": None, "nsfw": False,
            "rate_limit_per_user": 0, "last_message_id": None, "flags": 0, **more,
        }
        return self.save("channels", channel)

    def open_dm(self, app_id, user_id):
        """The direct channel of a bot and a person, made if there is none."""
        for channel in self.store.all("channels"):
            if channel["type"] == DM and set(channel["recipient_ids"]) == {app_id, user_id}:
                return channel
        return self.save("channels", {
            "id": self.store.snowflake(), "type": DM, "recipient_ids": [app_id, user_id], "last_message_id": None, "flags": 0,
        })

    def channels_of(self, guild_id, threads=False):
        return [
            one for one in self.store.all("channels")
            if one.get("guild_id") == guild_id and (one["type"] in THREADS) == threads
        ]

    def app_with(self, token):
        return next((app for app in self.store.all("apps") if secrets.compare_digest(app["token"], token)), None)

    def member(self, guild_id, user_id):
        return self.store.get("members", f"{guild_id}:{user_id}")

    def guilds_of(self, user_id):
        return [guild for guild in self.store.all("guilds") if self.member(guild["id"], user_id)]

    def guild(self, guild_id, bot):
        guild = self.store.get("guilds", guild_id)
        if not guild:
            raise unknown("Guild")
        if not self.member(guild_id, bot["id"]):
            raise missing_access()
        return guild

    def may(self, user_id, channel):
        """The bits of what a user may do in a channel."""
        if channel["type"] == DM:
            return bits(ORDINARY) if user_id in channel["recipient_ids"] else 0
        guild, member = self.store.get("guilds", channel["guild_id"]), self.member(channel["guild_id"], user_id)
        if not member:
            return 0
        if guild["owner_id"] == user_id:
            return EVERYTHING
        mine = [role for role in guild["roles"] if role["id"] in (guild["id"], *member["roles"])]
        allowed = 0
        for role in mine:
            allowed |= int(role["permissions"])
        if allowed >> PERMISSIONS["ADMINISTRATOR"] & 1:
            return EVERYTHING
        if channel["type"] in THREADS:
            manages = allowed >> PERMISSIONS["MANAGE_THREADS"] & 1
            if channel["type"] == PRIVATE_THREAD and user_id not in channel["member_ids"] and not manages:
                return 0
            channel = self.store.get("channels", channel["parent_id"])
        written = {one["id"]: one for one in channel["permission_overwrites"]}
        for ids in ([guild["id"]], [role["id"] for role in mine if role["id"] != guild["id"]], [user_id]):
            deny = allow = 0
            for one in (written[id] for id in ids if id in written):
                deny, allow = deny | int(one["deny"]), allow | int(one["allow"])
            allowed = allowed & ~deny | allow
        return allowed if allowed >> PERMISSIONS["VIEW_CHANNEL"] & 1 else 0

    def allows(self, user_id, channel, name):
        return bool(self.may(user_id, channel) >> PERMISSIONS[name] & 1)

    def channel(self, channel_id, bot, *needed):
        """A channel that the bot can see and in which it may do all that is needed."""
        channel = self.store.get("channels", channel_id)
        if not channel:
            raise unknown("Channel")
        allowed = self.may(bot["id"], channel)
        if not allowed:
            raise missing_access()
        for name in needed:
            if not allowed >> PERMISSIONS[name] & 1:
                raise missing_permissions()
        return channel

    def message(self, channel_id, message_id):
        message = self.store.get("messages", message_id)
        if not message or message["channel_id"] != channel_id or message.get("_deleted") or message.get("_only"):
            raise unknown("Message")
        return message

    def user_view(self, user_id):
        user = self.store.get("users", user_id)
        if not user:
            raise unknown("User")
        return {key: value for key, value in user.items() if not key.startswith("_")}

    def member_view(self, guild_id, user_id, with_user=True):
        member = self.member(guild_id, user_id)
        if not member:
            raise unknown("Member")
        view = {
            "roles": member["roles"], "nick": member["nick"], "joined_at": member["joined_at"], "avatar": None, "banner": None,
            "premium_since": None, "deaf": False, "mute": False, "pending": False, "flags": 0,
            "communication_disabled_until": None,
        }
        return {**view, "user": self.user_view(user_id)} if with_user else view

    def channel_view(self, channel, viewer=None):
        view = {key: value for key, value in channel.items() if key not in ("recipient_ids", "member_ids")}
        if channel["type"] == DM:
            view["recipients"] = [self.user_view(one) for one in channel["recipient_ids"] if one != viewer]
        if channel["type"] in THREADS:
            view["member_count"] = min(50, len(channel["member_ids"]))
            view["message_count"] = view["total_message_sent"] = len(self.history.get(channel["id"], []))
            if viewer in channel["member_ids"]:
                view["member"] = {"id": channel["id"], "user_id": viewer, "join_timestamp": stamp(channel["id"]), "flags": 0}
        return view

    def guild_view(self, guild):
        return {
            "id": guild["id"], "name": guild["name"], "owner_id": guild["owner_id"], "roles": guild["roles"], "icon": None,
            "splash": None, "discovery_splash": None, "afk_channel_id": None, "afk_timeout": 300, "verification_level": 0,
            "default_message_notifications": 0, "explicit_content_filter": 0, "emojis": [], "features": [], "mfa_level": 0,
            "application_id": None, "system_channel_id": None, "system_channel_flags": 0, "rules_channel_id": None,
            "max_members": 500000, "vanity_url_code": None, "description": None, "banner": None, "premium_tier": 0,
            "premium_subscription_count": 0, "preferred_locale": "en-US", "public_updates_channel_id": None, "nsfw_level": 0,
            "stickers": [], "premium_progress_bar_enabled": False, "safety_alerts_channel_id": None, "region": "deprecated",
        }

    def app_flags(self, app):
        return sum(1 << PRIVILEGED[name][1] for name in app["intents"])


def new_token(user_id):
    """A token of a bot: its id, and two parts that nobody can guess."""
    head = base64.urlsafe_b64encode(user_id.encode()).decode().rstrip("=")
    return f"{head}.{secrets.token_urlsafe(4)}.{secrets.token_urlsafe(28)}"


def needs_text(channel):
    """Refuses a channel in which nobody can write directly."""
    if channel["type"] in (CATEGORY, FORUM):
        raise Refusal(400, 50008, "Cannot send messages in a non-text channel")
