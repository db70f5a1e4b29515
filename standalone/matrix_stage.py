"""The stage of Matrix: a real Synapse with a bot, three people and rooms."""

import re
import time

import bridge_stage
from bridge_stage import Shown
from checking import check, connects, free_port
from matrix_people import People, messages
from matrix_server import Synapse

# Flock shows the author before the text.
AUTHOR = re.compile(r"\[([^\]\n]*)\]\s")


class Stage(bridge_stage.Stage):
    """`alice` sees everything that she may. The people are attributes, too."""

    platform = "matrix"
    # The two forms of a message share the space that an event has.
    can = bridge_stage.Can(part=22_000)
    storm = f"@room, @everyone and @alice:{Synapse.name}: look here."

    def __init__(self, folder):
        super().__init__(folder)
        self.synapse, self.people = Synapse(f"{folder}/synapse"), None
        self.tokens = {}

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
        return [self.tokens["flock"], "syt_wrong_token"]

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

    def mark(self, channel):
        return len(self.alice.rooms[channel])

    def shown(self, channel, since=None):
        return [self.read(event) for event in messages(self.alice.rooms[channel][since or 0:])]

    def history(self, channel):
        return [self.read(event) for event in messages(self.alice.history(channel))]

    def read(self, event):
        text, is_ours = event["content"]["body"], event["sender"] == self.bot()
        author = AUTHOR.match(text) if is_ours else None
        if author:
            return Shown(event["event_id"], text[author.end():], author[1].removeprefix("human:"), True, event)
        sender = event["sender"][1:].split(":")[0]
        return Shown(event["event_id"], text, "" if is_ours else sender, is_ours, event)

    def called(self):
        return self.synapse.highlights(self.tokens["alice"])

    def is_whole(self, shown):
        markup = shown.raw["content"].get("formatted_body", "")
        return super().is_whole(shown) and markup.count("<pre") == markup.count("</pre>")
