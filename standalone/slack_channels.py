"""Slack's methods for conversations, without their messages: `conversations.…`."""

import re

import slack_messages as messages
from slack_web import FAMILY, SlackError, method

KINDS = {"public_channel": "public", "private_channel": "private", "im": "im", "mpim": "mpim"}
READ = [f"{family}:read" for family in FAMILY.values()]
WRITE = ["channels:manage", "channels:write", "groups:write", "im:write", "mpim:write"]
TOPIC = [*WRITE, *(f"{family}:write.topic" for family in FAMILY.values())]


def render(call, channel, with_count=False):
    """A conversation as Slack's API shows it."""
    kind, members = channel["kind"], channel["members"]
    is_in = call.user in members
    body = {
        "id": channel["id"], "created": channel["created"], "is_archived": channel["archived"], "is_im": kind == "im",
        "is_org_shared": False, "context_team_id": call.team, "updated": channel["created"] * 1000,
    }  # fmt: skip
    if kind == "im":
        other = next((member for member in members if member != call.user), call.user)
        return {**body, "user": other, "is_user_deleted": call.state.get("user", other)["deleted"], "priority": 0}
    note = {"creator": channel["creator"] or "", "last_set": 0}
    body.update(
        name=channel["name"], name_normalized=channel["name"], is_channel=kind == "public", is_group=kind == "private",
        is_mpim=kind == "mpim", is_private=kind != "public", is_member=is_in, is_general=channel["name"] == "general",
        is_shared=False, is_ext_shared=False, creator=channel["creator"] or "", unlinked=0,
        topic={"value": channel["topic"], **note}, purpose={"value": channel["purpose"], **note}, previous_names=[],
    )  # fmt: skip
    return {**body, "num_members": len(members)} if with_count else body


def save(call, channel):
    call.state.put("channel", channel["id"], channel)


def checked_name(call, team):
    name = call.text("name")
    if not name:
        raise SlackError("invalid_name_required")
    if len(name) > 80:
        raise SlackError("invalid_name_maxlength")
    if not re.search(r"\w", name):
        raise SlackError("invalid_name_punctuation")
    if name != name.lower() or re.search(r"[^\w-]", name):
        raise SlackError("invalid_name_specials")
    if any(one["name"] == name for one in call.state.of_team("channel", team)):
        raise SlackError("name_taken")
    return name


@method("conversations.info", 3, READ, reads_json=False, args="channel include_locale include_num_members")
def info(call):
    return {"channel": render(call, call.channel("read"), call.flag("include_num_members"))}


@method("conversations.list", 2, READ, reads_json=False, args="cursor exclude_archived limit team_id types")
def listing(call, is_all=True):
    kinds = [one.strip() for one in (call.text("types") or "public_channel").split(",")]
    if not set(kinds) <= set(KINDS):
        raise SlackError("invalid_types")
    kinds = [KINDS[one] for one in kinds]
    for kind in kinds:
        call.need(f"{FAMILY[kind]}:read")
    found = [
        channel for channel in call.state.of_team("channel", call.team)
        if channel["kind"] in kinds and not (call.flag("exclude_archived") and channel["archived"])
        and (call.user in channel["members"] or (is_all and channel["kind"] == "public"))
    ]  # fmt: skip
    page, cursor = call.slack.page(call, found, 100, 1000)
    return {"channels": [render(call, one, is_all) for one in page], "response_metadata": {"next_cursor": cursor}}


@method("users.conversations", 3, READ, reads_json=False, args="cursor exclude_archived limit team_id types user")
def own_conversations(call):
    return listing(call, is_all=False)


@method("conversations.members", 4, READ, reads_json=False, args="channel cursor limit")
def members(call):
    channel = call.channel("read")
    page, cursor = call.slack.page(call, channel["members"], 100, 1000)
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


@method("conversations.join", 3, ["channels:join", "channels:write"], args="channel")
def join(call):
    channel = call.channel()
    if channel["kind"] != "public":
        raise SlackError("method_not_supported_for_channel_type")
    if channel["archived"]:
        raise SlackError("is_archived")
    if call.user in channel["members"]:
        call.warnings.append("already_in_channel")
    else:
        call.slack.join(channel, call.user)
    return {"channel": render(call, channel)}


