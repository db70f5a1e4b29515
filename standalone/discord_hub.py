"""The sessions of Discord's gateway: which of them is told of what, and what a resumed one is told again."""

import json
import secrets
import time
from collections import deque

from discord_compose import emoji, view
from discord_interactions import Interactions

# For each event the bit of the intent that it needs in servers, and the one that it needs in direct messages.
INTENTS = {
    "GUILD_CREATE": (0, None), "CHANNEL_CREATE": (0, None), "CHANNEL_UPDATE": (0, None), "CHANNEL_DELETE": (0, None),
    "THREAD_CREATE": (0, None), "THREAD_UPDATE": (0, None), "THREAD_DELETE": (0, None), "GUILD_MEMBER_ADD": (1, None),
    "GUILD_MEMBER_UPDATE": (1, None), "GUILD_MEMBER_REMOVE": (1, None), "WEBHOOKS_UPDATE": (5, None),
    "MESSAGE_CREATE": (9, 12), "MESSAGE_UPDATE": (9, 12),
    "MESSAGE_DELETE": (9, 12), "MESSAGE_DELETE_BULK": (9, None), "MESSAGE_REACTION_ADD": (10, 13),
    "MESSAGE_REACTION_REMOVE": (10, 13), "TYPING_START": (11, 14), "GUILD_ROLE_CREATE": (0, None), "GUILD_ROLE_UPDATE": (0, None),
}
# Every bot of a server knows its channels, but reads messages only in those that it can view.
OF_ALL = ("CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "WEBHOOKS_UPDATE")
MESSAGE_CONTENT = 15
# Times in seconds: between heartbeats, how long a lost session waits, how long a nonce holds, to answer an interaction,
# between two IDENTIFYs. `buffer` counts the events that are kept; `silent` keeps connections open and sends nothing.
SETTINGS = {
    "heartbeat": 41.25, "resume": 180, "buffer": 5000, "nonce": 180, "interaction": 3, "identify": 5, "acks": True, "silent": False,
}


class Session:
    """A session of an identified bot, with the events that it was sent lately."""

    def __init__(self, app, intents, shard, buffer):
        self.id = secrets.token_hex(16)
        self.app = app
        self.intents = intents
        self.shard = shard
        self.seq = 0
        self.events = deque(maxlen=buffer)
        self.socket = None
        self.lost_at = None

    def has(self, bit):
        return bool(self.intents >> bit & 1)

    def dispatch(self, event, data):
        self.seq += 1
        text = json.dumps({"t": event, "s": self.seq, "op": 0, "d": data}, ensure_ascii=False)
        self.events.append((self.seq, text))
        if self.socket:
            self.socket.put(text)

    def knows_since(self, seq):
        """Tells if all events after a sequence number are still kept."""
        return seq == self.seq or bool(self.events) and self.events[0][0] <= seq + 1

    def since(self, seq):
        return [text for at, text in self.events if at > seq]

    def belongs(self, guild_id):
        """Tells if a server belongs to this shard; direct messages belong to shard 0."""
        number, count = self.shard
        return (int(guild_id) >> 22) % count == number if guild_id else number == 0


class Hub:
    """All sessions, and the settings of the gateway that a test may change."""

    def __init__(self, world):
        self.world = world
        self.sessions = {}
        self.sockets = set()
        self.identified = {}
        self.settings = dict(SETTINGS)
        self.interactions = Interactions(world, self)

    def add(self, app, intents, shard):
        session = Session(app, intents, shard, self.settings["buffer"])
        self.sessions[session.id] = session
        return session

    def alive(self):
        """The sessions that are connected, or may still resume."""
        now = time.monotonic()
        for session in list(self.sessions.values()):
            if session.lost_at is not None and now - session.lost_at > self.settings["resume"]:
                del self.sessions[session.id]
        return list(self.sessions.values())

    def publish(self, event, channel, data, guild_id=None):
        """Tells those who have the intent and may see it. `data` may be made for each session."""
        guild_id = guild_id or channel and channel.get("guild_id")
        bit = INTENTS[event][0 if guild_id else 1]
        for session in self.alive():
            app_id = session.app["id"]
            if bit is None or not session.has(bit) or not session.belongs(guild_id):
                continue
            seen = self.world.member(guild_id, app_id) if guild_id and (event in OF_ALL or not channel) else None
            if not seen and not (channel and self.world.may(app_id, channel)):
                continue
            session.dispatch(event, data(session) if callable(data) else data)

    def to_app(self, app_id, event, data):
        for session in self.alive():
            if session.app["id"] == app_id and session.belongs(data.get("guild_id")):
                session.dispatch(event, data)

    def message(self, event, message, nonce=None):
        channel = self.world.store.get("channels", message["channel_id"])
        self.publish(event, channel, lambda session: self.message_for(session, message, channel, nonce))

    def message_for(self, session, message, channel, nonce):
        allowed, guild_id = session.has(MESSAGE_CONTENT), channel.get("guild_id")
        data = view(self.world, message, session.app, allowed)
        data["channel_type"] = channel["type"]
        if nonce is not None and message["author"]["id"] == session.app["id"]:
            data["nonce"] = nonce
        if guild_id:
            data["guild_id"] = guild_id
            if self.world.member(guild_id, message["author"]["id"]):
                data["member"] = self.world.member_view(guild_id, message["author"]["id"], with_user=False)
            for user in data["mentions"]:
                if self.world.member(guild_id, user["id"]):
                    user["member"] = self.world.member_view(guild_id, user["id"], with_user=False)
        return data

    def deleted(self, message):
        channel = self.world.store.get("channels", message["channel_id"])
        if not message.get("_only"):
            self.publish("MESSAGE_DELETE", channel, {"id": message["id"], **self.where(channel)})

    def where(self, channel):
        guild_id = channel.get("guild_id")
        return {"channel_id": channel["id"], **({"guild_id": guild_id} if guild_id else {})}

    def who(self, channel, user_id):
        """The member of an event in a server."""
        guild_id = channel.get("guild_id")
        known = guild_id and self.world.member(guild_id, user_id)
        return {"member": self.world.member_view(guild_id, user_id)} if known else {}

    def reaction(self, event, message, key, user_id):
        channel = self.world.store.get("channels", message["channel_id"])
        data = {"user_id": user_id, "message_id": message["id"], "emoji": emoji(key), "burst": False, "type": 0, **self.where(channel)}
        if event == "MESSAGE_REACTION_ADD":
            data.update(self.who(channel, user_id), message_author_id=message["author"]["id"])
        self.publish(event, channel, data)

    def typing(self, channel, user_id):
        data = {"user_id": user_id, "timestamp": int(time.time()), **self.where(channel), **self.who(channel, user_id)}
        self.publish("TYPING_START", channel, data)

    def channel(self, event, channel, **more):
        if event == "THREAD_DELETE":
            short = {key: channel[key] for key in ("id", "guild_id", "parent_id", "type")}
            self.publish(event, channel, short)
        else:
            self.publish(event, channel, lambda session: {**self.world.channel_view(channel, session.app["id"]), **more})

    def ready(self, session, address):
        """The first events of a new session."""
        world, app = self.world, session.app
        guilds = [one for one in world.guilds_of(app["id"]) if session.belongs(one["id"])]
        session.dispatch("READY", {
            "v": 10, "user": {**world.user_view(app["id"]), "verified": True, "mfa_enabled": True, "email": None, "flags": 0},
            "guilds": [{"id": one["id"], "unavailable": True} for one in guilds], "session_id": session.id,
            "resume_gateway_url": address, "session_type": "normal", "private_channels": [], "presences": [], "relationships": [],
            "user_settings": {}, "geo_ordered_rtc_regions": [], "guild_join_requests": [], "shard": list(session.shard),
            "application": {"id": app["id"], "flags": world.app_flags(app)}, "_trace": ["stand-in"],
        })
        for guild in guilds if session.has(0) else []:
            session.dispatch("GUILD_CREATE", self.guild(session, guild))

    def joined(self, app, guild):
        self.told_bot(app, guild, "GUILD_CREATE", lambda session: self.guild(session, guild))

    def left(self, app, guild):
        self.told_bot(app, guild, "GUILD_DELETE", lambda _: {"id": guild["id"]})

    def told_bot(self, app, guild, event, data):
        """Tells one bot of a server that it came to, or has left."""
        for session in self.alive():
            if session.app["id"] == app["id"] and session.has(0) and session.belongs(guild["id"]):
                session.dispatch(event, data(session))

    def guild(self, session, guild):
        world, mine = self.world, session.app["id"]
        everyone = [one["user_id"] for one in world.store.all("members") if one["guild_id"] == guild["id"]]
        seen = everyone if session.has(1) or session.has(8) else [mine]
        threads = [one for one in world.channels_of(guild["id"], threads=True) if world.may(mine, one)]
        return {
            **world.guild_view(guild), "joined_at": world.member(guild["id"], mine)["joined_at"], "large": False, "unavailable": False,
            "member_count": len(everyone), "members": [world.member_view(guild["id"], one) for one in seen], "voice_states": [],
            "channels": [world.channel_view(one) for one in world.channels_of(guild["id"])], "presences": [],
            "threads": [world.channel_view(one, mine) for one in threads if not one["thread_metadata"]["archived"]],
            "stage_instances": [], "guild_scheduled_events": [], "soundboard_sounds": [],
        }
