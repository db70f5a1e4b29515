"""The methods about messages: send, edit, delete, react, buttons, files. Each takes a Call and gives the result."""

import base64
import json

from telegram_call import bad, check_length, check_markup
from telegram_shapes import file_json, message_json

LONGEST_TEXT, LONGEST_CAPTION, LONGEST_ANSWER = 4096, 1024, 200
LARGEST_DOWNLOAD = 20 << 20
DELETABLE = 48 * 3600
# Seconds in which a pressed button waits for an answer.
PATIENCE = 60
ACTIONS = {"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "record_audio",
           "upload_audio", "upload_document", "choose_sticker", "find_location", "pick_up_location", "record_video_note",
           "upload_video_note", "cancel"}
REACTIONS = set(
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 "
    "🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ "
    "🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡 ".split())


def send(call, text, entities, what, check, file=None):
    """Posts a message; the order of the checks is Telegram's."""
    markup = call.markup()
    chat = call.chat()
    thread = call.thread(chat)
    answered, quote = call.reply(chat)
    check()
    check_markup(markup)
    call.need_to_send(chat, what)
    call.charge(chat)
    if answered and not thread and chat.get("forum"):
        thread = answered.get("thread")
    message = call.world.post(
        chat, call.bot, text, entities, sent=call.get("caption" if file else "text"), markup=markup, thread=thread,
        reply_to=answered and answered["id"], quote=quote, silent=call.truth("disable_notification"),
        preview=call.preview(), file=file() if file else None)
    return message_json(call.world, message, call.bot["id"])


def send_message(call):
    text, entities = call.text()
    return send(call, text, entities, "text messages",
                lambda: check_length(text, LONGEST_TEXT, "Message is too long"))


def send_document(call):
    given = call.get("document")
    part = call.files.get("document") or given.startswith("attach://") and call.files.get(given[9:])
    known = None
    if not part:
        if not given or given.startswith("attach://"):
            raise bad("There is no document in the request")
        if given.startswith(("http://", "https://")):
            raise bad("Failed to get HTTP URL content")
        known = own_file(call, given)
        if not known:
            raise bad("Wrong file identifier/HTTP URL specified")
    text, entities = call.caption()

    def check():
        check_length(text, LONGEST_CAPTION, "Message caption is too long")
        if part and not part[2]:
            raise bad("File must be non-empty")

    return send(call, text, entities, "documents", check, lambda: known or call.world.add_file(*part))


def edited(call, text=None, entities=None, caption=False):
    markup = call.markup()
    if not call.get("chat_id") and not call.get("message_id"):
        raise bad("Message identifier is not specified")
    chat = call.chat()
    message = call.message(chat, "edit")
    if message["author"] != call.bot["id"] or message.get("service"):
        raise bad("Message can't be edited")
    if text is None:
        text, entities = message["text"], message["entities"]
    elif bool(message.get("file")) != caption:
        raise bad(f"There is no {'caption' if caption else 'text'} in the message to edit")
    if caption:
        check_length(text, LONGEST_CAPTION, "Message caption is too long")
    elif not message.get("file"):
        check_length(text, LONGEST_TEXT, "MESSAGE_TOO_LONG")
    check_markup(markup)
    if (text, entities, markup) == (message["text"], message["entities"], message.get("markup")):
        raise bad("Message is not modified: specified new message content and reply markup are exactly the same as a "
                  "current content and reply markup of the message")
    call.charge(chat, edit=True)
    sent = call.get("caption" if caption else "text") or message["sent"]
    call.world.edit(message, text, entities, markup=markup, sent=sent)
    return message_json(call.world, message, call.bot["id"], with_reply=False)


def edit_message_text(call):
    return edited(call, *call.text())


def edit_message_caption(call):
    return edited(call, *call.caption(), caption=True)


def edit_message_reply_markup(call):
    return edited(call)


def deletable(call, chat, message):
    """Refuses the deletion of somebody else's message without the right to it, and of old or service messages."""
    own = message["author"] == call.bot["id"] and not message.get("service")
    if chat["type"] == "private":
        own = True
    young = message["date"] > call.world.now() - DELETABLE
    if not young or not own and not call.may(chat, "can_delete_messages") or "forum_topic_created" in (message.get("service") or {}):
        raise bad("Message can't be deleted")


def delete_message(call):
    if not call.get("chat_id"):
        raise bad("Chat identifier is not specified")
    if not call.integer("message_id"):
        raise bad("Message identifier is not specified")
    chat = call.chat()
    message = call.message(chat, "delete")
    deletable(call, chat, message)
    message["deleted"] = True
    return True


