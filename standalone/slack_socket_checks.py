"""Checks of Socket Mode of Slack's stand-in, with the client of slack_sdk."""

import time

from checking import check, until
from slack_clients import Bot, client, refusal
from slack_stand import SOON


class Sockets:
    def __init__(self, stand):
        self.stand, self.given = stand, stand.workspace
        self.web, self.ada = client(stand, self.given["botToken"]), client(stand, self.given["userToken"])
        self.general = self.given["channels"]["general"]

    def run(self):
        self.stand.control("limits", {"scale": 100})
        self.bot = Bot(self.stand, self.given["appToken"])
        try:
            for part in (self.opened, self.events, self.rights, self.interactions, self.again, self.reconnected, self.gap):
                part()
        finally:
            self.bot.close()
        self.many()
        self.silence()
        self.no_more()

    def opened(self):
        check("a connection opens", self.bot.connect())
        hello = self.bot.hellos[0]
        check("it is greeted", hello["num_connections"] == 1 and hello["connection_info"]["app_id"] == self.given["app"]
              and hello["debug_info"]["approximate_connection_time"] > 0, hello)  # fmt: skip
        url = client(self.stand, self.given["appToken"]).apps_connections_open(app_token=self.given["appToken"])["url"]
        path = url.partition(str(self.stand.port))[2]
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
        self.stand.raw(path, headers=upgrade)
        seen = self.stand.raw(path, headers=upgrade)
        check("a ticket is for one use", seen[0] == 408, seen)
        until(SOON, lambda: len(self.stand.control("socket")["connections"]) == 1)

    def events(self):
        said = self.stand.say("hello there")
        event = self.bot.gets(text="hello there")
        check("a message arrives", event and event["user"] == self.given["owner"] and event["ts"] == said["ts"] == event["event_ts"]
              and event["channel"] == self.general and event["channel_type"] == "channel" and event["client_msg_id"], event)  # fmt: skip
        envelope = next(one for one in self.bot.requests if one.payload["event"] == event)
        check("its envelope has an id and no retry", envelope.type == "events_api" and envelope.envelope_id
              and not envelope.retry_attempt and envelope.payload["authorizations"][0]["user_id"] == self.given["bot"], envelope.to_dict())  # fmt: skip
        posted = self.ada.chat_postMessage(channel=self.general, text="by the person's own client")
        check("a person's own client is heard", self.bot.gets(ts=posted["ts"])["user"] == self.given["owner"])
        self.web.chat_postMessage(channel=self.general, text="own words", thread_ts=said["ts"])
        own = self.bot.gets(text="own words")
        check("so is the bot itself, by its id", own["bot_id"] == self.given["botId"] and own["thread_ts"] == said["ts"], own)
        self.stand.say("from another app", account="other", bot=True)
        check("and another bot", self.bot.gets(subtype="bot_message", text="from another app")["bot_id"])
        self.stand.say(f"<@{self.given['bot']}> look")
        check("a mention comes twice", self.bot.gets("app_mention", text=f"<@{self.given['bot']}> look") and self.bot.gets(text=f"<@{self.given['bot']}> look"))
        self.stand.say("hello again", edit=said["ts"])
        event = self.bot.gets(subtype="message_changed")
        check("a change has both texts", event["message"]["text"] == "hello again" and event["previous_message"]["text"] == "hello there"
              and event["message"]["edited"]["user"] == self.given["owner"], event)  # fmt: skip
        self.stand.say(unfurl=said["ts"], url="https://example.org")
        event = until(SOON, lambda: [one for one in self.bot.events(subtype="message_changed") if "attachments" in one["message"]])[0]
        check("an unfurled link is a change without a new text", event["message"]["text"] == event["previous_message"]["text"], event)
        self.stand.say(react=said["ts"], reaction="eyes", account="bob")
        event = self.bot.gets("reaction_added")
        check("a reaction arrives", event["reaction"] == "eyes" and event["item"]["ts"] == said["ts"] and event["item_user"] == self.given["owner"], event)
        self.stand.say(unreact=said["ts"], reaction="eyes", account="bob")
        check("and its end", self.bot.gets("reaction_removed"))
        check("who joins is told", self.bot.gets("member_joined_channel") and self.bot.gets(subtype="channel_join"))
        short = self.stand.say("soon gone")["ts"]
        self.stand.say(delete=short)
        check("a deletion names the message", self.bot.gets(subtype="message_deleted")["deleted_ts"] == short)
        self.stand.say("a file", files=[{"name": "a.txt", "content": "inside"}])
        event = self.bot.gets(subtype="file_share")
        check("a file arrives", event["files"][0]["name"] == "a.txt" and event["files"][0]["size"] == 6 and self.bot.gets("file_shared"), event)
        self.stand.say("in private", channel="@flock")
        check("a direct message arrives", self.bot.gets(text="in private")["channel_type"] == "im")
        self.stand.control("channel", {"name": "short", "members": ["flock"]})
        self.stand.control("channel", {"channel": "short", "topic": "new", "rename": "shorter"})
        self.stand.control("channel", {"channel": "shorter", "archived": True})
        check("topic, name and archiving are told", self.bot.gets(subtype="channel_topic", topic="new") and self.bot.gets("channel_rename")["channel"]["name"] == "shorter"
              and self.bot.gets("channel_archive"))  # fmt: skip

    def rights(self):
        self.stand.control("channel", {"name": "apart"})
        self.stand.say("not for the bot 1", channel="apart")
        self.stand.control("app", {"unsubscribe": ["message.im"]})
        self.stand.say("not for the bot 2", channel="@flock")
        self.stand.control("scopes", {"token": self.given["botToken"], "remove": ["channels:history"]})
        self.stand.say("not for the bot 3")
        self.stand.control("scopes", {"token": self.given["botToken"], "add": ["channels:history"]})
        self.stand.say("for the bot")
        check("an app hears only where it is, has subscribed, and may", self.bot.gets(text="for the bot")
              and not [one for one in self.bot.events() if "not for the bot" in one.get("text", "")])  # fmt: skip

    def interactions(self):
        element = {"type": "button", "action_id": "approve", "value": "r1", "text": {"type": "plain_text", "text": "Approve"}}
        asked = self.web.chat_postMessage(channel=self.general, text="ask", blocks=[{"type": "actions", "elements": [element]}])
        result = self.stand.say(press=asked["ts"], account="bob")
        request = next(one for one in self.bot.requests if one.type == "interactive")
        payload = request.payload
        check("a button press arrives and is acknowledged", result["acknowledged"] and payload["type"] == "block_actions"
              and payload["actions"][0]["value"] == "r1" and payload["user"]["id"] == result["user"] and payload["message"]["ts"] == asked["ts"], payload)  # fmt: skip
        url = payload["response_url"].removeprefix(self.stand.base)
        answer = [self.stand.raw(url, b'{"replace_original": true, "text": "decided"}', {"Content-Type": "application/json"}) for _ in range(6)]
        check("it is answered by its address", answer[0][2] == "ok" and self.stand.appears("decided")["ts"] == asked["ts"], answer[0])
        check("which can be used five times", answer[4][2] == "ok" and answer[5][0] == 404 and answer[5][2]["error"] == "used_url", answer)
        view = {"type": "modal", "title": {"type": "plain_text", "text": "Why?"}, "blocks": []}
        seen = refusal(self.web.views_open, trigger_id="1.2.3", view=view)
        check("a view needs a trigger", seen == "invalid_trigger_id", seen)
        asked = self.web.chat_postMessage(channel=self.general, text="ask", blocks=[{"type": "actions", "elements": [element]}])
        self.stand.say(press=asked["ts"], account="bob")
        trigger = [one for one in self.bot.requests if one.type == "interactive"][-1].payload["trigger_id"]
        opened = self.web.views_open(trigger_id=trigger, view=view)["view"]
        seen = refusal(self.web.views_open, trigger_id=trigger, view=view)
        check("and each trigger opens one", seen == "exchanged_trigger_id", seen)
        result = self.stand.say(submit=opened["id"], values={"b": {"a": {"value": "because"}}}, account="bob")
        payload = [one for one in self.bot.requests if one.type == "interactive"][-1].payload
        check("a view that is submitted arrives", result["acknowledged"] and payload["type"] == "view_submission"
              and payload["view"]["state"]["values"]["b"]["a"]["value"] == "because", payload)  # fmt: skip
        self.bot.answer = {"text": "all is well"}
        result = self.stand.say(command="/flock status now", account="bob")
        request = next(one for one in self.bot.requests if one.type == "slash_commands")
        check("a command arrives", request.payload["command"] == "/flock" and request.payload["text"] == "status now"
              and request.payload["user_id"] == result["user"] and request.accepts_response_payload, request.payload)  # fmt: skip
        check("its answer is seen by one person", self.stand.with_text("all is well")[0]["ephemeralTo"] == result["user"])
        self.bot.is_holding = True
        result = self.stand.say(command="/flock slow")
        check("a command that is not acknowledged fails for the person", result["acknowledged"] is False, result)
        self.bot.is_holding = False
        check("and is delivered once", sum(one.payload.get("text") == "slow" for one in self.bot.requests) == 1)

    def again(self):
        self.stand.control("socket", {"retries": [0, 1, 1]})
        self.bot.is_holding = True
        begun = time.monotonic()
        self.stand.say("hold on")
        both = until(SOON, lambda: [one for one in self.bot.requests if one.payload.get("event", {}).get("text") == "hold on"][1:])
        took = time.monotonic() - begun
        self.bot.is_holding = False
        first = next(one for one in self.bot.requests if one.payload.get("event", {}).get("text") == "hold on")
        again = both[0]
        check("an event that is not acknowledged comes again", again.retry_attempt == 1 and again.retry_reason == "timeout", again.to_dict())
        check("it is the same event in a new envelope", again.payload["event_id"] == first.payload["event_id"] and again.envelope_id != first.envelope_id)
        check("after three seconds", took >= 3, took)
        done = until(SOON, lambda: [one for one in self.stand.control("socket")["deliveries"] if one["event"] == first.payload["event_id"] and one["state"] == "acknowledged"])
        check("until it is acknowledged", done and len(done[0]["tries"]) >= 2, done)
        count = len(self.bot.events(text="hold on"))
        self.stand.control("redeliver", {"event": first.payload["event_id"], "new": True})
        until(SOON, lambda: len(self.bot.events(text="hold on")) > count)
        ids = {one.payload["event_id"] for one in self.bot.requests if one.payload.get("event", {}).get("text") == "hold on"}
        check("Slack may send an event again with another id", len(ids) == 2, ids)

    def reconnected(self):
        for how, reason in (("disconnect", "warning"), ("disconnect", "refresh_requested"), ("close", ""), ("abort", "")):
            before = len(self.bot.hellos)
            self.stand.control("drop", {"how": how, "reason": reason, "seconds": 1})
            check(f"the client connects again after {reason or how}", until(SOON, lambda: len(self.bot.hellos) > before))
            # The old connection may still be there, and may have been closed for good by now.
            until(SOON, lambda: len(self.stand.control("socket")["connections"]) == 1)
            self.stand.say(f"after {reason or how}")
            check("and hears again", self.bot.gets(text=f"after {reason or how}"))

    def gap(self):
        last = self.stand.say("before the gap")["ts"]
        self.bot.gets(text="before the gap")
        self.stand.control("socket", {"loseOffline": True})
        self.bot.close()
        until(SOON, lambda: not self.stand.control("socket")["connections"])
        for n in range(30):
            self.stand.say(f"in the gap {n}")
        lost = [one for one in self.stand.control("socket")["deliveries"] if one["state"] == "lost"]
        check("events without a connection are lost", len(lost) >= 30, len(lost))
        self.bot = Bot(self.stand, self.given["appToken"])
        check("a new client connects", self.bot.connect())
        pages = self.web.conversations_history(channel=self.general, oldest=last, limit=10)
        seen = [one["text"] for page in pages for one in page["messages"]][::-1]
        check("the history has all that was missed, in order", seen == [f"in the gap {n}" for n in range(30)], seen)
        self.stand.control("socket", {"loseOffline": False, "retries": [0, 2, 2]})
        self.bot.close()
        until(SOON, lambda: not self.stand.control("socket")["connections"])
        self.stand.say("said to nobody")
        self.bot = Bot(self.stand, self.given["appToken"])
        self.bot.connect()
        self.bot.gets(text="said to nobody")
        request = next((one for one in self.bot.requests if one.payload.get("event", {}).get("text") == "said to nobody"), None)
        check("else they come later, as a retry", request and request.retry_attempt >= 1, request and request.to_dict())

    def many(self):
        bots = [Bot(self.stand, self.given["appToken"]) for _ in range(2)]
        try:
            for bot in bots:
                bot.connect()
            check("the second connection is counted", bots[1].hellos[0]["num_connections"] == 2, bots[1].hellos)
            for n in range(10):
                self.stand.say(f"to one of two {n}")
            texts = lambda: sorted(one["text"] for bot in bots for one in bot.events() if "to one of two" in one.get("text", ""))  # noqa: E731
            until(SOON, lambda: len(texts()) >= 10)
            check("each event goes to one of them", texts() == [f"to one of two {n}" for n in range(10)], texts())
            check("and both get some", all(bot.events() for bot in bots))
        finally:
            for bot in bots:
                bot.close()
        until(SOON, lambda: not self.stand.control("socket")["connections"])
        self.stand.control("drop", {})

    def silence(self):
        bot = Bot(self.stand, self.given["appToken"], ping_interval=1)
        try:
            bot.connect()
            self.stand.control("drop", {"how": "silence"})
            check("a client notices a connection that went silent", until(SOON, lambda: len(bot.hellos) > 1), bot.hellos)
            self.stand.say("after the silence")
            check("and hears again", bot.gets(text="after the silence"))
        finally:
            bot.close()

    def no_more(self):
        app = client(self.stand, self.given["appToken"])
        opening = lambda: refusal(app.apps_connections_open, app_token=self.given["appToken"])  # noqa: E731
        self.stand.control("scopes", {"token": self.given["appToken"], "set": []})
        check("a connection needs its scope", opening() == "missing_scope")
        self.stand.control("scopes", {"token": self.given["appToken"], "set": ["connections:write"]})
        self.stand.control("revoke", {"token": self.given["appToken"], "as": "invalid_auth"})
        check("and a token", opening() == "invalid_auth")
        self.stand.control("revoke", {"token": self.given["appToken"], "as": None})
        check("which can be healed", opening() is None)
