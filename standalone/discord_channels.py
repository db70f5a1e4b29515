"""The routes of accounts, servers, channels and threads."""

import time

from discord_api import Form, Refusal, missing_access, missing_permissions, route, unknown
from discord_messages import write
from discord_store import stamp
from discord_world import CATEGORY, DM, FORUM, NEWS, NEWS_THREAD, PRIVATE_THREAD, TEXT, THREAD, THREADS, bits, needs_text

RENAMES, RENAMES_PER = 2, 600
ARCHIVE_AFTER = (60, 1440, 4320, 10080)


@route("GET", "/users/@me")
async def me(call):
    user = call.world.user_view(call.bot["id"])
    return {**user, "bot": True, "verified": True, "mfa_enabled": True, "locale": "en-US", "email": None, "flags": 0}


@route("GET", "/users/@me/guilds", 1, 1)
async def my_guilds(call):
    return [
        {"id": one["id"], "name": one["name"], "icon": None, "owner": False, "permissions": str(guild_permissions(call, one))}
        for one in call.world.guilds_of(call.bot["id"])
    ]


def guild_permissions(call, guild):
    mine = call.world.member(guild["id"], call.bot["id"])["roles"]
    allowed = 0
    for role in guild["roles"]:
        if role["id"] in (guild["id"], *mine):
            allowed |= int(role["permissions"])
    return allowed


@route("GET", "/users/{user}", 30, 30)
async def user(call):
    return call.world.user_view(call.args["user"])


@route("GET", "/applications/@me")
async def application(call):
    return {**short_application(call), "bot": call.world.user_view(call.bot["id"]), "approximate_guild_count": 1}


@route("GET", "/oauth2/applications/@me")
async def oauth_application(call):
    return short_application(call)


def short_application(call):
    app = call.bot
    owner = call.world.first_guild()["owner_id"]
    return {
        "id": app["id"], "name": app["name"], "icon": None, "description": "", "summary": "", "bot_public": False,
        "bot_require_code_grant": False, "verify_key": "0" * 64, "owner": call.world.user_view(owner), "team": None,
        "flags": call.world.app_flags(app), "tags": [], "interactions_endpoint_url": None,
    }


@route("GET", "/guilds/{guild}", 10, 10)
async def guild(call):
    found = call.world.guild_view(call.world.guild(call.args["guild"], call.bot))
    if call.asked("with_counts"):
        found["approximate_member_count"] = found["approximate_presence_count"] = len(members_of(call, found["id"]))
    return found


def members_of(call, guild_id):
    return [one for one in call.world.store.all("members") if one["guild_id"] == guild_id]


@route("GET", "/guilds/{guild}/roles", 10, 10)
async def roles(call):
    return call.world.guild(call.args["guild"], call.bot)["roles"]


@route("GET", "/guilds/{guild}/members/{user}", 5, 5)
async def member(call):
    found = call.world.guild(call.args["guild"], call.bot)
    if call.args["user"] == "@me":
        raise unknown("Member")
    call.world.user_view(call.args["user"])
    return call.world.member_view(found["id"], call.args["user"])


@route("GET", "/guilds/{guild}/members", 10, 10)
async def members(call):
    found = call.world.guild(call.args["guild"], call.bot)
    if "GUILD_MEMBERS" not in call.bot["intents"]:
        raise missing_access()
    form = Form(call.query)
    limit, after = form.number("limit", 1, 1000, 1), form.snowflake("after") or "0"
    form.close()
    ids = sorted((one["user_id"] for one in members_of(call, found["id"])), key=int)
    return [call.world.member_view(found["id"], one) for one in ids if int(one) > int(after)][:limit]


@route("GET", "/guilds/{guild}/channels", 10, 10)
async def channels(call):
    found = call.world.guild(call.args["guild"], call.bot)
    return [call.world.channel_view(one) for one in call.world.channels_of(found["id"])]


@route("GET", "/guilds/{guild}/threads/active", 10, 10)
async def active_threads(call):
    found = call.world.guild(call.args["guild"], call.bot)
    seen = [
        one for one in call.world.channels_of(found["id"], threads=True)
        if call.world.may(call.bot["id"], one) and not one["thread_metadata"]["archived"]
    ]
    return {"threads": [call.world.channel_view(one, call.bot["id"]) for one in seen], "members": []}


def check_overwrite(form, path, body, id=None):
    """One permission overwrite: the rights that a role or a member gains and loses in a channel."""
    type = form.choice("type", (0, 1), path=f"{path}type", body=body)
    id = id or form.snowflake("id", path=f"{path}id", body=body)
    for name, value in (("type", type), ("id", id)):
        if value is None:
            form.fail(f"{path}{name}", "BASE_TYPE_REQUIRED", "This field is required")
    allow, deny = (str(form.number(one, 0, (1 << 63) - 1, 0, f"{path}{one}", body)) for one in ("allow", "deny"))
    return {"id": id, "type": type, "allow": allow, "deny": deny}


