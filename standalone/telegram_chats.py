"""The methods about the bot itself, chats, members, topics and webhooks. Each takes a Call and gives the result."""

import ipaddress
from urllib.parse import urlparse

from telegram_call import bad
from telegram_shapes import PRESENT, full_chat_json, member_json, user_json
from telegram_updates import Conflict

LONGEST_NAME, LONGEST_DESCRIPTION = 128, 255
COLOR = 7322096


def get_me(call):
    return user_json(call.bot, own=True)


async def get_updates(call):
    updates = call.world.updates[call.bot["id"]]
    if call.get("allowed_updates") and not updates.webhook:
        updates.allow(call.get("allowed_updates"))
    return await updates.poll(call.integer("offset"), call.integer("limit", 100), call.integer("timeout"), call.world)


def set_webhook(call):
    """Only as far as it hinders polling: nothing is ever sent to the address."""
    url = urlparse(call.get("url"))
    if not call.get("url"):
        return delete_webhook(call)
    try:
        local = ipaddress.ip_address(url.hostname or "").is_private
    except ValueError:
        local = url.hostname == "localhost"
    if url.scheme != "https" or not url.hostname or local:
        raise bad("Bad webhook: An HTTPS URL must be provided for webhook")
    updates = call.world.updates[call.bot["id"]]
    updates.webhook = call.get("url")
    updates.fail(Conflict("Conflict: terminated by setWebhook request"))
    return True


def delete_webhook(call):
    updates = call.world.updates[call.bot["id"]]
    updates.webhook = ""
    if call.truth("drop_pending_updates"):
        updates.queue.clear()
    return True


def get_webhook_info(call):
    updates = call.world.updates[call.bot["id"]]
    return {"url": updates.webhook, "has_custom_certificate": False, "pending_update_count": len(updates.queue),
            "allowed_updates": sorted(updates.allowed)}


def get_chat(call):
    return full_chat_json(call.world, call.chat(write=False))


def get_chat_member(call):
    user = call.world.users.get(call.integer("user_id"))
    if not call.get("user_id"):
        raise bad("Invalid user_id specified")
    chat = call.chat(write=False)
    if not user:
        raise bad("PARTICIPANT_ID_INVALID")
    if chat["type"] == "private":
        raise bad("Member not found")
    return member_json(call.world, chat, user["id"])


def get_chat_administrators(call):
    chat = call.chat(write=False)
    if chat["type"] == "private":
        raise bad("There are no administrators in the private chat")
    # Other bots are left out.
    return [member_json(call.world, chat, one) for one, member in chat["members"].items()
            if member["status"] in ("creator", "administrator")
            and (one == call.bot["id"] or not call.world.users[one]["bot"])]


def get_chat_member_count(call):
    chat = call.chat(write=False)
    return 2 if chat["type"] == "private" else sum(one["status"] in PRESENT for one in chat["members"].values())


def leave_chat(call):
    chat = call.chat()
    if chat["type"] == "private":
        raise bad("Chat member status can't be changed in private chats")
    call.world.set_member(chat, call.bot, "left")
    return True


def cleaned_name(name):
    """Names have one line, no blanks at their ends and a limited length; what exceeds it is cut off."""
    return " ".join(name.split())[:LONGEST_NAME].strip()


def set_chat_title(call):
    chat, title = call.chat(), cleaned_name(call.get("title"))
    if chat["type"] == "private":
        raise bad("Can't change private chat title")
    if not title:
        raise bad("Title must be non-empty")
    call.need(chat, "can_change_info", "Not enough rights to change chat title")
    if title == chat["title"]:
        raise bad("CHAT_NOT_MODIFIED")
    chat["title"] = title
    call.world.post(chat, call.bot, service={"new_chat_title": title})
    return True


def set_chat_description(call):
    chat, description = call.chat(), call.get("description").strip()[:LONGEST_DESCRIPTION]
    if chat["type"] == "private":
        raise bad("Can't change private chat description")
    call.need(chat, "can_change_info", "Not enough rights to set chat description")
    if description == chat["description"]:
        raise bad("Chat description is not modified")
    chat["description"] = description
    return True


def forum(call):
    chat = call.chat()
    if not chat.get("forum"):
        raise bad("The chat is not a forum")
    return chat


def topic(call, chat, refusal, right="can_manage_topics"):
    """The topic that is to be changed, which its creator may do without the right to it."""
    found = chat["topics"].get(call.integer("message_thread_id"))
    if not found:
        raise bad("TOPIC_ID_INVALID")
    if found["creator"] != call.bot["id"]:
        call.need(chat, right, refusal)
    return found


def create_forum_topic(call):
    chat, name = forum(call), cleaned_name(call.get("name"))
    if not name:
        raise bad("Title must be non-empty")
    call.need(chat, "can_manage_topics", "Not enough rights to create a topic")
    call.charge(chat)
    created = new_topic(call.world, chat, call.bot, name, call.integer("icon_color") or COLOR)
    return {key: created[key] for key in ("message_thread_id", "name", "icon_color")}


def new_topic(world, chat, author, name, color=COLOR):
    """Opens a topic. Its number is that of the service message that announces it."""
    shape = {"name": name, "icon_color": color}
    message = world.post(chat, author, service={"forum_topic_created": shape})
    chat["topics"][message["id"]] = {**shape, "message_thread_id": message["id"], "closed": False, "creator": author["id"]}
    return chat["topics"][message["id"]]


def edit_forum_topic(call):
    chat = forum(call)
    found, name = topic(call, chat, "Not enough rights to edit the topic"), cleaned_name(call.get("name"))
    if name in ("", found["name"]) and "icon_custom_emoji_id" not in call.args:
        raise bad("TOPIC_NOT_MODIFIED")
    rename_topic(call.world, chat, call.bot, found, name or found["name"])
    return True


def rename_topic(world, chat, author, found, name):
    found["name"] = name
    world.post(chat, author, thread=found["message_thread_id"], service={"forum_topic_edited": {"name": name}})


def set_closed(world, chat, author, found, closed):
    found["closed"] = closed
    service = {"forum_topic_closed" if closed else "forum_topic_reopened": {}}
    world.post(chat, author, thread=found["message_thread_id"], service=service)


def close_or_reopen(closed):
    def method(call):
        chat = forum(call)
        found = topic(call, chat, "Not enough rights to close or open the topic")
        if found["closed"] == closed:
            raise bad("TOPIC_NOT_MODIFIED")
        set_closed(call.world, chat, call.bot, found, closed)
        return True
    return method


def delete_forum_topic(call):
    chat = forum(call)
    thread = topic(call, chat, "Not enough rights to delete the topic", "can_delete_messages")["message_thread_id"]
    del chat["topics"][thread]
    for message in chat["messages"].values():
        message["deleted"] |= message.get("thread") == thread
    return True


METHODS = {
    "getme": get_me, "getupdates": get_updates, "setwebhook": set_webhook, "deletewebhook": delete_webhook,
    "getwebhookinfo": get_webhook_info, "getchat": get_chat, "getchatmember": get_chat_member,
    "getchatadministrators": get_chat_administrators, "getchatmembercount": get_chat_member_count,
    "leavechat": leave_chat, "setchattitle": set_chat_title, "setchatdescription": set_chat_description,
    "createforumtopic": create_forum_topic, "editforumtopic": edit_forum_topic,
    "closeforumtopic": close_or_reopen(True), "reopenforumtopic": close_or_reopen(False),
    "deleteforumtopic": delete_forum_topic,
}
