"""What the checks of bridges need of a platform.

A platform provides a class that is derived from `Stage`, and calls `bridge_run.main` with it. The platform may be the
real one or a stand-in. A file `PLATFORM_stage.py` has the class, and `PLATFORM_checks.py` the call:

    class Stage(bridge_stage.Stage):
        platform = "slack"
        can = Can(part=4_000)
        ...

    bridge_run.main(Stage, parts=(threads, scopes))

`parts` are the platform's own checks: functions that take the stage. They run after the common ones and before the
campaign with kills. A script PLATFORM.sh prepares everything and calls the checks, as matrix.sh does.

Each method below that raises NotImplementedError has to be there, but for those under "what not every stage has":
the parts that need them are left out without them. The others have an answer that suits most platforms.

Three people are on the platform: alice, bob and mallory. They are named by these words in all methods, and `account`
translates the word into the platform's id. Two more, kim and lee, post in flock; the platform shows their posts as
messages of flock's account. Two channels are there from the start, in the attributes `private` (alice, bob and flock's
account are in it) and `public` (anybody may join; alice is in it). A channel is named by the id that `flock bridge link`
takes and `flock bridge list` shows.

`open` runs before flock is started, `close` after everything else and also after a failure.
"""

import dataclasses
import os

from checking import SOON, until


@dataclasses.dataclass(frozen=True)
class Can:
    """What a platform can do. The checks expect less where one of these is changed."""

    # About how many characters of text fit into one message.
    part: int = 20_000
    # The platform, or its history, keeps a message from being shown twice after a crash.
    is_once: bool = True
    # The members of a private channel are known when it is linked, and are heard without `--allow`.
    knows_members: bool = True
    # Flock's account can create a channel (`bridge link --create`).
    creates: bool = True
    # The platform tells bots of changed and of deleted messages.
    edits: bool = True
    deletes: bool = True
    # The platform shows bots what was said before.
    has_history: bool = True
    # Channels have a topic that flock's account can change.
    has_topics: bool = True
    # Messages have buttons.
    has_buttons: bool = True


@dataclasses.dataclass(frozen=True)
class Shown:
    """A message on the platform, as people there see it now."""

    # The platform's id of it.
    id: str
    # The text that a person reads, without the author and the platform's escapes. A line with a fence of code may be
    # there (```) or not.
    text: str
    # Who people take for the author. For a message of flock's account: the name that flock shows with the message,
    # which is empty for flock itself. Else the word for the person.
    author: str = ""
    # Set for a message of flock's account or webhook.
    is_ours: bool = False
    # Whatever the platform's own checks need.
    raw: object = None
    # The names of its files.
    files: tuple = ()