def check_channel(form, type, creates):
    """The fields of a channel in a body. A text channel's name is small and has no spaces."""
    fields = {}
    name = form.text("name", low=1, high=100, required=creates)
    if name is not None:
        fields["name"] = name if type in (CATEGORY, *THREADS) else name.strip().lower().replace(" ", "-")
    if "topic" in form.body:
        fields["topic"] = form.text("topic", high=4096 if type == FORUM else 1024)
    if form.body.get("permission_overwrites") is not None:
        written = form.objects("permission_overwrites", 1000)
        fields["permission_overwrites"] = [check_overwrite(form, f"permission_overwrites.{at}.", one) for at, one in written]
    if form.body.get("nsfw") is not None:
        fields["nsfw"] = bool(form.body["nsfw"])
    if form.body.get("position") is not None:
        fields["position"] = form.number("position", 0, 1 << 31)
    if "parent_id" in form.body:
        fields["parent_id"] = form.snowflake("parent_id")
    fields["rate_limit_per_user"] = form.number("rate_limit_per_user", 0, 21600, 0)
    return fields


@route("POST", "/guilds/{guild}/channels", 10, 10)
async def create_channel(call):
    world = call.world
    found = world.guild(call.args["guild"], call.bot)
    allowed = guild_permissions(call, found)
    if not allowed & (bits(["MANAGE_CHANNELS"]) | bits(["ADMINISTRATOR"])):
        raise missing_permissions()
    form = Form(call.body)
    type = form.choice("type", (TEXT, 2, CATEGORY, NEWS, 13, FORUM, 16), TEXT)
    fields = check_channel(form, type, creates=True)
    parent = fields.get("parent_id")
    siblings = [one for one in world.channels_of(found["id"]) if one["parent_id"] == parent]
    if parent and (world.store.get("channels", parent) or {}).get("type") != CATEGORY:
        form.fail("parent_id", "CHANNEL_PARENT_INVALID", "Category does not exist")
    if parent and len(siblings) >= 50:
        form.fail("parent_id", "CHANNEL_PARENT_MAX_CHANNELS", "Maximum number of channels in category reached (50)")
    form.close()
    if len(world.channels_of(found["id"])) >= 500:
        raise Refusal(400, 30013, "Maximum number of guild channels reached (500)")
    channel = world.add_channel(found, type=type, **{"position": 0, **fields})
    call.hub.channel("CHANNEL_CREATE", channel)
    return world.channel_view(channel)


@route("GET", "/channels/{channel}", 50, 1)
async def channel(call):
    return call.world.channel_view(call.world.channel(call.args["channel"], call.bot), call.bot["id"])


@route("PATCH", "/channels/{channel}", 5, 15)
async def change_channel(call):
    world = call.world
    found = world.channel(call.args["channel"], call.bot)
    if found["type"] == DM:
        raise Refusal(403, 50003, "Cannot execute action on a DM channel")
    if found["type"] in THREADS:
        return change_thread(call, found)
    world.channel(found["id"], call.bot, "MANAGE_CHANNELS")
    form = Form(call.body)
    fields = check_channel(form, found["type"], creates=False)
    form.close()
    if "rate_limit_per_user" not in call.body:
        del fields["rate_limit_per_user"]
    if any(name in fields and fields[name] != found[name] for name in ("name", "topic")):
        # Names and topics have a limit of their own, within the one of the route.
        call.limits.sub("rename", found["id"], RENAMES, RENAMES_PER)
    found.update(fields)
    world.save("channels", found)
    call.hub.channel("CHANNEL_UPDATE", found)
    return world.channel_view(found)


def change_thread(call, thread):
    form = Form(call.body)
    name = form.text("name", low=1, high=100)
    after = form.choice("auto_archive_duration", ARCHIVE_AFTER)
    form.close()
    owns = thread["owner_id"] == call.bot["id"]
    if not owns and not call.world.allows(call.bot["id"], thread, "MANAGE_THREADS"):
        raise missing_permissions()
    data = thread["thread_metadata"]
    if data["archived"] and call.body.get("archived", True):
        raise Refusal(400, 50083, "Thread is archived")
    if name:
        call.limits.sub("rename", thread["id"], RENAMES, RENAMES_PER)
        thread["name"] = name
    for key in ("archived", "locked"):
        if key in call.body:
            data[key] = bool(call.body[key])
    data["auto_archive_duration"] = after or data["auto_archive_duration"]
    call.world.save("channels", thread)
    call.hub.channel("THREAD_UPDATE", thread)
    return call.world.channel_view(thread, call.bot["id"])


@route("DELETE", "/channels/{channel}", 5, 5)
async def delete_channel(call):
    world = call.world
    found = world.channel(call.args["channel"], call.bot)
    if found["type"] != DM:
        world.channel(found["id"], call.bot, "MANAGE_THREADS" if found["type"] in THREADS else "MANAGE_CHANNELS")
        gone(call.world, call.hub, found)
    return world.channel_view(found, call.bot["id"])


