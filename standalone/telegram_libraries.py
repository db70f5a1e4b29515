"""The stand-in, proven by Telegram's client libraries, without flock: telegram_libraries.py FOLDER.

The same conversation is held with a bot of each library; then come the rules that a library hides.
"""

import os
import subprocess
import sys
import threading

from checking import check, finish, until
from telegram_asking import Standin
from telegram_rules import rules

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 60
# The bots that were started; each is ended at the latest when the checks end.
running = []


class Bot:
    """A bot in a process of its own; what it prints is kept."""

    def __init__(self, standin, library, token, hold=False):
        command = {"grammy": ["node", f"{standin.folder}/node/telegram_bot.mjs"],
                   "python-telegram-bot": [sys.executable, f"{HERE}/telegram_bot.py"]}[library]
        env = {**os.environ, **({"HOLD": "1"} if hold else {})}
        self.errors = open(f"{standin.folder}/{library}.log", "a")
        self.process = subprocess.Popen([*command, f"http://127.0.0.1:{standin.port}", token], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        running.append(self)
        self.said = []
        self.reader = threading.Thread(target=lambda: self.said.extend(self.lines()), daemon=True)
        self.reader.start()

    def lines(self):
        for line in self.process.stdout:
            yield line.strip()

    def says(self, text):
        """Waits until the bot has printed a line that begins so; that line."""
        return until(LIMIT, lambda: next((one for one in list(self.said) if one.startswith(text)), None))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(LIMIT)
        self.errors.close()


def conversation(standin, library):
    """All that people and a bot do in a group with topics."""
    username = f"{library.split('-')[0]}_bot"
    token = standin.post("bot", username=username, name=library)["token"]
    chat = standin.post("chat", title=f"Team of {library}", forum=True, members=["alice", "bob", username])["id"]
    standin.post("member", channel=chat, account=username, status="administrator", by="alice")
    bot = Bot(standin, library, token)
    name = library + ": {}"
    check(name.format("starts and sees its privacy mode"), (bot.says("ready") or "").lower() == "ready, all messages: false", bot.said)
    check(name.format("is told of its own rights"), bot.says("now administrator"), bot.said)
    commands = standin.bot(token, "getMyCommands")["result"]
    check(name.format("sets its commands"), commands == [{"command": "buttons", "description": "Ask"}], commands)

    def say(text, **more):
        return standin.say("alice", chat, text, **more)

    def heard(text, **more):
        return standin.heard(chat, username, text, **more)

    said = say("a < b & <i>c</i>")
    answer = heard("echo: a < b & <i>c</i>")
    check(name.format("answers in HTML"), answer and answer["shown"] == "<bold>echo</bold>: a < b & <i>c</i>"
          and answer["replyTo"] == said["id"] and answer["notifies"][0]["username"] == "alice", answer)
    check(name.format("shows that it types"), {"typing"} == {one["action"] for one in standin.get("actions", channel=chat)["actions"]})
    reactions = standin.message(chat, said["id"])["reactions"]
    check(name.format("reacts"), [one["emoji"] for one in reactions] == [["👀"]], reactions)
    standin.post("say", account="alice", channel=chat, edit=said["id"], text="changed")
    check(name.format("hears of an edit"), heard("edited: changed"))
    standin.post("say", account="bob", channel=chat, reaction={"message": said["id"], "emoji": "👍"})
    check(name.format("hears of a reaction"), heard("reaction: 👍"))

    thread = standin.post("topic", channel=chat, account="alice", name="Lunch")["thread"]
    say("soup?", thread=thread)
    answer = heard("echo: soup?")
    check(name.format("answers in the topic"), answer and answer["thread"] == thread, answer)
    say("/topic")
    inside = heard("in the topic")
    reopened = until(LIMIT, lambda: [one["service"] for one in standin.messages(chat)
                                     if one["thread"] == (inside or {}).get("thread") and one["service"]][3:])
    check(name.format("opens, renames, closes and reopens a topic"), reopened == [{"forum_topic_reopened": {}}], reopened)

    say("/buttons")
    asked = heard("Yes?") or {}
    standin.post("say", account="bob", channel=chat, press={"message": asked.get("id"), "data": "yes"})
    changed = heard("pressed by bob", identifier=asked.get("id"))
    check(name.format("changes the message whose button is pressed"), changed and not changed["buttons"], changed)
    answers = standin.get("callbacks")["callbacks"]
    check(name.format("answers the press"), answers[-1]["answer"] == {"text": "Noted", "alert": False}, answers)
    say("/delete")
    check(name.format("deletes"), until(LIMIT, lambda: (heard("soon gone") or {}).get("deleted")))
    say("/bad")
    check(name.format("learns why HTML is refused"), heard('Can\'t find end tag corresponding to start tag "b"', inside=True))
    say("/long")
    check(name.format("learns that a text is too long"), heard("essage is too long", inside=True))
    check(name.format("may send as much as the limit after parsing"), heard("x" * 4096))
    say("/same")
    check(name.format("learns that an edit changes nothing"), heard("essage is not modified", inside=True))
    given = say("a file", attachments=[{"name": "notes.txt", "text": "one\ntwo\n", "mime": "text/plain"}])
    copy, given = heard("", file="copy of notes.txt"), standin.message(chat, given["id"])
    check(name.format("fetches a file and sends one"), copy and copy["file"]["sha256"] == given["file"]["sha256"] == copy["text"], copy)

    before = standin.get("requests")["count"]
    standin.post("limits", chat=[1, 1], enabled=True)
    say("/flood")
    floods = [heard(f"flood {number}") for number in (1, 2, 3)]
    standin.post("limits", enabled=False)
    statuses = [one["status"] for one in standin.get("requests", route="sendMessage", since=before)["requests"]]
    gaps = [later["arrived"] - one["arrived"] for one, later in zip(floods, floods[1:]) if one and later]
    check(name.format("waits as 429 says"), len(gaps) == 2 and min(gaps) >= 0.99 and statuses == [200, 429, 200, 429, 200], (gaps, statuses))

    if library == "grammy":
        bot = killed(standin, bot, token, chat, heard)
    standin.post("revoke", bot=username)
    if library == "grammy":
        check(name.format("notices that its token is revoked"), bot.says("ended: 401"), bot.said)
    else:
        # This library ends its polling and says so; its program goes on.
        check(name.format("notices that its token is revoked"), until(LIMIT, lambda: "Invalid token" in open(bot.errors.name).read()))
    bot.end()


def killed(standin, bot, token, chat, heard):
    """Kills a bot in the middle of its work: the next one gets what was not confirmed. This library confirms what is done."""
    bot.end()
    bot = Bot(standin, "grammy", token, hold=True)
    check("grammy: starts again", bot.says("ready"), bot.said)
    standin.say("alice", chat, "/hold")
    standin.say("alice", chat, "after it")
    check("grammy: works on an update", bot.says("held"), bot.said)
    bot.end()
    left = [one["message"]["text"] for one in standin.get("updates", bot="grammy_bot")["pending"]]
    check("grammy: what a killed bot did not confirm is still there", left == ["/hold", "after it"], left)
    bot = Bot(standin, "grammy", token)
    check("grammy: gets the same updates again", heard("released") and heard("echo: after it"))
    confirmed = until(LIMIT, lambda: not standin.get("updates", bot="grammy_bot")["pending"])
    check("grammy: confirms them when it asks for more", confirmed)
    other = standin.bot(token, "getUpdates", timeout=1)
    check("grammy: another poll ends its poll with 409", bot.says("ended: 409") and other["ok"], (bot.said, other))
    bot.end()
    bot = Bot(standin, "grammy", token)
    check("grammy: starts a third time", bot.says("ready"), bot.said)
    return bot


def main(folder):
    standin = Standin(folder)
    try:
        standin.post("limits", enabled=False)
        for library in ("grammy", "python-telegram-bot"):
            conversation(standin, library)
        lacking = [one["path"] for one in standin.get("requests")["requests"] if not one["known"]]
        check("the libraries ask for nothing that the stand-in lacks", lacking == [], lacking)
        rules(standin)
    finally:
        for bot in running:
            bot.end()
        standin.end()
    finish()


main(sys.argv[1])
