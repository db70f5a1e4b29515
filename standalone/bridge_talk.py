"""People and an agent talk over a link."""

import re

from bridge_flock import heard, post, said
from bridge_home import AGENT
from checking import SOON, check, flock, must, parsed, same, until


def talk(stage):
    """Messages go both ways, and none comes back."""
    room = stage.private
    post("work", "good morning")
    is_there_once(stage, "a person's post is on the platform", "kim", "good morning")
    stage.say("alice", room, "and how are you?")
    found = heard("work", "and how are you?")
    wanted = [("human:alice", "and how are you?")]
    check("what is said on the platform is in the channel", [row[1:] for row in found] == wanted, found)
    answered = is_there_once(stage, "the agent's answer is on the platform", AGENT, "I am well.")
    stage.say("bob", room, "tell the others")
    is_there_once(stage, "and what it posts by a tool", AGENT, "told by a tool")
    check("somebody else has another name", [row[1] for row in heard("work", "tell the others")] == ["human:bob"])
    people = {"human:alice", "human:bob"}
    check("people are members after their first message", until(SOON, lambda: people <= members()), members())

    seq = heard("work", "I am well.")[0][0]
    stage.say("bob", room, "glad to hear", to=answered and answered[0].id)
    found = heard("work", "glad to hear")
    names = re.compile(rf"(seq |#){seq}\b.*glad to hear", re.DOTALL)
    check("a reply names what it answers", found and names.search(found[0][2]), (seq, found))


def is_there_once(stage, what, author, text):
    found = stage.arrives(stage.private, text)
    check(what, [(one.author, one.text) for one in found] == [(author, text)], found)
    return found


def members():
    found = parsed(flock("--json", "channel", "list")[1]).get("channels", [])
    return next((set(one["members"]) for one in found if one["channelId"] == "work"), set())


def mentions(stage):
    """An agent's text calls nobody by accident."""
    room, before = stage.private, set(stage.called())
    stage.say("alice", room, "call everybody")
    stage.arrives(room, "look here.")
    # The platform judges messages in their order, so this one is judged after it.
    post("work", "the next one")
    stage.arrives(room, "the next one")
    after = set(stage.called())
    check("nobody was called by an agent's text", after == before, (before, after))
    stage.say("bob", room, "call whom you need")
    meant = stage.arrives(room, "Please look")
    new = until(SOON, lambda: set(stage.called()) - before)
    check("whom an agent means is called, once", len(meant) == 1 and len(new) == 1, (new, meant))


def typing(stage):
    """People see that an agent works."""
    room = stage.private

    def saw():
        stage.saw_typing(room)
        since = stage.mark(room)
        stage.say("alice", room, "take your time")
        stage.arrives(room, "It is done.", since)
        return stage.saw_typing(room)

    # A platform may take few of these signs at once, and the turns before have used them up.
    check("people saw that the agent writes", until(SOON, saw))


def commands(stage):
    """Whoever commands is answered, and the channel has neither."""
    room, since = stage.private, stage.mark(stage.private)
    stage.say("alice", room, "!flock status")
    found = until(SOON, lambda: [one for one in stage.apart("alice", room, since) if AGENT in one.text])
    check("a command is answered", found, stage.apart("alice", room, since))
    post("work", "after the command")
    stage.arrives(room, "after the command")
    check("and is not in the channel", not [row for row in said("work") if "!flock" in row[2]])


def topic(stage):
    """The topic of a channel is shown on the platform."""
    if stage.can.has_topics:
        must("change the topic", "channel", "topic", "work", "what we talk about")
        check("the platform's channel has it", until(SOON, lambda: stage.topic(stage.private) == "what we talk about"),
              stage.topic(stage.private))
        stage.arrives(stage.private, "changed the topic")


def echoes(stage):
    """Nothing that flock sent came back, and nothing that came went back."""
    authors = {row[1] for channel in ("work", "lobby", "both") for row in said(channel)}
    known = {"system", AGENT, *(f"human:{name}" for name in ("kim", "lee", "alice", "bob"))}
    check("nobody speaks in the channels but those who do", authors <= known, authors)
    shown = stage.shown(stage.private)
    theirs = {one.text for one in shown if not one.is_ours}
    back = [one.text for one in shown if one.is_ours and one.text in theirs]
    check("nothing on the platform came back to it", not back, back)
    ours = [one.text for one in shown if one.is_ours and one.author]
    twice = [row[2] for row in said("work") if row[1] not in ("system", "human:kim", "human:lee", AGENT)
             and row[2] in ours]
    check("nothing of the channel came back to it", not twice, twice)


def long(stage):
    """A long message arrives in parts that are whole."""
    room, since, size = stage.private, stage.mark(stage.private), 3 * stage.can.part
    # A third is prose before and after the code.
    prose = [f"paragraph {number}: {'so it goes on and on ' * 4}".strip() for number in range(size // 400)]
    code = [f"    value_{number} = compute({number})  # <&> line {number} of the code" for number in range(size // 80)]
    half = len(prose) // 2
    text = "\n\n".join([*prose[:half], "\n".join(["```python", *code, "```"]), *prose[half:], "the very end"])
    post("work", "-", stdin=text)
    stage.arrives(room, "the very end", since)
    parts = [one for one in stage.shown(room, since) if one.is_ours]
    check(f"{len(text)} characters come in several parts", 1 < len(parts) < 12, len(parts))
    broken = [one.text[-200:] for one in parts if not stage.is_whole(one)]
    check("whose markup is balanced", not broken, broken)
    check("each with its author", {one.author for one in parts} == {"kim"}, {one.author for one in parts})
    found = [line for one in parts for line in words(one.text)]
    wanted = words(text)
    same(f"with each of {len(wanted)} lines once, in order", wanted, found)


def words(text):
    """The lines that have words, without those of fences."""
    return [line.strip() for line in text.split("\n") if line.strip() and not line.startswith("```")]
