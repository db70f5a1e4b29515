"""The routes of webhooks: made and listed by bots, executed by whoever has the token."""

import hashlib
import re
import secrets

from discord_api import Form, Refusal, missing_permissions, route, unknown
from discord_channels import add_thread
from discord_compose import attach, checked, create, mentions, view
from discord_interactions import answered, change_answer, follow, read_answer, remove_answer
from discord_messages import edit, remove, rich, wake
from discord_world import DM, FORUM, THREAD, THREADS

MAX_WEBHOOKS = 15
FORBIDDEN = ("clyde", "discord")


def check_name(form, name, required=False):
    """A name of a webhook. Discord cuts and joins its spaces, and keeps its own names for itself."""
    value = form.text(name, high=80, required=required)
    if value is None:
        return None
    value = re.sub(r"\s+", " ", value).strip()
    if not value and (required or form.body[name]):
        form.fail(name, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 80 in length.")
    for word in FORBIDDEN:
        if word in value.lower():
            form.fail(name, "USERNAME_INVALID_CONTAINS", f"Username cannot contain \"{word}\"")
    return value


def view_of(call, webhook, with_user=True):
    """A webhook as it is shown. Its token goes to the application that made it, and to whoever has it already."""
    shown = {key: value for key, value in webhook.items() if key != "user_id"}
    if call.bot and webhook["application_id"] != call.bot["id"]:
        shown.pop("token")
    if "token" in shown:
        shown["url"] = f"{call.world.address}/api/webhooks/{webhook['id']}/{webhook['token']}"
    if with_user:
        shown["user"] = call.world.user_view(webhook["user_id"])
    return shown


def changed(call, channel_id):
    channel = call.world.store.get("channels", channel_id)
    call.hub.publish("WEBHOOKS_UPDATE", channel, {"guild_id": channel["guild_id"], "channel_id": channel_id})


@route("POST", "/channels/{channel}/webhooks", 5, 10)
async def create_webhook(call):
    world = call.world
    channel = world.channel(call.args["channel"], call.bot)
    if channel["type"] in (DM, *THREADS):
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    world.channel(channel["id"], call.bot, "MANAGE_WEBHOOKS")
    form = Form(call.body)
    name = check_name(form, "name", required=True)
    form.close()
    if len(webhooks_in(world, channel["id"])) >= MAX_WEBHOOKS:
        raise Refusal(400, 30007, f"Maximum number of webhooks reached ({MAX_WEBHOOKS})")
    webhook = world.save("webhooks", {
        "id": world.store.snowflake(), "type": 1, "guild_id": channel["guild_id"], "channel_id": channel["id"], "name": name,
        "avatar": secrets.token_hex(16) if call.body.get("avatar") else None, "token": secrets.token_urlsafe(51),
        "application_id": call.bot["id"], "user_id": call.bot["id"],
    })
    changed(call, channel["id"])
    return view_of(call, webhook)


def webhooks_in(world, channel_id):
    return [one for one in world.store.all("webhooks") if one["channel_id"] == channel_id]


@route("GET", "/channels/{channel}/webhooks", 5, 5)
async def webhooks(call):
    channel = call.world.channel(call.args["channel"], call.bot, "MANAGE_WEBHOOKS")
    return [view_of(call, one) for one in webhooks_in(call.world, channel["id"])]


@route("GET", "/guilds/{guild}/webhooks", 5, 5)
async def guild_webhooks(call):
    guild = call.world.guild(call.args["guild"], call.bot)
    seen = [one for one in call.world.store.all("webhooks") if one["guild_id"] == guild["id"]]
    for one in seen:
        call.world.channel(one["channel_id"], call.bot, "MANAGE_WEBHOOKS")
    return [view_of(call, one) for one in seen]


def managed(call):
    """The webhook of a path without its token: the bot must be allowed to manage it."""
    webhook = call.world.store.get("webhooks", call.args["webhook"])
    if not webhook:
        raise unknown("Webhook")
    channel = call.world.store.get("channels", webhook["channel_id"])
    if not call.world.allows(call.bot["id"], channel, "MANAGE_WEBHOOKS"):
        raise missing_permissions()
    return webhook


def held(call):
    """The webhook whose token stands in the path."""
    webhook = call.world.store.get("webhooks", call.args["webhook"])
    if not webhook:
        raise unknown("Webhook")
    if not secrets.compare_digest(webhook["token"], call.args["token"]):
        raise Refusal(401, 50027, "Invalid Webhook Token")
    return webhook


@route("GET", "/webhooks/{webhook}", 5, 5)
async def webhook(call):
    return view_of(call, managed(call))


@route("GET", "/webhooks/{webhook}/{token}", 5, 5, auth="token")
async def webhook_with_token(call):
    return view_of(call, held(call), with_user=False)


def update(call, webhook, movable):
    form = Form(call.body)
    name = check_name(form, "name")
    moved = form.snowflake("channel_id") if movable else None
    form.close()
    webhook["name"] = name or webhook["name"]
    if "avatar" in call.body:
        webhook["avatar"] = secrets.token_hex(16) if call.body["avatar"] else None
    if moved:
        webhook["channel_id"] = call.world.channel(moved, call.bot, "MANAGE_WEBHOOKS")["id"]
    call.world.save("webhooks", webhook)
    changed(call, webhook["channel_id"])
    return webhook


@route("PATCH", "/webhooks/{webhook}", 5, 5)
async def change_webhook(call):
    return view_of(call, update(call, managed(call), movable=True))


@route("PATCH", "/webhooks/{webhook}/{token}", 5, 5, auth="token")
async def change_with_token(call):
    return view_of(call, update(call, held(call), movable=False), with_user=False)


def drop(call, webhook):
    call.world.store.drop("webhooks", webhook["id"])
    changed(call, webhook["channel_id"])


@route("DELETE", "/webhooks/{webhook}", 5, 5)
async def delete_webhook(call):
    drop(call, managed(call))


@route("DELETE", "/webhooks/{webhook}/{token}", 5, 5, auth="token")
async def delete_with_token(call):
    drop(call, held(call))


def viewer(call, webhook):
    """The application in whose name a webhook's messages are shown to whoever has its token."""
    return call.world.store.get("apps", webhook["application_id"]) or {"id": webhook["id"], "intents": []}


def place(call, webhook, name=None):
    """The channel that a webhook's message goes to: its own, a thread of it, or a new thread of a forum."""
    world = call.world
    channel = world.store.get("channels", webhook["channel_id"])
    form = Form(call.query)
    id = form.snowflake("thread_id")
    form.close()
    if id:
        thread = world.store.get("channels", id)
        if not thread or thread.get("parent_id") != channel["id"]:
            raise unknown("Channel")
        return wake(call, thread)
    if channel["type"] == FORUM:
        if not name:
            raise Refusal(400, 220001, "Webhooks posted to forum channels must have a thread_name or thread_id")
        return add_thread(world, call.hub, channel, name, webhook["id"], THREAD)
    if name:
        raise Refusal(400, 220003, "Webhooks can only create threads in forum channels")
    return channel


@route("POST", "/webhooks/{webhook}/{token}", 5, 2, auth="token", globally=False)
async def execute(call):
    state = answered(call)
    if state:
        return follow(call, state)
    world, webhook = call.world, held(call)
    form = Form(call.body)
    name = check_name(form, "username")
    avatar = form.text("avatar_url", high=2048)
    if avatar and not re.match(r"https?://[^\s/]+", avatar):
        form.fail("avatar_url", "URL_TYPE_INVALID_URL", "Not a well formed URL.")
    title = form.text("thread_name", high=100)
    form.close()
    parts = checked(call)
    channel = place(call, webhook, title)
    pings = mentions(world, channel, parts["content"], parts["allowed"], ("users",), True)
    author = {
        "id": webhook["id"], "username": name or webhook["name"], "global_name": None, "discriminator": "0000", "bot": True,
        # Discord keeps the picture of an address, and shows its hash.
        "avatar": hashlib.md5(avatar.encode()).hexdigest() if avatar else webhook["avatar"], "public_flags": 0, "flags": 0,
    }
    message = create(
        world, channel, author, parts["content"], raw=call.body.get("content"), pings=pings,
        attachments=attach(world, channel["id"], call.files, parts["described"]), embeds=rich(parts["embeds"]),
        components=parts["components"] or [], flags=parts["flags"], webhook_id=webhook["id"],
        application_id=webhook["application_id"], _avatar_url=avatar,
    )
    call.hub.message("MESSAGE_CREATE", message)
    return view(world, message, viewer(call, webhook)) if call.asked("wait") else None


def sent_by(call, webhook):
    """A message of a path that this webhook has sent, and its channel."""
    channel = place_of_old(call, webhook)
    message = call.world.message(channel["id"], call.args["message"])
    if message.get("webhook_id") != webhook["id"]:
        raise unknown("Message")
    return message, channel


def place_of_old(call, webhook):
    id = call.query.get("thread_id")
    channel = call.world.store.get("channels", id or webhook["channel_id"])
    if not channel or webhook["channel_id"] not in (channel["id"], channel.get("parent_id")):
        raise unknown("Channel")
    return channel


@route("GET", "/webhooks/{webhook}/{token}/messages/{message}", 5, 5, auth="token", globally=False)
async def sent(call):
    state = answered(call)
    if state:
        return read_answer(call, state)
    webhook = held(call)
    return view(call.world, sent_by(call, webhook)[0], viewer(call, webhook))


@route("PATCH", "/webhooks/{webhook}/{token}/messages/{message}", 5, 5, auth="token", globally=False)
async def change_sent(call):
    state = answered(call)
    if state:
        return change_answer(call, state)
    webhook = held(call)
    message, channel = sent_by(call, webhook)
    wake(call, channel)
    return view(call.world, edit(call, message, channel, ("users",)), viewer(call, webhook))


@route("DELETE", "/webhooks/{webhook}/{token}/messages/{message}", 5, 5, auth="token", globally=False)
async def delete_sent(call):
    state = answered(call)
    if state:
        return remove_answer(call, state)
    remove(call, sent_by(call, held(call))[0])
