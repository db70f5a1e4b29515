"""Slack's methods for messages and reactions: `chat.…` and `reactions.…`."""

import json
import re

import slack_messages as messages
from slack_blocks import MARKDOWN, problems
from slack_text import stored
from slack_web import FAMILY, SlackError, limited, method

CONTENT = "text blocks attachments markdown_text metadata parse link_names mrkdwn unfurl_links unfurl_media as_user"
EVENT_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]*$")
METADATA = 16_000
EMOJI = re.compile(r"[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?$")


def content(call, most, is_needed=True):
    """The checked content of a message: its text, blocks, attachments and metadata."""
    text, markdown = call.text("text"), call.text("markdown_text")
    blocks = call.structure("blocks", "invalid_blocks_format")
    attachments = call.structure("attachments", "invalid_attachments")
    if markdown:
        if text or blocks:
            raise SlackError("markdown_text_conflict")
        if len(markdown) > MARKDOWN:
            raise SlackError("msg_too_long")
        blocks, text = [{"type": "markdown", "text": markdown}], markdown
    if blocks is not None:
        name, errors = problems(blocks)
        if name:
            details = {"errors": errors, "response_metadata": {"messages": [f"[ERROR] {error}" for error in errors]}}
            raise SlackError(name, **(details if errors else {}))
    if attachments is not None and not isinstance(attachments, list):
        raise SlackError("invalid_attachments")
    if attachments and len(attachments) > 100:
        raise SlackError("too_many_attachments")
    if is_needed and not text.strip() and not blocks and not attachments:
        raise SlackError("no_text")
    if len(text) > most:
        if most == messages.ADVICE:
            raise SlackError("msg_too_long")
        text = text[:most]
        call.warnings.append("message_truncated")
    if call.text("parse") not in ("", "none", "full", "client", "mrkdwn"):
        raise SlackError("invalid_arguments")
    body = {"text": stored(text)}
    if blocks:
        body["blocks"] = [{"block_id": f"b{index}", **block} for index, block in enumerate(blocks)]
    if attachments:
        body["attachments"] = [{"id": index + 1, **one} for index, one in enumerate(attachments)]
    metadata = call.structure("metadata", "invalid_metadata_format")
    if metadata:
        check_metadata(metadata)
        body["metadata"] = metadata
    return body


def check_metadata(metadata):
    if not isinstance(metadata, dict) or not isinstance(metadata.get("event_payload"), dict):
        raise SlackError("invalid_metadata_format")
    if not EVENT_TYPE.match(str(metadata.get("event_type", ""))):
        raise SlackError("invalid_metadata_format")
    if len(json.dumps(metadata)) > METADATA:
        raise SlackError("metadata_too_large")


def author(call):
    """Who a message is by: the app with its own name, or a person whose token is used."""
    if not call.is_bot:
        return {"user": call.user, "team": call.team}
    app = call.app
    own = {"bot_id": app["bot_id"], "app_id": app["id"], "team": call.team}
    name, emoji, picture = call.text("username"), call.text("icon_emoji"), call.text("icon_url")
    if (name or emoji or picture) and "chat:write.customize" in call.scopes:
        icons = {"emoji": emoji} if emoji else {"image_48": picture} if picture else {}
        return {**own, "subtype": "bot_message", "username": name[:80] or app["name"], **({"icons": icons} if icons else {})}
    profile = {"id": app["bot_id"], "app_id": app["id"], "name": app["name"], "deleted": False, "team_id": call.team}
    return {**own, "user": app["bot_user"], "bot_profile": profile}


def target(call):
    """The channel of a new message, by its id, its name, or a person's id for direct messages."""
    which = call.text("channel")
    if not which:
        raise SlackError("channel_not_found")
    if which[0] in "UW" and call.state.get("user", which):
        return call.state.im(call.team, call.user, which)
    channel = call.state.find_channel(call.team, which)
    is_in = channel and call.user in channel["members"]
    if not channel or (channel["kind"] != "public" and not is_in):
        raise SlackError("channel_not_found")
    if not is_in and not (call.is_bot and "chat:write.public" in call.scopes):
        raise SlackError("not_in_channel")
    if channel["archived"]:
        raise SlackError("is_archived")
    return channel


