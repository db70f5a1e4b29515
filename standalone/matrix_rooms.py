"""What only Matrix has: invitations, power levels, replies of older programs, and messages in two forms."""

from bridge_flock import heard
from checking import check


def joined(stage):
    check("the bot is in the room that was linked", stage.bot() in stage.alice.members(stage.private))


def quoted(stage):
    """Older programs put what they answer before the answer."""
    room = stage.private
    message = stage.of_bot(room, "I am well.")[0].id
    stage.say("alice", room, f"> <{stage.bot()}> [helper] I am well.\n\nso am I", to=message)
    found = heard("work", "so am I")
    check("a reply loses the quote of older programs", found and "> <" not in found[0][2], found)


def forms(stage):
    """A message says that it mentions nobody, and has no name as it is in either form."""
    found = stage.of_bot(stage.private, "look here.")
    content = found[0].raw["content"] if found else {}
    called = content.get("m.mentions", {"room": True})
    check("a message says that it mentions nobody", not called.get("room") and not called.get("user_ids"), content)
    texts = content.get("body", "@room") + content.get("formatted_body", "")
    raw = [name for name in ("@room", "@everyone", stage.account("alice")) if name in texts]
    check("and has none of the names as they are", not raw, (raw, texts))