def delete_messages(call):
    numbers = call.json("message_ids", "message_ids", list, "Expected an Array of message identifiers")
    if not numbers:
        raise bad("Message identifiers are not specified")
    if len(numbers) > 100:
        raise bad("Too many message identifiers specified")
    chat = call.chat()
    # Messages that do not exist are passed over.
    messages = [chat["messages"][one] for one in numbers if one in chat["messages"] and not chat["messages"][one]["deleted"]]
    for message in messages:
        deletable(call, chat, message)
    for message in messages:
        message["deleted"] = True
    return True


def set_message_reaction(call):
    given = call.json("reaction", "reaction types", list, "Expected an Array of ReactionType") or []
    for one in given:
        if not isinstance(one, dict):
            raise bad("Can't parse ReactionType: expected an Object")
        if one.get("type") not in ("emoji", "custom_emoji"):
            raise bad("Can't parse ReactionType: invalid reaction type specified")
    chat = call.chat(write=False)
    message = call.message(chat, "react")
    if len(given) > 1:
        raise bad("REACTIONS_TOO_MANY")
    if any(one.get("emoji") not in REACTIONS for one in given):
        raise bad("REACTION_INVALID")
    call.world.react(chat, message, call.bot, [one["emoji"] for one in given])
    return True


def send_chat_action(call):
    action = call.get("action").lower()
    if action not in ACTIONS:
        raise bad("Wrong parameter action in request")
    chat = call.chat()
    call.world.actions.append({"bot": call.bot["id"], "channel": chat["key"], "thread": call.thread(chat), "action": action,
                               "at": call.world.now()})
    return True


def answer_callback_query(call):
    query = call.world.callbacks.get(call.get("callback_query_id"))
    if not query or query["bot"] != call.bot["id"] or query["answer"] is not None or query["at"] < call.world.now() - PATIENCE:
        raise bad("Query is too old and response timeout expired or query ID is invalid")
    if len(call.get("text")) > LONGEST_ANSWER:
        raise bad("MESSAGE_TOO_LONG")
    query["answer"] = {"text": call.get("text"), "alert": call.truth("show_alert")}
    return True


def own_file(call, identifier):
    """The file behind an identifier of this bot."""
    try:
        bot, number = base64.urlsafe_b64decode(identifier[11:] + "==").decode().split(":")
    except ValueError:
        return None
    return call.world.files.get(int(number)) if bot == str(call.bot["id"]) else None


def get_file(call):
    if not call.get("file_id"):
        raise bad("File_id not specified")
    file = own_file(call, call.get("file_id"))
    if not file:
        raise bad("Invalid file_id")
    if file["size"] > LARGEST_DOWNLOAD:
        raise bad("File is too big")
    return {**file_json(call.bot["id"], file), "file_path": file["path"]}


def set_my_commands(call):
    given = call.json("commands", "commands", list, "Expected an Array of BotCommand") or []
    if len(given) > 100:
        raise bad("BOT_COMMANDS_TOO_MUCH")
    for one in given:
        for field in ("command", "description"):
            if not isinstance(one, dict) or field not in one:
                raise bad(f'Can\'t parse BotCommand: Can\'t find field "{field}"')
        name = one["command"].lstrip("/")
        if not 1 <= len(name) <= 32 or not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_"):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= len(one["description"]) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
    others = [one for one in call.bot["commands"] if one["place"] != place(call)]
    call.bot["commands"] = others + [{"place": place(call), "commands": given}]
    return True


def place(call):
    """The scope and the language that a list of commands is for."""
    scope = call.json("scope", "BotCommandScope", dict, "Expected an Object") or {"type": "default"}
    return json.dumps([scope, call.get("language_code")], sort_keys=True)


def get_my_commands(call):
    return next((one["commands"] for one in call.bot["commands"] if one["place"] == place(call)), [])


def delete_my_commands(call):
    call.bot["commands"] = [one for one in call.bot["commands"] if one["place"] != place(call)]
    return True


METHODS = {
    "sendmessage": send_message, "senddocument": send_document, "editmessagetext": edit_message_text,
    "editmessagecaption": edit_message_caption, "editmessagereplymarkup": edit_message_reply_markup,
    "deletemessage": delete_message, "deletemessages": delete_messages, "setmessagereaction": set_message_reaction,
    "sendchataction": send_chat_action, "answercallbackquery": answer_callback_query, "getfile": get_file,
    "setmycommands": set_my_commands, "getmycommands": get_my_commands, "deletemycommands": delete_my_commands,
}
