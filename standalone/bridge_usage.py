"""What `flock usage` counts of a bridge."""

from checking import SOON, check, flock, parsed, until


def usage(stage):
    """Messages both ways are counted, by the bridge."""
    def counted():
        found = parsed(flock("--json", "usage")[1]).get("bridges", [])
        return next((one for one in found if one["name"] == stage.bridge), {})

    before = until(SOON, counted)
    check("usage has messages both ways", before and before["received"] > 0 and before["sent"] > 0, before)
    stage.say("alice", stage.private, "one more to count")

    def is_one_more():
        return counted().get("received") == before["received"] + 1

    check("and counts each message once", before and until(SOON, is_one_more), (before, counted()))
