"""Links: which channels can be linked, who is heard over them, across platforms, and their end."""

from bridge_flock import at, bridge, heard, link, link_private, link_state, must_link, post, said
from bridge_stage import texts
from checking import SOON, check, until


def links(stage):
    """Channels are linked; those who are in a private one at that moment are heard."""
    for what, channel, words in stage.unfit():
        code, text, known = link(stage, "work", channel)
        unsaid = [word for word in words if word not in text]
        check(f"{what} is refused in words", code == 1 and not known and not unsaid, (code, text))
    code, text, known = link(stage, "nowhere", stage.private)
    check("a channel that does not exist is refused", code == 1 and not known, (code, text))
    code, out, err = bridge("link", "work", f"nobody:{stage.private}")
    check("a bridge that does not exist is refused", code == 1, (code, out, err))

    code, text, known = link_private(stage, "work", stage.private)
    check("a private channel is linked", code == 0 and known.get("channel", "").lower() == "work", (code, text, known))
    check("with its title and its state", known.get("title") and known.get("state") == "active", known)
    code, text, _ = link(stage, "both", stage.private)
    check("a channel of the platform is linked once", code == 1, (code, text))
    stage.join("mallory", stage.private)


def strangers(stage):
    """Who is not let in is not heard, and told so once."""
    room = stage.private
    stage.say("mallory", room, "let me in")
    stage.say("mallory", room, "let me in at once")
    stage.say("alice", room, "who is that?")
    heard("work", "who is that?")
    check("who came later is not heard", not [row for row in said("work") if "let me in" in row[2]], said("work")[-5:])
    check("and told once", until(SOON, lambda: len(stage.told("mallory", room)) == 1), texts(stage.told("mallory", room)))

    room = stage.public
    code, text, known = link(stage, "lobby", room)
    check("a public channel is linked", code == 0 and known, (code, text))
    check("with a word that nobody is heard", "nobody" in text, text)
    stage.say("alice", room, "is anybody there?")
    check("nobody is heard in a public channel", until(SOON, lambda: stage.told("alice", room))
          and not [row for row in said("lobby") if "is anybody" in row[2]], said("lobby"))
    bridge("unlink", at(stage, room))
    code, text, known = link(stage, "lobby", room, "--allow", stage.account("alice"))
    check("it is linked again for one of them", code == 0 and known, (code, text))
    stage.join("bob", room)
    stage.say("bob", room, "may I?")
    stage.say("alice", room, "now I am heard")
    heard("lobby", "now I am heard")
    people = [row[1:] for row in said("lobby") if row[1].startswith("human:")]
    check("who is heard and nobody else", people == [("human:alice", "now I am heard")], people)
    bridge("unlink", at(stage, room))
    code, text, _ = link(stage, "lobby", room, "--allow", "everyone")
    check("it is linked for everybody", code == 0, (code, text))
    stage.say("bob", room, "and now I")
    check("everybody is heard who may be", [row[1] for row in heard("lobby", "and now I")] == ["human:bob"])


def across(stage):
    """What is said in one channel is not told in another one, unless the link says so."""
    first, second = stage.channel("first"), stage.channel("second")
    must_link(stage, "both", first)
    must_link(stage, "both", second)
    stage.say("alice", first, "stays here")
    heard("both", "stays here")
    post("both", "for all channels")
    check("a post goes to each channel",
          all(len(stage.arrives(room, "for all channels")) == 1 for room in (first, second)))
    check("what a person says in one stays there", not stage.of_bot(second, "stays here"))
    bridge("unlink", at(stage, second))
    code, text, _ = link_private(stage, "both", second, "--cross")
    check("a link can take it across", code == 0, (code, text))
    stage.say("alice", first, "goes there")
    found = [(one.author, one.text) for one in stage.arrives(second, "goes there")]
    check("with its author, once", found == [("alice", "goes there")], found)
    post("both", "after that")
    stage.arrives(first, "after that")
    check("and not back", not stage.of_bot(first, "goes there"), texts(stage.of_bot(first, "goes there")))


def creates(stage):
    """A link can make its channel."""
    if not stage.can.creates:
        return
    code, out, err = bridge("link", "lobby", stage.bridge, "--create")
    check("a channel is made by the link", code == 0, (code, out, err))
    code, out, err = bridge("test", stage.bridge)
    check("and takes messages", code == 0, (code, out, err))


def ends(stage):
    """A link is tested and ended."""
    room, since = stage.public, stage.mark(stage.public)

    def ours():
        return [one for one in stage.shown(room, since) if one.is_ours]

    code, out, err = bridge("test", at(stage, room))
    check("a link is tested", code == 0, (code, out, err))
    check("by one message", until(SOON, lambda: len(ours()) == 1), texts(ours()))
    code, out, err = bridge("unlink", at(stage, room))
    check("a link is ended", code == 0 and not link_state(stage, room), (code, out, err))
    post("lobby", "to nobody")
    stage.say("alice", room, "for nobody")
    code, text, _ = link(stage, "lobby", room, "--allow", "everyone")
    check("it is linked again", code == 0, (code, text))
    post("lobby", "to somebody")
    stage.arrives(room, "to somebody")
    stage.say("alice", room, "for somebody")
    heard("lobby", "for somebody")
    check("without it nothing goes out", not stage.of_bot(room, "to nobody"))
    check("and nothing comes in", not [row for row in said("lobby") if "for nobody" in row[2]])
    code, out, err = bridge("unlink", at(stage, "nothing"))
    check("what is not linked can't be unlinked", code == 1, (code, out, err))
