"""The homeserver and the people on their own: that they do what the checks of a bridge take for granted."""

import threading
import time

from checking import SOON, call, check, parsed, until
from matrix_people import bodies, messages


def everything(stage):
    room, bot, alice = stage.private, stage.flock, stage.alice
    bot.join(room)
    version = alice.state(room, "m.room.create")["room_version"]
    check(f"the bot is in the private room, of version {version}", stage.bot() in alice.members(room))

    def called():
        return stage.synapse.highlights(stage.tokens["alice"])

    raw = bot.say(room, "@room look")
    check("who is called by @room is notified", until(SOON, lambda: raw in called()), called())
    calm = bot.say(room, "@room and alice, look", **{"m.mentions": {}})
    bot.say(room, "@room again")
    until(SOON, lambda: len(called()) == 2)
    check("and is not if nobody is mentioned", calm not in called() and len(called()) == 2, called())

    check("an account is limited", stage.synapse.limit(stage.root, stage.bot(), 2))
    path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message"

    def send(key, text="x"):
        body = {"msgtype": "m.text", "body": text}
        return call(stage.synapse.port, stage.tokens["flock"], "PUT", f"{path}/{key}", body)

    answers = [send(f"limit{n}") for n in range(5)]
    refused = [parsed(body) for status, body in answers if status == 429]
    check("and is told how long to wait", refused and refused[0]["retry_after_ms"] > 0, answers)
    check("and is limited no longer", stage.synapse.limit(stage.root, stage.bot(), None))
    first, second = send("same"), send("same")
    check("a message that is sent again is the same one", first == second and first[0] == 200, (first, second))
    status, body = send("long", "x" * 65_000)
    check("a message of 65,000 bytes is too long", status == 413 and "M_TOO_LARGE" in body, (status, body))

    count, begun = 100, time.monotonic()
    told = {"alice": [], "flock": []}

    def speak(name):
        for number in range(count):
            told[name].append(getattr(stage, name).say(room, f"{name}-{number}"))

    speakers = [threading.Thread(target=speak, args=(name,), daemon=True) for name in told]
    for speaker in speakers:
        speaker.start()
    until(SOON, lambda: sum(map(len, told.values())) >= count)
    check("the homeserver is restarted while they talk", stage.synapse.restart(), stage.synapse.said())
    for speaker in speakers:
        speaker.join(120)
    spent = time.monotonic() - begun
    kept = alice.history(room)
    for name, events in told.items():
        found = messages(kept, getattr(stage, name).user)
        found = [event for event in found if event["content"]["body"].startswith(f"{name}-")]
        wanted = [f"{name}-{number}" for number in range(count)]
        check(f"each of {count} messages of {name}'s is there once, in order", bodies(found) == wanted, bodies(found))
        check("and has the id that was acknowledged", [event["event_id"] for event in found] == events)
    again = send("same")
    check("what is sent again after the restart is still the same message", again == first, (first, again))
    until(SOON, lambda: len(alice.rooms[room]) == len(kept))
    # The order of a room and the order in which it is followed may differ where two talk at once.
    seen, wanted = (sorted(event["event_id"] for event in events) for events in (alice.rooms[room], kept))
    check("who follows the room saw the same", seen == wanted, (len(seen), len(wanted)))
    print(f"      {2 * count} messages and a restart in {spent:.1f} s")
