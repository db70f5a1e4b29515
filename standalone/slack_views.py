"""Modal views: an app opens one in answer to a press or a command, and a person submits it."""

import secrets
import time

from slack_blocks import problems
from slack_state import new_id
from slack_web import SlackError, method

# A press or a command may be answered by a view for three seconds.
TRIGGER_FOR = 3


def trigger(slack, app, user):
    """A new `trigger_id`."""
    key = f"{secrets.randbelow(10**13)}.{secrets.randbelow(10**12)}.{secrets.token_hex(16)}"
    slack.interact.triggers[key] = {"app": app["id"], "user": user["id"], "until": time.monotonic() + TRIGGER_FOR, "used": False}
    return key


def checked(call):
    view = call.structure("view", "invalid_arguments")
    if not isinstance(view, dict) or view.get("type") != "modal" or not isinstance(view.get("title"), dict):
        raise SlackError("invalid_arguments")
    if len(view["title"].get("text", "")) > 24 or len(view.get("private_metadata", "")) > 3000 or len(view.get("blocks", [])) > 100:
        raise SlackError("invalid_arguments")
    if any(problems([block])[0] for block in view.get("blocks", [])):
        raise SlackError("invalid_arguments")
    return {"private_metadata": "", "callback_id": "", "state": {"values": {}}, **view}


@method("views.open", 4, kinds=("bot",), args="trigger_id view")
def open_view(call):
    used = call.slack.interact.triggers.get(call.text("trigger_id", needed=True))
    if not used or used["app"] != call.app["id"]:
        raise SlackError("invalid_trigger_id")
    if used["used"]:
        raise SlackError("exchanged_trigger_id")
    if used["until"] < time.monotonic():
        raise SlackError("expired_trigger_id")
    view = checked(call)
    used["used"] = True
    about = {"id": new_id("V"), "team_id": call.team, "app_id": call.app["id"], "bot_id": call.app["bot_id"]}
    view = {**view, **about, "hash": f"{int(time.time())}.{secrets.token_hex(4)}"}
    call.slack.interact.views[view["id"]] = {"view": view, "user": used["user"], "open": True}
    return {"view": view}


@method("views.update", 4, kinds=("bot",), args="view view_id hash external_id")
def update_view(call):
    opened = call.slack.interact.views.get(call.text("view_id"))
    if not opened or not opened["open"] or opened["view"]["app_id"] != call.app["id"]:
        raise SlackError("not_found")
    if call.text("hash") not in ("", opened["view"]["hash"]):
        raise SlackError("hash_conflict")
    opened["view"].update(checked(call), hash=f"{int(time.time())}.{secrets.token_hex(4)}")
    return {"view": opened["view"]}


async def submit(slack, channel, user, view_id, values):
    """Submits a view as the person to whom it was shown."""
    opened = slack.interact.views.get(view_id)
    if not opened or not opened["open"] or opened["user"] != user["id"]:
        return {"error": "there is no such view for this person"}
    app = slack.state.get("app", opened["view"]["app_id"])
    about = slack.interact.who(app, channel, user)
    about.pop("channel")
    view = {**opened["view"], "state": {"values": values}}
    payload = {"type": "view_submission", **about, "trigger_id": trigger(slack, app, user), "view": view, "response_urls": []}
    result = await slack.interact.deliver(app, "interactive", payload)
    if result["acknowledged"] and not (result["answer"] or {}).get("response_action"):
        opened["open"] = False
    return result
