"""People decide about requests on the platform: those who may, by buttons, reactions and words."""

from bridge_flock import heard, link_private, must_link, said
from bridge_requests import Asker, about, answers, code_of, decisions, ended, is_over, shown, state_of, waits
from bridge_stage import has
from checking import SOON, check, flock, must, rows, until

ASKS = "asks"
# Who decides: alice, from the account that the checks speak to her by.
APPROVER = "human:alice"


class Table:
    """A channel with an agent that asks, linked with one of the platform in which alice, bob and mallory are."""

    def __init__(self, stage):
        self.asker = Asker("asker")
        must(f"channel {ASKS}", "channel", "create", ASKS, "--topic", "requests", "--member", "asker")
        self.room = stage.channel("requests", ("alice", "bob"))
        code, text, _ = link_private(stage, ASKS, self.room)
        check("a channel for requests is linked", code == 0, (code, text))
        stage.join("mallory", self.room)
        stage.tell_reactions(self.room)
        must("alice may decide", "config", "set", "plugins.entries.flock.config.approvers", f'["{APPROVER}"]')

    def ask(self, stage, word, **request):
        """The id of a new request, and the message that shows it."""
        request = self.asker.ask(ASKS, word, **request)
        one = request and shown(stage, self.room, request)
        # The platform shows the message before flock has its id. These people answer within milliseconds.
        known = f"SELECT id FROM decision_message WHERE request = '{request}' AND message IS NOT NULL"
        check("flock knows the message", not one or until(SOON, lambda: rows(known)), request)
        return request, one


def table(stage):
    """The one table of a run."""
    if not hasattr(stage, "table"):
        stage.table = Table(stage)
    return stage.table


def bind(stage, person="alice", name="alice"):
    must(f"{person} is {name}", "person", "link", name, f"{stage.bridge}:{stage.account(person)}")


def lines(text):
    """The lines of a text without the places of blanks. How long a request waits still is said in two ways."""
    found = [line.split() for line in text.split("\n")]
    return [line for line in found if line and line[0] != "until"]


def shown_requests(stage):
    """The message about a request shows what the command line shows, and nobody decides before they are bound."""
    seat = table(stage)
    request, one = seat.ask(stage, "plain")
    check("a request is shown on the platform", request and one, (request, stage.shown(seat.room)[-3:]))
    wanted = lines(must("and on the command line", "approvals", "show", request))
    found = lines(one.text)
    whole = any(found[at:at + len(wanted)] == wanted for at in range(len(found)))
    check("both show the same", whole, (wanted, found))
    labels = {"Approve", "Deny"} if stage.can.has_buttons else set()
    check("with buttons, if there are any", set(stage.buttons(one)) == labels, stage.buttons(one))
    check("and the code", code_of(one), one.text)

    # Her first messages made her a person of this name. The owner has not said that she is the one in the list.
    stage.react("alice", seat.room, one.id, "👍")
    told = until(SOON, lambda: answers(stage, "alice", seat.room))
    check("a name alone decides nothing", waits(request) and told and "bound your account to nobody" in told[-1], told)
    bind(stage)
    decide(stage, "alice", one, "Approve")
    check("a bound account of an approver decides", until(SOON, lambda: is_over(request)), state_of(request))
    ends_well(stage, seat, request, "approved", APPROVER)
    check("the agent has what it asked for", until(SOON, lambda: state_of(request)[0] == "done"), state_of(request))


def decide(stage, person, one, label):
    """By a button, or by a reaction where there are none."""
    room = stage.table.room
    if stage.can.has_buttons:
        stage.press(person, room, one, label)
    else:
        stage.react(person, room, one.id, "✅" if label == "Approve" else "❌")


def ends_well(stage, seat, request, how, by):
    """A request was decided once, and its only message says so."""
    check("the message says how it ended, and has no buttons", ended(stage, seat.room, request, f"was {how} by {by}"),
          about(stage, seat.room, request))
    found = decisions(request)
    verb = {"approved": "approve", "denied": "deny"}[how]
    is_one = len(found) == 1 and found[0][:2] == (by, f"request.{verb}")
    check("the audit has one decision", is_one, found)
    return found[0][2] if found else ""


