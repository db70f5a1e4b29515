"""Bridges are added with a token, which is checked at once."""

from bridge_flock import bridge, bridges, kept_bridges, state
from checking import SOON, check, until


def accounts(stage):
    add = ["add", stage.platform, "--name", stage.bridge]
    for what, arguments, words in stage.refused():
        code, out, err = bridge(*add, *arguments)
        check(f"{what} is refused", code == 1, (code, out, err))
        unsaid = [word for word in words if word not in err]
        check(f"in words: {', '.join(words)}", not unsaid, err)
        check("and with the page that says more", "docs/bridges.md" in err, err)
        shown = [secret for secret in stage.secrets() if secret in out + err]
        check("and no token is repeated", not shown, (out, err))
    check("nothing of that is kept", bridges() == [] and stage.bridge not in kept_bridges(), kept_bridges())

    code, out, err = bridge(*add, *stage.credentials())
    check("a bridge is added", code == 0, (code, out, err))
    shown = [secret for secret in stage.secrets() if secret in out + err]
    check("and no token is repeated", not shown, (out, err))
    code, out, err = bridge(*add, *stage.credentials())
    check("a name is taken once", code == 5, (code, out, err))
    connected = until(SOON, lambda: state(stage).get("state") == "connected")
    check("it connects without a restart", connected, bridges())
    known = state(stage)
    check("the list has its platform and account",
          known.get("platform") == stage.platform and known.get("account") == stage.bot(), known)
    code, out, err = bridge("status")
    check("status reads well", code == 0 and "connected" in out, (code, out, err))
