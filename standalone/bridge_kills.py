"""Requests are filed and decided from the platform while the gateway is killed: each is decided once, as the person did."""

import random
import threading

from bridge_decisions import APPROVER, bind
from bridge_flock import link_private
from bridge_requests import Asker, about, code_of, decisions, is_over, state_of
from checking import call, check, flock, kill, must, own_port, own_token, pid_of, rows, until

ASKED = "asked"
# Fewer than an agent may have open and granted.
EACH = 14


class Approver(threading.Thread):
    """Alice, who decides about whatever waits, and again where nothing came of it."""

    def __init__(self, stage, room, seed):
        super().__init__(daemon=True)
        self.stage, self.room, self.choose = stage, room, random.Random(seed)
        self.meant, self.ended, self.error = {}, False, None

    def run(self):
        try:
            while not self.ended:
                until(1, lambda: self.ended or self.waiting())
                for request in self.waiting():
                    self.decide(request)
        except Exception as error:
            self.error = repr(error)

    def waiting(self):
        return [row[0] for row in rows("SELECT id FROM request WHERE agent LIKE 'asker-%' AND state = 'waiting'")]

    def decide(self, request):
        found = [one for one in about(self.stage, self.room, request) if code_of(one)]
        if not found:
            return
        # Where a message may be there twice, the newer one decides.
        one = found[-1]
        is_approval = self.meant.setdefault(request, self.choose.random() < 0.5)
        ways = [self.write, self.write, self.reply, *([self.press] if self.stage.can.has_buttons else [])]
        self.choose.choice(ways)(one, is_approval)
        # What is pressed while nobody listens is lost, as it is for people.
        until(2, lambda: is_over(request))

    def write(self, one, is_approval):
        self.stage.say("alice", self.room, f"{'approve' if is_approval else 'deny'} {code_of(one)}")

    def reply(self, one, is_approval):
        self.stage.say("alice", self.room, "approve" if is_approval else "deny", to=one.id)

    def press(self, one, is_approval):
        try:
            self.stage.press("alice", self.room, one, "Approve" if is_approval else "Deny")
        except KeyError:
            # The buttons went since it was looked at.
            pass


def killed_decisions(stage):
    """`--requests` are decided while the gateway is killed `--kills` times."""
    options, choose = stage.options, random.Random(stage.options.seed)
    askers = [Asker(f"asker-{number}") for number in range(-(-options.requests // EACH))]
    members = [word for one in askers for word in ("--member", one.name)]
    must(f"channel {ASKED}", "channel", "create", ASKED, "--topic", "requests", *members)
    room = stage.channel("asked", ("alice", "bob"))
    code, text, _ = link_private(stage, ASKED, room)
    check("a channel is linked for requests that are decided between kills", code == 0, (code, text))
    must("alice may decide", "config", "set", "plugins.entries.flock.config.approvers", f'["{APPROVER}"]')
    bind(stage)
    words = [f"kill-{number:03}" for number in range(options.requests)]
    for number, word in enumerate(words):
        askers[number // EACH].learn(word, kind="egress", host=f"{word}.example.org")
    alice = Approver(stage, room, options.seed)
    alice.start()
    places = sorted(choose.uniform(0, len(words)) for _ in range(options.kills))
    done = 0
    for number, word in enumerate(words):
        file(word)
        while places and places[0] <= number:
            places.pop(0)
            # Somewhere between the request, its message, the decision and the change of the message.
            until(choose.uniform(0, 1), lambda: False)
            done += bool(kill(until(60, lambda: pid_of("gateway"))) and until(120, lambda: flock("start")[0] == 0))
    while places:
        places.pop(0)
        done += bool(kill(until(60, lambda: pid_of("gateway"))) and until(120, lambda: flock("start")[0] == 0))
    check(f"the gateway was killed {options.kills} times", done == options.kills, done)

    def all_over():
        # A kill can interrupt the agent before it has asked. It is then told again.
        for word in words:
            if not requests_for(word):
                file(word)
                until(10, lambda: requests_for(word))
        return all(is_over(one) for word in words for one in requests_for(word))

    check(f"each of {len(words)} requests is decided", until(120, all_over),
          [(word, [state_of(one) for one in requests_for(word)]) for word in words])
    alice.ended = True
    alice.join(60)
    check("alice came to an end", not alice.is_alive() and not alice.error, alice.error)
    compare(stage, room, alice, [one for word in words for one in requests_for(word)])


def file(word):
    """Somebody asks the agent to ask."""
    body = {"content": f"please ask for {word}.", "as": "kim"}
    until(60, lambda: call(own_port(), own_token(), "POST", f"/api/channels/{ASKED}/messages", body, limit=30)[0] in (200, 201))


def requests_for(word):
    return [row[0] for row in rows(f"SELECT id FROM request WHERE body LIKE '%{word}.example.org%' ORDER BY created_at")]


def compare(stage, room, alice, requests):
    wrong = {}
    for request in requests:
        verb = "approve" if alice.meant.get(request) else "deny"
        found = [(actor, action) for actor, action, _ in decisions(request)]
        if found != [(APPROVER, f"request.{verb}")]:
            wrong[request] = (verb, found, state_of(request))
    check("each was decided once, as alice did", requests and not wrong, wrong)
    shown_of = {}

    def untold():
        shown_of.update({request: about(stage, room, request) for request in requests})
        return {request: [(one.id, one.text[:80], stage.buttons(one)) for one in found] for request, found in shown_of.items()
                if not is_told(stage, found)}

    until(60, lambda: not untold())
    check("each has one message, which says so and has no buttons", not untold(), untold())
    twice = sum(len(found) - 1 for found in shown_of.values())
    most = 0 if stage.can.is_once else stage.options.kills
    check(f"at most {most} messages are there twice", twice <= most, twice)


def is_told(stage, found):
    """Where a platform can't tell, an earlier message may be there still, which decides nothing."""
    over = [one for one in found if "was approved by" in one.text or "was denied by" in one.text]
    is_alone = len(found) == 1 or not stage.can.is_once
    return len(over) == 1 and is_alone and not stage.buttons(over[0])