def thread_of(call):
    thread = call.text("thread_ts")
    if thread and not re.match(r"\d{10}\.\d{6}$", thread):
        raise SlackError("invalid_thread_ts")
    return thread


@method(
    "chat.postMessage", "special", ["chat:write"],
    args=f"channel {CONTENT} username icon_emoji icon_url thread_ts reply_broadcast client_msg_id",
)  # fmt: skip
def post_message(call):
    channel = target(call)
    wait = call.slack.limits.post(call.token, channel["id"])
    if wait:
        raise limited(wait)
    body = {"type": "message", **author(call), **content(call, messages.LIMIT)}
    record = messages.post(call.slack, channel, body, thread_of(call), call.flag("reply_broadcast"), call.args)
    if call.is_bot and "subtype" not in body and call.text("username"):
        record["odd"].append("username without chat:write.customize")
        messages.save(call.slack, channel, record)
    return {"channel": channel["id"], "ts": record["message"]["ts"], "message": record["message"]}


@method("chat.postEphemeral", 4, ["chat:write"], args=f"channel user {CONTENT} username icon_emoji icon_url thread_ts")
def post_ephemeral(call):
    channel = target(call)
    user = call.text("user", needed=True)
    if user not in channel["members"]:
        raise SlackError("user_not_in_channel")
    body = {"type": "message", **author(call), **content(call, messages.LIMIT)}
    return {"message_ts": call.slack.interact.whisper(channel, user, body, call.args)}


def own(call, error):
    """A message of the caller's own, in a channel that is named by its id."""
    channel = call.channel()
    record = call.state.message(channel["id"], call.text("ts"))
    if not record or record["message"].get("subtype") == "tombstone":
        raise SlackError("message_not_found")
    message = record["message"]
    is_own = message.get("bot_id") == call.app["bot_id"] if call.is_bot else message.get("user") == call.user
    if not is_own or (not call.is_bot and message.get("bot_id")):
        raise SlackError(error)
    return channel, record


@method("chat.update", 3, ["chat:write"], args=f"channel ts {CONTENT} reply_broadcast file_ids unfurled_attachments")
def update(call):
    channel, record = own(call, "cant_update_message")
    if channel["archived"]:
        raise SlackError("is_inactive")
    fields = content(call, messages.ADVICE)
    if not call.text("text") and "text" in fields and not call.text("markdown_text"):
        fields.pop("text")
    # Blocks and attachments that are not named go with the old text.
    for name in ("blocks", "attachments"):
        fields.setdefault(name, None if "text" in fields or call.args.get(name) is not None else record["message"].get(name))
    messages.edit(call.slack, channel, record, fields, call.user, is_marked=not fields["blocks"])
    record["sent"] = {**record["sent"], **call.args}
    message = record["message"]
    return {"channel": channel["id"], "ts": message["ts"], "text": message["text"], "message": message}


@method("chat.delete", 3, ["chat:write"], args="channel ts as_user")
def delete(call):
    channel, record = own(call, "cant_delete_message")
    messages.delete(call.slack, channel, record)
    return {"channel": channel["id"], "ts": record["message"]["ts"]}


@method("chat.getPermalink", "special", reads_json=False, args="channel message_ts")
def permalink(call):
    channel = call.channel()
    ts = call.text("message_ts")
    if not call.state.message(channel["id"], ts):
        raise SlackError("message_not_found")
    domain = call.state.get("team", call.team)["domain"]
    return {"channel": channel["id"], "permalink": f"https://{domain}.slack.com/archives/{channel['id']}/p{ts.replace('.', '')}"}