class Stage:
    # The platform's word after `flock bridge add`.
    platform = ""
    # The name of the bridge.
    bridge = "b"
    can = Can()
    # Ids of the two channels that are there from the start.
    private = public = None
    # A text that has everything by which the platform could notify anybody, alice among them. It
    # ends with "look here.".
    storm = "@everyone, @here, @channel, @room: look here."

    def __init__(self, folder):
        """`folder` is for everything that the platform keeps. It is not in the home."""
        self.folder = folder

    # The platform itself.

    def open(self):
        """Starts the platform, with the people and the two channels."""
        raise NotImplementedError

    def close(self):
        """Ends the platform and checks that nothing of it is left."""
        raise NotImplementedError

    def restart(self):
        """Restarts the platform, or drops all of its connections where it is never gone; whether it is there again."""
        raise NotImplementedError

    def limit(self, is_limited):
        """Lets flock's account send about two messages in a second, or as many as it wants again."""
        raise NotImplementedError

    # Flock's account.

    def credentials(self):
        """The arguments of `flock bridge add PLATFORM --name NAME` that are right; `self.file` writes tokens."""
        raise NotImplementedError

    def refused(self):
        """Ways in which adding fails: what it is, the arguments, and words that the error has to have."""
        raise NotImplementedError

    def secrets(self):
        """The texts of flock's account that may stand in `secrets/` only. The tokens of `refused` are among them."""
        raise NotImplementedError

    def bot(self):
        """The platform's id of flock's account."""
        raise NotImplementedError

    def unfit(self):
        """Channels that can't be linked: what it is, the channel, and words that the error has to have."""
        return []

    def told(self, person, channel):
        """What flock's account said to a person who is not heard in a channel, in it or apart from it."""
        return self.of_bot(channel, f"{person}: the agents do not see")

    # People and channels.

    def account(self, person):
        """The platform's id of a person."""
        raise NotImplementedError

    def channel(self, name, people=("alice",)):
        """Makes a private channel with people in it, to which flock's account has been let in or invited; its id."""
        raise NotImplementedError

    def join(self, person, channel):
        """Lets a person into a channel."""
        raise NotImplementedError

    def say(self, person, channel, text, to=None):
        """A person writes a message, maybe in answer to the one with the id `to`; the id, once it was acknowledged.

        It waits while the platform restarts."""
        raise NotImplementedError

    def edit(self, person, channel, message, text):
        """A person changes the text of a message."""
        raise NotImplementedError

    def delete(self, person, channel, message):
        """A person deletes a message."""
        raise NotImplementedError

    # What a person sees.

    def mark(self, channel):
        """The place behind everything that a person sees in a channel at this moment."""
        raise NotImplementedError

    def shown(self, channel, since=None):
        """The messages that a person sees in a channel, or those behind a mark, the oldest first. It is asked often, so
        it must be cheap."""
        raise NotImplementedError

    def history(self, channel):
        """All messages that the platform keeps of a channel, the oldest first."""
        return self.shown(channel)

    def called(self):
        """The ids of all messages by which the platform notified alice, mallory or everybody."""
        raise NotImplementedError

    def apart(self, person, channel, since):
        """What flock's account told a person alone or in a thread, behind a mark of the channel."""
        return [one for one in self.shown(channel, since) if one.is_ours]

    def is_whole(self, shown):
        """Whether the markup of a message is closed as often as it is opened."""
        return sum(line.startswith("```") for line in shown.text.split("\n")) % 2 == 0

    # What not every stage has.

    def revoke(self):
        """Makes the token of flock's account worth nothing. From now on `credentials` has another one."""
        raise NotImplementedError

    def upload(self, person, channel, name, content, text=""):
        """A person sends a file, maybe with a text; the id of the message."""
        raise NotImplementedError

    def upload_large(self, person, channel, name, size, claimed):
        """A person sends a file with so many bytes, of which the platform says that it has `claimed` ones."""
        raise NotImplementedError

    def alone(self, person):
        """Begins to talk with flock's account alone; the channel in which a person does that."""
        raise NotImplementedError

    def content(self, shown):
        """The bytes of the first file of a message."""
        raise NotImplementedError

    def topic(self, channel):
        """The topic of a channel."""
        raise NotImplementedError

    def saw_typing(self, channel):
        """Whether a person saw that flock's account writes in a channel, since this was asked last."""
        raise NotImplementedError

    def forward(self, person, channel, text):
        """A person passes on a text that somebody else wrote, so that the platform marks it."""
        raise NotImplementedError

    def robot(self, channel):
        """Makes another program that may write in a channel; the platform's id of its account."""
        raise NotImplementedError

    def robot_says(self, channel, text):
        """That program writes a message."""
        raise NotImplementedError

    # Requests.

    def buttons(self, shown):
        """The buttons of a message: what stands on them, and what the platform's own checks press."""
        return {}

    def press(self, person, channel, shown, label):
        """A person presses a button of a message."""
        raise NotImplementedError

    def react(self, person, channel, message, emoji):
        """A person reacts to a message."""
        raise NotImplementedError

    def called_so(self, name, channel):
        """Makes somebody whose names are this one, as far as the platform lets them; the word for them."""
        raise NotImplementedError

    def tell_reactions(self, channel):
        """Lets flock's account hear of reactions in a channel, where that is a right of its own."""

    def namesake(self, person, channel):
        """Makes somebody with another account and the same display name, who may write in a channel; the word for them."""
        raise NotImplementedError

    def is_change(self, shown):
        """Whether what is in the list of messages is the new text of another one."""
        return False

    def now(self, channel, shown):
        """A message as people see it now, where the list of messages shows it as it was sent."""
        return shown

    # What follows from it.

    def of_bot(self, channel, text, since=None):
        """The messages of flock's account in which a text stands."""
        return [one for one in self.shown(channel, since) if one.is_ours and text in one.text]

    def arrives(self, channel, text, since=None):
        """Waits for a message of flock's account, and gives all that have the text."""
        until(SOON, lambda: self.of_bot(channel, text, since))
        return self.of_bot(channel, text, since)

    def file(self, name, text):
        """Writes a secret into a file for `--token-file`; its path."""
        path = f"{self.folder}/{name}.txt"
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{text}\n")
        return path


def has(stage, method):
    """Whether a stage has a method that not every one has."""
    return getattr(type(stage), method) is not getattr(Stage, method)


def texts(shown):
    return [one.text for one in shown]