def gone(world, hub, channel):
    """Deletes a channel or thread with its webhooks."""
    hub.channel("THREAD_DELETE" if channel["type"] in THREADS else "CHANNEL_DELETE", channel)
    for webhook in [one for one in world.store.all("webhooks") if one["channel_id"] == channel["id"]]:
        world.store.drop("webhooks", webhook["id"])
    for thread in [one for one in world.store.all("channels") if one.get("parent_id") == channel["id"]]:
        if thread["type"] in THREADS:
            world.store.drop("channels", thread["id"])
    world.store.drop("channels", channel["id"])


@route("PUT", "/channels/{channel}/permissions/{overwrite}", 10, 10)
async def overwrite(call):
    found = call.world.channel(call.args["channel"], call.bot, "MANAGE_ROLES")
    form = Form(call.body)
    new = check_overwrite(form, "", call.body, call.args["overwrite"])
    form.close()
    found["permission_overwrites"] = [one for one in found["permission_overwrites"] if one["id"] != new["id"]] + [new]
    call.world.save("channels", found)
    call.hub.channel("CHANNEL_UPDATE", found)


def add_thread(world, hub, parent, name, owner_id, type, id=None, after=1440):
    thread = {
        "id": id or world.store.snowflake(), "type": type, "guild_id": parent["guild_id"], "parent_id": parent["id"], "name": name,
        "owner_id": owner_id, "last_message_id": None, "rate_limit_per_user": 0, "flags": 0, "member_ids": [owner_id],
        "thread_metadata": {
            "archived": False, "auto_archive_duration": after, "archive_timestamp": stamp(), "locked": False,
            "create_timestamp": stamp(), **({"invitable": True} if type == PRIVATE_THREAD else {}),
        },
    }
    world.save("channels", thread)
    hub.channel("THREAD_CREATE", thread, newly_created=True)
    return thread


def thread_form(call):
    form = Form(call.body)
    name = form.text("name", low=1, high=100, required=True)
    after = form.choice("auto_archive_duration", ARCHIVE_AFTER, 1440)
    form.close()
    return name, after


@route("POST", "/channels/{channel}/messages/{message}/threads", 5, 5)
async def thread_of_message(call):
    world = call.world
    parent = world.channel(call.args["channel"], call.bot, "CREATE_PUBLIC_THREADS", "READ_MESSAGE_HISTORY")
    message = world.message(parent["id"], call.args["message"])
    name, after = thread_form(call)
    if parent["type"] not in (TEXT, NEWS):
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    if world.store.get("channels", message["id"]):
        raise Refusal(400, 160004, "A thread has already been created for this message")
    type = NEWS_THREAD if parent["type"] == NEWS else THREAD
    thread = add_thread(world, call.hub, parent, name, call.bot["id"], type, message["id"], after)
    message["flags"] |= 1 << 5
    world.save("messages", message)
    call.hub.message("MESSAGE_UPDATE", message)
    return world.channel_view(thread, call.bot["id"])


@route("POST", "/channels/{channel}/threads", 5, 5)
async def thread_alone(call):
    world = call.world
    parent = world.channel(call.args["channel"], call.bot)
    name, after = thread_form(call)
    type = THREAD if parent["type"] == FORUM else call.body.get("type", PRIVATE_THREAD)
    if parent["type"] not in (TEXT, NEWS, FORUM) or type not in THREADS:
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    if parent["type"] == FORUM:
        world.channel(parent["id"], call.bot, "SEND_MESSAGES")
        if not isinstance(call.body.get("message"), dict):
            form = Form(call.body)
            form.fail("message", "BASE_TYPE_REQUIRED", "This field is required")
            form.close()
    else:
        needs_text(parent)
        kind = "CREATE_PRIVATE_THREADS" if type == PRIVATE_THREAD else "CREATE_PUBLIC_THREADS"
        world.channel(parent["id"], call.bot, kind)
    thread = add_thread(world, call.hub, parent, name, call.bot["id"], type, after=after)
    shown = world.channel_view(thread, call.bot["id"])
    if parent["type"] == FORUM:
        call.args, call.body = {"channel": thread["id"]}, call.body["message"]
        shown["message"] = await write(call)
    return shown


@route("PUT", "/channels/{channel}/thread-members/@me", 5, 5)
async def join_thread(call):
    thread = call.world.channel(call.args["channel"], call.bot)
    if thread["type"] not in THREADS:
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    if call.bot["id"] not in thread["member_ids"]:
        thread["member_ids"].append(call.bot["id"])
        call.world.save("channels", thread)


@route("GET", "/gateway", globally=False, auth="token")
async def gateway(call):
    return {"url": call.world.address.replace("http", "ws", 1)}


@route("GET", "/gateway/bot", 2, 5)
async def gateway_bot(call):
    used = [at for at in call.hub.identified.get(call.bot["id"], []) if time.time() - at < 24 * 3600]
    limit = {"total": 1000, "remaining": 1000 - len(used), "reset_after": 24 * 3600 * 1000, "max_concurrency": 1}
    return {"url": call.world.address.replace("http", "ws", 1), "shards": 1, "session_start_limit": limit}
