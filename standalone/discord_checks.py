"""The proof of Discord's stand-in: discord.py and discord.js live with it as bots, and people speak to them.

    discord_checks.py FOLDER
"""

import sys
import threading
import time

from checking import check, finish, until
from discord_driving import AGENT, PATIENCE, Bot, StandIn
from discord_refusals import gateway_refusals, rest_refusals

EVERY = ("guilds", "guild_messages", "message_content", "dm_messages", "guild_reactions", "guild_typing", "webhooks")
RIGHTS = ["MANAGE_CHANNELS", "MANAGE_WEBHOOKS", "MANAGE_THREADS"]


def refused_logins(library, server):
    token = server.control("bot", name=f"{library} without intents")["token"]
    bot = Bot(library, server.url, token, EVERY)
    wanted = {"discord.py": {"name": "PrivilegedIntentsRequired"}, "discord.js": {"text": "Used disallowed intents"}}[library]
    check(f"{library}: an intent that is not enabled is refused with the library's own error", bot.event("end", **wanted), bot.lines)
    bot.stop()
    bot = Bot(library, server.url, "bm90.a.token", EVERY)
    end = bot.event("end")
    wanted = {"discord.py": "LoginFailure", "discord.js": "TokenInvalid"}[library]
    check(f"{library}: a wrong token is refused with the library's own error", end and end["name"] == wanted, end)
    bot.stop()
    bot = Bot(library, server.url, token, [one for one in EVERY if one != "message_content"])
    bot.event("ready")
    said = server.say("ann", "nobody reads this", channel=library)
    got = bot.event("message", id=said["id"])
    check(f"{library}: without MESSAGE_CONTENT a message arrives empty", got and got["text"] == "", got)
    me = server.look("world")["bots"][f"{library} without intents"]["id"]
    said = server.say("ann", f"<@{me}> do you read this", channel=library)
    got = bot.event("message", id=said["id"])
    check(f"{library}: a message that mentions the bot does not", got and got["text"].endswith("read this"), got)
    bot.stop()


def inbound(library, server, bot, channel):
    said = server.say("ann", "hello\nyou", channel=channel, name="Ann")
    got = bot.event("message", id=said["id"])
    check(f"{library}: a person's message arrives", got and (got["text"], got["author"], got["bot"]) == ("hello\nyou", "ann", False), got)
    answer = server.say("bob", "indeed", channel=channel, reply=said["id"])
    got = bot.event("message", id=answer["id"])
    check(f"{library}: a reply names what it answers", got and got["reply"] == said["id"], got)
    file = {"name": "notes.txt", "type": "text/plain", "data": "c29tZSBub3Rlcw=="}
    sent = server.say("ann", "", channel=channel, attachments=[file])
    got = bot.event("message", id=sent["id"])
    check(f"{library}: an attachment is fetched", got and got["attachments"] == ["some notes"], got)
    server.say("ann", "hello all of you", edit=said["id"])
    check(f"{library}: an edit arrives", bot.event("edit", id=said["id"], text="hello all of you"))
    server.say("bob", react={"message": said["id"], "emoji": "👍"})
    check(f"{library}: a reaction arrives", bot.event("reaction", id=said["id"], emoji="👍"))
    server.say("bob", delete=answer["id"])
    check(f"{library}: a deletion arrives", bot.event("delete", id=answer["id"]))
    server.say("ann", typing=True, channel=channel)
    check(f"{library}: typing arrives", bot.event("typing", user="ann"))
    other = server.say("other-bot", "beep", channel=channel, bot=True)
    got = bot.event("message", id=other["id"])
    check(f"{library}: another bot is known as one", got and got["bot"], got)
    direct = server.say("ann", "just us", dm=bot.name)
    got = bot.event("message", id=direct["id"])
    check(f"{library}: a direct message arrives", got and got["direct"] and got["text"] == "just us", got)
    thread = server.control("thread", account="ann", channel=channel, title="apart")["id"]
    check(f"{library}: a thread arrives", bot.event("thread", id=thread, name="apart"))
    within = server.say("ann", "in here", thread=thread)
    got = bot.event("message", id=within["id"])
    check(f"{library}: what is said in it arrives with its id", got and got["channel"] == thread, got)
    return said["id"]


