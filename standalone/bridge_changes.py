"""Messages that people change or delete, and what was said before a link."""

from bridge_flock import at, bridge, heard, link_private, said
from checking import SOON, check, until


def row_of(seq):
    return next((row for row in said("work") if row[0] == seq), None)


def changes(stage):
    """What somebody changes on the platform is changed in the channel."""
    room, since = stage.private, stage.mark(stage.private)
    message = stage.say("alice", room, "we meet at five")
    seq = heard("work", "we meet at five")[0][0]
    if stage.can.edits:
        stage.edit("alice", room, message, "we meet at six")
        check("the new text is in the channel",
              until(SOON, lambda: row_of(seq)[1:] == ("human:alice", "we meet at six")), row_of(seq))
        notice = until(SOON, lambda: [row for row in said("work") if row[1] == "system" and "changed" in row[2]])
        check("and the channel is told", notice, said("work")[-5:])
    if stage.can.deletes:
        stage.delete("alice", room, message)
        check("what was deleted is gone", until(SOON, lambda: "we meet" not in row_of(seq)[2]), row_of(seq))
    stage.say("alice", room, "after the change")
    heard("work", "after the change")
    told = [one.text for one in stage.of_bot(room, "changed", since) + stage.of_bot(room, "deleted", since)]
    check("the platform is not told of its own changes", not told, told)


def ignored_changes(stage):
    """A message that was not taken can be changed and deleted, and nothing of it arrives."""
    room = stage.private
    message = stage.say("mallory", room, "not heard")
    if stage.can.edits:
        stage.edit("mallory", room, message, "still not heard")
    if stage.can.deletes:
        stage.delete("mallory", room, message)
    stage.say("alice", room, "after mallory")
    check("who is not heard changes nothing", len(heard("work", "after mallory")) == 1
          and not [row for row in said("work") if "not heard" in row[2]])


def history(stage):
    """A link can bring in what was said before it, from those who are heard."""
    if not stage.can.has_history:
        return
    room = stage.channel("earlier", ("alice", "bob"))
    first = link_private(stage, "both", room)
    check("a channel is linked", first[0] == 0, first)
    bridge("unlink", at(stage, room))
    for number in range(3):
        stage.say("alice", room, f"earlier-{number}")
    code, text, _ = link_private(stage, "both", room, "--since", "1h")
    check("it is linked again with what was said before", code == 0, (code, text))
    stage.say("alice", room, "said now")
    heard("both", "said now")
    found = [row[1:] for row in said("both") if "earlier-" in row[2] or row[2] == "said now"]
    wanted = [*(("human:alice", f"earlier-{number}") for number in range(3)), ("human:alice", "said now")]
    check("which is there, once and in order", found == wanted, found)
