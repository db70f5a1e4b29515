"""What is Telegram's own: privacy mode, topics, groups that become supergroups, and a bot that is taken away."""

from bridge_flock import at, bridge, bridges, heard, link, link_private, must_link, post, said, state
from checking import HOME, SOON, check, files_with, flock, until
from telegram_stage import BOT


def privacy(stage):
    """A bot that sees only what is meant for it can't be linked, unless it is an administrator."""
    stage.post("scopes", bot=BOT, privacy=True)
    room = stage.channel("shy")
    code, text, known = link(stage, "lobby", room)
    check("privacy mode is refused in words", code == 1 and not known and "/setprivacy" in text, (code, text))
    stage.post("member", channel=room, account=BOT, status="administrator", by="alice")
    code, text, known = link(stage, "lobby", room)
    check("an administrator sees everything", code == 0 and known.get("title") == "shy", (code, text, known))
    check("and who else administers the group is heard", known.get("hears") == [stage.account("alice")], known)
    stage.say("alice", room, "not said to the bot")
    check("which is heard", len(heard("lobby", "not said to the bot")) == 1)
    bridge("unlink", at(stage, room))
    stage.post("scopes", bot=BOT, privacy=False)


def topics(stage):
    """A topic is a channel of its own, and the rest of its group is not."""
    room = stage.channel("forum", ("alice", "bob"), forum=True)
    thread = stage.post("topic", channel=int(room), account="alice", name="Lunch")["thread"]
    code, text, known = link(stage, "both", f"{room}/{thread + 50}")
    check("a topic that does not exist is refused", code == 1 and not known, (code, text))
    topic = f"{room}/{thread}"
    code, text, known = link_private(stage, "both", topic)
    check("a topic is linked", code == 0 and known.get("external") == topic, (code, text, known))
    code, text, known = link(stage, "lobby", f"https://t.me/c/{room[4:]}/1", "--allow", stage.account("alice"))
    check("the group is linked by a link, too", code == 0 and known == {} and state(stage)["links"][-1]["external"] == room,
          (code, text, state(stage)["links"][-1]))
    stage.say("alice", topic, "what is for lunch?")
    check("what is said in the topic is heard", [row[1] for row in heard("both", "for lunch?")] == ["human:alice"])
    stage.say("alice", room, "said outside of it")
    check("what is said outside goes elsewhere", len(heard("lobby", "said outside of it")) == 1
          and not [row for row in said("both") if "outside of it" in row[2]])
    post("both", "soup")
    check("an answer goes into the topic", [one.raw["thread"] for one in stage.arrives(topic, "soup")] == [thread])
    post("lobby", "to the general topic")
    found = stage.arrives(room, "to the general topic")
    check("what goes to the group is in no topic", [one.raw["thread"] for one in found] == [None], found)
    said_before = [one for one in stage.shown(topic) if not one.is_ours][-1]
    stage.say("bob", topic, "no, bread", to=said_before.id)
    found = heard("both", "no, bread")
    check("an answer in a topic is one", found and "in reply to" in found[0][2], found)
    for link_of in (topic, room):
        bridge("unlink", at(stage, link_of))


def gone(stage):
    """A bot that is thrown out of a group says so, and its log names each group by its id."""
    room = stage.channel("fickle")
    must_link(stage, "lobby", room)
    _, out, err = flock("logs", "gateway", "-n", "2000")
    check("the log names the id of a group that the bot was added to", room in out + err, (out + err)[-2000:])
    stage.post("member", channel=int(room), account=BOT, status="kicked", by="alice")
    post("lobby", "to nobody there")
    said_so = until(SOON, lambda: [row for row in said("lobby") if "was not sent" in row[2] and "kicked" in row[2]])
    check("a message to it is given up in words", said_so, said("lobby")[-3:])
    bridge("unlink", at(stage, room))


def conflict(stage):
    """Another program that fetches the bot's updates is named, and its end is found by resuming."""
    stage.as_bot(stage.token, "getUpdates", timeout=1)
    told = until(SOON, lambda: "Another program" in str(state(stage).get("lastError")))
    check("another poller is named in the status", told, state(stage))
    code, out, err = bridge("status")
    check("with the way out", "@BotFather" in out, (out, err))
    bridge("pause", stage.bridge)
    bridge("resume", stage.bridge)
    connected = until(SOON, lambda: state(stage).get("state") == "connected")
    check("it connects again when it is resumed", connected, state(stage))
    stage.say("alice", stage.private, "after the conflict")
    check("and hears", len(heard("work", "after the conflict")) == 1)


def moved(stage):
    """A small group that becomes a supergroup has another id."""
    room = stage.channel("small", ("alice", "bob"), type="group")
    must_link(stage, "both", room)
    stage.say("alice", room, "we are few")
    check("a small group is heard", len(heard("both", "we are few")) == 1)
    new = str(stage.post("migrate", channel=int(room), account="alice")["id"])
    stage.channels.append(int(new))
    post("both", "to the supergroup")
    check("what is posted goes to the supergroup", len(stage.arrives(new, "to the supergroup")) == 1)
    for link_of in (room, new):
        bridge("unlink", at(stage, link_of))


def two_bots(stage):
    """Of two bots, the one whose token is revoked is said to be so, and what is posted for it waits."""
    made = stage.post("bot", username="second_bot", privacy=False)
    arguments = ["--api", stage.url, "--token-file", stage.file("second", made["token"])]
    code, out, err = bridge("add", "telegram", "--name", "second", *arguments)
    check("a second bot is added", code == 0, (code, out, err))

    def second():
        return next((one for one in bridges() if one["name"] == "second"), {})

    until(SOON, lambda: second().get("state") == "connected")
    chat = stage.post("chat", title="theirs", members=["alice", "second_bot"])["id"]
    code, out, err = bridge("link", "both", f"second:{chat}", "--allow", "everyone")
    check("and linked", code == 0, (code, out, err))
    stage.post("revoke", bot="second_bot")
    told = until(SOON, lambda: second().get("state") == "disconnected" and second().get("lastError"))
    check("the status says that the token is revoked", told and "does not accept the token" in told, second())
    post("both", "kept for later")
    waiting = until(SOON, lambda: second()["links"][0]["queue"]["entries"] == 1)
    check("what is posted waits", waiting, second())
    secret = made["token"].split(":")[1]
    found = files_with(HOME, [secret], leave=(f"{HOME}/secrets",))
    check("the revoked token is in no file but its own", not found, found)
    check("the other bot is connected still", state(stage).get("state") == "connected", state(stage))
    bridge("remove", "second")
