"""Files in both directions."""

import os
import re

from bridge_flock import heard, said
from bridge_home import WORKSPACE
from checking import SOON, check, until

NOTES = b"some notes\n" * 100
PLAN = b"a plan of one line\n"


def files_in(stage):
    """A file that a person sends is in the agents' workspaces."""
    room = stage.private
    stage.upload("alice", room, "notes.txt", NOTES, "please read this")
    found = heard("work", "notes.txt")
    check("a file is named in the channel, with its text",
          len(found) == 1 and found[0][1] == "human:alice" and "please read this" in found[0][2], found)
    place = re.search(r"\[attachment: ([^\]]+)\]", found[0][2] if found else "")
    path = f"{WORKSPACE}/{place[1]}" if place else ""
    check("and is in the workspace", os.path.isfile(path) and open(path, "rb").read() == NOTES, (path, found))
    stage.upload("bob", room, "run.txt", b"#!/bin/sh\necho no\n")
    found = heard("work", "run.txt")
    check("a program is not taken, and the channel says so", found and "not taken" in found[0][2], found)


def files_out(stage):
    """A file that an agent links is sent with the post."""
    room, since = stage.private, stage.mark(stage.private)
    os.makedirs(WORKSPACE, exist_ok=True)
    with open(f"{WORKSPACE}/plan.txt", "wb") as file:
        file.write(PLAN)
    stage.say("alice", room, "show the plan")

    def shown():
        return [one for one in stage.shown(room, since) if one.is_ours and "plan.txt" in one.files]

    found = until(SOON, shown)
    check("the file is on the platform, once", len(found) == 1, stage.shown(room, since))
    check("with its content", found and stage.content(found[0]) == PLAN)
    check("and nothing of it comes back", not [row for row in said("work") if "attachment: " in row[2]
                                               and "plan.txt" in row[2]])