@method("conversations.leave", 3, WRITE, args="channel")
def leave(call):
    channel = call.channel()
    if channel["name"] == "general":
        raise SlackError("cant_leave_general")
    if call.user not in channel["members"]:
        return {"not_in_channel": True}
    call.slack.leave(channel, call.user)
    return {}


@method("conversations.invite", 3, [*WRITE, "channels:write.invites", "groups:write.invites"], args="channel users force")
def invite(call):
    channel = call.channel("manage write write.invites", member="everyone")
    users = [one.strip() for one in call.text("users").split(",") if one.strip()]
    if not users:
        raise SlackError("no_user")
    for user in users:
        if user == call.user:
            raise SlackError("cant_invite_self")
        if not call.state.get("user", user):
            raise SlackError("user_not_found")
        if user in channel["members"]:
            raise SlackError("already_in_channel")
    for user in users:
        call.slack.join(channel, user, call.user)
    return {"channel": render(call, channel)}


@method("conversations.create", 2, WRITE, args="name is_private team_id")
def create(call):
    kind = "private" if call.flag("is_private") else "public"
    call.need(*(["groups:write"] if kind == "private" else ["channels:manage", "channels:write"]))
    name = checked_name(call, call.team)
    channel = call.state.make_channel(call.team, name, kind, call.user, [call.user])
    call.slack.events.channel(channel, "created")
    call.slack.events.membership(channel, call.user, True)
    return {"channel": render(call, channel)}


@method("conversations.rename", 2, WRITE, args="channel name")
def rename(call):
    channel = call.channel("manage write", member="everyone")
    if channel["kind"] not in ("public", "private"):
        raise SlackError("method_not_supported_for_channel_type")
    if channel["archived"]:
        raise SlackError("is_archived")
    if channel["creator"] != call.user and not call.state.get("user", call.user)["is_admin"]:
        raise SlackError("not_authorized")
    call.slack.rename(channel, checked_name(call, call.team), call.user)
    return {"channel": render(call, channel)}


@method("conversations.setTopic", 2, TOPIC, args="channel topic")
def set_topic(call):
    channel = call.channel("manage write write.topic", member="everyone")
    if channel["archived"]:
        raise SlackError("is_archived")
    if len(call.text("topic")) > 250:
        raise SlackError("too_long")
    call.slack.set_topic(channel, call.text("topic"), call.user)
    return {"channel": render(call, channel)}


@method("conversations.archive", 2, WRITE, args="channel")
def archive(call):
    channel = call.channel("manage write", member="everyone")
    if channel["kind"] in ("im", "mpim"):
        raise SlackError("method_not_supported_for_channel_type")
    if channel["name"] == "general":
        raise SlackError("cant_archive_general")
    if channel["archived"]:
        raise SlackError("already_archived")
    call.slack.archive(channel, True, call.user)
    return {}


@method("conversations.unarchive", 2, WRITE, args="channel")
def unarchive(call):
    channel = call.channel("manage write")
    if not channel["archived"]:
        raise SlackError("not_archived")
    if call.is_bot:
        # Archiving puts a bot out of the channel, and only a member may bring it back.
        raise SlackError("not_in_channel")
    call.slack.archive(channel, False, call.user)
    return {}


@method("conversations.open", 3, WRITE, args="channel users return_im prevent_creation")
def opened(call):
    if call.text("channel"):
        channel = call.channel()
    else:
        users = [one.strip() for one in call.text("users").split(",") if one.strip()]
        if not users:
            raise SlackError("users_list_not_supplied")
        if len(users) > 8:
            raise SlackError("too_many_users")
        if any(not (call.state.get("user", one) or {}).get("team") == call.team for one in users):
            raise SlackError("user_not_found")
        if any(call.state.get("user", one)["deleted"] for one in users):
            raise SlackError("user_disabled")
        call.need("im:write" if len(users) == 1 else "mpim:write")
        if len(users) == 1:
            channel = call.state.im(call.team, call.user, users[0])
        else:
            names = "--".join(call.state.get("user", one)["name"] for one in users)
            channel = call.state.make_channel(call.team, f"mpdm-{names}-1", "mpim", call.user, [call.user, *users])
    return {"channel": render(call, channel) if call.flag("return_im") else {"id": channel["id"]}}
