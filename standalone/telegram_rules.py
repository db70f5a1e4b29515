"""Telegram's rules that a client library hides, checked by plain requests: text, buttons, polling, who sees what."""

import http.client
import json
import threading
import urllib.parse

from checking import check, until
from telegram_refusals import refusals

LIMIT = 60
HTML = [
    ("<b>x", 'can\'t parse entities: Can\'t find end tag corresponding to start tag "b"'),
    ("ä<p>x</p>", 'can\'t parse entities: Unsupported start tag "p" at byte offset 2'),
    ("1 < 2", 'can\'t parse entities: Unsupported start tag "" at byte offset 2'),
    ("<b", "can't parse entities: Unclosed start tag at byte offset 0"),
    ("x</b>", "can't parse entities: Unexpected end tag at byte offset 1"),
    ("<b><i>x</b></i>", 'can\'t parse entities: Unmatched end tag at byte offset 7, expected "</i>", found "</b>"'),
    ("<span>x</span>", 'can\'t parse entities: Tag "span" must have class "tg-spoiler" at byte offset 0'),
    ("<a href=a_b>x</a>", "can't parse entities: Unexpected end of name token at byte offset 8"),
    ("<b> \n</b>", "text must be non-empty"),
]
SHOWN = [
    ("<b>a</b> &lt;b&gt; &amp;amp; &nbsp;", "<bold>a</bold> <b> &amp; &nbsp;"),
    ('<pre><code class="language-rust">fn</code></pre>', "<pre rust>fn</pre>"),
    ("<blockquote expandable>q</blockquote><s>x</s>", "<expandable_blockquote>q</expandable_blockquote><strikethrough>x</strikethrough>"),
    ('<a href="https://example.org/?a=1&amp;b=2">😀</a>', "<text_link https://example.org/?a=1&b=2>😀</text_link>"),
    ("  a\u202e\tb \n", "a b"),
]


def asked(standin, method, path, body=None, kind=None):
    """One request as it is; status, headers, body."""
    connection = http.client.HTTPConnection("127.0.0.1", standin.port, timeout=LIMIT)
    try:
        connection.request(method, path, body, {"Content-Type": kind} if kind else {})
        response = connection.getresponse()
        return response.status, response.headers, json.loads(response.read() or b"null")
    except (http.client.HTTPException, OSError) as error:
        return 0, {}, type(error).__name__
    finally:
        connection.close()


class Stage:
    """A bot in a chat with alice and bob, and what the bot asks and gets."""

    def __init__(self, standin, name, rights=None, privacy=True, **chat):
        self.standin, self.name = standin, name
        self.token = standin.post("bot", username=name, privacy=privacy)["token"]
        self.chat = standin.post("chat", title=f"Chat of {name}", members=["alice", "bob", name], **chat)["id"]
        if rights is not None:
            standin.post("member", channel=self.chat, account=name, status="administrator", rights=rights)
        self.news()

    def __call__(self, method, **given):
        return self.standin.bot(self.token, method, **given)

    def send(self, text, **more):
        return self("sendMessage", chat_id=self.chat, text=text, **more)

    def refused(self, method, expected, **given):
        answer = self(method, **{"chat_id": self.chat, **given})
        check(f"{method}: {expected[:90]}", answer.get("description") == expected, answer)

    def say(self, text, account="alice", **more):
        return self.standin.say(account, self.chat, text, **more)

    def last(self):
        return self.standin.messages(self.chat)[-1]

    def news(self):
        """What waits for the bot; it is confirmed."""
        pending = self.standin.get("updates", bot=self.name)["pending"]
        if pending:
            self("getUpdates", offset=pending[-1]["update_id"] + 1)
        return pending

    def texts(self):
        return [one["message"].get("text") for one in self.news() if "message" in one]


