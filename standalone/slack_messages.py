"""What happens to messages, whoever does it: they are posted, changed, deleted, reacted to, and apps are told."""

import time
import uuid

from slack_text import mentions, shown, stored

ADVICE = 4000
LIMIT = 40_000


def key(channel, ts):
    return f"{channel['id']} {ts}"


def save(slack, channel, record):
    slack.state.put("message", key(channel, record["message"]["ts"]), record)


def rich(text):
    """The block of which a person's message consists."""
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return [{"type": "rich_text", "block_id": uuid.uuid4().hex[:5], "elements": [section]}]


def by_person(slack, channel, user, text):
    """The body of a message that a person writes."""
    body = {"type": "message", "user": user["id"], "text": stored(text), "team": channel["team"]}
    return {**body, "client_msg_id": str(uuid.uuid4()), "blocks": rich(shown(body["text"], slack.state))}


def post(slack, channel, body, thread=None, broadcast=False, sent=None):
    """Adds a message to a channel and tells the apps of it."""
    message = {**body, "ts": slack.state.stamp()}
    odd = ["over 4,000 characters"] if len(message.get("text", "")) > ADVICE else []
    if thread:
        message["thread_ts"] = thread
        parent = slack.state.message(channel["id"], thread)
        if parent:
            message["parent_user_id"] = parent["message"].get("user", "")
            join_thread(slack, channel, parent, message)
        if not parent:
            odd.append("thread_ts names no message")
        elif parent["message"].get("thread_ts", thread) != thread:
            odd.append("thread_ts names a reply")
        if broadcast:
            message = {**message, "subtype": "thread_broadcast"}
            message["root"] = parent["message"] if parent else {}
    record = {"message": message, "sent": sent or {}, "arrived": time.time(), "deleted": False, "edits": [], "odd": odd}
    save(slack, channel, record)
    slack.events.message(channel, {**message, "event_ts": message["ts"]})
    return record


def join_thread(slack, channel, parent, reply):
    top = parent["message"]
    if top.get("thread_ts", top["ts"]) != top["ts"]:
        return
    users = top.get("reply_users", [])
    author = reply.get("user") or reply.get("bot_id")
    top.update(
        thread_ts=top["ts"], reply_count=top.get("reply_count", 0) + 1, latest_reply=reply["ts"], is_locked=False,
        reply_users=users if author in users else [*users, author], subscribed=False,
    )  # fmt: skip
    top["reply_users_count"] = len(top["reply_users"])
    save(slack, channel, parent)


def changed(slack, channel, message, previous, subtype="message_changed"):
    ts = slack.state.stamp()
    event = {"type": "message", "subtype": subtype, "hidden": True, "ts": ts, "event_ts": ts, "previous_message": previous}
    event.update({"deleted_ts": previous["ts"]} if subtype == "message_deleted" else {"message": message})
    slack.events.message(channel, event)


def edit(slack, channel, record, fields, by, is_marked=True):
    """Changes a message. Slack tells of an unfurled link in the same way, without `edited`."""
    previous = dict(record["message"])
    record["edits"].append({"text": previous.get("text", ""), "at": time.time()})
    message = {name: value for name, value in {**previous, **fields}.items() if value is not None}
    if is_marked:
        message["edited"] = {"user": by, "ts": slack.state.stamp()}
    record["message"] = message
    save(slack, channel, record)
    changed(slack, channel, message, previous)


def delete(slack, channel, record):
    """Deletes a message. One that has a thread leaves a tombstone."""
    previous = dict(record["message"])
    if previous.get("reply_count"):
        kept = ("thread_ts", "reply_count", "reply_users", "reply_users_count", "latest_reply", "ts", "is_locked")
        message = {name: previous[name] for name in kept if name in previous}
        message.update(type="message", subtype="tombstone", user="USLACKBOT", hidden=True, text="This message was deleted.")
        record["message"], record["buried"] = message, previous
        save(slack, channel, record)
        return changed(slack, channel, message, previous)
    record["deleted"] = True
    save(slack, channel, record)
    parent = slack.state.message(channel["id"], previous.get("thread_ts", ""))
    if parent and parent["message"].get("reply_count"):
        parent["message"]["reply_count"] -= 1
        save(slack, channel, parent)
    changed(slack, channel, None, previous, "message_deleted")


def react(slack, channel, record, user, name, is_added):
    """Adds or removes a reaction; `False` where it is as it was."""
    reactions = record["message"].setdefault("reactions", [])
    entry = next((one for one in reactions if one["name"] == name), None)
    if is_added == bool(entry and user in entry["users"]):
        return False
    if not entry:
        entry = {"name": name, "users": [], "count": 0}
        reactions.append(entry)
    if is_added:
        entry["users"].append(user)
    else:
        entry["users"].remove(user)
    entry["count"] = len(entry["users"])
    record["message"]["reactions"] = [one for one in reactions if one["count"]]
    if not record["message"]["reactions"]:
        del record["message"]["reactions"]
    save(slack, channel, record)
    slack.events.reaction(channel, record["message"], user, name, is_added)
    return True


def notice(slack, channel, user, subtype, text, **more):
    """A message of Slack's own about the channel, as for a new topic."""
    body = {"type": "message", "subtype": subtype, "user": user, "text": text, "team": channel["team"], **more}
    return post(slack, channel, body)


def view(slack, channel, record):
    """A message as the control API shows it."""
    message = record.get("buried") or record["message"]
    user = slack.state.get("user", message.get("user", "")) or {}
    return {
        "channel": channel["id"], "ts": message["ts"], "thread": message.get("thread_ts"), "subtype": message.get("subtype"),
        "author": message.get("user") or message.get("bot_id"), "isBot": bool(message.get("bot_id")),
        "name": message.get("username") or user.get("display_name", ""), "icons": message.get("icons"),
        "text": message.get("text", ""), "sent": record["sent"].get("text"), "shown": shown(message.get("text", ""), slack.state),
        "notifies": mentions(message, record["sent"]), "blocks": message.get("blocks", []),
        "metadata": message.get("metadata"), "reactions": message.get("reactions", []),
        "files": [one["id"] for one in message.get("files", [])], "ephemeralTo": record.get("ephemeral"),
        "edited": bool(message.get("edited")), "edits": record["edits"], "odd": record["odd"],
        "deleted": record["deleted"] or "buried" in record, "arrived": record["arrived"],
    }  # fmt: skip