def outbound(library, server, bot, channel, id, heard):
    text = "**bold** and `code` for ünï 🐦"
    sent = bot.do("send", channel=id, text=text)
    found = server.find(channel, sent)
    check(f"{library}: a message is sent as it was written", found and found["text"] == text and found["author"]["kind"] == "bot", found)
    answer = bot.do("reply", channel=id, message=heard, text="answering")
    check(f"{library}: a reply is sent", (server.find(channel, answer) or {}).get("reply") == heard, answer)
    bot.do("edit", channel=id, message=sent, text="changed")
    found = server.find(channel, sent)
    check(f"{library}: a message is edited", found["content"] == "changed" and found["edited"], found)
    bot.do("react", channel=id, message=heard, emoji="✅")
    check(f"{library}: a reaction is set", "✅" in server.find(channel, heard)["reactions"])
    bot.do("delete", channel=id, message=answer)
    check(f"{library}: a message is deleted", server.find(channel, answer)["deleted"])
    got = bot.do("send", channel=id, text="x" * 2001)
    check(f"{library}: 2,001 characters are refused", got.get("error", {}).get("code") == 50035, got)
    got = bot.do("send", channel=id, text=" \n ")
    check(f"{library}: an empty message is refused", got.get("error", {}).get("code") == 50006, got)
    filed = server.find(channel, bot.do("send", channel=id, text="see", file="twelve bytes"))
    found = [(one["filename"], one["size"]) for one in filed["attachments"]]
    check(f"{library}: a file is attached", found == [("notes_of_today.txt", 12)], found)
    everyone = "@everyone <@{}>".format(server.look("world")["accounts"]["ann"])
    quiet = server.find(channel, bot.do("send", channel=id, text=everyone, quiet=True))
    loud = server.find(channel, bot.do("send", channel=id, text=everyone))
    nobody = {"users": [], "roles": [], "everyone": False}
    check(f"{library}: without allowed mentions nobody is notified", quiet["pings"] == nobody, quiet["pings"])
    right = len(loud["pings"]["users"]) == 1 and not loud["pings"]["everyone"]
    check(f"{library}: else the person is, and everyone only with the permission", right, loud)
    thread = bot.do("thread", channel=id, message=heard, name="more", text="first")
    check(f"{library}: a thread is made and written in", server.texts(thread) == ["first"], thread)
    ann = server.look("world")["accounts"]["ann"]
    direct = bot.do("direct", user=ann, text="for you")
    check(f"{library}: a direct message is sent", isinstance(direct, str), direct)
    bot.do("type", channel=id)
    bot.do("rename", channel=id, topic="about birds")
    check(f"{library}: a topic is set, and told", bot.event("channel", topic="about birds"))


def webhooks(library, server, bot, channel, id):
    url = bot.do("webhook", channel=id, name="flock")
    check(f"{library}: a webhook is made", isinstance(url, str) and "/api/webhooks/" in url, url)
    avatar = "https://example.org/bird.png"
    sent = bot.do("execute", url=url, text="I am coder", username="coder", avatar=avatar)
    found = server.find(channel, sent)
    seen = found and (found["author"]["name"], found["author"]["kind"], found["author"]["avatar"])
    check(f"{library}: it writes with a name and an avatar", seen == ("coder", "webhook", avatar), found)
    got = bot.event("message", id=sent)
    check(f"{library}: its message comes back as a webhook's", got and got["webhook"] and got["author"] == "coder", got)
    sent = bot.do("execute", url=url, text="first", username="coder", avatar=avatar, then="second")
    check(f"{library}: its message is edited", server.find(channel, sent)["content"] == "second", sent)
    got = bot.do("execute", url=url, text="no", username="Discord helper", avatar=avatar)
    check(f"{library}: a name with 'discord' is refused", got.get("error", {}).get("code") == 50035, got)
    check(f"{library}: webhooks are listed", bot.do("hooks", channel=id) == ["flock"])


