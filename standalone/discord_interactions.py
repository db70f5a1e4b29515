"""Interactions: a person presses a button or uses a command, the application answers within three seconds."""

import asyncio
import secrets
import time

from discord_api import Form, Refusal, route, unknown
from discord_compose import EPHEMERAL, LARGEST, SETTABLE, attach, checked, create, mentions, view
from discord_messages import edit, remove, rich
from discord_world import DM, EVERYTHING

COMMAND, COMPONENT = 2, 3
PONG, MESSAGE, DEFER, DEFER_UPDATE, UPDATE, CHOICES, MODAL, LAUNCH = 1, 4, 5, 6, 7, 8, 9, 12
TOKEN_LASTS = 15 * 60


class Interactions:
    """The interactions that were begun, by id."""

    def __init__(self, world, hub):
        self.world = world
        self.hub = hub
        self.begun = {}

    def begin(self, app, user_id, channel, kind, data, message=None):
        """Sends an interaction to an application, and gives what is known of it."""
        world, id = self.world, self.world.store.snowflake()
        guild_id = channel.get("guild_id")
        interaction = {
            "id": id, "application_id": app["id"], "type": kind, "token": secrets.token_urlsafe(96), "version": 1, "data": data,
            "channel_id": channel["id"], "channel": {**world.channel_view(channel, app["id"]), "permissions": str(EVERYTHING)},
            "app_permissions": str(world.may(app["id"], channel)), "locale": "en-US", "entitlements": [],
            "authorizing_integration_owners": {"0": guild_id or "0"}, "context": 1 if channel["type"] == DM else 0,
            "attachment_size_limit": LARGEST,
        }
        if guild_id:
            permissions = str(world.may(user_id, channel))
            interaction["member"] = {**world.member_view(guild_id, user_id), "permissions": permissions}
            interaction["guild_id"], interaction["guild_locale"] = guild_id, "en-US"
            interaction["guild"] = {"id": guild_id, "locale": "en-US", "features": []}
        else:
            interaction["user"] = world.user_view(user_id)
        if message:
            interaction["message"] = view(world, message, app, allowed=True)
        state = {
            "id": id, "app": app["id"], "token": interaction["token"], "user": user_id, "channel": channel["id"], "kind": kind,
            "at": time.monotonic(), "within": self.hub.settings["interaction"], "answer": None, "ephemeral": False,
            "original": None, "messages": [], "source": message and message["id"], "done": asyncio.Event(),
            "command": data.get("name"), "modal": None,
        }
        self.begun[id] = state
        self.hub.to_app(app["id"], "INTERACTION_CREATE", interaction)
        asyncio.get_running_loop().call_later(state["within"], state["done"].set)
        return state

    def with_token(self, app_id, token):
        for state in self.begun.values():
            if state["app"] == app_id and secrets.compare_digest(state["token"], token):
                return state
        return None

    def report(self, state):
        """The outcome of an interaction, for the tests."""
        late = time.monotonic() - state["at"] > state["within"]
        standing = "answered" if state["answer"] else "failed" if late else "waiting"
        shown = [self.world.store.get("messages", one) for one in state["messages"]]
        return {
            "id": state["id"], "state": standing, "type": state["answer"], "ephemeral": state["ephemeral"], "modal": state["modal"],
            "messages": [
                {"id": one["id"], "text": one["content"], "only": one.get("_only"), "deleted": bool(one.get("_deleted"))} for one in shown
            ],
        }


@route("POST", "/interactions/{interaction}/{token}/callback", auth="token", globally=False)
async def answer(call):
    state = call.hub.interactions.begun.get(call.args["interaction"])
    if not state or not secrets.compare_digest(state["token"], call.args["token"]):
        raise unknown("interaction")
    if state["answer"]:
        raise Refusal(400, 40060, "Interaction has already been acknowledged.")
    if time.monotonic() - state["at"] > state["within"]:
        raise unknown("interaction")
    kinds = (MESSAGE, DEFER, MODAL, LAUNCH) if state["kind"] == COMMAND else (MESSAGE, DEFER, DEFER_UPDATE, UPDATE, MODAL, LAUNCH)
    form = Form(call.body)
    kind = form.choice("type", kinds)
    if kind is None:
        form.fail("type", "BASE_TYPE_REQUIRED", "This field is required")
    form.close()
    call.body, call.bot = call.body.get("data") or {}, None
    message = None
    if kind == MODAL:
        check_modal(call.body)
        state["modal"] = call.body
    elif kind == MESSAGE:
        message = say(call, state)
        state["original"] = message["id"]
    elif kind in (UPDATE, DEFER_UPDATE):
        state["original"] = state["source"]
        if kind == UPDATE:
            message = change(call, state, state["source"])
    else:
        state["ephemeral"] = bool(call.body.get("flags", 0) & EPHEMERAL)
    state["answer"] = kind
    state["done"].set()
    if not call.asked("with_response"):
        return None
    shown = {"interaction": {"id": state["id"], "type": state["kind"], "response_message_id": state["original"]}}
    shown["resource"] = {"type": kind, **({"message": shown_to(call, state, message)} if message else {})}
    return shown


