"""Requests of an agent that wait for a person, and the messages of a platform that show them."""

import json
import os
import re

from bridge_flock import post
from checking import HOME, SOON, must, rows, until

CODE = re.compile(r"approve `?([a-z0-9]{5}-[a-z0-9]{5})\b")
# What the messages about a request have, and the posts in the channel about it do not.
WHOLE, CUT = "sha256", "can't be shown whole here"


class Asker:
    """An agent that asks for what it is told to ask for."""

    def __init__(self, name, *more):
        self.name, self.asked = name, []
        self.path = f"{HOME}/scripts/{name}"
        self.write()
        must(f"add {name}", "add", name, "--no-container", "--network", "proxy", "--model", f"script/{name}", *more)

    def write(self):
        # The file is read for each turn, so it must never be there in part.
        with open(f"{self.path}.new", "w") as file:
            json.dump({"replies": [*self.asked, {"steps": [{"say": ""}]}]}, file)
        os.rename(f"{self.path}.new", self.path)

    def learn(self, word, **request):
        """The agent makes this request whenever it reads `ask for WORD.`"""
        given = {"reason": "it is needed", **request}
        steps = [{"calls": [{"name": "flock_sysadmin_request", "arguments": given}]}, {"say": ""}]
        self.asked.append({"when": f"ask for {word}.", "steps": steps})
        self.write()

    def ask(self, channel, word, **request):
        """Has the agent make a request, for a new host if nothing else is said; its id."""
        self.learn(word, **(request or {"kind": "egress", "host": f"{word}.example.org"}))
        # A turn plays the script as it was when it began, also for what it is given in its middle.
        until(SOON, lambda: not self.is_busy())
        before = set(ids(self.name))
        post(channel, f"please ask for {word}.")
        new = until(SOON, lambda: set(ids(self.name)) - before)
        return new.pop() if new else None

    def is_busy(self):
        """True if it has a turn, or something that one is to begin with."""
        return rows(f"SELECT 1 FROM delivery WHERE agent = '{self.name}' AND inflight_turn IS NOT NULL "
                    f"UNION ALL SELECT 1 FROM inbox WHERE session LIKE 'agent:{self.name}:%'")


def ids(agent):
    return [row[0] for row in rows(f"SELECT id FROM request WHERE agent = '{agent}' ORDER BY created_at")]


def state_of(request):
    """The state of a request and who decided about it."""
    found = rows(f"SELECT state, decided_by FROM request WHERE id = '{request}'")
    return found[0] if found else (None, None)


def waits(request):
    return state_of(request) == ("waiting", None)


def is_over(request):
    return state_of(request)[0] not in (None, "triage", "waiting")


def about(stage, room, request):
    """The messages of flock that show a request or how it ended, as people see them now."""
    found = (one for one in stage.shown(room) if one.is_ours and request in one.text and not stage.is_change(one))
    return [stage.now(room, one) for one in found if WHOLE in one.text or CUT in one.text]


def shown(stage, room, request):
    """Waits for the message that shows a request; it, or `None`."""
    found = until(SOON, lambda: about(stage, room, request))
    return found[0] if found else None


def ended(stage, room, request, words):
    """Waits until the message about a request says how it ended and has no buttons; whether it does."""
    def says():
        found = about(stage, room, request)
        return len(found) == 1 and words in found[0].text and not stage.buttons(found[0])

    return until(SOON, says)


def code_of(one):
    found = CODE.search(one.text if one else "")
    return found[1] if found else None


def answers(stage, person, room):
    """What flock told somebody about deciding."""
    words = ("Nothing was decided", "You approved", "You denied")
    return [one.text for one in stage.apart(person, room, None) if one.text.startswith(words)]


def decisions(request):
    """What the audit has of decisions about a request: who, what, and the detail."""
    return rows(f"SELECT actor, action, detail FROM audit WHERE subject = '{request}' "
                "AND action IN ('request.approve', 'request.deny') ORDER BY id")
