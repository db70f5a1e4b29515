"""Text as Telegram understands it: HTML to text and entities, entities that are found by themselves, lengths.

Offsets and lengths of entities are counted in UTF-16 code units. The limits of a message hold for the text after parsing.
They are counted in the same units here: there are reports that Telegram counts whole characters, and others that it does not,
so that only a text that is short enough in both is safe. The errors have Telegram's words; their byte offsets are offsets
into the UTF-8 text.
"""

import re

TAGS = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
    "s": "strikethrough", "strike": "strikethrough", "del": "strikethrough", "tg-spoiler": "spoiler", "span": "spoiler",
    "a": "text_link", "code": "code", "pre": "pre", "blockquote": "blockquote", "tg-emoji": "custom_emoji",
}
NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]{1,7})|#([0-9]{1,8})|([a-z]+));?")
USER_LINK = re.compile(r"tg://(?:user|openmessage)/?\?(?:user_)?id=([0-9]+)$", re.I)
# Telegram ignores what exceeds this number of entities in one message.
MOST_ENTITIES = 100

# In this order: where two kinds overlap, the earlier one stays.
FOUND = [
    ("url", re.compile(r"(?<![\w@.])(?:https?://|www\.)[^\s<>«»\"]+|(?<![\w@./-])(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|me|rs)\b(?:/[^\s<>«»\"]*)?", re.I)),
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]+@(?:[\w-]+\.)+[a-z]{2,}\b", re.I)),
    ("mention", re.compile(r"(?<!\w)@[a-zA-Z0-9_]{2,32}(?!\w)")),
    ("bot_command", re.compile(r"(?<![\w/<>])/[a-zA-Z0-9_]{1,64}(?:@[a-zA-Z0-9_]{3,32})?(?![\w/<>])")),
    ("hashtag", re.compile(r"(?<!\w)#(?=\w*[^\W\d])\w{1,256}(?![\w#])")),
]


class ParseError(Exception):
    """Text that Telegram refuses to parse."""


def units(text):
    """The length in UTF-16 code units."""
    return len(text) + sum(ord(letter) > 0xFFFF for letter in text)


def cut(text, offset, length):
    """A part of the text, addressed in UTF-16 code units."""
    return text.encode("utf-16-le", "surrogatepass")[2 * offset:2 * (offset + length)].decode("utf-16-le", "replace")


def referenced(text, at):
    """The character that a reference such as `&lt;` at this place stands for, and its end. Other names stay as they are."""
    match = REFERENCE.match(text, at)
    if not match:
        return None, at
    if match[3]:
        return (NAMED[match[3]], match.end()) if match[3] in NAMED else (None, at)
    code = int(match[1], 16) if match[1] else int(match[2])
    return (chr(code), match.end()) if 0 < code < 0x110000 else (None, at)


class Parser:
    """One run over HTML text. The parser is as strict as Telegram's: it knows only TAGS, and every tag must be closed."""

    def __init__(self, html):
        self.html, self.at, self.out, self.length = html, 0, [], 0
        self.open, self.entities = [], []

    def fail(self, message, begin=None):
        where = "" if begin is None else f" at byte offset {len(self.html[:begin].encode())}"
        raise ParseError(f"Can't parse entities: {message}{where}")

    def peek(self):
        return self.html[self.at] if self.at < len(self.html) else ""

    def skip(self, until):
        """Reads up to the first of these characters or to a space; what was read."""
        begin = self.at
        while self.peek() and not self.peek().isspace() and self.peek() not in until:
            self.at += 1
        return self.html[begin:self.at]

    def spaces(self):
        while self.peek().isspace():
            self.at += 1

    def put(self, text):
        self.out.append(text)
        self.length += units(text)

    def parse(self):
        while self.at < len(self.html):
            letter = self.html[self.at]
            if letter == "&":
                character, end = referenced(self.html, self.at)
                if character:
                    self.put(character)
                    self.at = end
                    continue
            if letter != "<":
                self.put(letter)
                self.at += 1
            elif self.html.startswith("</", self.at):
                self.end_tag()
            else:
                self.start_tag()
        if self.open:
            self.fail(f'Can\'t find end tag corresponding to start tag "{self.open[-1][0]}"')
        return "".join(self.out), self.entities

    def start_tag(self):
        begin = self.at
        self.at += 1
        name = self.skip(">").lower()
        if not self.peek():
            self.fail("Unclosed start tag", begin)
        if name not in TAGS:
            self.fail(f'Unsupported start tag "{name}"', begin)
        attributes = {}
        while True:
            self.spaces()
            if self.peek() == ">":
                break
            attribute = self.skip("=>/\"'")
            if not self.peek():
                self.fail(f'Unclosed start tag "{name}"', begin)
            if not attribute:
                self.fail(f'Empty attribute name in the tag "{name}"', begin)
            self.spaces()
            if self.peek() == "=":
                self.at += 1
                self.spaces()
                attributes[attribute] = self.value(begin)
            else:
                attributes[attribute] = ""
        self.at += 1
        if name == "span" and attributes.get("class") != "tg-spoiler":
            self.fail('Tag "span" must have class "tg-spoiler"', begin)
        self.open.append((name, attributes, self.length, len(self.out)))

    def value(self, begin):
        quote = self.peek()
        if quote not in ("'", '"'):
            start = self.at
            while self.peek().isascii() and (self.peek().isalnum() or self.peek() in ".-") and self.peek():
                self.at += 1
            if self.peek() != ">" and not self.peek().isspace():
                self.fail("Unexpected end of name token", start)
            return self.html[start:self.at].lower()
        self.at += 1
        value = []
        while self.peek() and self.peek() != quote:
            character, end = referenced(self.html, self.at)
            value.append(character or self.peek())
            self.at = end if character else self.at + 1
        self.at += 1
        if not self.peek():
            self.fail("Unclosed start tag", begin)
        return "".join(value)

    def end_tag(self):
        begin = self.at
        if not self.open:
            self.fail("Unexpected end tag", begin)
        self.at += 2
        name = self.skip(">").lower()
        self.spaces()
        if self.peek() != ">":
            self.fail("Unclosed end tag", begin)
        self.at += 1
        opened, attributes, offset, outer = self.open.pop()
        if name and name != opened:
            where = len(self.html[:begin].encode())
            self.fail(f'Unmatched end tag at byte offset {where}, expected "</{opened}>", found "</{name}>"')
        if self.length > offset:
            self.close(opened, attributes, offset, "".join(self.out[outer:]))

    def close(self, tag, attributes, offset, inner):
        entity = {"offset": offset, "length": self.length - offset, "type": TAGS[tag]}
        last = self.entities[-1] if self.entities else {}
        same = (last.get("offset"), last.get("length")) == (offset, entity["length"])
        language = attributes.get("class", "")[9:] if attributes.get("class", "").startswith("language-") else ""
        if tag == "a":
            url = attributes.get("href") or inner
            user = USER_LINK.match(url)
            if user:
                entity.update(type="text_mention", user_id=int(user[1]))
            elif re.match(r"(?:https?|tg|ton|mailto|tel):|[\w-]+(\.[\w-]+)+", url):
                entity["url"] = url if ":" in url.split("/")[0] else f"http://{url}/"
            else:
                return
        elif tag == "blockquote" and "expandable" in attributes:
            entity["type"] = "expandable_blockquote"
        elif tag == "tg-emoji":
            if not attributes.get("emoji-id", "").isdigit():
                self.fail("Invalid custom emoji identifier specified")
            entity["custom_emoji_id"] = attributes["emoji-id"]
        elif tag == "pre" and same and last["type"] == "code" and last.get("language"):
            last["type"] = "pre"
            return
        elif tag == "code":
            if same and last["type"] == "pre" and language:
                last["language"] = language
                return
            entity["language"] = language
        self.entities.append(entity)


