"""The JSON that Telegram makes of users, chats, messages and members."""

import base64

ANONYMOUS = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
RIGHTS = ["can_manage_chat", "can_change_info", "can_delete_messages", "can_invite_users", "can_restrict_members",
          "can_pin_messages", "can_manage_topics", "can_promote_members", "can_manage_video_chats", "can_post_stories",
          "can_edit_stories", "can_delete_stories", "can_manage_tags"]
PERMISSIONS = ["can_send_messages", "can_send_audios", "can_send_documents", "can_send_photos", "can_send_videos",
               "can_send_video_notes", "can_send_voice_notes", "can_send_polls", "can_send_other_messages",
               "can_add_web_page_previews", "can_change_info", "can_invite_users", "can_pin_messages", "can_manage_topics"]
PRESENT = ("creator", "administrator", "member", "restricted")


def user_json(user, own=False):
    shape = {"id": user["id"], "is_bot": user["bot"], "first_name": user["name"]}
    shape.update({key: user[key] for key in ("last_name", "username", "language_code") if user.get(key)})
    if own:
        shape.update(can_join_groups=True, can_read_all_group_messages=not user["privacy"], supports_inline_queries=False,
                     supports_guest_queries=False, can_connect_to_business=False, has_main_web_app=False,
                     has_topics_enabled=False, allows_users_to_create_topics=False, can_manage_bots=False)
    return shape


def chat_json(world, chat):
    if chat["type"] == "private":
        person = user_json(world.users[chat["person"]])
        return {**{key: value for key, value in person.items() if key not in ("is_bot", "language_code")}, "type": "private"}
    shape = {"id": chat["id"], "title": chat["title"], "type": chat["type"]}
    if chat.get("username"):
        shape["username"] = chat["username"]
    if chat.get("forum"):
        shape["is_forum"] = True
    if chat["type"] == "group":
        shape.update(all_members_are_administrators=False)
    return shape


def full_chat_json(world, chat):
    """What getChat gives."""
    shape = {**chat_json(world, chat), "accent_color_id": 0, "max_reaction_count": 11,
             "accepted_gift_types": dict.fromkeys(["unlimited_gifts", "limited_gifts", "unique_gifts",
                                                   "premium_subscription", "gifts_from_channels"], False)}
    if chat["type"] != "private":
        shape["permissions"] = {one: one not in chat["denied"] for one in PERMISSIONS}
        if chat["description"]:
            shape["description"] = chat["description"]
    return shape


def member_json(world, chat, user_id):
    member = chat["members"].get(user_id, {"status": "left"})
    shape = {"user": user_json(world.users[user_id]), "status": member["status"]}
    if member["status"] == "creator":
        shape["is_anonymous"] = False
    elif member["status"] == "administrator":
        shape.update(can_be_edited=False, is_anonymous=False, **{one: one in member["rights"] for one in RIGHTS})
    elif member["status"] == "kicked":
        shape["until_date"] = 0
    elif member["status"] == "restricted":
        shape.update(is_member=True, until_date=0, **{one: False for one in PERMISSIONS})
    return shape


def file_id(bot_id, number):
    """Each bot has its own identifier of a file, which is worth nothing to another bot."""
    return "BQACAgIAAxk" + base64.urlsafe_b64encode(f"{bot_id}:{number}".encode()).decode().rstrip("=")


def file_json(bot_id, file):
    return {"file_id": file_id(bot_id, file["number"]), "file_unique_id": f"AgAD{file['number']:08d}",
            "file_size": file["size"]}


def entities_json(world, entities):
    shapes = []
    for one in entities:
        if one["type"] == "text_mention":
            user = user_json(world.users[one["user_id"]])
            one = {"offset": one["offset"], "length": one["length"], "type": "text_mention", "user": user}
        shapes.append(one)
    return shapes


def origin_json(world, origin):
    """`forward_origin`, and the older fields that say the same."""
    if origin["type"] == "user":
        user = user_json(world.users[origin["user"]])
        said, older = {"sender_user": user}, {"forward_from": user}
    elif origin["type"] == "hidden_user":
        said, older = {"sender_user_name": origin["name"]}, {"forward_sender_name": origin["name"]}
    else:
        chat = {"id": origin["chat"], "title": origin["title"], "type": "channel"}
        said = {"chat": chat, "message_id": origin["message_id"]}
        older = {"forward_from_chat": chat, "forward_from_message_id": origin["message_id"]}
    return {"forward_origin": {"type": origin["type"], **said, "date": origin["date"]}, **older,
            "forward_date": origin["date"]}


def service_json(world, service):
    """A service message's own fields. Members are kept by their ids."""
    shape = {key: value for key, value in service.items() if key not in ("joined", "left")}
    if "joined" in service:
        joined = [user_json(world.users[one]) for one in service["joined"]]
        shape.update(new_chat_participant=joined[0], new_chat_member=joined[0], new_chat_members=joined)
    if "left" in service:
        gone = user_json(world.users[service["left"]])
        shape.update(left_chat_participant=gone, left_chat_member=gone)
    return shape


def message_json(world, message, bot_id, with_reply=True):
    """A message as this bot gets it."""
    chat = world.chats[message["chat"]]
    shape = {"message_id": message["id"], "from": user_json(world.users[message["author"]])}
    if message.get("anonymous"):
        shape.update({"from": ANONYMOUS, "sender_chat": chat_json(world, chat)})
    shape.update(chat=chat_json(world, chat), date=int(message["date"]))
    if message.get("edited"):
        shape["edit_date"] = int(message["edited"])
    if message.get("thread"):
        shape["message_thread_id"] = message["thread"]
        if chat.get("forum"):
            shape["is_topic_message"] = True
    if message.get("forward"):
        shape.update(origin_json(world, message["forward"]))
    answered = chat["messages"].get(message.get("reply_to") or (chat.get("forum") and message.get("thread")) or 0)
    if with_reply and answered and not answered["deleted"] and answered is not message:
        # A message in a topic that answers nothing counts as an answer to the topic's first service message.
        shape["reply_to_message"] = message_json(world, answered, bot_id, with_reply=False)
    if with_reply and message.get("quote"):
        shape["quote"] = {"text": message["quote"], "position": 0, "is_manual": True}
    entities = entities_json(world, message["entities"])
    file = message.get("file")
    if file:
        shape[file["kind"]] = media_json(bot_id, file)
        if message["text"]:
            shape["caption"] = message["text"]
        if entities:
            shape["caption_entities"] = entities
    elif message.get("service"):
        shape.update(service_json(world, message["service"]))
    else:
        shape["text"] = message["text"]
        if entities:
            shape["entities"] = entities
    if message.get("preview"):
        shape["link_preview_options"] = message["preview"]
    if message.get("markup"):
        shape["reply_markup"] = message["markup"]
    return shape


def media_json(bot_id, file):
    if file["kind"] == "photo":
        return [{**file_json(bot_id, file), "width": 640, "height": 480}]
    return {"file_name": file["name"], "mime_type": file["mime"], **file_json(bot_id, file)}