def requests(standin):
    stage = Stage(standin, "request_bot")
    path, chat = f"/bot{stage.token}", stage.chat
    form = urllib.parse.urlencode({"chat_id": chat, "text": "ä b", "reply_markup": '{"inline_keyboard":[]}'})
    boundary = f'--b\r\nContent-Disposition: form-data; name="chat_id"\r\n\r\n{chat}\r\n--b\r\n' \
               'Content-Disposition: form-data; name="text"\r\n\r\nä b\r\n--b--\r\n'
    ways = {"query": ("GET", f"{path}/sendMessage?{form}"),
            "form": ("POST", f"{path}/SENDMESSAGE", form, "application/x-www-form-urlencoded"),
            "JSON": ("POST", f"{path}/sendmessage", json.dumps({"chat_id": chat, "text": "ä b", "reply_markup": {}}), "application/json"),
            "multipart": ("POST", f"{path}/sendMessage", boundary.encode(), "multipart/form-data; boundary=b")}
    for way, request in ways.items():
        status, _, body = asked(standin, *request)
        check(f"parameters in a {way}", status == 200 and body["ok"] and body["result"]["text"] == "ä b", body)
    status, _, body = asked(standin, "POST", f"{path}/sendMessage", form, "text/plain")
    check("a body of another type is not seen", (status, body["description"]) == (400, "Bad Request: message text is empty"), body)
    for token, code, words in (("123:short", 404, "Not Found"), ("7000000009:" + "a" * 35, 401, "Unauthorized")):
        status, _, body = asked(standin, "GET", f"/bot{token}/getMe")
        check(f"a wrong token is refused with {code}", (status, body) == (code, {"ok": False, "error_code": code, "description": words}), body)
    status, _, body = asked(standin, "GET", f"{path}/getMee")
    check("an unknown method is not found", (status, body["description"]) == (404, "Not Found: method not found"), body)
    stage.refused("sendMessage", "Bad Request: unsupported parse_mode", text="x", parse_mode=None)
    stage.refused("sendMessage", "Bad Request: object expected as reply markup", text="x", reply_markup=None)
    stage.refused("sendMessage", "Bad Request: strings must be encoded in UTF-8", text="\ud83d")
    stage.refused("sendMessage", "Bad Request: message text is empty")
    stage.refused("sendMessage", "Bad Request: chat not found", text="x", chat_id=-5)
    stage.refused("sendMessage", "Bad Request: chat_id is empty", text="x", chat_id="")


def text(standin):
    stage = Stage(standin, "text_bot")
    for html, expected in HTML:
        stage.refused("sendMessage", f"Bad Request: {expected}", text=html, parse_mode="HTML")
    for html, expected in SHOWN:
        stage.send(html, parse_mode="HTML")
        check(f"HTML {html.strip()[:40]}", stage.last()["shown"] == expected, stage.last()["shown"])
    stage.refused("sendMessage", "Bad Request: message is too long", text="😀" * 2049)
    check("4,096 code units are sent", stage.send("😀" * 2048)["ok"])
    check("references count as one", stage.send("&lt;" * 4096, parse_mode="HTML")["ok"])
    stage.refused("sendMessage", "Bad Request: text is too long", text="&lt;" * 8193, parse_mode="HTML")
    many = stage.send("<b>x</b> " * 120, parse_mode="HTML")["result"]["entities"]
    check("more than a hundred entities are ignored", len(many) == 100, len(many))
    bold = stage.send("plain", entities=[{"type": "bold", "offset": 0, "length": 5}])["result"]
    check("entities may be given", bold["entities"] == [{"type": "bold", "offset": 0, "length": 5}], bold)
    alice = stage.say("I am here")
    numbers = {one["author"]["username"]: one["author"]["id"] for one in standin.messages(stage.chat)}
    called = {"@bob @nobody": ["bob"], "<code>@bob</code>": [], "a@bob @\u2060bob": [], "@bobby": [], "@everyone": [],
              f'<a href="tg://user?id={numbers["alice"]}">you</a>': ["alice"], "&#64;bob": ["bob"]}
    for words, expected in called.items():
        stage.send(words, parse_mode="HTML")
        notified = [one["username"] for one in stage.last()["notifies"]]
        check(f"{ascii(words)[:50]} calls {expected or 'nobody'}", notified == expected, notified)
    stage.send("yes", reply_parameters={"message_id": alice["id"]}, disable_notification=True)
    check("an answer calls its author", [one["username"] for one in stage.last()["notifies"]] == ["alice"] and stage.last()["silent"])


