"""Names on Discord: of channels, of authors by webhooks, of threads, of roles and of people."""

from bridge_flock import at, bridge, heard, link, link_private, post, said
from bridge_home import AGENT
from checking import SOON, check, must, until
from discord_stage import BOT, RIGHTS

# Nothing fetches it.
PICTURE = "https://example.org/helper.png"


def names(stage):
    """A channel is found by its name, and by its server's where that is not enough."""
    room = stage.channel("talk", ("alice",))
    code, text, known = link_private(stage, "both", "#talk")
    check("a channel is linked by its name", code == 0, (code, text))
    code, out, err = bridge("unlink", at(stage, "#talk"))
    check("and the link ended by it", code == 0, (code, out, err))
    other = stage.server.control("guild", name="Other Place", bots=[BOT], permissions=RIGHTS)
    stage.server.control("channel", name="talk", guild=other["id"])
    code, text, _ = link(stage, "both", "#talk")
    check("a name that two channels have is refused with both", code == 1 and "Other Place/#talk" in text and room in text, text)
    code, text, _ = link(stage, "both", "Other Place/#talk")
    check("the server before the name tells them apart", code == 0, (code, text))
    bridge("unlink", at(stage, "#talk"))
    code, text, _ = link(stage, "both", "Nowhere/#talk")
    check("a server that the bot is not in is refused", code == 1 and "Nowhere" in text, text)
    code, out, err = bridge("link", "both", stage.bridge, "--create")
    check("where the bot is in several servers, none is chosen for a new channel", code == 1 and "several servers" in err, err)
    stage.server.control("kick", bot=BOT, guild=other["id"])


def webhooks(stage):
    """Each author has a name of their own where flock may make webhooks, else a prefix."""
    room = stage.private
    found = stage.arrives(room, "I am well.")
    check("an agent writes under its own name", found and found[0].raw["author"]["kind"] == "webhook", found)
    hooks = [one for one in stage.server.look("world")["webhooks"] if one["channel_id"] == room]
    check("by one webhook of the channel's", len(hooks) == 1, hooks)
    must("a picture for the agent", "config", "set", f"agents.list[{AGENT}].identity.avatar", PICTURE)
    stage.say("alice", room, "how are you, with a picture?")
    seen = until(SOON, lambda: [one.raw["author"]["avatar"] for one in stage.arrives(room, "I am well.")][-1:] == [PICTURE])
    check("and with its picture", seen, stage.arrives(room, "I am well."))
    stage.server.ask("DELETE", f"/api/v10/webhooks/{hooks[0]['id']}/{hooks[0]['token']}")
    post("work", "after the webhook was deleted")
    found = stage.arrives(room, "after the webhook was deleted")
    check("one that was deleted is made again", [one.raw["author"]["kind"] for one in found] == ["webhook"], found)
    stage.server.control("scopes", bot=BOT, channel=room, allow=["VIEW_CHANNEL"], deny=["MANAGE_WEBHOOKS"])
    hook = next(one for one in stage.server.look("world")["webhooks"] if one["channel_id"] == room)
    stage.server.ask("DELETE", f"/api/v10/webhooks/{hook['id']}/{hook['token']}")
    post("work", "without the right to webhooks")
    found = stage.arrives(room, "without the right to webhooks")
    seen = [(one.raw["author"]["kind"], one.author) for one in found]
    check("without the right to webhooks the name stands before the text", seen == [("bot", "kim")], found)
    stage.server.control("scopes", bot=BOT, channel=room, allow=["VIEW_CHANNEL"])
    texts = [row[2] for row in said("work")]
    check("nothing of that comes back", not [text for text in texts if text.startswith("**[")], texts[-3:])


def threads(stage):
    """A thread is linked by its id."""
    alone = stage.channel("threads", ("alice",))
    thread = stage.server.control("thread", account="alice", channel=alone, title="apart")["id"]
    code, text, known = link_private(stage, "both", thread)
    check("a thread is linked by its id", code == 0 and known, (code, text))
    stage.server.say("alice", "said in the thread", thread=thread)
    check("what is said in it is heard", len(heard("both", "said in the thread")) == 1)
    post("both", "answered in the thread")
    found = stage.arrives(thread, "answered in the thread")
    check("and answered under the author's name", [one.author for one in found] == ["kim"], found)
    bridge("unlink", at(stage, thread))


def roles(stage):
    """A link can let a role in, also for what was said while flock was away."""
    role = stage.server.control("role", name="staff")["id"]
    stage.server.control("person", account="carol", roles=["staff"])
    room = stage.server.control("channel", name="staff")["id"]
    code, text, known = link(stage, "both", room, "--allow", f"role:{role}")
    check("a role is let in", code == 0, (code, text))
    stage.server.say("carol", "of the staff", channel=room)
    check("and heard", [row[1] for row in heard("both", "of the staff")] == ["human:carol"])
    must("stop", "stop")
    stage.server.say("carol", "of the staff while it was away", channel=room)
    stage.server.say("mallory", "not of the staff", channel=room)
    must("start again", "start")
    check("also afterwards", [row[1] for row in heard("both", "staff while it was away")] == ["human:carol"])
    check("and nobody else", not [row for row in said("both") if "not of the staff" in row[2]])
    bridge("unlink", at(stage, room))


def people(stage):
    """Whoever is mentioned on purpose is called, and whoever is not heard is told alone, or else in the channel."""
    room, before, since = stage.private, set(stage.called()), stage.mark(stage.private)
    post("work", "look, @alice and `@bob`")
    found = stage.arrives(room, "look, ", since)
    called = [one for one in stage.called() if one not in before]
    check("who is mentioned by name is called", found and called == [one.id for one in found], (called, found))
    pings = found[0].raw["pings"]["users"] if found else None
    check("and nobody else", pings == [stage.people["alice"]], pings)
    for person, takes in (("dave", True), ("erin", False)):
        stage.people[person] = stage.server.control("person", account=person, dms=takes)["id"]
        stage.say(person, room, "does anybody hear me?")
    check("who takes direct messages is told alone", until(SOON, lambda: len(stage.told("dave", room)) == 1)
          and not stage.of_bot(room, "dave"), stage.of_bot(room, "dave"))
    found = stage.arrives(room, "erin")
    pings = [one.raw["pings"]["users"] for one in found]
    check("who does not is told in the channel, which notifies nobody else", pings == [[stage.people["erin"]]], found)