def interactions(library, server, bot, channel, id):
    asked = bot.do("send", channel=id, text="May I?", buttons=True)
    got = server.say("ann", press={"message": asked, "custom_id": "approve"})
    until(PATIENCE, lambda: len(server.look("interactions", id=got["id"])["messages"]) == 2)
    got = server.look("interactions", id=got["id"])
    texts = [one["text"] for one in got["messages"]]
    check(f"{library}: a button is answered to its person alone", got["ephemeral"] and texts == ["approved by ann", "noted"], got)
    public = [one["text"] for one in server.look("messages", channel=channel) if not one["only"]]
    check(f"{library}: nobody else sees that", "noted" not in public, public)
    server.say("ann", press={"message": asked, "custom_id": "deny"})
    found = server.find(channel, asked)
    check(f"{library}: a button changes its message", found["content"] == "denied" and not found["components"], found)
    check(f"{library}: a command is offered", bot.do("offer") == ["status"])
    got = server.say("ann", slash={"name": "status", "bot": bot.name, "options": {"agent": "coder"}}, channel=channel)
    check(f"{library}: a command is acknowledged in time", got["state"] == "answered" and got["type"] == 5, got)
    until(PATIENCE, lambda: server.look("interactions", id=got["id"])["messages"])
    texts = [one["text"] for one in server.look("interactions", id=got["id"])["messages"]]
    check(f"{library}: and answered later", texts == ["coder is well"], texts)


def lost_connections(library, server, bot, channel):
    def missed(name, expected, **drop):
        before, said = len(bot.events("message")), []
        server.control("drop", bot=bot.name, **drop)
        for number in range(20):
            said.append(server.say("ann", f"{name} {number}", channel=channel)["id"])
        bot.event("message", id=said[-1])
        got = [one["id"] for one in bot.events("message")[before:] if one["id"] in said]
        check(f"{library}: {name}: nothing is missed, nothing comes twice, in order", got == said, (len(got), len(said)))
        resumed = until(PATIENCE, lambda: len(bot.events("resumed")) >= expected)
        check(f"{library}: {name}: the session is resumed", resumed, bot.events("resumed"))

    missed("a cut connection", 1)
    missed("a request to reconnect", 2, op=7)
    missed("a close with 4000", 3, code=4000)
    old = [one["id"] for one in server.look("sessions") if one["bot"] == bot.name]
    check(f"{library}: and it is the same session", len(old) == 1, old)
    server.control("drop", bot=bot.name, op=9)

    def new():
        return [one for one in server.look("sessions") if one["bot"] == bot.name and one["connected"] and one["id"] not in old]

    check(f"{library}: an invalid session is given up for a new one", until(PATIENCE, new), server.look("sessions"))
    said = server.say("ann", "anew", channel=channel)
    check(f"{library}: which hears what is said", bot.event("message", id=said["id"]))


def limits(library, server, bot, channel, id):
    began = time.time()
    numbers = [bot.begin("send", channel=id, text=f"quick {number}") for number in range(12)]
    for number in numbers:
        bot.result(number)
    texts = [one for one in server.texts(channel) if one.startswith("quick ")]
    check(f"{library}: twelve messages at once all arrive", sorted(texts) == sorted(f"quick {one}" for one in range(12)), texts)
    route = f"POST /channels/{id}/messages"
    tried = server.requests(route, began)
    refused = [one["at"] for one in tried if one["status"] == 429]
    check(f"{library}: and few of them are refused, since it reads the headers", len(refused) <= 3, refused)
    began = time.time()
    server.control("fault", route=route, status=429, retryAfter=1.5)
    bot.do("send", channel=id, text="patient")
    tried = server.requests(route, began)
    waited = tried[-1]["at"] - tried[0]["at"]
    check(f"{library}: Retry-After is obeyed", [one["status"] for one in tried] == [429, 200] and waited >= 1.5, tried)
    server.control("fault", route=route, after="after")
    bot.do("send", channel=id, text="once", nonce="n-1")
    bot.do("send", channel=id, text="once", nonce="n-1")
    check(f"{library}: with a nonce a lost answer makes no second message", server.texts(channel).count("once") == 1)


def revoked(library, server, bot, token):
    server.control("revoke", bot=bot.name)
    check(f"{library}: a revoked token is noticed", bot.event("end", code=4004), bot.lines[-3:])
    status, _, answer = server.ask("GET", "/api/v10/users/@me", headers={"Authorization": f"Bot {token}"})
    check(f"{library}: requests with it are refused", (status, answer["code"]) == (401, 0), answer)
    bot.stop()


