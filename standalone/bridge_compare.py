"""What is compared after the campaign.

What counts as acknowledged is what the gateway or the platform answered. Everything that either side has must be on the
other side once, in the order of its author. What nobody acknowledged may have been taken or not, but not twice.
Where a platform can't recognise a message that is sent again, each kill may double one, and nothing else may.
"""

import collections
import re

from bridge_home import LOAD
from checking import check, rows, same

OURS, THEIRS = ("kim", "lee"), ("alice", "bob")
WORD = re.compile(r"\b(alice|bob|kim|lee)-(\d+)\b")


def word(text):
    found = WORD.search(text)
    return found and found[0]


def compare(stage, room, writers, breaks):
    """`breaks` is how often something was killed or restarted."""
    shown = [one for one in stage.history(room) if word(one.text)]
    posted = [(author, word(text)) for author, text in
              rows(f"SELECT author, content FROM message WHERE channel = '{LOAD}' ORDER BY seq") if word(text)]
    there, here = collections.defaultdict(list), collections.defaultdict(list)
    for one in shown:
        there["bot" if one.is_ours else one.author].append(word(one.text))
    for author, found in posted:
        here[author].append(found)

    ours = [found for author, found in posted if author.removeprefix("human:") in OURS]
    came = there["bot"] if stage.can.is_once else without_repeated(there["bot"], breaks)
    if not same(f"each of {len(ours)} messages of the channel is on the platform once, in order", ours, came):
        tell_repeated(shown)
    for writer in writers:
        kept = here[f"human:{writer.name}"] if writer.name in OURS else there[writer.name]
        lost = sorted(set(writer.acknowledged) - set(kept))
        check(f"each of {len(writer.acknowledged)} acknowledged messages of {writer.name}'s is where it was written",
              not lost, lost)
        if writer.name in THEIRS:
            same(f"each of {len(kept)} messages of {writer.name}'s is in the channel once, in order", kept,
                 here[f"human:{writer.name}"])
    back = [found for found in there["bot"] if found.split("-")[0] in THEIRS]
    check("nothing that was said on the platform came back to it", not back, back)
    strange = [(author, found) for author, found in posted if author != f"human:{found.split('-')[0]}"]
    strange += [(one.author, one.text) for one in shown if one.author != word(one.text).split("-")[0]]
    check("nothing is under another name on either side", not strange, strange)


def tell_repeated(shown):
    """Prints what the platform has of the messages that are there twice."""
    counted = collections.Counter(word(one.text) for one in shown if one.is_ours)
    for one in shown:
        if one.is_ours and counted[word(one.text)] > 1:
            print(f"      twice: {one}"[:1000])


def without_repeated(found, breaks):
    """Leaves out what was said before. Such a message is the last one before a kill, so there are not more of them."""
    kept = list(dict.fromkeys(found))
    check(f"at most {breaks} messages are there twice", len(found) - len(kept) <= breaks, len(found) - len(kept))
    return kept
