"""Which app is told of what: an app must have subscribed to an event, have its scope, and be where it happens."""

import collections
import time

from slack_state import new_id
from slack_text import in_text
from slack_web import FAMILY

SUBSCRIPTION = {"public": "message.channels", "private": "message.groups", "im": "message.im", "mpim": "message.mpim"}
CHANNEL_TYPE = {"public": "channel", "private": "group", "im": "im", "mpim": "mpim"}


class Events:
    def __init__(self, slack):
        self.slack, self.state = slack, slack.state
        # The newest, so that a test can have one delivered again.
        self.sent = collections.deque(maxlen=10_000)

    def tell(self, team, event, subscription, scope, channel=None):
        """Tells the apps of a workspace. With a channel only those that are in it."""
        for app in self.state.of_team("app", team):
            token = next((one for one in self.state.of_team("token", team) if one["kind"] == "bot" and one["app"] == app["id"]), None)
            if not token or token["fault"] or subscription not in app["events"] or scope not in token["scopes"]:
                continue
            if channel and app["bot_user"] not in channel["members"]:
                continue
            self.deliver(app, event)

    def deliver(self, app, event, event_id=None):
        bot = {
            "enterprise_id": None, "team_id": app["team"], "user_id": app["bot_user"], "is_bot": True,
            "is_enterprise_install": False,
        }  # fmt: skip
        payload = {
            "token": "verification", "team_id": app["team"], "context_team_id": app["team"], "context_enterprise_id": None,
            "api_app_id": app["id"], "event": event, "type": "event_callback", "event_id": event_id or new_id("Ev"),
            "event_time": int(time.time()), "authorizations": [bot], "is_ext_shared_channel": False,
            "event_context": f"4-{new_id('C')}",
        }  # fmt: skip
        self.sent.append((app["id"], payload))
        self.slack.socket.deliver(app["id"], "events_api", payload)

    def again(self, event_id, is_new):
        """Delivers an event again that was already acknowledged; Slack has done so, at times with a new id."""
        found = next(((app, one) for app, one in reversed(self.sent) if event_id in (None, one["event_id"])), None)
        if not found:
            return None
        app, payload = found
        self.deliver(self.state.get("app", app), payload["event"], None if is_new else payload["event_id"])
        return payload["event_id"]

    def message(self, channel, event):
        kind = channel["kind"]
        full = {**event, "channel": channel["id"], "channel_type": CHANNEL_TYPE[kind]}
        # The metadata of a message is told to those only who ask for it in the history.
        full.pop("metadata", None)
        self.tell(channel["team"], full, SUBSCRIPTION[kind], f"{FAMILY[kind]}:history", channel)
        if kind == "im" or event.get("subtype") not in (None, "file_share", "thread_broadcast", "bot_message"):
            return
        for app in self.state.of_team("app", channel["team"]):
            if app["bot_user"] in in_text(event.get("text", "")) and event.get("bot_id") != app["bot_id"]:
                mention = {**event, "type": "app_mention", "channel": channel["id"]}
                for name in ("metadata", "subtype"):
                    mention.pop(name, None)
                self.tell(channel["team"], mention, "app_mention", "app_mentions:read", channel)

    def reaction(self, channel, message, user, name, is_added):
        kind = "reaction_added" if is_added else "reaction_removed"
        item = {"type": "message", "channel": channel["id"], "ts": message["ts"]}
        author = {"item_user": message["user"]} if message.get("user") else {}
        event = {"type": kind, "user": user, "reaction": name, **author, "item": item, "event_ts": self.state.stamp()}
        self.tell(channel["team"], event, kind, "reactions:read", channel)

    def membership(self, channel, user, is_joined, inviter=None):
        kind = "member_joined_channel" if is_joined else "member_left_channel"
        event = {
            "type": kind, "user": user, "channel": channel["id"], "team": channel["team"],
            "channel_type": "C" if channel["kind"] == "public" else "G", "event_ts": self.state.stamp(),
        }  # fmt: skip
        if inviter:
            event["inviter"] = inviter
        self.tell(channel["team"], event, kind, f"{FAMILY[channel['kind']]}:read", channel)

    def channel(self, channel, what, user=None):
        """A channel was created, renamed, archived or unarchived. Of a public one every app is told."""
        is_public = channel["kind"] == "public"
        kind = f"{'channel' if is_public else 'group'}_{what}"
        about = {"id": channel["id"], "name": channel["name"], "created": channel["created"]}
        given = {"channel": about} if what in ("rename", "created") else {"channel": channel["id"], "user": user}
        event = {"type": kind, **given, "event_ts": self.state.stamp()}
        self.tell(channel["team"], event, kind, f"{FAMILY[channel['kind']]}:read", None if is_public else channel)

    def file(self, channel, file, user):
        event = {
            "type": "file_shared", "file_id": file["id"], "user_id": user, "file": {"id": file["id"]},
            "channel_id": channel["id"], "event_ts": self.state.stamp(),
        }  # fmt: skip
        self.tell(channel["team"], event, "file_shared", "files:read", channel)

    def user(self, user, kind="user_change"):
        from slack_people import render_user

        event = {"type": kind, "user": render_user(user), "event_ts": self.state.stamp()}
        self.tell(user["team"], event, kind, "users:read")
