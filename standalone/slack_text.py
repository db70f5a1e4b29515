"""Slack's text: how it is stored, how people see it, and whom it notifies.

Where the documentation leaves open whether a form notifies somebody, it counts as if it did: a test that nobody was
mentioned by accident is to fail in doubt.
"""

import html
import re

CONTROL = re.compile(r"<([^<>\n]+)>")
LINK = re.compile(r"[a-z][a-z0-9+.-]*:[^\s|]+(\|.*)?$")
SPECIAL = re.compile(
    r"@[UW][A-Z0-9]+(\|.*)?$|#C[A-Z0-9]+(\|.*)?$|!(channel|here|everyone|group)(\|.*)?$|!subteam\^S[A-Z0-9]+(\|.*)?$|!date\^.+$"
)
WORD = re.compile(r"(?<![\w@])@(channel|here|everyone|group)\b")
NAME = re.compile(r"(?<![\w@])@([a-z0-9][a-z0-9._-]*)")


def is_control(inside):
    return bool(SPECIAL.match(inside) or LINK.match(inside))


def escape(text):
    """Escapes the three characters, but does not escape twice."""
    text = re.sub(r"&(?!amp;|lt;|gt;)", "&amp;", text)
    return text.replace("<", "&lt;").replace(">", "&gt;")


def stored(text):
    """The text as Slack stores it: control sequences stay, everything else is escaped."""
    result, at = [], 0
    for found in CONTROL.finditer(text):
        if is_control(found[1]):
            result += [escape(text[at : found.start()]), found[0]]
            at = found.end()
    return "".join(result) + escape(text[at:])


def shown(text, state):
    """The text as people see it."""

    def replace(found):
        inside, _, label = found[1].partition("|")
        if not is_control(found[1]):
            return found[0]
        if label:
            return ("@" if inside[0] == "@" else "#" if inside[0] == "#" else "") + label.lstrip("@#")
        if inside[0] == "@":
            return "@" + (state.get("user", inside[1:]) or {"display_name": "unknown"})["display_name"]
        if inside[0] == "#":
            return "#" + (state.get("channel", inside[1:]) or {"name": "unknown"})["name"]
        return "@" + inside[1:] if inside[0] == "!" else inside

    return html.unescape(CONTROL.sub(replace, text))


def in_text(text, linked=False):
    """The mentions in a text: ids of people, and `channel`, `here`, `everyone` or the id of a user group.

    With `linked`, words that begin with an `@` count too, as with `parse: full` and `link_names`.
    """
    mentions = []
    for found in CONTROL.finditer(text):
        inside = found[1].partition("|")[0]
        if SPECIAL.match(found[1]) and inside[0] in "@!":
            mentions.append(inside[1:].removeprefix("subteam^"))
    if linked:
        mentions += [found[1] for found in WORD.finditer(text)]
        mentions += [f"@{found[1]}" for found in NAME.finditer(text) if not WORD.match(found[0])]
    return [mention for mention in mentions if not mention.startswith("date^")]


def in_blocks(thing):
    """The mentions in blocks, or in attachments, at any depth."""
    if isinstance(thing, list):
        return [mention for one in thing for mention in in_blocks(one)]
    if not isinstance(thing, dict):
        return []
    kind, text = thing.get("type"), thing.get("text")
    if kind == "user":
        return [thing.get("user_id", "")]
    if kind == "usergroup":
        return [thing.get("usergroup_id", "")]
    if kind == "broadcast":
        return [thing.get("range", "")]
    if kind == "plain_text" or (kind == "text" and isinstance(text, str)):
        return []
    found = []
    if isinstance(text, str):
        # A text object of a block that is not `verbatim` has its names and words linked by Slack.
        found += in_text(text, linked=kind == "mrkdwn" and not thing.get("verbatim"))
    for key in ("pretext", "title", "fallback"):
        if isinstance(thing.get(key), str):
            found += in_text(thing[key])
    return found + [mention for value in thing.values() if isinstance(value, (dict, list)) for mention in in_blocks(value)]


def mentions(message, sent):
    """Everybody whom a message notifies by name, each once. `sent` has the arguments of the request that made it."""
    linked = str(sent.get("parse", "")) == "full" or str(sent.get("link_names", "")).lower() in ("1", "true")
    found = in_text(message.get("text", ""), linked)
    if message.get("user") and not message.get("bot_id"):
        # The blocks of a person's message are made of its text.
        return sorted(set(found))
    found += in_blocks(message.get("blocks", [])) + in_blocks(message.get("attachments", []))
    return sorted({mention for mention in found if mention})
