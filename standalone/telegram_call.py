"""One request of a bot: its parameters, and the checks that several methods share."""

import json
import re

from telegram_shapes import PRESENT
from telegram_text import ParseError, cleaned, parse_html, units, with_found
from telegram_world import Refusal

GIVEN = {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"}
STYLES = {"bold", "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote", "code", "pre",
          "text_link", "text_mention", "custom_emoji"}
LARGEST_TEXT = 1 << 15
MOST_BUTTONS = 100


def bad(message):
    """A refusal with Telegram's prefix. The first letter becomes small, except in names such as TOPIC_CLOSED."""
    if not (message[1:2] == "_" or message[1:2].isupper()):
        message = message[0].lower() + message[1:]
    return Refusal(400, f"Bad Request: {message}")


class Call:
    def __init__(self, world, limits, bot, args, files):
        self.world, self.limits, self.bot, self.args, self.files = world, limits, bot, args, files

    def get(self, name):
        return self.args.get(name, "")

    def integer(self, name, default=0):
        match = re.match(r"-?[0-9]{1,18}", self.get(name))
        return int(match[0]) if match else default

    def truth(self, name):
        return self.get(name).lower() in ("true", "yes", "1")

    def json(self, name, what, kind, expected):
        """A parameter that holds JSON; None if it is missing."""
        if not self.get(name):
            return None
        try:
            value = json.loads(self.get(name))
        except ValueError:
            raise bad(f"Can't parse {what} JSON object") from None
        if not isinstance(value, kind):
            raise bad(expected)
        return value

    # Chats.

    def chat(self, write=True):
        """The chat that `chat_id` names, if this bot may do something there."""
        reference = self.get("chat_id")
        if not reference:
            raise bad("Chat_id is empty")
        if re.fullmatch(r"[0-9]+", reference):
            return self.private_chat(int(reference), write)
        chat = None if "/" in reference else self.world.chat(reference)
        member = chat and chat["members"].get(self.bot["id"])
        if not chat or not member and not chat["username"]:
            raise bad("Chat not found")
        kind = "supergroup" if chat["type"] == "supergroup" else "group"
        if chat["migrated_to"] and write:
            raise Refusal(400, "Bad Request: group chat was upgraded to a supergroup chat",
                          migrate_to_chat_id=chat["migrated_to"])
        status = member["status"] if member else "left"
        if status == "kicked" and (write or kind == "supergroup"):
            raise Refusal(403, f"Forbidden: bot was kicked from the {kind} chat")
        if status not in PRESENT and (write or kind == "supergroup" and not chat["username"]):
            raise Refusal(403, f"Forbidden: bot is not a member of the {kind} chat")
        return chat

    def private_chat(self, identifier, write):
        user = self.world.users.get(identifier)
        chat = user and self.world.chats.get(f"{self.bot['id']}/{identifier}")
        met = user and any(identifier in one["members"] and self.bot["id"] in one["members"]
                           for one in self.world.chats.values())
        if not user or not chat and not met:
            raise bad("Chat not found")
        if user["bot"]:
            raise Refusal(403, "Forbidden: bot can't send messages to bots")
        chat = self.world.private(self.bot, user)
        if write:
            if user["deactivated"]:
                raise Refusal(403, "Forbidden: user is deactivated")
            if chat["blocked"]:
                raise Refusal(403, "Forbidden: bot was blocked by the user")
            if not chat["started"]:
                raise Refusal(403, "Forbidden: bot can't initiate conversation with a user")
        return chat

    def may(self, chat, right):
        member = chat["members"].get(self.bot["id"], {"status": "left"})
        return member["status"] == "administrator" and right in member["rights"]

    def need(self, chat, right, refusal):
        if not self.may(chat, right):
            raise bad(refusal)

    def need_to_send(self, chat, what):
        member = chat["members"].get(self.bot["id"], {})
        if member.get("status") != "administrator" and (
                "can_send_messages" in chat["denied"] or member.get("status") == "restricted"):
            raise bad(f"Not enough rights to send {what} to the chat")

    def message(self, chat, purpose, name="message_id"):
        message = chat["messages"].get(self.integer(name))
        if not message or message["deleted"]:
            raise bad(f"Message to {purpose} not found")
        return message

    def thread(self, chat):
        """The topic that `message_thread_id` names. Chats without topics ignore it."""
        thread = max(self.integer("message_thread_id"), 0)
        if not chat.get("forum") or not thread:
            return None
        # The topic General has the number 1, under which nothing can be sent.
        if thread not in chat["topics"]:
            raise bad("Message thread not found")
        topic = chat["topics"][thread]
        if topic["closed"] and topic["creator"] != self.bot["id"] and not self.may(chat, "can_manage_topics"):
            raise bad("TOPIC_CLOSED")
        return thread

    def reply(self, chat):
        """The message that is answered, and a quotation from it."""
        given = self.json("reply_parameters", "reply parameters", dict, "Object expected as reply parameters")
        if given is None:
            given = {"message_id": self.integer("reply_to_message_id"),
                     "allow_sending_without_reply": self.truth("allow_sending_without_reply")}
        elif given and "message_id" not in given:
            raise bad("Can't find field \"message_id\"")
        number = given.get("message_id") or 0
        if not number:
            return None, None
        other = given.get("chat_id")
        found = None if other and str(other) != str(chat["id"]) else chat["messages"].get(int(number))
        if not found or found["deleted"]:
            if given.get("allow_sending_without_reply"):
                return None, None
            raise bad("Message to be replied not found")
        quote = given.get("quote")
        if quote and quote not in found["text"]:
            raise bad("QUOTE_TEXT_INVALID")
        return found, quote

    def charge(self, chat, edit=False):
        seconds = self.limits.wait(self.bot["id"], chat["key"], chat["type"] != "private", edit)
        if seconds:
            raise Refusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)

    # Text and buttons.

    def formatted(self, text, mode, given):
        """The text after parsing, and its entities."""
        if len(text.encode()) > LARGEST_TEXT:
            raise bad("Text is too long")
        mode, entities = mode.lower(), []
        if text and mode == "html":
            try:
                text, entities = parse_html(text)
            except ParseError as error:
                raise bad(str(error)) from None
        elif text and mode not in ("", "none"):
            raise bad("Unsupported parse_mode")
        elif given:
            entities = [one for one in map(self.entity, given) if one]
        known = [one for one in entities if one["type"] != "text_mention" or one["user_id"] in self.world.users]
        text, known = cleaned(text, known)
        return text, with_found(text, known)

    def entity(self, given):
        prefix = "Can't parse MessageEntity: "
        if not isinstance(given, dict):
            raise bad(f"{prefix}expected an Object")
        for field in ("offset", "length", "type"):
            if field not in given:
                raise bad(f"{prefix}Can't find field \"{field}\"")
        entity = {"offset": int(given["offset"]), "length": int(given["length"]), "type": given["type"]}
        if not 0 <= entity["offset"] <= 1_000_000 or not 0 <= entity["length"] <= 1_000_000:
            name = "length" if 0 <= entity["offset"] <= 1_000_000 else "offset"
            raise bad(f"Receive an entity with incorrect {name} {entity[name]}")
        if given["type"] == "text_mention":
            return {**entity, "user_id": given.get("user", {}).get("id")}
        if given["type"] not in STYLES:
            if given["type"] not in GIVEN:
                raise bad(f"{prefix}Unsupported type specified")
            # Telegram finds these by itself.
            return None
        return {**entity, **{name: given[name] for name in ("url", "language", "custom_emoji_id") if given.get(name)}}

    def text(self):
        """`text` of a message, after parsing."""
        if not self.get("text"):
            raise bad("Message text is empty")
        self.preview()
        text, entities = self.formatted(self.get("text"), self.get("parse_mode"), self.given_entities("entities"))
        if not text:
            raise bad("Text must be non-empty")
        return text, entities

    def caption(self):
        return self.formatted(self.get("caption"), self.get("parse_mode"), self.given_entities("caption_entities"))

    def given_entities(self, name):
        try:
            given = json.loads(self.get(name) or "[]")
        except ValueError:
            return []
        return given if isinstance(given, list) else []

    def preview(self):
        given = self.json("link_preview_options", "link preview options", dict, "Object expected as link preview options")
        return given or ({"is_disabled": True} if self.truth("disable_web_page_preview") else None)

    def markup(self):
        """The inline keyboard, if one is given; other keyboards are accepted and not kept."""
        given = self.json("reply_markup", "reply keyboard markup", dict, "Object expected as reply markup") or {}
        rows = given.get("inline_keyboard", [])
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise bad('Field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays')
        for button in (button for row in rows for button in row):
            prefix = "Can't parse inline keyboard button: "
            if not isinstance(button, dict):
                raise bad(f"{prefix}InlineKeyboardButton must be an Object")
            if "text" not in button:
                raise bad(f"{prefix}Can't find field \"text\"")
            if not any(value for name, value in button.items() if name not in ("text", "style", "icon_custom_emoji_id")):
                raise bad(f"{prefix}Text buttons are unallowed in the inline keyboard")
        rows = [row for row in rows if row]
        return {"inline_keyboard": rows} if rows else None


def check_markup(markup):
    """The checks of a keyboard that Telegram makes after those of the chat."""
    buttons = [button for row in (markup or {}).get("inline_keyboard", []) for button in row]
    if len(buttons) > MOST_BUTTONS:
        raise bad("Reply markup is too long")
    for button in buttons:
        if len(button.get("callback_data", "").encode()) > 64:
            raise bad("BUTTON_DATA_INVALID")
        if "url" in button and not re.match(r"(https?|tg|ton)://.", button["url"]):
            raise bad("BUTTON_URL_INVALID")


def check_length(text, most, refusal):
    """Refuses a text that is too long after parsing."""
    if units(text) > most:
        raise bad(refusal)
