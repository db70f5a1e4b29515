"""The control API of the stand-in, below `/_control/`: it is no part of Slack. Tests play people and faults with it."""

import base64
import fnmatch
import json
import time

from aiohttp import web

import slack_files
import slack_messages as messages
import slack_views
from slack_state import USER_SCOPES
from slack_text import stored

CONTROLS = {}


class Mistake(Exception):
    """A request of a test that can't be carried out."""


def control(verb, name):
    def add(function):
        CONTROLS[verb, name] = function
        return function

    return add


async def handle(slack, request):
    run = CONTROLS.get((request.method, request.match_info["name"]))
    if not run:
        return web.json_response({"error": "no such control"}, status=404)
    try:
        given = json.loads(await request.text() or "{}") if request.method == "POST" else dict(request.query)
        team = given.get("team") or next(iter(slack.state.tables["team"]))
        result = run(slack, team, given)
        return web.json_response(await result if hasattr(result, "__await__") else result)
    except (Mistake, KeyError, ValueError) as mistake:
        return web.json_response({"error": f"{type(mistake).__name__}: {mistake}"}, status=400)


def channel_of(slack, team, given, user=None):
    """The channel that is named; `@NAME` are the direct messages with somebody."""
    which = given.get("channel", "general")
    if which.startswith("@"):
        return slack.state.im(team, user["id"], slack.state.person(team, which[1:])["id"])
    channel = slack.state.find_channel(team, which)
    if not channel:
        raise Mistake(f"no channel {which}")
    return channel


def record_of(slack, channel, ts):
    record = slack.state.message(channel["id"], ts)
    if not record:
        raise Mistake(f"no message {ts}")
    return record


def speaker(slack, team, given):
    """Who acts: `account` is an id or a name, and is made if it is new; `name` is the name that others see."""
    count = len(slack.state.tables["user"])
    more = {"is_bot": True} if given.get("bot") else {}
    user = slack.state.person(team, given.get("account", "ada"), **more)
    if given.get("name") and given["name"] != user["display_name"]:
        user.update(display_name=given["name"], real_name=given["name"])
        slack.state.put("user", user["id"], user)
        if len(slack.state.tables["user"]) == count:
            slack.events.user(user)
    if len(slack.state.tables["user"]) > count:
        slack.events.user(user, "team_join")
    return user


@control("POST", "say")
async def say(slack, team, given):
    """Somebody does something in a channel; most often they write."""
    user = speaker(slack, team, given)
    channel = channel_of(slack, team, given, user)
    if user["id"] not in channel["members"] and not given.get("join") is False:
        slack.join(channel, user["id"])
    result = {"user": user["id"], "channel": channel["id"]}
    if "command" in given:
        return result | await slack.interact.command(channel, user, given["command"])
    if "press" in given:
        return result | await slack.interact.press(channel, user, given["press"], given.get("action"))
    if "submit" in given:
        return result | await slack_views.submit(slack, channel, user, given["submit"], given.get("values", {}))
    if "edit" in given:
        record = record_of(slack, channel, given["edit"])
        text = stored(given["text"])
        messages.edit(slack, channel, record, {"text": text, "blocks": messages.rich(text)}, user["id"])
    elif "unfurl" in given:
        record = record_of(slack, channel, given["unfurl"])
        messages.edit(slack, channel, record, {"attachments": [{"id": 1, "from_url": given["url"]}]}, None, is_marked=False)
    elif "delete" in given:
        messages.delete(slack, channel, record_of(slack, channel, given["delete"]))
    elif "react" in given or "unreact" in given:
        record = record_of(slack, channel, given.get("react") or given["unreact"])
        messages.react(slack, channel, record, user["id"], given["reaction"], "react" in given)
    elif "text" in given or "files" in given:
        record = write(slack, team, channel, user, given)
        result["ts"] = record["message"]["ts"]
        result["files"] = [one["id"] for one in record["message"].get("files", [])]
    return result


def write(slack, team, channel, user, given):
    body = messages.by_person(slack, channel, user, given.get("text", ""))
    if given.get("bot"):
        # As another app does: its messages carry the id of a bot.
        body = {"type": "message", "subtype": "bot_message", "bot_id": f"B{user['id'][1:]}", "username": user["name"], "text": body["text"]}
    if not given.get("files"):
        return messages.post(slack, channel, body, given.get("thread"), given.get("broadcast", False), {"text": given.get("text")})
    files = []
    for one in given["files"]:
        data = base64.b64decode(one["base64"]) if "base64" in one else one.get("content", "").encode()
        file = slack_files.make(slack, team, user["id"], one["name"], data, one.get("mimetype"))
        if "size" in one:
            # A large file whose bytes are made up; `claimed` is what Slack says of its size.
            file.update(length=one["size"], size=one.get("claimed", one["size"]))
        files.append(file)
    return slack_files.share(slack, channel, files, body, given.get("thread"), {"text": given.get("text")})


@control("POST", "channel")
def make_or_change(slack, team, given):
    """Makes a channel, or changes one that is there."""
    state, by = slack.state, state_owner(slack, team, given)
    channel = state.find_channel(team, given.get("channel") or given["name"])
    if not channel:
        kind = "private" if given.get("private") else "public"
        channel = state.make_channel(team, given["name"], kind, by, [by])
        slack.events.channel(channel, "created")
    for who in given.get("members", []):
        slack.join(channel, state.person(team, who)["id"])
    for who in given.get("remove", []):
        slack.leave(channel, state.person(team, who)["id"])
    if "rename" in given:
        slack.rename(channel, given["rename"], by)
    if "topic" in given:
        slack.set_topic(channel, given["topic"], by)
    if "archived" in given:
        slack.archive(channel, given["archived"], by)
    return {"channel": channel["id"], "members": channel["members"], "name": channel["name"], "archived": channel["archived"]}


