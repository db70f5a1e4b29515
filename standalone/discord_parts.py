"""The parts of a message that Discord checks one by one: embeds, components, allowed mentions."""

COMPONENTS_V2 = 1 << 15
ROW, BUTTON, SELECT, SECTION, DISPLAY, CONTAINER = 1, 2, 3, 9, 10, 17
SELECTS = (3, 5, 6, 7, 8)
LINK, PREMIUM = 5, 6


def check_embeds(form):
    """At most 10 embeds, each part within its length, 6,000 characters together."""
    total = 0
    for at, embed in form.objects("embeds", 10):
        path = f"embeds.{at}"
        for name, high in (("title", 256), ("description", 4096)):
            total += len(form.text(name, high=high, path=f"{path}.{name}", body=embed) or "")
        for name, key, high in (("footer", "text", 2048), ("author", "name", 256)):
            part = embed.get(name) or {}
            if form.mapping(part, f"{path}.{name}"):
                total += len(form.text(key, high=high, path=f"{path}.{name}.{key}", body=part) or "")
        for number, field in form.objects("fields", 25, f"{path}.fields", embed):
            for name, high in (("name", 256), ("value", 1024)):
                at_field = f"{path}.fields.{number}.{name}"
                total += len(form.text(name, low=1, high=high, required=True, path=at_field, body=field) or "")
    if total > 6000:
        form.fail("embeds", "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")


def check_components(form, flags):
    """Rows, buttons and selects within their numbers and lengths; no custom id twice."""
    seen, texts, count = set(), 0, 0
    rows = form.listed("components", 40 if flags & COMPONENTS_V2 else 5)
    waiting = [(f"components.{at}", row, True) for at, row in enumerate(rows)]
    while waiting:
        path, part, top = waiting.pop(0)
        kind = part.get("type") if isinstance(part, dict) else None
        count += 1
        if flags & COMPONENTS_V2:
            fits = kind in (ROW, SECTION, DISPLAY, 12, 13, 14, CONTAINER) or not top
        else:
            fits = kind == ROW if top else kind == BUTTON or kind in SELECTS
        if not fits:
            form.fail(f"{path}.type", "BASE_TYPE_CHOICES", "Value must be one of {1}." if top else "Value must be one of {2, 3}.")
            continue
        inner = form.listed("components", 40, f"{path}.components", part)
        if kind == ROW:
            selects = [one for one in inner if isinstance(one, dict) and one.get("type") in SELECTS]
            if not inner or len(inner) > (1 if selects else 5):
                form.fail(f"{path}.components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        elif kind == BUTTON:
            check_button(form, path, part, seen)
        elif kind in SELECTS:
            check_select(form, path, part, seen)
        elif kind == DISPLAY:
            texts += len(form.text("content", low=1, required=True, path=f"{path}.content", body=part) or "")
        waiting += [(f"{path}.components.{at}", one, False) for at, one in enumerate(inner)]
        if isinstance(part.get("accessory"), dict):
            waiting.append((f"{path}.accessory", part["accessory"], False))
    if count > 40:
        form.fail("components", "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED", "The total number of components must be 40 or fewer.")
    if texts > 4000:
        form.fail("components", "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED", "Displayable text size exceeds maximum size of 4000")


def check_custom_id(form, path, part, seen):
    custom = form.text("custom_id", low=1, high=100, required=True, path=f"{path}.custom_id", body=part)
    if custom in seen:
        form.fail(f"{path}.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
    seen.add(custom)


def check_button(form, path, part, seen):
    style = form.choice("style", (1, 2, 3, 4, 5, 6), path=f"{path}.style", body=part)
    if style is None:
        form.fail(f"{path}.style", "BASE_TYPE_REQUIRED", "This field is required")
    form.text("label", high=80, path=f"{path}.label", body=part)
    if not part.get("label") and not part.get("emoji") and style != PREMIUM:
        form.fail(path, "BUTTON_COMPONENT_LABEL_OR_EMOJI_REQUIRED", "A button must have a label or an emoji")
    if style == LINK:
        form.text("url", low=1, high=512, required=True, path=f"{path}.url", body=part)
        if part.get("custom_id"):
            form.fail(path, "BUTTON_COMPONENT_CUSTOM_ID_URL_MUTUALLY_EXCLUSIVE", "A custom id and url cannot both be specified")
    elif style != PREMIUM:
        check_custom_id(form, path, part, seen)


def check_select(form, path, part, seen):
    check_custom_id(form, path, part, seen)
    form.text("placeholder", high=150, path=f"{path}.placeholder", body=part)
    if part["type"] == SELECT:
        options = form.objects("options", 25, f"{path}.options", part)
        if not options:
            form.fail(f"{path}.options", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 25 in length.")
        for at, option in options:
            for name in ("label", "value"):
                form.text(name, low=1, high=100, required=True, path=f"{path}.options.{at}.{name}", body=option)


def check_allowed_mentions(form):
    """`allowed_mentions` of a body: known kinds, at most 100 ids, a kind not both parsed and listed."""
    allowed = form.body.get("allowed_mentions")
    if allowed is None:
        return None
    if not form.mapping(allowed, "allowed_mentions"):
        return None
    parse = form.listed("parse", 3, "allowed_mentions.parse", allowed)
    for at, kind in enumerate(parse):
        if kind not in ("users", "roles", "everyone"):
            choices = "Value must be one of ('users', 'roles', 'everyone')."
            form.fail(f"allowed_mentions.parse.{at}", "BASE_TYPE_CHOICES", choices)
    for kind in ("users", "roles"):
        if form.listed(kind, 100, f"allowed_mentions.{kind}", allowed) and kind in parse:
            text = f"parse:[\"{kind}\"] and {kind}: [ids...] are mutually exclusive."
            form.fail("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)
    return allowed


def buttons_of(components):
    """All parts of a message's components that have a custom id."""
    found, waiting = [], list(components or [])
    while waiting:
        part = waiting.pop(0)
        if part.get("custom_id"):
            found.append(part)
        waiting += part.get("components") or []
        waiting += [part["accessory"]] if part.get("accessory") else []
    return found

