"""The routes of messages: read, write, edit, delete, react, type."""

import re
import time
import unicodedata

from discord_api import Form, Refusal, empty_message, missing_access, missing_permissions, route, unknown
from discord_compose import age, attach, checked, create, mentions, view
from discord_parts import COMPONENTS_V2
from discord_store import stamp
from discord_world import DM, THREADS, needs_text

FORTNIGHT = 14 * 24 * 3600
MAX_REACTIONS = 20


def needed_to_write(channel):
    return "SEND_MESSAGES_IN_THREADS" if channel["type"] in THREADS else "SEND_MESSAGES"


def writable(call, channel_id, *needed):
    """A channel in which the bot may write; a thread that rests wakes up."""
    world = call.world
    channel = world.channel(channel_id, call.bot)
    needs_text(channel)
    world.channel(channel_id, call.bot, needed_to_write(channel), *needed)
    if channel["type"] == DM:
        other = next(one for one in channel["recipient_ids"] if one != call.bot["id"])
        if not world.store.get("users", other).get("_dms", True):
            raise Refusal(403, 50007, "Cannot send messages to this user")
    return wake(call, channel)


def wake(call, channel):
    if channel["type"] in THREADS and channel["thread_metadata"]["archived"]:
        if channel["thread_metadata"]["locked"]:
            raise Refusal(400, 50083, "Thread is archived")
        channel["thread_metadata"]["archived"] = False
        call.world.save("channels", channel)
        call.hub.channel("THREAD_UPDATE", channel)
    return channel


