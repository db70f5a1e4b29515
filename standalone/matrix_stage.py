"""The stage of Matrix: a real Synapse with a bot, three people and rooms."""

import re
import time

import bridge_stage
from bridge_stage import Shown
from checking import SOON, check, connects, free_port, until
from matrix_people import People, messages
from matrix_server import Synapse

# Flock shows the author before the text.
AUTHOR = re.compile(r"\[([^\]\n]*)\]\s")


class Stage(bridge_stage.Stage):
    """`alice` sees everything that she may. The people are attributes, too."""

    platform = "matrix"
    # The two forms of a message share the space that an event has.
    can = bridge_stage.Can(part=22_000, has_buttons=False)
    storm = f"@room, @everyone and @mallory:{Synapse.name}: look here."

    def __init__(self, folder):
        super().__init__(folder)
        self.synapse, self.people = Synapse(f"{folder}/synapse"), None
        # Who sees the rooms in which alice is not.
        self.tokens, self.watchers = {}, {}
        self.revoked = []

    def open(self):
        begun = time.monotonic()
        version = self.synapse.start()
        check(f"Synapse {version} answers ({time.monotonic() - begun:.1f} s)", version, self.synapse.said())
        self.people = People(self.synapse.url)
        self.root = self.synapse.register("root", is_admin=True)[1]
        for name in ("flock", "alice", "bob", "mallory"):
            user, self.tokens[name] = self.synapse.register(name)
            setattr(self, name, self.people.person(user, self.tokens[name]))
        self.alice.follow()
        # Who may call the whole room by `@room` is heard by everybody if nothing breaks the name.
        self.private = self.room("private", [self.bob], powers={self.bot(): 50})
        self.public = self.alice.create("public", is_public=True)
        self.encrypted = self.room("encrypted", [self.bob], is_encrypted=True)
        check("a private, a public and an encrypted room are there", self.private and self.public and self.encrypted)

    def room(self, name, others=(), **more):
        """A room of alice's with others in it, to which the bot is invited."""
        room = self.alice.create(name, invite=[self.bot(), *(other.user for other in others)], **more)
        for other in others:
            other.join(room)
        return room

    def close(self):
        if self.people:
            self.people.leave()
        self.synapse.stop()
        check("the homeserver is gone", not connects(self.synapse.port))

    def restart(self):
        return self.synapse.restart()

    def limit(self, is_limited):
        self.synapse.limit(self.root, self.bot(), 2 if is_limited else None)

    def revoke(self):
        self.synapse.log_out(self.tokens["flock"])
        self.revoked.append(self.tokens["flock"])
        self.tokens["flock"] = self.synapse.log_in(self.bot())

    def credentials(self):
        return ["--homeserver", self.synapse.url, "--token-file", self.file("token", self.tokens["flock"])]

    def refused(self):
        url, nobody = self.synapse.url, f"http://127.0.0.1:{free_port()}"
        wrong = self.file("wrong", "syt_wrong_token")
        return [
            ("a wrong token", ["--homeserver", url, "--token-file", wrong], ["token", url]),
            ("a homeserver that does not answer", ["--homeserver", nobody, *self.credentials()[2:]], [nobody]),
        ]

    def secrets(self):
        return [self.tokens["flock"], "syt_wrong_token", *self.revoked]

    def bot(self):
        return self.flock.user

    def unfit(self):
        return [
            ("an encrypted room", self.encrypted, ["encrypt"]),
            ("a room without an invitation", self.alice.create("elsewhere"), []),
        ]

    def account(self, person):
        return getattr(self, person).user

    def channel(self, name, people=("alice",)):
        return self.room(name, [getattr(self, person) for person in people if person != "alice"])

    def join(self, person, channel):
        if channel != self.public:
            self.alice.invite(channel, self.account(person))
        getattr(self, person).join(channel)

    def say(self, person, channel, text, to=None):
        speaker = getattr(self, person)
        return speaker.answer(channel, to, text) if to else speaker.say(channel, text)

    def edit(self, person, channel, message, text):
        getattr(self, person).edit(channel, message, text)

    def delete(self, person, channel, message):
        getattr(self, person).redact(channel, message)

    def upload(self, person, channel, name, content, text=""):
        return getattr(self, person).upload(channel, name, content, text)

    def upload_large(self, person, channel, name, size, claimed):
        # Synapse keeps at most 50 MiB, and what a file is said to have is a matter between people.
        getattr(self, person).upload(channel, name, bytes(min(size, 40 << 20)), claimed=claimed)

    def alone(self, person):
        """The bot joins by itself. Alice only sees her own rooms, so whoever it is follows."""
        speaker = getattr(self, person)
        room = speaker.create("", invite=[self.bot()], is_direct=True)
        if not speaker.following:
            speaker.follow()
        check("flock's account accepts a direct room", until(SOON, lambda: self.bot() in speaker.members(room)))
        self.watchers[room] = speaker
        return room

    def told(self, person, channel):
        return self.of_bot(channel, f"{person}: the agents do not see")

    def mark(self, channel):
        return len(self.events(channel))

    def shown(self, channel, since=None):
        return [self.read(event) for event in messages(self.events(channel)[since or 0:])]

    def events(self, channel):
        """Everything that was seen in a room."""
        return self.watchers.get(channel, self.alice).rooms[channel]

    def history(self, channel):
        return [self.read(event) for event in messages(self.alice.history(channel))]

    def read(self, event):
        content, is_ours = event["content"], event["sender"] == self.bot()
        text, author = content["body"], "" if is_ours else event["sender"][1:].split(":")[0]
        if is_ours and (found := AUTHOR.match(text)):
            text, author = text[found.end():], found[1].removeprefix("human:")
        files = (content["filename"],) if "filename" in content else ()
        return Shown(event["event_id"], text, author, is_ours, event, files)

    def called(self):
        return [one for person in ("alice", "mallory") for one in self.synapse.highlights(self.tokens[person])]

    def react(self, person, channel, message, emoji):
        relation = {"rel_type": "m.annotation", "event_id": message, "key": emoji}
        getattr(self, person).send(channel, {"m.relates_to": relation}, "m.reaction")

    def namesake(self, person, channel):
        return self.newcomer(f"not-{person}", channel, person)

    def called_so(self, name, channel):
        """The localpart is what counts here, and it has few letters."""
        plain = "".join(one for one in name.lower() if one.isascii() and one.isalnum()) or "nobody"
        plain = {"flock": "flock-2"}.get(plain, plain)
        word = plain if plain not in self.tokens and not hasattr(self, plain) else f"{plain}{len(self.tokens)}"
        return self.newcomer(word, channel, name)

    def robot(self, channel):
        return self.account(self.newcomer("program", channel))

    def newcomer(self, name, channel, shown=None):
        """Somebody new who is in a room, maybe under a display name; the word for them."""
        user, self.tokens[name] = self.synapse.register(name)
        setattr(self, name, self.people.person(user, self.tokens[name]))
        if shown:
            getattr(self, name).rename(shown)
        self.join(name, channel)
        return name

    def robot_says(self, channel, text):
        """Programs write notices, which is all that Matrix has to tell them from people."""
        self.program.send(channel, {"msgtype": "m.notice", "body": text})

    def is_change(self, shown):
        return relation_of(shown).get("rel_type") == "m.replace"

    def now(self, channel, shown):
        for event in messages(self.events(channel), shown.raw["sender"])[::-1]:
            one = self.read(event)
            if self.is_change(one) and relation_of(one)["event_id"] == shown.id:
                return self.read({**event, "event_id": shown.id, "content": event["content"]["m.new_content"]})
        return shown

    def content(self, shown):
        return self.alice.download(shown.raw["content"]["url"])

    def topic(self, channel):
        try:
            return self.alice.state(channel, "m.room.topic").get("topic")
        except RuntimeError:  # It never had one.
            return None

    def saw_typing(self, channel):
        return self.bot() in self.alice.writing.pop(channel, ())

    def is_whole(self, shown):
        markup = shown.raw["content"].get("formatted_body", "")
        return super().is_whole(shown) and markup.count("<pre") == markup.count("</pre>")


def relation_of(shown):
    return shown.raw["content"].get("m.relates_to", {})
