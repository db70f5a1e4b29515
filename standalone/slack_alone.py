"""Checks Slack's stand-in with Slack's own client libraries, without flock."""

from checking import check, until
from slack_clients import Bolt, Bot, client
from slack_socket_checks import Sockets
from slack_stand import SOON, Stand
from slack_web_checks import Web


def bolt_checks(folder, stand):
    """An app of Bolt does what people ask of it."""
    given = stand.workspace
    stand.control("limits", {"scale": 100})
    bolt = Bolt(folder, stand, given["botToken"], given["appToken"])
    try:
        if not check("Bolt: connects", bolt.told(ready=True), bolt.lines):
            return
        asked = stand.say("reply please")["ts"]
        seen = stand.appears("bolt replies")
        check("Bolt: receives, and replies in a thread", seen and seen["thread"] == asked and seen["isBot"], seen)
        stand.say("change please")
        seen = stand.appears("bolt after")
        check("Bolt: changes a message", seen and seen["edits"][0]["text"] == "bolt before", seen)
        stand.say("remove please")
        seen = until(SOON, lambda: [one for one in stand.with_text("bolt removes this") if one["deleted"]])
        check("Bolt: deletes a message", seen, stand.with_text("bolt removes this"))
        asked = stand.say("react please")["ts"]
        seen = until(SOON, lambda: [one for one in stand.messages() if one["ts"] == asked and one["reactions"]])
        check("Bolt: reacts", seen and seen[0]["reactions"][0]["name"] == "thumbsup", seen)
        stand.say("file please")
        seen = stand.appears("bolt sends a file")
        check("Bolt: sends a file", seen and len(seen["files"]) == 1, seen)
        stand.say("ask please")
        seen = stand.appears("bolt asks")
        result = stand.say(press=seen["ts"], account="bob")
        seen = stand.appears("bolt heard yes of @bob")
        check("Bolt: a button press is answered", result["acknowledged"] and seen and seen["blocks"] == [], (result, seen))
        result = stand.say(command="/flock stop", account="bob")
        check("Bolt: a command is acknowledged with words", result["answer"] == {"text": "bolt does stop"}, result)
        check("Bolt: and answered", stand.appears("bolt did stop") and stand.with_text("bolt does stop")[0]["ephemeralTo"])
        stand.say(f"<@{given['bot']}> are you there?")
        check("Bolt: hears that it is called", stand.appears("bolt was called"))
        said = stand.say("first words")["ts"]
        stand.say("second words", edit=said)
        stand.say(react=said, reaction="wave", account="bob")
        stand.say(delete=said)
        check("Bolt: sees changes, reactions and deletions", bolt.told(changed="second words", before="first words")
              and bolt.told(reaction="wave") and bolt.told(deleted="second words"), bolt.lines)  # fmt: skip
        stand.control("limits", {"scale": 1})
        stand.say("flood please")
        check("Bolt: waits where it is told to", bolt.told(flooded=True))
        seen = [one["shown"] for one in stand.with_text("bolt flood")]
        limited = [one for one in stand.control("requests", route="chat.postMessage")["requests"] if one["status"] == 429]
        check("Bolt: and loses nothing", seen == [f"bolt flood {n}" for n in range(8)] and limited, seen)
        stand.control("limits", {"scale": 100})
        # Bolt waits five seconds or more before it connects again.
        stand.control("socket", {"retries": [0] + [2] * 20})
        stand.control("drop", {"how": "disconnect", "reason": "refresh_requested"})
        stand.say("while bolt was away")
        check("Bolt: connects again, and gets what it missed", bolt.told(text="while bolt was away"), bolt.lines)
        stand.control("redeliver", {})
        check("Bolt: gets an event again", until(SOON, lambda: len(bolt.told(text="while bolt was away")) > 1))
        stand.control("scopes", {"token": given["botToken"], "remove": ["chat:write"]})
        stand.say("reply please")
        check("Bolt: is told of a missing scope", bolt.told(error="missing_scope"), bolt.lines)
        stand.control("scopes", {"token": given["botToken"], "add": ["chat:write"]})
        stand.control("revoke", {"token": given["botToken"], "as": "token_revoked"})
        stand.control("revoke", {"token": given["botToken"], "as": None})
    finally:
        check("Bolt: leaves", bolt.close() == 0, bolt.lines)
    for fault in ("invalid_auth", "account_inactive"):
        stand.control("revoke", {"token": given["appToken"], "as": fault})
        bolt = Bolt(folder, stand, given["botToken"], given["appToken"])
        check(f"Bolt: does not begin with a token that is {fault}", bolt.told(refused=fault) and bolt.process.wait(SOON) == 3, bolt.lines)
    stand.control("revoke", {"token": given["appToken"], "as": None})


def restart_checks(folder):
    """A platform that is killed has its messages afterwards."""
    stand = Stand(f"{folder}/kept", keeps_state=True)
    try:
        stand.start()
        before = stand.workspace
        web = client(stand, before["botToken"])
        for n in range(50):
            web.chat_postMessage(channel="general", text=f"kept {n}") if n < 5 else stand.say(f"kept {n}")
        stand.kill()
        stand.start()
        check("ids and tokens are the same after a kill", stand.workspace == {**before, "users": stand.workspace["users"]}, stand.workspace)
        history = web.conversations_history(channel=before["channels"]["general"])["messages"]
        texts = [one["text"] for one in history if one["text"].startswith("kept")]
        check("and all messages are there", texts == [f"kept {n}" for n in reversed(range(50))], texts)
        answer = web.chat_postMessage(channel="general", text="after the kill")
        check("new ones come after them", answer["ts"] > history[0]["ts"])
        bot = Bot(stand, before["appToken"])
        bot.connect()
        stand.stop()
        hellos = len(bot.hellos)
        stand.start()
        check("a client connects again after a restart", until(SOON, lambda: len(bot.hellos) > hellos))
        bot.close()
    finally:
        stand.stop()


def two_checks(stand):
    """Two workspaces do not see each other."""
    other = stand.control("team", {"name": "Second"})
    first, second = Bot(stand, stand.workspace["appToken"]), Bot(stand, other["appToken"])
    try:
        first.connect()
        second.connect()
        stand.say("to the first")
        stand.say("to the second", team=other["team"])
        check("each of two workspaces has its own events", first.gets(text="to the first") and second.gets(text="to the second")
              and not first.events(text="to the second") and not second.events(text="to the first"))  # fmt: skip
        channels = client(stand, other["botToken"]).conversations_list()["channels"]
        check("and its own channels", [one["id"] for one in channels] == [other["channels"]["general"]], channels)
    finally:
        first.close()
        second.close()


def everything(stage):
    """The folder of the stage has the Bolt app and its packages below `node`; see slack.sh."""
    stand = Stand(f"{stage.folder}/stand")
    try:
        stand.start()
        Web(stand).run()
        Sockets(stand).run()
        bolt_checks(stage.folder, stand)
        two_checks(stand)
        restart_checks(stage.folder)
    finally:
        stand.stop()
    check("the stand-in has reported no error of its own", "Traceback" not in stand.log(), stand.log())