def check_modal(body):
    form = Form(body)
    form.text("custom_id", low=1, high=100, required=True, path="data.custom_id")
    form.text("title", low=1, high=45, required=True, path="data.title")
    if not body.get("components"):
        form.fail("data.components", "BASE_TYPE_REQUIRED", "This field is required")
    form.close()


def shown_to(call, state, message):
    return view(call.world, message, call.world.store.get("apps", state["app"]), allowed=True)


def say(call, state):
    """A message that answers an interaction; an ephemeral one is shown to its person alone."""
    world, app = call.world, call.world.store.get("apps", state["app"])
    channel = world.store.get("channels", state["channel"])
    parts = checked(call, SETTABLE | EPHEMERAL)
    if not state["messages"] and state["answer"] == DEFER:
        # The first message after a deferral is what was deferred.
        parts["flags"] = parts["flags"] & ~EPHEMERAL | (EPHEMERAL if state["ephemeral"] else 0)
    hidden = bool(parts["flags"] & EPHEMERAL)
    state["ephemeral"] = hidden or state["ephemeral"]
    pings = mentions(world, channel, parts["content"], parts["allowed"], ("users",), world.allows(app["id"], channel, "MENTION_EVERYONE"))
    about = {
        "id": state["id"], "type": state["kind"], "user": world.user_view(state["user"]),
        "authorizing_integration_owners": {"0": channel.get("guild_id") or "0"},
        **({"name": state["command"]} if state["command"] else {"interacted_message_id": state["source"]}),
    }
    message = create(
        world, channel, world.user_view(app["id"]), parts["content"], raw=call.body.get("content"), pings=pings,
        reply=world.store.get("messages", state["source"]) if state["source"] else None,
        attachments=attach(world, channel["id"], call.files, parts["described"]), embeds=rich(parts["embeds"]),
        components=parts["components"] or [], flags=parts["flags"], application_id=app["id"], webhook_id=app["id"],
        interaction_metadata=about, **({"_only": state["user"]} if hidden else {}), **({"type": 20} if state["command"] else {}),
    )
    state["messages"].append(message["id"])
    if not hidden:
        call.hub.message("MESSAGE_CREATE", message)
    return message


def change(call, state, id):
    message = call.world.store.get("messages", id)
    if not message or message.get("_deleted"):
        raise unknown("Message")
    return edit(call, message, call.world.store.get("channels", state["channel"]), ("users",))


def answered(call):
    """The interaction whose token stands in a webhook's path, if it is one's: it must be answered, and not be over."""
    state = call.hub.interactions.with_token(call.args["webhook"], call.args["token"])
    if state and time.monotonic() - state["at"] > TOKEN_LASTS:
        raise Refusal(401, 50027, "Invalid Webhook Token")
    if state and not state["answer"]:
        raise unknown("Webhook")
    return state


def follow(call, state):
    """One more message of an interaction."""
    message = say(call, state)
    if state["original"] is None:
        state["original"] = message["id"]
    return shown_to(call, state, message)


def meant(call, state):
    """The id of the message in a path: `@original` is the first answer."""
    id = state["original"] if call.args["message"] == "@original" else call.args["message"]
    if id is None and call.args["message"] == "@original" and state["answer"] == DEFER:
        return None
    if id not in (*state["messages"], state["original"]) or id is None:
        raise unknown("Message")
    return id


def read_answer(call, state):
    message = call.world.store.get("messages", meant(call, state))
    if not message or message.get("_deleted"):
        raise unknown("Message")
    return shown_to(call, state, message)


def change_answer(call, state):
    id = meant(call, state)
    if id is None:
        # Editing what is deferred makes it.
        return follow(call, state)
    return shown_to(call, state, change(call, state, id))


def remove_answer(call, state):
    message = call.world.store.get("messages", meant(call, state))
    if not message or message.get("_deleted"):
        raise unknown("Message")
    remove(call, message)