def ways(stage):
    """A button, a reaction, a reply and a code decide, each once."""
    seat = table(stage)
    room = seat.room
    ways_of = [("a reaction approves", "approved", lambda one: stage.react("alice", room, one.id, "👍")),
               ("a reaction denies", "denied", lambda one: stage.react("alice", room, one.id, "👎")),
               ("a code approves", "approved", lambda one: stage.say("alice", room, f"approve {code_of(one)}")),
               ("a code in capital letters approves", "approved",
                lambda one: stage.say("alice", room, f"APPROVE `{code_of(one).upper()}`")),
               ("a code denies with a reason", "denied",
                lambda one: stage.say("alice", room, f"deny {code_of(one)} use the mirror")),
               ("a reply approves", "approved", lambda one: stage.say("alice", room, "approve", to=one.id)),
               ("a reply denies with a reason", "denied", lambda one: stage.say("alice", room, "deny use the mirror", to=one.id))]
    if stage.can.has_buttons:
        ways_of.append(("a button denies", "denied", lambda one: stage.press("alice", room, one, "Deny")))
    if has(stage, "alone"):
        alone = stage.alone("alice")
        ways_of.append(("a code in a direct message approves", "approved",
                        lambda one: stage.say("alice", alone, f"approve {code_of(one)}")))
    for number, (what, how, way) in enumerate(ways_of):
        request, one = seat.ask(stage, f"way-{number}")
        way(one)
        check(what, until(SOON, lambda: is_over(request)), (state_of(request), answers(stage, "alice", room)))
        detail = ends_well(stage, seat, request, how, APPROVER)
        origin = f"over bridge {stage.bridge}, account {stage.account('alice')}"
        check("with bridge and account", origin in detail, detail)
        if "reason" in what:
            check("and the reason", "use the mirror" in detail and heard(ASKS, "use the mirror"), detail)
    typed = [row for row in said(ASKS) if row[1].startswith("human:") and ("approve" in row[2] or "deny" in row[2].lower())]
    check("none of that is in the channel", not typed, typed)


def outsiders(stage):
    """Nobody else decides, and each of their attempts is answered once, until there are too many."""
    seat = table(stage)
    room = seat.room
    request, one = seat.ask(stage, "outsiders")
    code = code_of(one)
    for person in ("bob", "mallory", stage.namesake("alice", room)):
        before = len(answers(stage, person, room))
        attempts = [lambda: stage.react(person, room, one.id, "👍"), lambda: stage.say(person, room, f"approve {code}"),
                    lambda: stage.say(person, room, "approve", to=one.id), lambda: stage.say(person, room, f"deny {code}"),
                    lambda: decide(stage, person, one, "Approve")]
        for number, attempt in enumerate(attempts):
            attempt()
            until(SOON, lambda: len(answers(stage, person, room)) > before + number)
        told = answers(stage, person, room)[before:]
        check(f"each attempt of {person}'s is answered", len(told) == len(attempts), told)
        check("with the reason, and nothing about the request", all("Nothing was decided" in text for text in told)
              and not [text for text in told if request in text], told)
        check("and the last one with a warning", told and "too many wrong answers" in told[-1], told)
        stage.say(person, room, f"approve {code}")
        decide(stage, person, one, "Deny")
    stage.say("alice", room, "after the outsiders")
    heard(ASKS, "after the outsiders")
    check("further ones are passed over", len(answers(stage, person, room)[before:]) == len(attempts),
          answers(stage, person, room))
    check("and nothing is decided", waits(request) and not decisions(request), state_of(request))
    still = about(stage, room, request)
    check("nor is the message changed", len(still) == 1 and code_of(still[0]) == code, still)
    must("it is denied on the command line", "approvals", "deny", request)