def reaction(call, is_added):
    if not call.text("channel") or not call.text("timestamp"):
        raise SlackError("no_item_specified")
    channel = call.channel(member=True)
    name = call.text("name").strip(":")
    if not EMOJI.match(name):
        raise SlackError("invalid_name")
    if not re.match(r"\d{10}\.\d{6}$", call.text("timestamp")):
        raise SlackError("bad_timestamp")
    record = call.state.message(channel["id"], call.text("timestamp"))
    if not record:
        raise SlackError("message_not_found")
    if channel["archived"]:
        raise SlackError("is_archived")
    if not messages.react(call.slack, channel, record, call.user, name, is_added):
        raise SlackError("already_reacted" if is_added else "no_reaction")
    return {}


@method("reactions.add", 3, ["reactions:write"], args="channel name timestamp")
def react(call):
    return reaction(call, True)


@method("reactions.remove", 2, ["reactions:write"], args="channel name timestamp")
def unreact(call):
    return reaction(call, False)


@method("reactions.get", 3, ["reactions:read"], reads_json=False, args="channel timestamp full")
def reactions(call):
    channel = call.channel()
    record = call.state.message(channel["id"], call.text("timestamp"))
    if not record:
        raise SlackError("message_not_found")
    return {"type": "message", "channel": channel["id"], "message": record["message"]}


@method("conversations.history", 3, [f"{family}:history" for family in FAMILY.values()], reads_json=False,
        args="channel cursor inclusive latest oldest limit include_all_metadata")  # fmt: skip
def history(call):
    channel = call.channel("history", member=True)
    between = time_range(call)
    found = [
        record["message"] for record in call.state.messages.get(channel["id"], {}).values()
        if not record["deleted"] and is_top(record["message"]) and between(record["message"]["ts"])
    ]  # fmt: skip
    # The newest first, whatever the range.
    found.reverse()
    page, cursor = call.slack.page(call, found, 100, 999)
    body = {"messages": [bare(call, message) for message in page], "has_more": bool(cursor), "pin_count": 0}
    if cursor:
        body["response_metadata"] = {"next_cursor": cursor}
    return body


@method("conversations.replies", 3, [f"{family}:history" for family in FAMILY.values()], reads_json=False,
        args="channel ts cursor inclusive latest oldest limit include_all_metadata")  # fmt: skip
def replies(call):
    channel = call.channel("history", member=True)
    asked = call.state.message(channel["id"], call.text("ts"))
    if not asked:
        raise SlackError("thread_not_found")
    root = asked["message"].get("thread_ts", asked["message"]["ts"])
    parent = call.state.message(channel["id"], root)
    between = time_range(call)
    found = [
        record["message"] for record in call.state.messages[channel["id"]].values()
        if not record["deleted"] and record["message"].get("thread_ts") == root and record["message"]["ts"] != root
        and between(record["message"]["ts"])
    ]  # fmt: skip
    page, cursor = call.slack.page(call, found, 1000, 1000)
    # Each page begins with the parent.
    shown = [bare(call, message) for message in ([parent["message"]] if parent else []) + page]
    body = {"messages": shown, "has_more": bool(cursor)}
    if cursor:
        body["response_metadata"] = {"next_cursor": cursor}
    return body


def is_top(message):
    return message.get("thread_ts", message["ts"]) == message["ts"] or message.get("subtype") == "thread_broadcast"


def time_range(call):
    """Whether a timestamp is in the range that was asked for."""
    bounds = {}
    for name in ("oldest", "latest"):
        value = call.text(name)
        try:
            bounds[name] = round(float(value or 0) * 10**6)
        except ValueError:
            raise SlackError(f"invalid_ts_{name}") from None
    is_inclusive = call.flag("inclusive")

    def between(ts):
        at = int(ts.replace(".", ""))
        low, high = bounds["oldest"], bounds["latest"]
        return (not low or at > low or (is_inclusive and at == low)) and (not high or at < high or (is_inclusive and at == high))

    return between


def bare(call, message):
    """A message as the history has it: without its metadata, unless that is asked for."""
    if call.flag("include_all_metadata"):
        return message
    return {name: value for name, value in message.items() if name != "metadata"}