def life(library, server):
    server.control("channel", name=library)
    refused_logins(library, server)
    made = server.control("bot", name=f"{library}-bot", intents=["MESSAGE_CONTENT"], permissions=RIGHTS)
    bot = Bot(library, server.url, made["token"], EVERY)
    bot.name = f"{library}-bot"
    ready = bot.event("ready")
    check(f"{library}: it logs in and sees the channels", ready and library in ready["channels"], bot.lines)
    id = server.look("world")["channels"][library]
    check(f"{library}: it knows its rights", bot.do("rights") == {"content": True})
    heard = inbound(library, server, bot, library)
    outbound(library, server, bot, library, id, heard)
    webhooks(library, server, bot, library, id)
    interactions(library, server, bot, library, id)
    lost_connections(library, server, bot, library)
    limits(library, server, bot, library, id)
    server.control("channel", name=f"{library}-log")
    log = server.look("world")["channels"][f"{library}-log"]
    said = [server.say("ann", f"line {number}", channel=log)["id"] for number in range(230)]
    got = bot.do("history", channel=log, after=said[9])
    check(f"{library}: history is read page by page", got == [f"line {number}" for number in range(10, 230)], len(got))
    server.control("scopes", bot=bot.name, channel=library, deny=["SEND_MESSAGES"])
    got = bot.do("send", channel=id, text="may I")
    check(f"{library}: without the permission it may not write", got.get("error", {}).get("code") == 50013, got)
    server.control("scopes", bot=bot.name, channel=library, deny=["VIEW_CHANNEL"])
    got = bot.do("send", channel=id, text="may I")
    check(f"{library}: nor see a channel that is hidden", got.get("error", {}).get("code") == 50001, got)
    server.control("scopes", bot=bot.name, channel=library)
    server.control("kick", bot=bot.name)
    got = bot.do("send", channel=id, text="may I")
    check(f"{library}: nor write in a server that it was put out of", got.get("error", {}).get("code") == 50001, got)
    server.control("invite", bot=bot.name)
    check(f"{library}: and may again when it is back", isinstance(bot.do("send", channel=id, text="thanks"), str))
    revoked(library, server, bot, made["token"])


def restart(folder):
    """A stand-in that is killed knows what was said; bots come back with a new session."""
    server = StandIn(folder, "--state", f"{folder}/state")
    made = server.control("bot", name="keeper", intents=["MESSAGE_CONTENT"])
    bot = Bot("discord.py", server.url, made["token"], EVERY, zlib=True)
    bot.event("ready")
    seen = server.look("sessions")[0]["compress"]
    check("discord.py without zstandard asks for zlib-stream", seen == "zlib-stream", seen)
    server.say("ann", "before", channel="general")
    server.kill()
    server.start()
    check("a restart forgets no message", server.texts("general") == ["before"])
    check("a bot comes back with a new session", until(PATIENCE, lambda: len(bot.events("ready")) == 2), bot.lines)
    said = server.say("ann", "after", channel="general")
    got = bot.event("message", id=said["id"])
    check("and hears what is said", got and got["text"] == "after", got)
    bot.stop()
    half_dead(server)
    server.stop()


def half_dead(server):
    """A connection that is open and says nothing is given up when heartbeats are not acknowledged."""
    server.control("gateway", heartbeat=2, identify=0)
    made = server.control("bot", name="beating", intents=["MESSAGE_CONTENT"])
    bot = Bot("discord.js", server.url, made["token"], EVERY)
    bot.event("ready")
    server.control("gateway", acks=False)
    check("discord.js gives up a connection without acknowledgements, and resumes", bot.event("resumed"), bot.lines)
    server.control("gateway", acks=True)
    said = server.say("ann", "alive", channel="general")
    check("and hears what is said", bot.event("message", id=said["id"]))
    bot.stop()


def main():
    folder = sys.argv[1]
    server = StandIn(folder)
    try:
        lives = [threading.Thread(target=guarded, args=(one, server)) for one in ("discord.py", "discord.js")]
        for one in lives:
            one.start()
        for one in lives:
            one.join()
        rest_refusals(server)
        gateway_refusals(server)
        strange = [one for one in server.look("requests") if one["route"] is None and one["agent"] != AGENT]
        check("no library asked for an address that the stand-in does not have", not strange, strange)
    finally:
        server.stop()
    restart(folder)
    finish()


def guarded(library, server):
    try:
        life(library, server)
    except Exception as error:
        check(f"{library}: its life ends well", False, repr(error))


if __name__ == "__main__":
    main()
