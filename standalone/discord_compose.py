"""A body becomes a message: content, mentions, attachments, and how one viewer is shown the result."""

import base64
import hashlib
import hmac
import re
import time

from discord_api import Form, Refusal, empty_message
from discord_parts import COMPONENTS_V2, check_allowed_mentions, check_components, check_embeds
from discord_store import EPOCH, stamp
from discord_world import DM

# The largest file in a server that nobody boosts.
LARGEST = 10 << 20
SUPPRESS_EMBEDS, EPHEMERAL, SILENT, VOICE = 1 << 2, 1 << 6, 1 << 12, 1 << 13
SETTABLE = SUPPRESS_EMBEDS | SILENT | VOICE | COMPONENTS_V2
SIGNED_WITH = b"the stand-in's own key"
DAY = 24 * 3600


def checked(call, settable=SETTABLE, creates=True):
    """The parts of a message in a body. Refuses what Discord refuses."""
    form = Form(call.body)
    flags = form.number("flags", 0, 1 << 31, 0) & settable
    parts = {
        "content": form.text("content", high=2000),
        "embeds": call.body.get("embeds"),
        "components": call.body.get("components"),
        "allowed": check_allowed_mentions(form),
        "flags": flags,
    }
    check_embeds(form)
    check_components(form, flags)
    if flags & COMPONENTS_V2 and (parts["content"] or parts["embeds"]):
        form.fail("content", "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", "The 'content' field cannot be used")
    described = check_attachments(call, form, creates)
    form.close()
    for file in call.files.values():
        if len(file["data"]) > LARGEST:
            raise Refusal(413, 40005, "Request entity too large")
    parts["described"] = described
    # Discord cuts spaces off both ends before it keeps a message.
    parts["content"] = None if parts["content"] is None else parts["content"].strip()
    if creates and not (parts["content"] or parts["embeds"] or parts["components"] or call.files):
        raise empty_message()
    return parts