@route("GET", "/channels/{channel}/messages", 50, 1)
async def read(call):
    world = call.world
    channel = world.channel(call.args["channel"], call.bot)
    needs_text(channel)
    form = Form(call.query)
    limit = form.number("limit", 1, 100, 50)
    marks = {name: form.snowflake(name) for name in ("before", "after", "around") if call.query.get(name)}
    if len(marks) > 1:
        form.fail("before", "MUTUALLY_EXCLUSIVE", "Only one of before, after and around may be passed")
    form.close()
    if not world.allows(call.bot["id"], channel, "READ_MESSAGE_HISTORY"):
        return []
    ids = [one for one in world.history.get(channel["id"], []) if not world.store.get("messages", one).get("_deleted")]
    if "after" in marks:
        ids = [one for one in ids if int(one) > int(marks["after"])][:limit]
    elif "around" in marks:
        before = [one for one in ids if int(one) <= int(marks["around"])][-(limit // 2 + 1):]
        ids = before + [one for one in ids if int(one) > int(marks["around"])][: limit - len(before)]
    else:
        ids = [one for one in ids if "before" not in marks or int(one) < int(marks["before"])][-limit:]
    return [view(world, world.store.get("messages", one), call.bot) for one in reversed(ids)]


@route("GET", "/channels/{channel}/messages/{message}", 30, 5)
async def read_one(call):
    channel = call.world.channel(call.args["channel"], call.bot, "READ_MESSAGE_HISTORY")
    return view(call.world, call.world.message(channel["id"], call.args["message"]), call.bot)


def check_nonce(body):
    """The nonce of a body: a number or a text of at most 25 characters."""
    form, nonce = Form(body), body.get("nonce")
    if nonce is not None:
        if isinstance(nonce, bool) or not isinstance(nonce, (int, str)):
            form.fail("nonce", "NONCE_TYPE_INVALID", "Nonce must be an integer or a string.")
        elif len(str(nonce)) > 25:
            form.fail("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
    form.close()
    return nonce


def said_before(call, nonce):
    """The message that this author has sent with this nonce a short time ago."""
    for message in reversed(call.world.store.all("messages")):
        if time.time() - message["_arrived"] > call.hub.settings["nonce"]:
            return None
        if message["author"]["id"] == call.bot["id"] and message.get("nonce") == nonce:
            return message
    return None


def answered(call, channel):
    """The message that a reply answers, and `None` where it answers none."""
    reference = call.body.get("message_reference")
    if not reference:
        return None
    form = Form(call.body)
    if not form.mapping(reference, "message_reference"):
        form.close()
    id = form.snowflake("message_id", path="message_reference.message_id", body=reference)
    if form.choice("type", (0,), 0, path="message_reference.type", body=reference) is not None and id is None:
        form.fail("message_reference.message_id", "BASE_TYPE_REQUIRED", "This field is required")
    form.close()
    message = call.world.store.get("messages", id)
    if message and message["channel_id"] == channel["id"] and not message.get("_deleted") and not message.get("_only"):
        if not call.world.allows(call.bot["id"], channel, "READ_MESSAGE_HISTORY"):
            raise Refusal(403, 160002, "Cannot reply without permission to read message history")
        return message
    if reference.get("fail_if_not_exists", True):
        form.fail("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        form.close()
    return None


@route("POST", "/channels/{channel}/messages", 5, 5)
async def write(call):
    world = call.world
    channel = writable(call, call.args["channel"], *(["ATTACH_FILES"] if call.files else []))
    nonce = check_nonce(call.body)
    parts = checked(call)
    if nonce is not None and call.body.get("enforce_nonce"):
        message = said_before(call, nonce)
        if message:
            return {**view(world, message, call.bot), "nonce": nonce}
    reply = answered(call, channel)
    everyone = world.allows(call.bot["id"], channel, "MENTION_EVERYONE")
    pings = mentions(world, channel, parts["content"], parts["allowed"], ("users", "roles", "everyone"), everyone, reply)
    message = create(
        world, channel, world.user_view(call.bot["id"]), parts["content"], reply=reply, raw=call.body.get("content"), pings=pings,
        attachments=attach(world, channel["id"], call.files, parts["described"]), embeds=rich(parts["embeds"]),
        components=parts["components"] or [], flags=parts["flags"], tts=bool(call.body.get("tts")),
        **({} if nonce is None else {"nonce": nonce}),
    )
    call.hub.message("MESSAGE_CREATE", message, nonce)
    return {**view(world, message, call.bot), **({} if nonce is None else {"nonce": nonce})}


def rich(embeds):
    return [{**one, "type": "rich"} for one in embeds or []]


def edit(call, message, channel, default):
    """Applies a body to a message that is kept; a field that is absent stays as it is."""
    world = call.world
    parts = checked(call, creates=False)
    kept = message["attachments"]
    if "attachments" in call.body:
        kept = [one for one in kept if one["id"] in parts["described"]]
    kept = kept + attach(world, channel["id"], call.files, parts["described"])
    content = parts["content"] if "content" in call.body else message["content"]
    embeds = rich(parts["embeds"]) if "embeds" in call.body else message["embeds"]
    components = (parts["components"] or []) if "components" in call.body else message["components"]
    if not (content or embeds or components or kept):
        raise empty_message()
    if "content" in call.body:
        everyone = bool(call.bot) and world.allows(call.bot["id"], channel, "MENTION_EVERYONE")
        pings = mentions(world, channel, content, parts["allowed"], default, everyone)
        message["mentions"], message["mention_roles"], message["mention_everyone"] = pings
        message["_raw"] = call.body["content"] or ""
    # A component's version of a message can be set, and never taken back.
    flags = parts["flags"] | message["flags"] & COMPONENTS_V2 if "flags" in call.body else message["flags"]
    message.update(
        content=content or "", embeds=embeds, components=components, attachments=kept, flags=flags, edited_timestamp=stamp()
    )
    world.save("messages", message)
    if not message.get("_only"):
        call.hub.message("MESSAGE_UPDATE", message)
    return message


@route("PATCH", "/channels/{channel}/messages/{message}", 5, 5)
async def change(call):
    channel = call.world.channel(call.args["channel"], call.bot)
    message = call.world.message(channel["id"], call.args["message"])
    if message["author"]["id"] != call.bot["id"]:
        # A moderator may hide another's embeds, and nothing else.
        if set(call.body) - {"flags"} or not call.world.allows(call.bot["id"], channel, "MANAGE_MESSAGES"):
            raise Refusal(403, 50005, "Cannot edit a message authored by another user")
    wake(call, channel)
    edit(call, message, channel, ("users", "roles", "everyone"))
    return view(call.world, message, call.bot)


def remove(call, message):
    message["_deleted"] = True
    call.world.save("messages", message)
    call.hub.deleted(message)


@route("DELETE", "/channels/{channel}/messages/{message}", 5, 1)
async def delete(call):
    channel = call.world.channel(call.args["channel"], call.bot)
    message = call.world.message(channel["id"], call.args["message"])
    if message["author"]["id"] != call.bot["id"] and not call.world.allows(call.bot["id"], channel, "MANAGE_MESSAGES"):
        raise missing_permissions() if channel["type"] != DM else Refusal(403, 50003, "Cannot execute action on a DM channel")
    remove(call, message)


@route("POST", "/channels/{channel}/messages/bulk-delete", 1, 1)
async def delete_many(call):
    channel = call.world.channel(call.args["channel"], call.bot, "MANAGE_MESSAGES")
    form = Form(call.body)
    ids = [str(one) for one in form.listed("messages", 100)]
    if not all(one.isdigit() for one in ids):
        form.fail("messages", "NUMBER_TYPE_COERCE", "Value is not snowflake.")
    form.close()
    if not 2 <= len(ids) <= 100:
        raise Refusal(400, 50016, "Provided too few or too many messages to delete. Must provide at least 2 and at most 100.")
    if any(age(one) > FORTNIGHT for one in ids):
        raise Refusal(400, 50034, "You can only bulk delete messages that are under 14 days old.")
    for id in ids:
        message = call.world.store.get("messages", id)
        if message and message["channel_id"] == channel["id"] and not message.get("_deleted"):
            message["_deleted"] = True
            call.world.save("messages", message)
    call.hub.publish("MESSAGE_DELETE_BULK", channel, {"ids": ids, "channel_id": channel["id"], "guild_id": channel["guild_id"]})


@route("POST", "/channels/{channel}/typing", 5, 5)
async def typing(call):
    channel = writable(call, call.args["channel"])
    call.hub.typing(channel, call.bot["id"])


def emoji_of(text):
    """The key of an emoji in a path. Discord knows characters that are emoji, and `name:id` of a server's own."""
    if re.fullmatch(r"\w{2,32}:\d+", text):
        return text
    symbols = any(unicodedata.category(one) in ("So", "Sk") or one == "\u20e3" for one in text)
    if not symbols or len(text) > 16 or any(one.isalpha() and ord(one) < 0x2000 for one in text):
        raise Refusal(400, 10014, "Unknown Emoji")
    return text


def reacted(call):
    """The channel, message and emoji of a reaction's path."""
    channel = call.world.channel(call.args["channel"], call.bot, "READ_MESSAGE_HISTORY")
    return channel, call.world.message(channel["id"], call.args["message"]), emoji_of(call.args["emoji"])


@route("PUT", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me", 1, 0.25)
async def react(call):
    channel, message, key = reacted(call)
    if key not in message["_reactions"]:
        if not call.world.allows(call.bot["id"], channel, "ADD_REACTIONS"):
            raise missing_permissions()
        if len(message["_reactions"]) >= MAX_REACTIONS:
            raise Refusal(400, 30010, "Maximum number of reactions reached (20)")
    add_reaction(call.world, call.hub, message, key, call.bot["id"])


def add_reaction(world, hub, message, key, user_id):
    by = message["_reactions"].setdefault(key, [])
    if user_id not in by:
        by.append(user_id)
        world.save("messages", message)
        hub.reaction("MESSAGE_REACTION_ADD", message, key, user_id)


def take_reaction(world, hub, message, key, user_id):
    by = message["_reactions"].get(key, [])
    if user_id in by:
        by.remove(user_id)
        if not by:
            del message["_reactions"][key]
        world.save("messages", message)
        hub.reaction("MESSAGE_REACTION_REMOVE", message, key, user_id)


@route("DELETE", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me", 1, 0.25)
async def unreact(call):
    _, message, key = reacted(call)
    take_reaction(call.world, call.hub, message, key, call.bot["id"])


@route("DELETE", "/channels/{channel}/messages/{message}/reactions/{emoji}/{user}", 1, 0.25)
async def unreact_other(call):
    channel, message, key = reacted(call)
    if not call.world.allows(call.bot["id"], channel, "MANAGE_MESSAGES"):
        raise missing_permissions()
    take_reaction(call.world, call.hub, message, key, call.args["user"])


@route("GET", "/channels/{channel}/messages/{message}/reactions/{emoji}", 10, 5)
async def reactions(call):
    _, message, key = reacted(call)
    return [call.world.user_view(one) for one in message["_reactions"].get(key, [])]


@route("POST", "/users/@me/channels", 10, 10)
async def open_direct(call):
    form = Form(call.body)
    other = form.snowflake("recipient_id")
    if other is None:
        form.fail("recipient_id", "BASE_TYPE_REQUIRED", "This field is required")
    form.close()
    user = call.world.store.get("users", other)
    if not user:
        raise unknown("User")
    if user["bot"]:
        raise Refusal(400, 50007, "Cannot send messages to this user")
    if not any(call.world.member(guild["id"], other) for guild in call.world.guilds_of(call.bot["id"])):
        raise missing_access()
    return call.world.channel_view(call.world.open_dm(call.bot["id"], other), call.bot["id"])