def parse_html(html):
    """The text and the entities of HTML text. Raises ParseError with Telegram's message."""
    parser = Parser(html)
    text, entities = parser.parse()
    if re.search("[\ud800-\udfff]", text):
        parser.fail("Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code units")
    for entity in entities:
        if entity["type"] == "code":
            entity.pop("language", None)
    return text, entities


def cleaned(text, entities):
    """Text as Telegram keeps it: no control characters, no direction overrides, no blanks at either end."""
    moved, out = [0], []
    for letter in text:
        if letter == "\r" or "\u2028" <= letter <= "\u202e" or letter in "\u0333\u033f\u030a":
            new = ""
        else:
            new = " " if letter < " " and letter != "\n" else letter
        out.append(new)
        # Each code unit of the old text gets its place in the new one.
        moved.extend([moved[-1] + units(new)] if units(letter) == 1 else [moved[-1] + 1, moved[-1] + 2])
    text = "".join(out)
    spans = []
    for entity in entities:
        begin, end = entity["offset"], entity["offset"] + entity["length"]
        if end < len(moved) and moved[end] > moved[begin]:
            spans.append((moved[begin], moved[end], entity))
    text = text.rstrip(" \n")
    first = min([begin for begin, _, _ in spans], default=units(text))
    blanks = min(len(text) - len(text.lstrip(" \n")), first)
    text, whole = text[blanks:], units(text) - blanks
    kept = []
    for begin, end, entity in spans:
        begin, end = begin - blanks, min(end - blanks, whole)
        if end > begin:
            kept.append({**entity, "offset": begin, "length": end - begin})
    if not re.search(r"[^\s\u200b-\u200f\ufeff\u2800\u2060]", text):
        text, kept = "", []
    return text, kept


def with_found(text, entities):
    """The entities, together with the mentions, commands and links that Telegram finds outside of code and links."""
    entities = sorted(entities, key=lambda one: (one["offset"], -one["length"]))[:MOST_ENTITIES]
    entities = [{key: value for key, value in one.items() if value != ""} for one in entities]
    closed = [one for one in entities if one["type"] in ("code", "pre", "text_link", "text_mention")]
    for kind, pattern in FOUND:
        for match in pattern.finditer(text):
            offset, length = units(text[:match.start()]), units(match[0])
            if all(offset >= one["offset"] + one["length"] or offset + length <= one["offset"] for one in closed):
                found = {"offset": offset, "length": length, "type": kind}
                closed.append(found)
                entities.append(found)
    return sorted(entities, key=lambda one: (one["offset"], -one["length"]))


def shown(text, entities):
    """The text with its entities as tags: what people see, in one form for every way to write it."""
    marks = []
    for place, one in enumerate(entities):
        name = one["type"] + (f" {one.get('url') or one.get('user_id') or one.get('language')}" if
                              {"url", "user_id", "language"} & set(one) else "")
        marks.append((one["offset"], 1, place, f"<{name}>"))
        marks.append((one["offset"] + one["length"], 0, -place, f"</{one['type']}>"))
    out, at = [], 0
    for offset, _, _, mark in sorted(marks):
        out += [cut(text, at, offset - at), mark]
        at = offset
    return "".join(out) + cut(text, at, units(text) - at)
