"""The control of the stand-in, below `/_control/`: it injects faults, plays people, and tells what happened.

All requests and answers are JSON. A request that cannot be carried out is answered with 400 and `{"error": "…"}`.

    GET   world, requests, messages?channel=[&after=], sessions, interactions[?id=], limits
    POST  bot {name, intents, permissions}                      person {account, name, nick, roles, dms}
          role {name, permissions, mentionable}                 channel {name, type, topic, private, to, guild} or {delete}
          thread {account, channel, title, message}             guild {name, bots, permissions}
          invite, kick {bot or account, guild}                  revoke {bot}
          say {account, name, bot, channel, thread or dm}, and one of: text with reply and attachments, forward, edit, delete, react,
              press, slash, typing
          fault {route, status, times, retryAfter, scope, global, after, delay, body};
              with a delay and no status, the answer comes late
          drop {bot, code, op, resumable, forget}               scopes {bot, intents, permissions, or channel, allow, deny}
          limits {off, scoped, global, invalid, or route, limit, per}
          gateway {a setting of discord_hub.SETTINGS}
          forget {}                                             forgets the requests that were seen
"""

import re

from discord_api import Refusal, answer
from discord_channels import add_thread, gone
from discord_compose import signed
from discord_gateway import RECONNECT, INVALID
from discord_limits import VIA, Limited, exhausted
from discord_say import People, Wrong, shown
from discord_world import FORUM, PRIVILEGED, bits, new_token

KINDS = {"text": 0, "category": 4, "news": 5, "forum": FORUM}
PLAIN = {500: "500: Internal Server Error", 502: "502: Bad Gateway", 503: "503: Service Unavailable", 401: "401: Unauthorized"}