def check_attachments(call, form, creates):
    """The `attachments` of a body: each new one names a file of the form, each kept one an attachment of the message."""
    described = {}
    for at, one in form.objects("attachments", 10):
        number = form.snowflake("id", path=f"attachments.{at}.id", body=one)
        form.text("description", high=1024, path=f"attachments.{at}.description", body=one)
        if number is not None:
            described[number] = one
            if creates and number not in call.files:
                text = f"Could not find an attachment with id {number}."
                form.fail(f"attachments.{at}.id", "MESSAGE_ATTACHMENT_NOT_FOUND", text)
    if len(call.files) > 10:
        form.fail("files", "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
    return described


def attach(world, channel_id, files, described):
    """Keeps the files of a form and gives the message's attachments."""
    kept = []
    for number, file in files.items():
        meant = described.get(number) or {}
        id = world.store.snowflake()
        name = re.sub(r"[^A-Za-z0-9_.\-]", "", (meant.get("filename") or file["name"]).replace(" ", "_")) or "unknown"
        data = base64.b64encode(file["data"]).decode()
        length = file.get("length", 0)
        world.save("files", {"id": id, "channel_id": channel_id, "name": name, "type": file["type"], "data": data, "length": length})
        kept.append({
            "id": id, "filename": name, "size": file.get("claimed", len(file["data"])), "content_type": file["type"],
            "content_scan_version": 0, **({"description": meant["description"]} if meant.get("description") else {}),
        })
    return kept


def signed(world, channel_id, attachment, lasts=DAY):
    """The address of an attachment, which holds for a day."""
    until = f"{int(time.time()) + lasts:x}"
    path = f"/attachments/{channel_id}/{attachment['id']}/{attachment['filename']}"
    query = f"ex={until}&is={int(time.time()):x}&hm={signature(path, until)}&"
    return f"{world.address}{path}?{query}"


def signature(path, until):
    return hmac.new(SIGNED_WITH, f"{path} {until}".encode(), hashlib.sha256).hexdigest()


def mentions(world, channel, text, allowed, default, everyone_may, reply=None):
    """Returns the ids of the users and roles that a text notifies, and if it notifies everyone."""
    text = text or ""
    chosen = {"parse": default, "replied_user": True} if allowed is None else allowed
    parse = chosen.get("parse") or []

    def meant(kind, found):
        if kind in parse:
            return found
        return [one for one in found if one in [str(id) for id in chosen.get(kind) or []]]

    users = [one for one in re.findall(r"<@!?(\d+)>", text) if world.store.get("users", one)]
    users = meant("users", users)
    if reply and chosen.get("replied_user") and not reply.get("webhook_id"):
        users.append(reply["author"]["id"])
    roles, everyone = [], False
    if channel["type"] != DM:
        known = {role["id"]: role for role in world.store.get("guilds", channel["guild_id"])["roles"]}
        roles = [one for one in re.findall(r"<@&(\d+)>", text) if one in known]
        roles = [one for one in meant("roles", roles) if everyone_may or known[one]["mentionable"]]
        everyone = everyone_may and "everyone" in parse and bool(re.search(r"@(everyone|here)", text))
    return list(dict.fromkeys(users)), list(dict.fromkeys(roles)), everyone


def create(world, channel, author, content="", *, reply=None, raw=None, pings=((), (), False), **more):
    """Keeps a new message of a channel."""
    users, roles, everyone = pings
    id = world.store.snowflake()
    message = {
        "id": id, "channel_id": channel["id"], "author": author, "content": content or "", "timestamp": stamp(id),
        "edited_timestamp": None, "tts": False, "mention_everyone": everyone, "mentions": list(users),
        "mention_roles": list(roles), "attachments": [], "embeds": [], "pinned": False, "type": 0, "flags": 0,
        "components": [], "_raw": raw if raw is not None else content or "", "_arrived": time.time(), "_reactions": {}, **more,
    }
    if reply:
        message["type"] = 19
        message["message_reference"] = {"type": 0, "channel_id": channel["id"], "message_id": reply["id"]}
        if "guild_id" in channel:
            message["message_reference"]["guild_id"] = channel["guild_id"]
    world.save("messages", message)
    if not message.get("_only"):
        world.history.setdefault(channel["id"], []).append(id)
        channel["last_message_id"] = id
        world.save("channels", channel)
    return message


def may_read(message, app, channel, allowed):
    """Tells if an application sees the content of a message. `allowed` says that it has MESSAGE_CONTENT."""
    own = message["author"]["id"] == app["id"] or message.get("application_id") == app["id"]
    return allowed or own or channel["type"] == DM or app["id"] in message["mentions"]


def view(world, message, app, allowed=None, deep=True):
    """A message as an application is shown it. `allowed` overrides the privileged intent of the application."""
    channel = world.store.get("channels", message["channel_id"])
    allowed = "MESSAGE_CONTENT" in app["intents"] if allowed is None else allowed
    shown = {key: value for key, value in message.items() if not key.startswith("_") and key != "nonce"}
    shown["mentions"] = [world.user_view(one) for one in message["mentions"]]
    if may_read(message, app, channel, allowed):
        shown["attachments"] = []
        for one in message["attachments"]:
            url = signed(world, channel["id"], one)
            shown["attachments"].append({**one, "url": url, "proxy_url": url})
    else:
        shown.update(content="", attachments=[], embeds=[], components=[])
    if message["_reactions"]:
        shown["reactions"] = [
            {
                "emoji": emoji(key), "count": len(by), "count_details": {"normal": len(by), "burst": 0},
                "me": app["id"] in by, "me_burst": False, "burst_colors": [],
            }
            for key, by in message["_reactions"].items()
        ]
    if deep and message["type"] == 19:
        answered = world.store.get("messages", message["message_reference"]["message_id"])
        gone = not answered or answered.get("_deleted")
        shown["referenced_message"] = None if gone else view(world, answered, app, allowed, deep=False)
    thread = world.store.get("channels", message["id"])
    if thread:
        shown["thread"] = world.channel_view(thread, app["id"])
    return shown


def emoji(key):
    """The emoji of a reaction: a character, or `name:id` of a server's own."""
    name, _, id = key.partition(":")
    return {"id": id or None, "name": name}


def age(snowflake):
    """Seconds since a snowflake was made."""
    return time.time() - ((int(snowflake) >> 22) + EPOCH) / 1000
