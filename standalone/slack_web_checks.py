"""Checks of the Web API of Slack's stand-in, with the web client of slack_sdk as the bot and as a person."""

import json
import urllib.parse

from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from checking import check
from slack_clients import client, refusal

JSON = "application/json; charset=utf-8"
FORM = "application/x-www-form-urlencoded"


def section(text, kind="mrkdwn"):
    return {"type": "section", "text": {"type": kind, "text": text}}


def button(action="go", text="Go", **more):
    return {"type": "button", "action_id": action, "text": {"type": "plain_text", "text": text}, **more}


class Web:
    def __init__(self, stand):
        self.stand, self.given = stand, stand.workspace
        self.bot, self.ada = client(stand, self.given["botToken"]), client(stand, self.given["userToken"])
        self.general = self.given["channels"]["general"]

    def post(self, name, body=b"", kind=FORM, token=None, **headers):
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if kind:
            headers["Content-Type"] = kind
        return self.stand.raw(f"/api/{name}", body, headers, "POST")

    def run(self):
        self.stand.control("limits", {"scale": 100})
        for part in (self.tokens, self.requests, self.text, self.blocks, self.authors, self.threads, self.changes,
                     self.history, self.channels, self.files, self.limits, self.faults, self.revoked):  # fmt: skip
            part()
        self.stand.control("limits", {"scale": 100})

    def tokens(self):
        answer = self.bot.auth_test()
        check("auth.test names the bot", answer["user_id"] == self.given["bot"] and answer["bot_id"] == self.given["botId"], answer.data)
        scopes = answer.headers["X-OAuth-Scopes"].split(",")
        check("the answer's header names the scopes", "chat:write" in scopes and "channels:history" in scopes, scopes)
        token = self.given["botToken"]
        for name, seen, wanted in (
            ("without a token", self.post("auth.test"), "not_authed"),
            ("an unknown token", self.post("auth.test", token="xoxb-1-2-3"), "invalid_auth"),
            ("a header of another form", self.post("auth.test", Authorization=f"Basic {token}"), "invalid_auth"),
            ("a token in the address", self.stand.raw(f"/api/auth.test?token={token}"), "not_authed"),
            ("a bot's token for a connection", self.post("apps.connections.open", token=token), "not_allowed_token_type"),
            ("an app's token for a message", self.post("chat.postMessage", token=self.given["appToken"]), "not_allowed_token_type"),
        ):  # fmt: skip
            check(f"{name} is refused: {wanted}", seen[0] == 200 and seen[2].get("error") == wanted, seen)
        form = urllib.parse.urlencode({"token": token}).encode()
        check("a token in a form is taken", self.post("auth.test", form)[2]["ok"])
        self.stand.control("scopes", {"token": token, "remove": ["reactions:write"]})
        try:
            self.bot.reactions_add(channel=self.general, name="eyes", timestamp="1700000000.000000")
            seen = None
        except SlackApiError as error:
            seen = error.response
        check("a missing scope is named", seen and seen["error"] == "missing_scope" and seen["needed"] == "reactions:write"
              and "chat:write" in seen["provided"] and seen.headers["X-Accepted-OAuth-Scopes"] == "reactions:write", seen)  # fmt: skip
        self.stand.control("scopes", {"token": token, "add": ["reactions:write"]})

    def requests(self):
        token = self.given["botToken"]
        unknown = self.stand.control("requests")["unknown"]
        seen = self.post("chat.shout", token=token)
        check("an unknown method is refused", seen[2]["error"] == "unknown_method", seen)
        seen = self.stand.raw("/somewhere")
        check("an unknown address is not found", seen[0] == 404 and "<html>" in seen[2], seen)
        check("both are counted", self.stand.control("requests")["unknown"] == unknown + 2)
        for name, seen, wanted in (
            ("broken JSON", self.post("chat.postMessage", b"{", JSON, token), "invalid_json"),
            ("JSON that is a list", self.post("chat.postMessage", b"[]", JSON, token), "json_not_object"),
            ("a body of another type", self.post("chat.postMessage", b"x", "text/plain", token), "invalid_post_type"),
            ("JSON where a method only reads", self.post("conversations.info", json.dumps({"channel": self.general}).encode(), JSON, token), "invalid_arguments"),
            ("a message to nowhere", self.post("chat.postMessage", b"text=x", FORM, token), "channel_not_found"),
        ):  # fmt: skip
            check(f"{name} is refused: {wanted}", seen[2].get("error") == wanted, seen)
        seen = self.post("chat.postMessage", json.dumps({"channel": self.general, "text": "json"}).encode(), "application/json", token)
        check("JSON without a charset is warned of", seen[2]["ok"] and "missing_charset" in seen[2]["response_metadata"]["warnings"], seen)

    def text(self):
        self.bot.chat_postMessage(channel=self.general, text=f"a & b <@{self.given['owner']}> <!here> <x> <https://a.b|site> done1")
        seen = self.stand.appears("done1")
        check("a text is stored escaped", "a &amp; b" in seen["text"] and "&lt;x&gt;" in seen["text"], seen)
        check("people see it unescaped", seen["shown"] == "a & b @ada @here <x> site done1", seen)
        check("it notifies whom it names", seen["notifies"] == sorted([self.given["owner"], "here"]), seen)
        self.bot.chat_postMessage(channel=self.general, text=f"@channel @here &lt;!channel&gt; &lt;@{self.given['owner']}&gt; done2")
        seen = self.stand.appears("done2")
        check("an escaped text notifies nobody", seen["notifies"] == [] and "<!channel>" in seen["shown"], seen)
        self.bot.chat_postMessage(channel=self.general, text="@channel done3", parse="full")
        check("unless all words are parsed", self.stand.appears("done3")["notifies"] == ["channel"])
        self.bot.chat_postMessage(channel=self.general, text="done4", blocks=[section("<!everyone> @here"), section("<!channel>", "plain_text")])
        check("blocks notify too", self.stand.appears("done4")["notifies"] == ["everyone", "here"], self.stand.appears("done4"))
        answer = self.bot.chat_postMessage(channel=self.general, text="long " + "x" * 41_000)
        metadata = answer["response_metadata"]
        check("a text is cut at 40,000 characters", len(answer["message"]["text"]) == 40_000)
        check("and that is warned of", metadata["warnings"] == ["message_truncated"] and "[WARN]" in metadata["messages"][0], metadata)
        check("the advice of 4,000 is noted", "over 4,000 characters" in self.stand.with_text("long xxx")[0]["odd"])
        seen = refusal(self.bot.chat_postMessage, channel=self.general, text=" ")
        check("no text is refused", seen == "no_text", seen)
        seen = refusal(self.bot.chat_postMessage, channel="C0NOTTHERE0", text="x")
        check("an unknown channel is refused", seen == "channel_not_found", seen)

    def blocks(self):
        actions = {"type": "actions", "elements": [button(), button()]}
        for name, blocks, wanted in (
            ("51 blocks", [section("x")] * 51, "invalid_blocks"),
            ("3,001 characters in a section", [section("x" * 3001)], "invalid_blocks"),
            ("an empty section", [section("")], "invalid_blocks"),
            ("two elements of one action_id", [actions], "invalid_blocks"),
            ("an action_id of 256 characters", [{"type": "actions", "elements": [button("x" * 256)]}], "invalid_blocks"),
            ("a button of 76 characters", [{"type": "actions", "elements": [button(text="x" * 76)]}], "invalid_blocks"),
            ("a value of 2,001 characters", [{"type": "actions", "elements": [button(value="x" * 2001)]}], "invalid_blocks"),
            ("26 buttons", [{"type": "actions", "elements": [button(f"b{n}") for n in range(26)]}], "invalid_blocks"),
            ("a type that is not there", [{"type": "paragraph"}], "invalid_blocks"),
            ("blocks that are no list", {"type": "section"}, "invalid_blocks_format"),
            ("more than 10,000 characters in all", [section("x" * 2600)] * 4, "msg_blocks_too_long"),
        ):  # fmt: skip
            seen = refusal(self.bot.chat_postMessage, channel=self.general, text="x", blocks=blocks)
            check(f"{name}: {wanted}", seen == wanted, seen)
        try:
            self.bot.chat_postMessage(channel=self.general, text="x", blocks=[section("x" * 3001)])
        except SlackApiError as error:
            words = error.response["response_metadata"]["messages"]
            check("the error says where", words == ["[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]"], words)
        fifty = self.bot.chat_postMessage(channel=self.general, text="x", blocks=[section("x" * 100)] * 50)
        check("fifty blocks are taken", len(fifty["message"]["blocks"]) == 50)

    def authors(self):
        answer = self.bot.chat_postMessage(channel=self.general, text="as helper", username="helper", icon_emoji=":bird:")
        message = answer["message"]
        check("a message has a name of its own", message["subtype"] == "bot_message" and message["username"] == "helper"
              and message["icons"] == {"emoji": ":bird:"} and "user" not in message, message)  # fmt: skip
        self.stand.control("scopes", {"token": self.given["botToken"], "remove": ["chat:write.customize"]})
        message = self.bot.chat_postMessage(channel=self.general, text="as itself", username="helper")["message"]
        check("without the scope the name is left out", "username" not in message and message["user"] == self.given["bot"], message)
        check("which a test can see", self.stand.with_text("as itself")[0]["odd"] == ["username without chat:write.customize"])
        self.stand.control("scopes", {"token": self.given["botToken"], "add": ["chat:write.customize"]})
        bob = self.stand.control("user", {"account": "bob", "token": True})
        seen = refusal(client(self.stand, bob["token"]).chat_postMessage, channel=self.general, text="x")
        check("a person writes only where they are", seen == "not_in_channel", seen)

    def threads(self):
        top = self.bot.chat_postMessage(channel=self.general, text="top")["ts"]
        self.ada.chat_postMessage(channel=self.general, text="hidden reply", thread_ts=top)
        self.bot.chat_postMessage(channel=self.general, text="loud reply", thread_ts=top, reply_broadcast=True)
        seen = {one["text"]: one for one in self.bot.conversations_history(channel=self.general)["messages"]}
        check("the history has no replies but loud ones", "top" in seen and "loud reply" in seen and "hidden reply" not in seen)
        check("a message counts its replies", seen["top"]["reply_count"] == 2 and seen["loud reply"]["subtype"] == "thread_broadcast", seen["top"])
        replies = [one["text"] for one in self.bot.conversations_replies(channel=self.general, ts=top)["messages"]]
        check("a thread has all of them", replies == ["top", "hidden reply", "loud reply"], replies)
        self.bot.chat_delete(channel=self.general, ts=top)
        replies = self.bot.conversations_replies(channel=self.general, ts=top)["messages"]
        check("a deleted message with a thread leaves a tombstone", replies[0]["subtype"] == "tombstone" and len(replies) == 3, replies)
        seen = refusal(self.bot.chat_postMessage, channel=self.general, text="x", thread_ts="yesterday")
        check("a malformed thread is refused", seen == "invalid_thread_ts", seen)

    def changes(self):
        mine = self.bot.chat_postMessage(channel=self.general, text="mine", blocks=[section("mine")])["ts"]
        hers = self.ada.chat_postMessage(channel=self.general, text="hers")["ts"]
        answer = self.bot.chat_update(channel=self.general, ts=mine, text="mine, better")
        check("a message is changed, and its blocks go", answer["text"] == "mine, better" and "blocks" not in answer["message"]
              and "edited" in answer["message"], answer.data)  # fmt: skip
        for name, seen, wanted in (
            ("4,001 characters", refusal(self.bot.chat_update, channel=self.general, ts=mine, text="x" * 4001), "msg_too_long"),
            ("another's", refusal(self.bot.chat_update, channel=self.general, ts=hers, text="x"), "cant_update_message"),
            ("none", refusal(self.bot.chat_update, channel=self.general, ts="1700000000.000000", text="x"), "message_not_found"),
            ("one by the channel's name", refusal(self.bot.chat_update, channel="general", ts=mine, text="x"), "channel_not_found"),
        ):  # fmt: skip
            check(f"to change {name} is refused: {wanted}", seen == wanted, seen)
        seen = refusal(self.bot.chat_delete, channel=self.general, ts=hers)
        check("to delete another's is refused", seen == "cant_delete_message", seen)
        self.bot.chat_delete(channel=self.general, ts=mine)
        seen = refusal(self.bot.chat_delete, channel=self.general, ts=mine)
        check("a deleted message is not there", seen == "message_not_found", seen)
        self.bot.reactions_add(channel=self.general, timestamp=hers, name="thumbsup")
        seen = refusal(self.bot.reactions_add, channel=self.general, timestamp=hers, name="thumbsup")
        check("a second reaction of the kind is refused", seen == "already_reacted", seen)
        seen = refusal(self.bot.reactions_add, channel=self.general, timestamp=hers, name="👍")
        check("a reaction that is no name is refused", seen == "invalid_name", seen)
        seen = self.bot.reactions_get(channel=self.general, timestamp=hers)["message"]["reactions"]
        check("the reaction is there", seen == [{"name": "thumbsup", "users": [self.given["bot"]], "count": 1}], seen)
        self.bot.chat_postEphemeral(channel=self.general, user=self.given["owner"], text="only for ada")
        texts = [one["text"] for one in self.bot.conversations_history(channel=self.general)["messages"]]
        check("a message for one person is in no history", "only for ada" not in texts)
        check("that person sees it", self.stand.with_text("only for ada")[0]["ephemeralTo"] == self.given["owner"])

    def history(self):
        channel = self.bot.conversations_create(name="pages")["channel"]["id"]
        sent = [self.bot.chat_postMessage(channel=channel, text=f"page {n}", metadata={"event_type": "flock", "event_payload": {"n": n}}) for n in range(25)]
        seen = [one for page in self.bot.conversations_history(channel=channel, limit=7) for one in page["messages"]]
        check("pages have everything, the newest first", [one["text"] for one in seen][:25] == [f"page {n}" for n in reversed(range(25))], seen)
        check("metadata is left out unless asked for", "metadata" not in seen[0])
        after = self.bot.conversations_history(channel=channel, oldest=sent[20]["ts"], include_all_metadata=True)["messages"]
        check("a range has what comes after", [one["metadata"]["event_payload"]["n"] for one in after] == [24, 23, 22, 21], after)
        both = self.bot.conversations_history(channel=channel, oldest=sent[3]["ts"], latest=sent[5]["ts"], inclusive=True)["messages"]
        check("and its ends if so asked", [one["text"] for one in both] == ["page 5", "page 4", "page 3"], both)
        for name, seen, wanted in (
            ("a cursor", refusal(self.bot.conversations_history, channel=channel, cursor="nonsense"), "invalid_cursor"),
            ("a time", refusal(self.bot.conversations_history, channel=channel, oldest="noon"), "invalid_ts_oldest"),
            ("metadata", refusal(self.bot.chat_postMessage, channel=channel, text="x", metadata={"event_type": "a b", "event_payload": {}}), "invalid_metadata_format"),
        ):  # fmt: skip
            check(f"{name} of another form is refused: {wanted}", seen == wanted, seen)

    def channels(self):
        made = self.bot.conversations_create(name="plans")["channel"]
        self.bot.conversations_setTopic(channel=made["id"], topic="what next")
        self.bot.conversations_rename(channel=made["id"], name="plans-2")
        info = self.bot.conversations_info(channel=made["id"], include_num_members=True)["channel"]
        check("a channel is made, named and described", info["name"] == "plans-2" and info["topic"]["value"] == "what next" and info["num_members"] == 1, info)
        check("the channel shows it", [one["subtype"] for one in self.stand.messages("plans-2")] == ["channel_topic", "channel_name"])
        secret = self.stand.control("channel", {"name": "secret", "private": True})["channel"]
        other = self.stand.control("channel", {"name": "elsewhere"})["channel"]
        for name, seen, wanted in (
            ("a name with capitals", refusal(self.bot.conversations_create, name="Plans"), "invalid_name_specials"),
            ("a name that is taken", refusal(self.bot.conversations_create, name="plans-2"), "name_taken"),
            ("a name of 81 characters", refusal(self.bot.conversations_create, name="x" * 81), "invalid_name_maxlength"),
            ("a topic of 251 characters", refusal(self.bot.conversations_setTopic, channel=made["id"], topic="x" * 251), "too_long"),
            ("to look into a private channel", refusal(self.bot.conversations_info, channel=secret), "channel_not_found"),
            ("to write where the bot is not", refusal(self.bot.chat_postMessage, channel=other, text="x"), "not_in_channel"),
            ("to read where the bot is not", refusal(self.bot.conversations_history, channel=other), "not_in_channel"),
            ("to rename another's channel", refusal(self.bot.conversations_rename, channel=self.general, name="mine"), "not_authorized"),
        ):  # fmt: skip
            check(f"{name} is refused: {wanted}", seen == wanted, seen)
        self.bot.conversations_join(channel=other)
        check("the bot joins", self.given["bot"] in self.bot.conversations_members(channel=other)["members"])
        names = [one["name"] for page in self.bot.conversations_list(types="public_channel,private_channel", limit=2) for one in page["channels"]]
        check("the list has what the bot may see", {"general", "plans-2", "elsewhere"} <= set(names) and "secret" not in names, names)
        self.bot.conversations_archive(channel=other)
        seen = refusal(self.bot.chat_postMessage, channel=other, text="x")
        check("an archived channel takes no messages", seen == "is_archived", seen)
        im = self.bot.conversations_open(users=self.given["owner"])["channel"]["id"]
        self.bot.chat_postMessage(channel=im, text="between us")
        check("a direct message arrives", self.stand.with_text("between us", "@flock")[0]["channel"] == im)
        user = self.bot.users_info(user=self.given["owner"])["user"]
        check("a person is known", user["profile"]["display_name"] == "ada" and not user["is_bot"], user)
        check("people, team and bot are told", len(self.bot.users_list()["members"]) >= 2 and self.bot.team_info()["team"]["id"] == self.given["team"]
              and self.bot.bots_info(bot=self.given["botId"])["bot"]["user_id"] == self.given["bot"])  # fmt: skip

    def files(self):
        answer = self.bot.files_upload_v2(channel=self.general, filename="note.txt", content="what is in it", initial_comment="see this", title="Note")
        file = answer["files"][0]["id"]
        seen = self.stand.appears("see this")
        check("a file is sent with its message", seen["files"] == [file] and seen["subtype"] == "file_share", seen)
        info = self.bot.files_info(file=file)["file"]
        check("the file names its message", info["shares"]["public"][self.general][0]["ts"] == seen["ts"], info)
        place = info["url_private_download"].removeprefix(self.stand.base)
        seen = self.stand.raw(place, headers={"Authorization": f"Bearer {self.given['botToken']}"})
        check("it is fetched with the token", seen[0] == 200 and seen[2] == "what is in it", seen)
        seen = self.stand.raw(place)
        check("without one there is a page to sign in", seen[0] == 200 and "Sign in" in seen[2] and "text/html" in seen[1]["Content-Type"], seen)
        announced = self.bot.files_getUploadURLExternal(filename="a.txt", length=3)
        seen = refusal(self.bot.files_completeUploadExternal, files=[{"id": announced["file_id"]}], channel_id=self.general)
        check("a file without its bytes can't be completed", seen == "file_not_found", seen)

    def limits(self):
        self.stand.control("limits", {"scale": 1})
        channel = self.bot.conversations_create(name="busy")["channel"]["id"]
        seen = [self.post("chat.postMessage", f"channel={channel}&text=limit".encode(), FORM, self.given["botToken"]) for _ in range(8)]
        limited = [one for one in seen if one[0] == 429]
        check("a channel takes a message a second, and a few at once", len(limited) >= 1 and seen[4][0] == 200, [one[0] for one in seen])
        status, headers, body = limited[0]
        check("the answer says when to come back", body == {"ok": False, "error": "ratelimited"} and int(headers["Retry-After"]) >= 1, body)
        patient = client(self.stand, self.given["botToken"])
        patient.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=20))
        for n in range(3):
            patient.chat_postMessage(channel=channel, text=f"patient {n}")
        check("a client that waits loses nothing", [one["shown"] for one in self.stand.with_text("patient", "busy")] == ["patient 0", "patient 1", "patient 2"])
        statuses = [self.post("conversations.list", b"", FORM, self.given["botToken"])[0] for _ in range(25)]
        check("a method of tier 2 is limited to 20 a minute", 429 in statuses and statuses[:20] == [200] * 20, statuses)
        self.stand.control("limits", {"scale": 100})

    def faults(self):
        token = self.given["botToken"]
        self.stand.control("fault", {"route": "chat.postMessage", "status": 503})
        seen = self.post("chat.postMessage", f"channel={self.general}&text=fault0".encode(), FORM, token)
        check("a fault is met once", seen[0] == 503 and not self.stand.with_text("fault0"), seen)
        self.stand.control("fault", {"route": "chat.*", "status": 429, "retryAfter": 7})
        seen = self.post("chat.postMessage", f"channel={self.general}&text=fault1".encode(), FORM, token)
        check("a limit comes as asked", seen[0] == 429 and seen[1]["Retry-After"] == "7", seen)
        self.stand.control("fault", {"route": "chat.postMessage", "after": "after"})
        seen = self.post("chat.postMessage", f"channel={self.general}&text=fault2".encode(), FORM, token)
        check("a message is posted and its answer lost", seen[0] == 0 and len(self.stand.with_text("fault2")) == 1, seen)
        self.stand.control("fault", {"route": "chat.postMessage"})
        seen = self.post("chat.postMessage", f"channel={self.general}&text=fault3".encode(), FORM, token)
        check("or the connection ends before", seen[0] == 0 and not self.stand.with_text("fault3"), seen)
        seen = self.post("chat.postMessage", f"channel={self.general}&text=fault4".encode(), FORM, token)
        check("then all is well again", seen[2]["ok"] and len(self.stand.with_text("fault4")) == 1, seen)

    def revoked(self):
        for fault in ("token_revoked", "invalid_auth", "account_inactive"):
            self.stand.control("revoke", {"token": self.given["botToken"], "as": fault})
            seen = refusal(self.bot.chat_postMessage, channel=self.general, text="x")
            check(f"a token is worth nothing: {fault}", seen == fault, seen)
        self.stand.control("revoke", {"token": self.given["botToken"], "as": None})
        check("and can be healed", self.bot.auth_test()["ok"])