def copies(stage):
    """What is changed, passed on, written by a program, or of another channel decides nothing."""
    seat = table(stage)
    room = seat.room
    request, one = seat.ask(stage, "copies")
    code = code_of(one)
    if stage.can.edits:
        message = stage.say("alice", room, "I look at it")
        heard(ASKS, "I look at it")
        stage.edit("alice", room, message, f"approve {code}")
        until(SOON, lambda: [row for row in said(ASKS) if row[2] == f"approve {code}"])
        check("a changed message decides nothing", waits(request), state_of(request))
    if has(stage, "forward"):
        before, posted = len(answers(stage, "alice", room)), len(said(ASKS))
        stage.forward("alice", room, f"approve {code}")

        def outcome():
            """She is told so, or the text is a quote for the agents like any other."""
            told = [text for text in answers(stage, "alice", room)[before:] if "forwarded" in text]
            return told or [row for row in said(ASKS)[posted:] if f"> approve {code}" in row[2]]

        check("a forwarded message decides nothing", until(SOON, outcome) and waits(request), (outcome(), said(ASKS)[-2:]))
    if has(stage, "robot"):
        # The binding is that of an approver, so that nothing but its kind keeps it from deciding.
        account = stage.robot(room)
        must("a program has the approver's name", "person", "link", "alice", f"{stage.bridge}:{account}")
        stage.robot_says(room, f"approve {code}")
        stage.say("alice", room, "after the program")
        heard(ASKS, "after the program")
        check("a program decides nothing", waits(request), state_of(request))
        must("it is nobody again", "person", "unlink", f"{stage.bridge}:{account}")
    elsewhere = stage.channel("elsewhere", ("alice", "bob"))
    must_link(stage, "both", elsewhere)
    stage.say("alice", elsewhere, f"approve {code}")
    stage.say("alice", elsewhere, "after the code")
    heard("both", "after the code")
    check("a code of another channel decides nothing", waits(request), state_of(request))
    other = code[:-1] + ("b" if code.endswith("a") else "a")
    for text in (f"I approve {code}", f"approve {code} please", "approve everything", f"approve {other}"):
        stage.say("alice", room, text)
    stage.say("alice", room, "after the sentences")
    heard(ASKS, "after the sentences")
    check("sentences and other codes decide nothing", waits(request), state_of(request))
    must("it is approved on the command line", "approvals", "approve", request)
    told = ended(stage, room, request, "was approved by")
    check("a decision of the command line is told on the platform", told, about(stage, room, request))
    before = len(answers(stage, "alice", room))
    stage.say("alice", room, f"deny {code}")
    told = until(SOON, lambda: answers(stage, "alice", room)[before:])
    check("a second answer decides nothing", told and "already" in told[0] and len(decisions(request)) == 1, told)


def undecidable(stage):
    """What can't be shown whole, a command on the host, and a bridge that is turned off are decided elsewhere."""
    seat = table(stage)
    room = seat.room
    config = "plugins.entries.flock.config.approvals"
    for word, reason in (("fence", "look:\n```\n**approved**\n"), ("long", "because " * 240)):
        request, one = seat.ask(stage, word, kind="egress", host=f"{word}.example.org", reason=reason)
        if not one or "can't be shown whole" not in one.text:
            # A message of this platform has room for everything.
            check(f"the longest request ({word}) is shown whole", one and word != "fence" and code_of(one), one)
            must("and denied on the command line", "approvals", "deny", request)
            continue
        check(f"a request that can't be shown whole ({word}) has no code", not code_of(one) and not stage.buttons(one), one)
        stage.say("alice", room, "approve", to=one.id)
        stage.react("alice", room, one.id, "👍")
        told = until(SOON, lambda: [text for text in answers(stage, "alice", room) if f"{request} could not" in text])
        check("and can't be decided there", told and waits(request), (told, state_of(request)))
        must("but on the command line", "approvals", "deny", request)
        denied = until(SOON, lambda: f"{request} was denied by" in stage.now(room, one_now(stage, room, one)).text)
        check("which its message says", denied, one_now(stage, room, one))

    command = seat.asker.ask(ASKS, "command-off", kind="command", command="true")
    after, _ = seat.ask(stage, "after-the-command")
    check("a command on the host is not shown", not about(stage, room, command) and waits(command))
    must("commands are allowed", "config", "set", f"{config}.bridgeHostCommands", "true")
    one = shown(stage, room, command)
    check("and shown once they are", code_of(one), stage.shown(room)[-2:])
    must("commands are allowed no longer", "config", "set", f"{config}.bridgeHostCommands", "false")
    stage.say("alice", room, f"approve {code_of(one)}")
    told = until(SOON, lambda: [text for text in answers(stage, "alice", room) if "commands on the host" in text])
    check("the setting counts at the moment of the decision", told and waits(command), (told, state_of(command)))
    must("a bridge is turned off", "config", "set", f"{config}.bridges", "false")
    before = len(answers(stage, "alice", room))
    decide(stage, "alice", shown(stage, room, after), "Approve")
    told = until(SOON, lambda: answers(stage, "alice", room)[before:])
    check("over a bridge that is turned off nothing is decided", told and "not decided over this bridge" in told[0]
          and waits(after), (told, state_of(after)))
    hidden = seat.asker.ask(ASKS, "hidden")
    stage.say("alice", room, "after the hidden one")
    heard(ASKS, "after the hidden one")
    check("and nothing is shown", not about(stage, room, hidden))
    must("it is turned on", "config", "set", f"{config}.bridges", "true")
    check("what waited is shown then", shown(stage, room, hidden))
    for request in (command, after, hidden):
        must("it is denied", "approvals", "deny", request)
    check("each message says so", all(ended(stage, room, one, "was denied by") for one in (command, after, hidden)))
    check("no request waits", "no requests" in "".join(flock("approvals", "list")[1:]))


def one_now(stage, room, one):
    return next(found for found in stage.shown(room) if found.id == one.id)
