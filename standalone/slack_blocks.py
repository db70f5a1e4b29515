"""What Slack checks in the blocks of a message, with the words of its errors."""

KNOWN = {
    "actions", "context", "context_actions", "divider", "file", "header", "image", "input", "markdown", "rich_text",
    "section", "table", "video",
}  # fmt: skip
# Slack accepted 9,597 characters in all blocks and refused 11,341; the limit is not documented.
ALL_TEXT = 10_000
MARKDOWN = 12_000


class Checker:
    def __init__(self):
        self.errors, self.block_ids, self.action_ids, self.characters = [], set(), set(), 0

    def wrong(self, what, at):
        self.errors.append(f"{what} [json-pointer:{at}]")

    def text(self, thing, at, most, kinds=("plain_text", "mrkdwn"), least=1):
        if not isinstance(thing, dict):
            return self.wrong("missing required field: text" if thing is None else "must be an object", at)
        if thing.get("type") not in kinds:
            return self.wrong("must provide a valid type for a text object", f"{at}/type")
        value = thing.get("text")
        if not isinstance(value, str):
            return self.wrong("must be a string", f"{at}/text")
        self.characters += len(value)
        if len(value) < least:
            self.wrong("must be more than 0 characters", f"{at}/text")
        if len(value) > most:
            self.wrong(f"must be less than {most + 1} characters", f"{at}/text")

    def string(self, thing, key, at, most, needed=False):
        value = thing.get(key)
        if value is None:
            if needed:
                self.wrong(f"missing required field: {key}", at)
        elif not isinstance(value, str):
            self.wrong("must be a string", f"{at}/{key}")
        elif len(value) > most:
            self.wrong(f"must be less than {most + 1} characters", f"{at}/{key}")

    def items(self, thing, key, at, most, least=1):
        value = thing.get(key)
        if not isinstance(value, list):
            self.wrong(f"missing required field: {key}", at)
            return []
        if len(value) > most:
            self.wrong(f"no more than {most} items allowed", f"{at}/{key}")
        if len(value) < least:
            self.wrong(f"no fewer than {least} items allowed", f"{at}/{key}")
        return [(one, f"{at}/{key}/{index}") for index, one in enumerate(value)]

    def once(self, value, seen, at):
        if value in seen:
            self.wrong("identifier already exists", at)
        seen.add(value)

    def element(self, thing, at):
        """An interactive element: a button, a menu."""
        if not isinstance(thing, dict) or not isinstance(thing.get("type"), str):
            return self.wrong("unsupported type", f"{at}/type")
        self.string(thing, "action_id", at, 255)
        if thing.get("action_id"):
            self.once(thing["action_id"], self.action_ids, f"{at}/action_id")
        if thing["type"] == "button":
            self.text(thing.get("text"), f"{at}/text", 75, ("plain_text",))
            self.string(thing, "value", at, 2000)
            self.string(thing, "url", at, 3000)
            if thing.get("style", "primary") not in ("primary", "danger"):
                self.wrong("must be one of primary, danger", f"{at}/style")
        elif thing["type"].endswith("_select") and "options" in thing:
            for option, where in self.items(thing, "options", at, 100):
                self.text(option.get("text"), f"{where}/text", 75)
                self.string(option, "value", where, 150, needed=True)

    def block(self, block, at):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in KNOWN:
            return self.wrong(f"unsupported type: {kind}", f"{at}/type")
        self.string(block, "block_id", at, 255)
        if block.get("block_id"):
            self.once(block["block_id"], self.block_ids, f"{at}/block_id")
        if kind == "section":
            if "text" in block or "fields" not in block:
                self.text(block.get("text"), f"{at}/text", 3000)
            for field, where in self.items(block, "fields", at, 10) if "fields" in block else ():
                self.text(field, where, 2000)
            if "accessory" in block and block["accessory"].get("type") != "image":
                self.element(block["accessory"], f"{at}/accessory")
        elif kind == "header":
            self.text(block.get("text"), f"{at}/text", 150, ("plain_text",))
        elif kind == "context":
            for element, where in self.items(block, "elements", at, 10):
                if not isinstance(element, dict) or element.get("type") != "image":
                    self.text(element, where, 3000)
        elif kind == "actions":
            for element, where in self.items(block, "elements", at, 25):
                self.element(element, where)
        elif kind == "image":
            self.string(block, "alt_text", at, 2000, needed=True)
            self.string(block, "image_url", at, 3000, needed="slack_file" not in block)
        elif kind == "markdown":
            self.string(block, "text", at, MARKDOWN, needed=True)
            self.characters += len(str(block.get("text", "")))
        elif kind in ("rich_text", "context_actions"):
            for element, where in self.items(block, "elements", at, 1000, least=0):
                self.rich(element, where)
        elif kind == "table":
            for row, where in self.items(block, "rows", at, 100):
                if not isinstance(row, list) or len(row) > 20:
                    self.wrong("no more than 20 items allowed", where)

    def rich(self, thing, at):
        if not isinstance(thing, dict) or not isinstance(thing.get("type"), str):
            return self.wrong("unsupported type", f"{at}/type")
        if isinstance(thing.get("text"), str):
            self.characters += len(thing["text"])
        for index, element in enumerate(thing.get("elements", [])):
            self.rich(element, f"{at}/elements/{index}")


def problems(blocks):
    """The name of the error and its messages; no name where the blocks are right."""
    if not isinstance(blocks, list):
        return "invalid_blocks_format", ["must be an array [json-pointer:/blocks]"]
    checker = Checker()
    if len(blocks) > 50:
        checker.wrong("no more than 50 items allowed", "/blocks")
    if sum(isinstance(block, dict) and block.get("type") == "table" for block in blocks) > 1:
        return "invalid_attachments", ["only_one_table_allowed"]
    for index, block in enumerate(blocks):
        checker.block(block, f"/blocks/{index}")
    if checker.errors:
        return "invalid_blocks", checker.errors
    if checker.characters > ALL_TEXT:
        return "msg_blocks_too_long", []
    return None, []
