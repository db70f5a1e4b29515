"""What people do that is not a message: they press buttons and use commands, and apps answer by `response_url`."""

import asyncio
import collections
import json
import secrets
import time

from aiohttp import web

import slack_messages as messages
from slack_blocks import problems
from slack_text import stored
from slack_views import trigger
from slack_web import SlackError

USES = 5
USABLE_FOR = 1800


class Interact:
    def __init__(self, slack):
        self.slack, self.state = slack, slack.state
        self.urls, self.triggers, self.views = {}, {}, {}
        self.whispers = collections.deque(maxlen=10_000)

    def url(self, app, channel, user, record=None):
        """A new `response_url`."""
        key = f"{channel['team']}/{secrets.randbelow(10**13)}/{secrets.token_hex(12)}"
        about = {"app": app, "channel": channel, "user": user, "record": record, "uses": USES, "until": time.time() + USABLE_FOR}
        self.urls[key] = about
        return f"{self.slack.base}/actions/{key}"

    def whisper(self, channel, user, body, sent):
        """A message that only one person sees, and that no history keeps."""
        message = {**body, "ts": self.state.stamp()}
        record = {
            "message": message, "sent": sent, "arrived": time.time(), "deleted": False, "edits": [], "odd": [],
            "ephemeral": user, "channel": channel["id"],
        }  # fmt: skip
        self.whispers.append(record)
        return message["ts"]

    def find(self, channel, ts):
        record = self.state.message(channel["id"], ts)
        return record or next((one for one in self.whispers if one["message"]["ts"] == ts), None)

    async def deliver(self, app, kind, payload):
        """Delivers and waits for what the app says; people see an error where it says nothing in time."""
        answered = asyncio.get_running_loop().create_future()

        def then(answer):
            if not answered.done():
                answered.set_result(answer)

        self.slack.socket.deliver(app["id"], kind, payload, then)
        answer = await answered
        return {"acknowledged": answer is not None, "answer": answer}

    async def press(self, channel, user, ts, action=None):
        """Presses a button of a message: the named one, or the first."""
        record = self.find(channel, ts)
        if not record or record["deleted"]:
            return {"error": "there is no such message"}
        message = record["message"]
        element, block = next(
            ((one, block) for block in message.get("blocks", []) for one in [*block.get("elements", []), block.get("accessory")]
             if isinstance(one, dict) and one.get("type") == "button" and action in (None, one.get("action_id"), one.get("value"))),
            (None, None),
        )  # fmt: skip
        if not element:
            return {"error": "there is no such button"}
        app = next((one for one in self.state.of_team("app", channel["team"]) if one["bot_id"] == message.get("bot_id")), None)
        if not app:
            return {"error": "the message is of no app"}
        pressed = {
            "type": "button", "action_id": element.get("action_id", "auto"), "block_id": block.get("block_id", "b0"),
            "text": element["text"], "action_ts": self.state.stamp(),
            **{name: element[name] for name in ("value", "style") if name in element},
        }  # fmt: skip
        container = {
            "type": "message", "message_ts": ts, "channel_id": channel["id"], "is_ephemeral": "ephemeral" in record,
            **({"thread_ts": message["thread_ts"]} if "thread_ts" in message else {}),
        }  # fmt: skip
        payload = {
            "type": "block_actions", **self.who(app, channel, user), "container": container,
            "trigger_id": trigger(self.slack, app, user), "actions": [pressed],
            "state": {"values": {}}, "response_url": self.url(app, channel, user, record),
            **({} if "ephemeral" in record else {"message": message}),
        }  # fmt: skip
        return await self.deliver(app, "interactive", payload)

    def who(self, app, channel, user):
        team = self.state.get("team", channel["team"])
        person = {"id": user["id"], "username": user["name"], "name": user["name"], "team_id": team["id"]}
        place = {"id": channel["id"], "name": "directmessage" if channel["kind"] == "im" else channel["name"]}
        return {
            "user": person, "api_app_id": app["id"], "token": "verification", "team": {"id": team["id"], "domain": team["domain"]},
            "enterprise": None, "is_enterprise_install": False, "channel": place,
        }  # fmt: skip

    async def command(self, channel, user, text):
        """Uses a slash command, as in `/flock status`."""
        name, _, rest = text.partition(" ")
        app = next((one for one in self.state.of_team("app", channel["team"]) if name in one["commands"]), None)
        if not app:
            return {"error": f"{name} is not a valid command"}
        token = next(one for one in self.state.of_team("token", channel["team"]) if one["kind"] == "bot")
        if "commands" not in token["scopes"]:
            return {"error": f"{name} is not a valid command"}
        team = self.state.get("team", channel["team"])
        payload = {
            "token": "verification", "team_id": team["id"], "team_domain": team["domain"], "channel_id": channel["id"],
            "channel_name": "directmessage" if channel["kind"] == "im" else channel["name"], "user_id": user["id"],
            "user_name": user["name"], "command": name, "text": rest, "api_app_id": app["id"],
            "is_enterprise_install": "false", "response_url": self.url(app, channel, user),
            "trigger_id": trigger(self.slack, app, user),
        }  # fmt: skip
        result = await self.deliver(app, "slash_commands", payload)
        if result["answer"]:
            self.say(app, channel, user, result["answer"], None)
        return result

    def say(self, app, channel, user, given, record):
        """Posts what an app answers: to the person alone, unless it says otherwise, or in place of a message."""
        if isinstance(given.get("blocks"), list):
            name, _ = problems(given["blocks"])
            if name:
                raise SlackError(name)
        own = {"type": "message", "bot_id": app["bot_id"], "app_id": app["id"], "user": app["bot_user"], "team": app["team"]}
        body = {**own, "text": stored(str(given.get("text", "")))}
        if given.get("blocks"):
            body["blocks"] = given["blocks"]
        if given.get("delete_original") and record:
            return self.remove(channel, record)
        if given.get("replace_original") and record:
            if "ephemeral" in record:
                record["message"].update({"blocks": [], **body})
                return None
            fields = {"text": body["text"], "blocks": body.get("blocks")}
            return messages.edit(self.slack, channel, record, fields, app["bot_user"])
        if not body["text"] and not body.get("blocks"):
            return None
        if given.get("response_type") == "in_channel":
            return messages.post(self.slack, channel, body, given.get("thread_ts"), sent=given)
        return self.whisper(channel, user["id"], body, given)

    def remove(self, channel, record):
        if "ephemeral" in record:
            record["deleted"] = True
        else:
            messages.delete(self.slack, channel, record)

    async def answer(self, request):
        """A request to a `response_url`."""
        about = self.urls.get(request.match_info["key"])
        if not about or about["until"] < time.time() or about["uses"] < 1:
            name = "used_url" if about and about["uses"] < 1 else "expired_url"
            return web.json_response({"ok": False, "error": name}, status=404)
        try:
            given = json.loads(await request.text())
        except ValueError:
            given = None
        if not isinstance(given, dict):
            return web.json_response({"ok": False, "error": "invalid_payload"}, status=400)
        about["uses"] -= 1
        try:
            self.say(about["app"], about["channel"], about["user"], given, about["record"])
        except SlackError as error:
            return web.json_response(error.body, status=400)
        return web.Response(text="ok")
