"""Slack's methods about the token, the workspace, people and bots."""

from slack_web import SlackError, method


def render_user(user):
    """A person as Slack's API shows them."""
    profile = {
        "real_name": user["real_name"], "display_name": user["display_name"], "display_name_normalized": user["display_name"],
        "real_name_normalized": user["real_name"], "image_48": "https://secure.gravatar.com/avatar/0.jpg", "team": user["team"],
        "status_text": "", "status_emoji": "",
    }  # fmt: skip
    if user["is_bot"]:
        profile.update(bot_id=user.get("bot_id", ""), api_app_id=user.get("app", ""))
    return {
        "id": user["id"], "team_id": user["team"], "name": user["name"], "deleted": user["deleted"],
        "real_name": user["real_name"], "tz": "Europe/Berlin", "tz_offset": 3600, "profile": profile,
        "is_admin": user["is_admin"], "is_owner": user["is_admin"], "is_primary_owner": user["is_admin"],
        "is_restricted": False, "is_ultra_restricted": False, "is_bot": user["is_bot"], "is_app_user": False, "updated": 1,
    }  # fmt: skip


@method("auth.test", "special", kinds=("bot", "user", "app"))
def auth_test(call):
    if call.token["kind"] == "app":
        return {"app_name": call.app["name"], "app_id": call.app["id"]}
    team, user = call.state.get("team", call.team), call.state.get("user", call.user)
    body = {
        "url": f"https://{team['domain']}.slack.com/", "team": team["name"], "user": user["name"], "team_id": team["id"],
        "user_id": user["id"], "is_enterprise_install": False,
    }  # fmt: skip
    return {**body, "bot_id": call.app["bot_id"]} if call.is_bot else body


@method("apps.connections.open", 3, ["connections:write"], kinds=("app",))
def open_connection(call):
    return {"url": call.slack.socket.ticket(call.app["id"])}


@method("team.info", 3, ["team:read"], reads_json=False, args="team domain")
def team_info(call):
    if call.text("team") not in ("", call.team):
        raise SlackError("team_not_found")
    team = call.state.get("team", call.team)
    return {"team": {**{key: team[key] for key in ("id", "name", "domain")}, "email_domain": "", "icon": {}}}


@method("users.info", 4, ["users:read"], reads_json=False, args="user include_locale")
def user_info(call):
    user = call.state.get("user", call.text("user", needed=True))
    if not user or user["team"] != call.team:
        raise SlackError("user_not_found")
    return {"user": render_user(user)}


@method("users.list", 2, ["users:read"], reads_json=False, args="cursor limit include_locale team_id")
def user_list(call):
    page, cursor = call.slack.page(call, call.state.of_team("user", call.team), 1000, 1000)
    return {"members": [render_user(user) for user in page], "response_metadata": {"next_cursor": cursor}}


@method("bots.info", 3, ["users:read"], reads_json=False, args="bot team_id")
def bot_info(call):
    for app in call.state.of_team("app", call.team):
        if call.text("bot") in ("", app["bot_id"]):
            bot = {"id": app["bot_id"], "app_id": app["id"], "user_id": app["bot_user"], "name": app["name"], "deleted": False}
            return {"bot": {**bot, "icons": {}, "updated": 1}}
    raise SlackError("bot_not_found")