def state_owner(slack, team, given):
    return slack.state.person(team, given["account"])["id"] if "account" in given else slack.state.app_of(team)["owner"]


@control("POST", "user")
def make_user(slack, team, given):
    """Makes a person, or changes them; with `token` they get one for the Web API."""
    user = slack.state.person(team, given["account"])
    user.update({key: given[key] for key in ("name", "real_name", "display_name", "deleted", "is_bot") if key in given})
    slack.state.put("user", user["id"], user)
    slack.events.user(user)
    if not given.get("token"):
        return {"user": user["id"]}
    app = slack.state.app_of(team)["id"]
    token = slack.state.make_token("user", team, app, user["id"], given.get("scopes", USER_SCOPES))
    return {"user": user["id"], "token": token}


@control("POST", "team")
def make_team(slack, _team, given):
    return slack.state.describe(slack.state.make_team(given["name"]))


@control("GET", "team")
def describe(slack, team, _given):
    return slack.state.describe(team)


def token_named(slack, given):
    token = slack.state.get("token", given["token"])
    if not token:
        raise Mistake("no such token")
    return token


@control("POST", "revoke")
def revoke(slack, _team, given):
    """Makes a token worth nothing: `token_revoked`, `invalid_auth`, `account_inactive`, `token_expired`; `null` heals it."""
    token = token_named(slack, given)
    token["fault"] = given.get("as", "token_revoked")
    slack.state.put("token", token["token"], token)
    closed = 0
    if token["kind"] == "app" and token["fault"]:
        closed = slack.socket.drop("disconnect", "link_disabled", 0, token["app"])
    return {"fault": token["fault"], "closed": closed}


@control("POST", "scopes")
def scopes(slack, _team, given):
    token = token_named(slack, given)
    have = set(given.get("set", token["scopes"])) | set(given.get("add", []))
    token["scopes"] = sorted(have - set(given.get("remove", [])))
    slack.state.put("token", token["token"], token)
    return {"scopes": token["scopes"]}


@control("POST", "app")
def change_app(slack, team, given):
    """Changes what the app subscribed to, and its commands."""
    app = slack.state.app_of(team)
    app.update({key: given[key] for key in ("events", "commands", "name") if key in given})
    app["events"] = [one for one in app["events"] if one not in given.get("unsubscribe", [])]
    slack.state.put("app", app["id"], app)
    return {key: app[key] for key in ("id", "events", "commands", "name")}


@control("POST", "fault")
def fault(slack, _team, given):
    """The next requests of a route fail. `status` 0 closes the connection; `after` means that they take effect before."""
    if given.get("clear"):
        slack.faults.clear()
        return {"faults": 0}
    slack.faults.append({"times": 1, "after": "before", "status": 0, "retryAfter": 1, "seen": 0, **given})
    return {"faults": len(slack.faults)}


def next_fault(slack, route):
    """The fault that the next request of a route meets, if any."""
    for one in slack.faults:
        if one["times"] > 0 and fnmatch.fnmatch(route, one["route"]):
            one["times"] -= 1
            one["seen"] += 1
            return one
    return None


@control("GET", "faults")
def faults(slack, _team, _given):
    return {"faults": slack.faults}


@control("POST", "drop")
def drop(slack, _team, given):
    reason = given.get("reason", "refresh_requested")
    return {"dropped": slack.socket.drop(given.get("how", "abort"), reason, given.get("seconds", 0), given.get("app"))}


@control("POST", "socket")
def socket(slack, _team, given):
    settings = slack.socket.settings
    settings.update({key: value for key, value in given.items() if key in settings})
    return settings


@control("GET", "socket")
def socket_report(slack, _team, given):
    return slack.socket.report(given.get("state"))


@control("POST", "redeliver")
def redeliver(slack, _team, given):
    return {"event": slack.events.again(given.get("event"), given.get("new", False))}


@control("POST", "limits")
def limits(slack, _team, given):
    slack.limits.set(given)
    return slack.limits.settings


@control("GET", "limits")
def limits_report(slack, _team, _given):
    return {**slack.limits.settings, "refused": slack.limits.refused}


@control("GET", "requests")
def requests(slack, _team, given):
    """The requests so far, from a number on, of a route if one is named."""
    since = int(given.get("since", 0))
    chosen = [one for one in slack.requests if one["number"] >= since and given.get("route") in (None, one["route"])]
    return {"count": slack.count, "unknown": sum(bool(one["unknown"]) for one in slack.requests), "requests": chosen}


@control("GET", "messages")
def all_messages(slack, team, given):
    """Everything in a channel, in order of arrival: also what was deleted, replies, and what only one person saw."""
    channel = channel_of(slack, team, given, slack.state.person(team, given.get("account", "ada")))
    since = float(given.get("since", 0))
    records = list(slack.state.messages.get(channel["id"], {}).values())
    records += [one for one in slack.interact.whispers if one["channel"] == channel["id"]]
    shown = [messages.view(slack, channel, one) for one in records if one["arrived"] >= since]
    return {"channel": channel["id"], "now": time.time(), "messages": sorted(shown, key=lambda one: one["ts"])}


@control("GET", "file")
def file(slack, _team, given):
    found = slack.state.get("file", given["id"])
    return {**slack_files.render(slack, found), "content": found["content"], "shares": found["shares"], "state": found["state"]}
