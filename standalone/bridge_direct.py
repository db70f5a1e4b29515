"""People who talk to flock's account alone: the orchestrator answers them."""

from bridge_flock import heard, said
from bridge_home import CHANNELS
from checking import check


def direct(stage):
    """A person who is heard over a link can talk to the orchestrator. The channels have nothing of it."""
    alone = stage.alone("alice")
    stage.say("alice", alone, "between us: how is it?")
    found = stage.arrives(alone, "Nobody else heard that.")
    check("a direct message is answered there", len(found) == 1, stage.shown(alone))
    stage.say("alice", alone, "and between us: again?")
    stage.arrives(alone, "Nobody else heard that.", stage.mark(alone))
    stranger = stage.alone("mallory")
    stage.say("mallory", stranger, "between us: me too?")
    stage.say("alice", stage.private, "after the direct messages")
    heard("work", "after the direct messages")
    found = [row for channel in CHANNELS for row in said(channel) if "between us" in row[2] or "Nobody else" in row[2]]
    check("and stands in no channel", not found, found)
    check("who is not heard gets no answer of an agent", not stage.of_bot(stranger, "Nobody else"),
          stage.shown(stranger))