def polling(standin):
    stage = Stage(standin, "poll_bot", privacy=False)
    for number in range(5):
        stage.say(f"m{number}")

    def poll(**given):
        return [one["message"]["text"] for one in stage("getUpdates", **given)["result"]]

    everything = [f"m{number}" for number in range(5)]
    standin.post("settings", repeatedPolls=False)
    check("updates come again until they are confirmed", poll(limit=100) == poll() == everything)
    check("a limit is kept", poll(limit=2) == everything[:2])
    second = stage("getUpdates", limit=2)["result"][1]["update_id"]
    check("a higher offset confirms", poll(offset=second) == everything[1:] == poll(), poll())
    check("a negative offset forgets all but the last", poll(offset=-2) == everything[3:] == poll())
    standin.post("settings", repeatedPolls=True)
    check("the same request at once gets one update only", poll() and len(poll()) == 1)
    stage.news()
    stage("getUpdates", allowed_updates=["edited_message"], offset=-1)
    said = stage.say("not asked for")
    standin.post("say", account="alice", channel=stage.chat, edit=said["id"], text="asked for")
    news = stage.news()
    check("allowed_updates is remembered", [list(one)[1] for one in news] == ["edited_message"], news)
    stage("getUpdates", allowed_updates=[], offset=-1)
    standin.post("settings", repeatedPolls=False)
    stage.say("old")
    standin.post("clock", advance=86401)
    check("updates are kept for a day", poll() == [])

    answers = []

    def wait(name, **given):
        thread = threading.Thread(target=lambda: answers.append((name, *asked(standin, "POST", f"/bot{stage.token}/getUpdates",
                                                                              json.dumps(given), "application/json"))))
        thread.start()
        until(LIMIT, lambda: standin.get("updates", bot="poll_bot")["polling"])
        return thread

    thread = wait("long", timeout=50)
    stage.say("news")
    thread.join(LIMIT)
    check("a long poll ends with the first update", answers[-1][3]["result"][0]["message"]["text"] == "news", answers)
    stage.news()
    threads = [wait("first", timeout=50)]
    second = threading.Thread(target=lambda: answers.append(("second", *asked(standin, "GET", f"/bot{stage.token}/getUpdates?timeout=50"))))
    second.start()
    threads[0].join(LIMIT)
    check("of two polls the older ends with 409", answers[-1][:2] == ("first", 409) and answers[-1][3]["description"]
          == "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running", answers)
    until(LIMIT, lambda: standin.get("updates", bot="poll_bot")["polling"])
    standin.post("drop")
    second.join(LIMIT)
    check("a long poll can be dropped", answers[-1][:2] == ("second", 0), answers)
    stage("setWebhook", url="https://example.org/hook")
    answer = stage("getUpdates")
    check("a webhook hinders polling", answer["error_code"] == 409 and "webhook is active" in answer["description"], answer)
    check("the webhook is told", stage("getWebhookInfo")["result"]["url"] == "https://example.org/hook")
    check("the webhook can be deleted", stage("deleteWebhook")["ok"] and stage("getUpdates")["ok"])


def sight(standin):
    """Which messages a bot gets."""
    private = Stage(standin, "private_bot")
    said = ["hello", "@private_bot hello", "/status", "/status@private_bot", "/status@other_bot"]
    for words in said:
        private.say(words)
    check("with privacy mode a bot gets what is meant for it", private.texts() == said[1:4])
    mine = private.send("question")["result"]["message_id"]
    answer = private.say("answer", replyTo=mine)
    got = private.news()[-1]["message"]
    check("and answers to it", (got["text"], got["reply_to_message"]["text"]) == ("answer", "question"), got)
    check("an answer begins a thread", got["message_thread_id"] == mine and "is_topic_message" not in got, got)
    standin.post("scopes", bot="private_bot", privacy=False)
    private.say("not yet")
    check("a changed privacy mode shows at once and counts later", private.texts() == []
          and private("getMe")["result"]["can_read_all_group_messages"])
    for status in ("left", "member"):
        standin.post("member", channel=private.chat, account="private_bot", status=status, by="alice")
    private.say("now")
    check("it counts when the bot is added again", private.texts()[-1] == "now")
    private.say("of a bot", account="third_bot", bot=True)
    private.send("my own")
    standin.post("say", account="alice", channel=private.chat, delete=answer["id"])
    check("a bot sees neither other bots, nor itself, nor deletions", private.news() == [])
    private.say("as the group", anonymous=True)
    got = private.news()[0]["message"]
    check("an anonymous administrator looks like a bot", got["from"]["is_bot"] and got["sender_chat"]["id"] == private.chat, got)
    private.say("spread", forward={"user": "carol"})
    private.say("spread", forward={"hidden": "Somebody"})
    origins = [one["message"]["forward_origin"] for one in private.news()]
    check("a forwarded message names its origin", [one["type"] for one in origins] == ["user", "hidden_user"]
          and origins[0]["sender_user"]["username"] == "carol", origins)
    standin.post("say", account="alice", channel=private.chat, reaction={"message": mine, "emoji": "🔥"})
    private("getUpdates", allowed_updates=["message", "message_reaction"], offset=-1)
    standin.post("say", account="bob", channel=private.chat, reaction={"message": mine, "emoji": "🔥"})
    check("a bot that is no administrator gets no reactions", private.news() == [])
    standin.post("member", channel=private.chat, account="private_bot", status="administrator")
    standin.post("say", account="bob", channel=private.chat, reaction={"message": mine, "emoji": []})
    changes = [one["message_reaction"] for one in private.news() if "message_reaction" in one]
    check("an administrator gets them", [(one["old_reaction"], one["new_reaction"]) for one in changes]
          == [([{"type": "emoji", "emoji": "🔥"}], [])], changes)


def rules(standin):
    for part in (requests, text, polling, sight):
        part(standin)
    refusals(standin, Stage, asked)
