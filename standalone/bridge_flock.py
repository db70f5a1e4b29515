"""What the checks of bridges use of flock: its command line below `bridge`, and what is in its channels."""

from checking import SOON, check, configuration, flock, parsed, rows, until


def said(channel):
    """Everything in a channel: number, author and text, the oldest first."""
    return rows(f"SELECT seq, author, content FROM message WHERE channel = '{channel}' ORDER BY seq")


def heard(channel, text):
    """Waits for a message in a channel, and gives number, author and text of all that have the text."""
    def found():
        return [row for row in said(channel) if text in row[2]]

    until(SOON, found)
    return found()


def bridge(*args, **more):
    """A command below `flock bridge`."""
    return flock("bridge", *args, limit=120, **more)


def bridges():
    return parsed(bridge("list", "--json")[1]).get("bridges", [])


def state(stage):
    """What `list` says of the bridge; nothing if there is none."""
    return next((one for one in bridges() if one["name"] == stage.bridge), {})


def link_state(stage, room):
    return next((one for one in state(stage).get("links", []) if one["external"] == room), {})


def at(stage, room):
    """A channel of the platform, as the command line takes it."""
    return f"{stage.bridge}:{room}"


def link(stage, channel, room, *more):
    """Links a channel with one of the platform: exit code, what was said, and the link."""
    code, out, err = bridge("link", channel, at(stage, room), *more)
    return code, out + err, link_state(stage, room)


def link_private(stage, channel, room, *more):
    """Links a channel with one of the platform's in which alice and bob are, so that they are heard."""
    people = [] if stage.can.knows_members else ["alice", "bob"]
    allowed = [word for person in people for word in ("--allow", stage.account(person))]
    return link(stage, channel, room, *allowed, *more)


def must_link(stage, channel, room, *more):
    """The same, where what comes after hangs on it."""
    code, text, _ = link_private(stage, channel, room, *more)
    if code != 0:
        check(f"{channel} is linked with {room}", False, (code, text))


def post(channel, text, author="kim", **more):
    """Posts by the command line; the number of the message."""
    code, out, err = flock("--json", "channel", "post", channel, text, "--as", author, **more)
    if code != 0:
        check(f"{author} posts {text[:40]!r}", False, (code, out, err))
    return parsed(out).get("seq")


def kept_bridges():
    """The bridges of the configuration."""
    return configuration()["plugins"]["entries"]["flock"]["config"].get("bridges", {})