class Control:
    """Answers the requests of a test."""

    def __init__(self, server):
        self.server = server
        self.world = server.world
        self.hub = server.hub
        self.people = People(server.world, server.hub)
        self.faults = []

    async def answer(self, request):
        name = f"{request.method.lower()}_{request.match_info['what']}"
        act = getattr(self, name, None)
        if not act:
            return answer({"error": f"no such control: {name}"}, status=404)
        try:
            body = await request.json() if request.can_read_body else dict(request.query)
            result = act(body)
            return answer(await result if hasattr(result, "__await__") else result)
        except (Wrong, Refusal, KeyError, ValueError, TypeError) as error:
            return answer({"error": f"{type(error).__name__}: {error}"}, status=400)

    # Reading the state.

    def get_world(self, _):
        store = self.world.store
        guild = self.world.first_guild()
        return {
            "url": self.world.address, "guild": guild["id"], "owner": guild["owner_id"],
            "guilds": {one["name"]: one["id"] for one in store.all("guilds")},
            "roles": {one["name"]: one["id"] for one in guild["roles"]},
            "channels": {one["name"]: one["id"] for one in store.all("channels") if one.get("name")},
            "directs": [
                {"id": one["id"], "accounts": one["recipient_ids"]} for one in store.all("channels") if one.get("recipient_ids")
            ],
            "accounts": {one["username"]: one["id"] for one in store.all("users")},
            "bots": {one["name"]: {key: one[key] for key in ("id", "token", "intents")} for one in store.all("apps")},
            "webhooks": list(store.all("webhooks")),
        }

    def get_requests(self, _):
        return self.server.requests

    def post_forget(self, _):
        self.server.requests.clear()
        return {}

    def get_messages(self, query):
        """All messages of a channel, or those after one, the oldest first, those that were deleted too."""
        channel, after = self.people.channel(query["channel"]), int(query.get("after", 0))
        if not after:
            found = [one for one in self.world.store.all("messages") if one["channel_id"] == channel["id"]]
            return [self.told(channel, one) for one in found]
        newer = []
        # From the end on: a test that follows a long channel asks for its last ones again and again.
        for id in reversed(self.world.history.get(channel["id"], [])):
            if int(id) <= after:
                break
            newer.append(self.told(channel, self.world.store.get("messages", id)))
        return newer[::-1]

    def told(self, channel, message):
        author, hook = message["author"], message.get("webhook_id")
        kind = "webhook" if hook and hook != message.get("application_id") else "bot" if author["bot"] else "person"
        return {
            "id": message["id"], "channel": channel["id"],
            "author": {
                "id": author["id"], "name": author["global_name"] or author["username"], "kind": kind,
                "avatar": message.get("_avatar_url"), "application": message.get("application_id"),
            },
            "text": message["_raw"], "content": message["content"], "shown": shown(self.world, message),
            "pings": {"users": message["mentions"], "roles": message["mention_roles"], "everyone": message["mention_everyone"]},
            "arrived": message["_arrived"], "edited": message["edited_timestamp"], "deleted": bool(message.get("_deleted")),
            "reply": (message.get("message_reference") or {}).get("message_id"), "nonce": message.get("nonce"),
            "attachments": [{**one, "url": signed(self.world, channel["id"], one)} for one in message["attachments"]],
            "embeds": message["embeds"], "components": message["components"], "only": message.get("_only"),
            "reactions": message["_reactions"], "flags": message["flags"],
        }

    def get_sessions(self, _):
        return [
            {
                "bot": one.app["name"], "id": one.id, "connected": one.socket is not None, "intents": one.intents, "seq": one.seq,
                "compress": one.socket and one.socket.request.query.get("compress"), "shard": one.shard,
            }
            for one in self.hub.alive()
        ]

    def get_interactions(self, query):
        begun = self.hub.interactions.begun
        if "id" in query:
            return self.hub.interactions.report(begun[query["id"]])
        return [self.hub.interactions.report(one) for one in begun.values()]

    def get_limits(self, _):
        limits = self.server.limits
        told = {"invalid": limits.invalid, "banned": limits.banned(), "off": limits.off}
        return {**told, "global": limits.overall, "routes": limits.routes}

    # Making bots, people and places.

    def post_bot(self, body):
        app = self.world.add_app(body["name"], body.get("intents") or (), body.get("permissions") or ())
        return {"id": app["id"], "token": app["token"]}

    def post_person(self, body):
        user = self.people.account({**body, "account": body["account"]})
        guild = self.world.first_guild()
        member = self.world.member(guild["id"], user["id"])
        if "roles" in body or "nick" in body:
            known = {one["name"]: one["id"] for one in guild["roles"]}
            member["roles"] = [known.get(one, one) for one in body.get("roles", member["roles"])]
            member["nick"] = body.get("nick", member["nick"])
            self.world.store.put("members", f"{guild['id']}:{user['id']}", member)
            change = {**self.world.member_view(guild["id"], user["id"]), "guild_id": guild["id"]}
            self.hub.publish("GUILD_MEMBER_UPDATE", None, change, guild["id"])
        if "dms" in body:
            user["_dms"] = bool(body["dms"])
            self.world.save("users", user)
        return {"id": user["id"]}

    def guild_of(self, body):
        """The server that a request names by its id, or the first."""
        return self.world.store.tables["guilds"][body["guild"]] if "guild" in body else self.world.first_guild()

    def post_guild(self, body):
        """One more server, with these bots in it."""
        guild = self.world.add_guild(body["name"])
        for name in body.get("bots") or []:
            self.post_invite({"bot": name, "guild": guild["id"], "permissions": body.get("permissions")})
        return {"id": guild["id"], "channels": {one["name"]: one["id"] for one in self.world.channels_of(guild["id"])}}

    def post_invite(self, body):
        """A bot, or a person, joins a server."""
        guild = self.guild_of(body)
        if "bot" in body:
            app = self.people.app(body["bot"])
            self.world.invite(app, guild, body.get("permissions") or ())
            self.hub.joined(app, guild)
        else:
            self.people.enter(self.people.account(body), guild)
        return {}

    def post_kick(self, body):
        """A bot, or a person, is put out of a server."""
        guild = self.guild_of(body)
        user = self.people.app(body["bot"]) if "bot" in body else self.people.account(body)
        self.world.store.drop("members", f"{guild['id']}:{user['id']}")
        if "bot" in body:
            self.hub.left(user, guild)
        else:
            data = {"guild_id": guild["id"], "user": self.world.user_view(user["id"])}
            self.hub.publish("GUILD_MEMBER_REMOVE", None, data, guild["id"])
        return {}

    def post_role(self, body):
        guild = self.world.first_guild()
        role = self.world.add_role(guild, body["name"], bits(body.get("permissions") or ()), mentionable=bool(body.get("mentionable")))
        self.hub.publish("GUILD_ROLE_CREATE", None, {"guild_id": guild["id"], "role": role}, guild["id"])
        return {"id": role["id"]}

    def post_channel(self, body):
        """Makes a channel; `private` shows it only to the accounts, bots and roles in `to`. `delete` takes one away."""
        if body.get("delete"):
            gone(self.world, self.hub, self.people.channel(body["delete"]))
            return {}
        guild = self.guild_of(body)
        channel = self.world.add_channel(guild, body["name"], KINDS[body.get("type", "text")], topic=body.get("topic"))
        if body.get("private"):
            view = str(bits(["VIEW_CHANNEL"]))
            roles = {one["id"] for one in guild["roles"]}
            written = [{"id": guild["id"], "type": 0, "allow": "0", "deny": view}]
            for id in body.get("to") or []:
                written.append({"id": id, "type": 0 if id in roles else 1, "allow": view, "deny": "0"})
            channel["permission_overwrites"] = written
            self.world.save("channels", channel)
        self.hub.channel("CHANNEL_CREATE", channel)
        return {"id": channel["id"]}

    def post_thread(self, body):
        user, parent = self.people.account(body), self.people.channel(body["channel"])
        thread = add_thread(self.world, self.hub, parent, body["title"], user["id"], 11, body.get("message"))
        return {"id": thread["id"]}

    async def post_say(self, body):
        return await self.people.say(body)

    # Faults and changed settings.

    def post_fault(self, body):
        self.faults.append({"times": 1, **body})
        return {}

    def fault_for(self, request):
        """The next fault that is meant for a request."""
        path = re.sub(r"^/api(/v\d+)?", "", request.path)
        for fault in self.faults:
            method, _, pattern = fault["route"].rpartition(" ")
            wanted = re.sub(r"{\w*}|\*", "[^/]+", pattern)
            if method in ("", request.method) and re.fullmatch(wanted, path):
                fault["times"] -= 1
                if fault["times"] <= 0:
                    self.faults.remove(fault)
                return fault
        return None

    def faulty(self, request, fault, route=None):
        """The answer of a fault; without a status the connection is cut."""
        status = fault.get("status")
        if not status:
            if request.transport:
                request.transport.abort()
            return None
        if status == 429:
            after = fault.get("retryAfter", 1)
            scope = "global" if fault.get("global") else fault.get("scope", "user")
            limited = Limited(after, exhausted(route, after) if route and scope != "global" else {}, scope)
            return answer(limited.body, status=429, headers=limited.headers)
        body = fault.get("body") or {"message": PLAIN.get(status, f"{status}: Error"), "code": fault.get("code", 0)}
        return answer(body, status=status, headers=VIA)

    def chosen(self, body):
        """The connected sockets of one bot, or of all."""
        sockets = list(self.hub.sockets)
        if body.get("bot"):
            app = self.people.app(body["bot"])
            sockets = [one for one in sockets if one.session and one.session.app["id"] == app["id"]]
        return sockets

    def post_drop(self, body):
        """Ends connections: cut, or closed with `code`; `op` 7 and 9 ask the bot to do it. `forget` ends its session too."""
        sockets = self.chosen(body)
        for socket in sockets:
            if body.get("forget") and socket.session:
                self.hub.sessions.pop(socket.session.id, None)
            if body.get("op") == RECONNECT:
                socket.op(RECONNECT)
            elif body.get("op") == INVALID:
                socket.op(INVALID, bool(body.get("resumable")))
            elif body.get("code"):
                socket.close(body["code"])
            else:
                socket.cut()
        return {"dropped": len(sockets)}

    def post_revoke(self, body):
        """A new token for a bot: the old one is refused from now on, and its connections are closed."""
        app = self.people.app(body["bot"])
        for socket in self.chosen(body):
            socket.close(4004)
        for session in [one for one in self.hub.alive() if one.app["id"] == app["id"]]:
            self.hub.sessions.pop(session.id, None)
        app["token"] = new_token(app["id"])
        self.world.save("apps", app)
        return {"token": app["token"]}

    def post_scopes(self, body):
        """Changes a bot's privileged intents, or its permissions: everywhere, or in one channel."""
        app = self.people.app(body["bot"])
        if "intents" in body:
            app["intents"] = [one for one in body["intents"] if one in PRIVILEGED]
            self.world.save("apps", app)
        guild = self.world.first_guild()
        if "channel" in body:
            channel = self.people.channel(body["channel"])
            allow, deny = (str(bits(body.get(one) or ())) for one in ("allow", "deny"))
            others = [one for one in channel["permission_overwrites"] if one["id"] != app["id"]]
            channel["permission_overwrites"] = [*others, {"id": app["id"], "type": 1, "allow": allow, "deny": deny}]
            self.world.save("channels", channel)
            self.hub.channel("CHANNEL_UPDATE", channel)
        elif "permissions" in body:
            role = next(one for one in guild["roles"] if one["managed"] and one["name"] == app["name"])
            role["permissions"] = str(bits(body["permissions"]))
            self.world.save("guilds", guild)
            self.hub.publish("GUILD_ROLE_UPDATE", None, {"guild_id": guild["id"], "role": role}, guild["id"])
        return {"intents": app["intents"]}

    def post_limits(self, body):
        """Other rate limits: `off`, `global` a second, `invalid` in ten minutes, or `limit` and `per` of one `route`.

        With `scoped` every answer has X-RateLimit-Scope, and not only refusals.
        """
        limits = self.server.limits
        limits.off = bool(body.get("off", limits.off))
        limits.scoped = bool(body.get("scoped", limits.scoped))
        limits.overall = body.get("global", limits.overall)
        if "invalid" in body:
            limits.most_invalid, limits.banned_until = body["invalid"], 0.0
        if "route" in body:
            limits.routes[body["route"]] = (body["limit"], body["per"])
        limits.windows.clear()
        return {}

    def post_gateway(self, body):
        """Other times of the gateway. When `silent` ends, connections that lost something are cut."""
        unknown = set(body) - set(self.hub.settings)
        if unknown:
            raise Wrong(f"no such setting: {', '.join(unknown)}")
        woken = self.hub.settings["silent"] and body.get("silent") is False
        self.hub.settings.update(body)
        for socket in list(self.hub.sockets) if woken else ():
            socket.cut()
        return self.hub.settings
