"""What only Matrix has: invitations, power levels, threads, rooms that are replaced or encrypted, and messages in two
forms.
"""

from bridge_flock import at, bridge, heard, link, link_private, link_state, must_link, post, said, state
from checking import SOON, call, check, parsed, until


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
    raw = [name for name in ("@room", "@everyone", stage.account("mallory")) if name in texts]
    check("and has none of the names as they are", not raw, (raw, texts))
    found = stage.of_bot(stage.private, "Please look")
    content = found[0].raw["content"] if found else {}
    link_to = f'<a href="https://matrix.to/#/{stage.account("alice")}">@alice</a>'
    check("whom it means is a link", link_to in content.get("formatted_body", ""), content)


def pills(stage):
    """Clients show people by names of their own."""
    shown = f'<a href="https://matrix.to/#/{stage.account("bob")}">Bob the Great</a>'
    stage.alice.say(stage.private, "ask Bob the Great please", format="org.matrix.custom.html",
                    formatted_body=f"ask {shown} please", **{"m.mentions": {"user_ids": [stage.account("bob")]}})
    found = heard("work", "ask @bob please")
    check("a person is named by the account", len(found) == 1, said("work")[-3:])


def forged(stage):
    """The homeserver lets anybody send an edit of anybody's message."""
    room = stage.private
    message = stage.say("alice", room, "alice said this")
    heard("work", "alice said this")
    stage.edit("bob", room, message, "bob put this into her mouth")
    stage.say("alice", room, "after the forgery")
    heard("work", "after the forgery")
    check("nobody edits what another one said", not [row for row in said("work") if "her mouth" in row[2]]
          and heard("work", "alice said this"))


def threads(stage):
    """A thread belongs to its room, or is linked on its own."""
    room = stage.channel("threads", ("alice", "bob"))
    must_link(stage, "both", room)
    root = stage.say("alice", room, "the plan for May")
    relation = {"m.relates_to": {"rel_type": "m.thread", "event_id": root, "is_falling_back": True,
                                 "m.in_reply_to": {"event_id": root}}}
    stage.alice.say(room, "said in the thread", **relation)
    found = heard("both", "said in the thread")
    check("a message of a thread is in the room's channel, with the title",
          len(found) == 1 and "the plan for May" in found[0][2], found)
    inner = stage.alice.say(room, "deleted in the thread", **relation)
    heard("both", "deleted in the thread")
    stage.delete("alice", room, inner)
    check("and can be deleted",
          until(SOON, lambda: not [row for row in said("both") if "deleted in the thread" in row[2]]))
    bridge("unlink", at(stage, room))
    place = f"{room}/{root}"
    code, text, known = link_private(stage, "both", place)
    check("a thread is linked by its first message", code == 0 and known.get("title") == "the plan for May",
          (code, text, known))
    stage.alice.say(room, "in the linked thread", **relation)
    stage.say("alice", room, "beside the thread")
    stage.alice.say(room, "in the thread again", **relation)
    heard("both", "in the thread again")
    found = [row[2] for row in said("both") if "in the linked thread" in row[2] or "beside the thread" in row[2]]
    check("and only what is said in it arrives", found == ["in the linked thread"], found)
    post("both", "an answer for the thread")
    found = stage.arrives(room, "an answer for the thread")
    related = found[0].raw["content"].get("m.relates_to", {}) if found else {}
    check("and what is posted is in it", (related.get("rel_type"), related.get("event_id")) == ("m.thread", root), found)
    bridge("unlink", at(stage, place))


def renamed(stage):
    stage.alice.put(stage.private, "m.room.name", {"name": "a new name"})
    check("a link follows the name of its room",
          until(SOON, lambda: link_state(stage, stage.private).get("title") == "a new name"),
          link_state(stage, stage.private))


def powerless(stage):
    """A room in which the account may not write is refused when it is linked."""
    room = stage.channel("quiet")
    stage.alice.put(room, "m.room.power_levels", {"events_default": 50})
    code, text, known = link(stage, "both", room)
    check("a room without the power to write is refused in words", code == 1 and "power level" in text and not known,
          (code, text))


def replaced(stage):
    """A room that is replaced by another one, as when its version is raised, keeps its link."""
    room = stage.channel("upgraded")
    must_link(stage, "both", room)
    stage.say("alice", room, "in the old room")
    heard("both", "in the old room")
    path = f"/_matrix/client/v3/rooms/{room}/upgrade"
    status, body = call(stage.synapse.port, stage.tokens["alice"], "POST", path, {"new_version": "11"})
    new = parsed(body).get("replacement_room")
    check("a room is upgraded", status == 200 and new, (status, body))
    # The room is private, so the account has to be let in.
    if stage.bot() not in stage.alice.members(new):
        stage.alice.invite(new, stage.bot())
    check("the link follows", until(SOON, lambda: link_state(stage, new).get("state") == "active"),
          state(stage).get("links"))
    stage.say("alice", new, "in the new room")
    check("people are heard in the new room", len(heard("both", "in the new room")) == 1)
    post("both", "into the new room")
    check("and hear", len(stage.arrives(new, "into the new room")) == 1)
    bridge("unlink", at(stage, new))


def put_out(stage):
    """Who puts the account out of a linked room can let it in again."""
    room = stage.channel("guarded")
    must_link(stage, "both", room)
    stage.alice.kick(room, stage.bot())
    since = len(said("both"))
    post("both", "to a closed door")
    told = until(SOON, lambda: [row for row in said("both")[since:] if row[1] == "system" and "not sent" in row[2]])
    check("what can't be sent is told, with the reason", told and "invite it" in told[0][2], said("both")[since:])
    stage.alice.invite(room, stage.bot())
    check("the account comes back by itself", until(SOON, lambda: stage.bot() in stage.alice.members(room)))
    stage.say("alice", room, "welcome back")
    check("and hears", len(heard("both", "welcome back")) == 1)
    bridge("unlink", at(stage, room))


def reconnect(stage):
    bridge("pause", stage.bridge)
    bridge("resume", stage.bridge)
    until(SOON, lambda: state(stage).get("state") == "connected")


def encrypted_later(stage):
    """A room that becomes encrypted takes nothing any more, and the channel says why."""
    room = stage.channel("secret")
    must_link(stage, "both", room)
    post("both", "before the encryption")
    stage.arrives(room, "before the encryption")
    stage.alice.put(room, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"})
    # What is said elsewhere comes after it in the stream of events.
    stage.say("alice", stage.private, "after the encryption")
    heard("work", "after the encryption")
    since = len(said("both"))
    post("both", "not for the open")
    told = until(SOON, lambda: [row for row in said("both")[since:] if row[1] == "system" and "encrypted" in row[2]])
    check("the channel is told that the room is encrypted", told, said("both")[since:])
    reconnect(stage)
    post("both", "nor after a new start")
    until(SOON, lambda: len([row for row in said("both")[since:] if "encrypted" in row[2]]) == 2)
    check("and nothing is in it", not stage.of_bot(room, "not for the open") + stage.of_bot(room, "nor after"),
          stage.shown(room))
    bridge("unlink", at(stage, room))
    encrypted = stage.alice.create("", invite=[stage.bot()], is_direct=True, is_encrypted=True)

    def membership():
        events = stage.alice.rooms[encrypted]
        return [event["content"].get("membership") for event in events
                if event["type"] == "m.room.member" and event["state_key"] == stage.bot()]

    check("an encrypted direct room is declined", until(SOON, lambda: membership()[-1:] == ["leave"]), membership())
