"""Runs the checks of a bridge with the stage of a platform.

    PLATFORM_checks.py FOLDER [--messages N] [--kills K] [--restarts R] [--seed S] [--only PART…]
"""

import argparse
import random
import traceback

import bridge_home
from bridge_accounts import accounts
from bridge_breaks import absent, archive, dropped, limited, pause, revoked
from bridge_campaign import campaign
from bridge_changes import changes, history, ignored_changes
from bridge_commands import orders
from bridge_decisions import copies, outsiders, shown_requests, undecidable, ways
from bridge_direct import direct
from bridge_files import files_in, files_out
from bridge_hostile import addresses, bad_files, bad_names, many_mentions
from bridge_kills import killed_decisions
from bridge_links import across, creates, ends, links, strangers
from bridge_stage import has
from bridge_talk import commands, echoes, long, mentions, talk, topic, typing
from bridge_usage import usage
from checking import check, finish

# Each part takes the stage. What one of them leaves behind, the next ones may use.
PARTS = (
    talk, usage, strangers, mentions, typing, commands, topic, long, changes, ignored_changes, files_in, files_out, direct,
    absent, dropped, limited, archive, pause, across, history, ends, creates, shown_requests,
    orders, bad_names, many_mentions, addresses, bad_files, ways, outsiders, copies, undecidable, killed_decisions, revoked, echoes,
)
# What a part needs of the stage that not every one has.
NEEDS = {
    typing: "saw_typing", topic: "topic", changes: "edit", ignored_changes: "edit", files_in: "upload",
    files_out: "content", direct: "alone", shown_requests: "react", bad_files: "upload_large", killed_decisions: "react",
    revoked: "revoke",
}


def main(make_stage, parts=(), alone=None):
    """Runs all parts, those of `parts` after them, then the campaign. With `--alone`, only `alone` runs, without flock."""
    options = arguments(alone)
    stage = make_stage(options.folder)
    try:
        stage.open()
        if options.alone:
            alone(stage)
        else:
            everything(stage, parts, options)
    except Exception as error:  # A step that can't go on is one failure, said like the others.
        traceback.print_exc()
        check("the run went to its end", False, repr(error))
    stage.close()
    finish()


def attempt(part, stage):
    """Runs a part. The others go on without one that can't."""
    if part in NEEDS and not has(stage, NEEDS[part]):
        print(f"      left out: {part.__name__}; the stage has no {NEEDS[part]}")
        return
    try:
        part(stage)
    except Exception as error:
        traceback.print_exc()
        check(f"the part {part.__name__} went to its end", False, repr(error))


def arguments(alone):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--messages", type=int, default=300, help="how many go each way in the campaign")
    parser.add_argument("--kills", type=int, default=5, help="how often the gateway is killed")
    parser.add_argument("--requests", type=int, default=10, help="how many are decided between kills")
    parser.add_argument("--restarts", type=int, default=1, help="how often the platform is restarted or drops everybody")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--only", nargs="*", metavar="PART", help="these parts, and no campaign unless it is named")
    if alone:
        parser.add_argument("--alone", action="store_true", help="no flock: the platform and the people on their own")
    options = parser.parse_args()
    options.alone = alone and options.alone
    return options


def everything(stage, parts, options):
    print(f"seed {options.seed}: the same again with --seed {options.seed} --messages {options.messages} "
          f"--kills {options.kills} --restarts {options.restarts}")

    def is_wanted(name):
        return options.only is None or name in options.only

    stage.options = options
    bridge_home.make(stage)
    accounts(stage)
    links(stage)
    for part in (*PARTS, *parts):
        if is_wanted(part.__name__):
            attempt(part, stage)
    if is_wanted("campaign"):
        campaign(stage, options)
    bridge_home.secrets(stage)
    bridge_home.leave(stage)
