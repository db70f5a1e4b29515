"""Slack's Web API: how a request is read, who may make it, and how it is answered. The methods are in other files."""

import json
import secrets

from aiohttp import web

METHODS = {}
# Of conversations, by their kind: the part of the scope's name.
FAMILY = {"public": "channels", "private": "groups", "im": "im", "mpim": "mpim"}
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class SlackError(Exception):
    """An answer with `ok: false`."""

    def __init__(self, name, status=200, headers=None, **more):
        super().__init__(name)
        self.body, self.status, self.headers = {"ok": False, "error": name, **more}, status, headers or {}


def arguments(*messages):
    """The error of an argument that is missing or not of its type."""
    words = [f"[ERROR] {message}" for message in messages]
    return SlackError("invalid_arguments", response_metadata={"messages": words})


def limited(wait):
    return SlackError("ratelimited", 429, {"Retry-After": str(wait)})


def method(name, tier, scopes=(), kinds=("bot", "user"), reads_json=True, args=""):
    """Adds a method. `scopes` are those of which a token needs one; methods that only read take no JSON."""

    def add(function):
        METHODS[name] = {
            "run": function, "tier": tier, "scopes": list(scopes), "kinds": kinds, "reads_json": reads_json,
            "args": set(args.split()) | {"token"},
        }  # fmt: skip
        return function

    return add


class Call:
    """One request to a method."""

    def __init__(self, slack, name, args, token):
        self.slack, self.state, self.name, self.args, self.token = slack, slack.state, name, args, token
        self.team, self.scopes = token["team"], token["scopes"]
        self.app = self.state.get("app", token["app"])
        self.user, self.is_bot = token["user"], token["kind"] == "bot"
        self.warnings = []

    def need(self, *any_of):
        """Fails unless the token has one of these scopes."""
        if not any(scope in self.scopes for scope in any_of):
            raise SlackError("missing_scope", needed=any_of[0], provided=",".join(self.scopes) or "")

    def text(self, name, needed=False):
        value = self.args.get(name)
        if value is None or value == "":
            if needed:
                raise arguments(f"missing required field: {name}")
            return ""
        return value if isinstance(value, str) else json.dumps(value)

    def flag(self, name, default=False):
        value = self.args.get(name)
        return default if value is None else str(value).lower() in ("1", "true")

    def number(self, name, default, most):
        value = self.args.get(name)
        if value in (None, "", 0, "0"):
            return default
        try:
            value = int(value)
        except (TypeError, ValueError):
            raise arguments(f"must be an integer [json-pointer:/{name}]") from None
        if not 1 <= value <= most:
            raise SlackError("invalid_limit")
        return value

    def structure(self, name, error):
        """An argument that is JSON, in a form as its text."""
        value = self.args.get(name)
        if isinstance(value, str):
            if not value.strip():
                return None
            try:
                value = json.loads(value)
            except ValueError:
                raise SlackError(error) from None
        return value

    def channel(self, needs=None, member=False, name="channel"):
        """The conversation that is asked for, if the token may see it.

        `needs` is the part after the colon of the scope for a conversation of its kind.
        """
        which = self.text(name)
        if not which and self.name.startswith("conversations."):
            raise arguments("missing required field: channel")
        channel = self.state.get("channel", which)
        if not channel or channel["team"] != self.team:
            raise SlackError("channel_not_found")
        is_in = self.user in channel["members"]
        if channel["kind"] != "public" and not is_in:
            raise SlackError("channel_not_found")
        if needs:
            self.need(*(f"{FAMILY[channel['kind']]}:{need}" for need in needs.split()))
        if member and not is_in and (self.is_bot or member == "everyone"):
            raise SlackError("not_in_channel")
        return channel


async def read(request):
    """The arguments of a request, and what is to be warned of."""
    args, warnings = dict(request.query), []
    if "token" in args:
        # A token in the address is one in somebody's log. Slack refuses it.
        args.pop("token")
    if request.method == "GET":
        return args, warnings, False
    body = await request.read()
    kind = request.headers.get("Content-Type", "")
    if not kind:
        if body:
            raise SlackError("missing_post_type")
        return args, warnings, False
    if request.content_type == "application/json":
        if request.charset is None:
            warnings.append("missing_charset")
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            raise SlackError("invalid_json") from None
        if not isinstance(given, dict):
            raise SlackError("json_not_object")
        given.pop("token", None)
        return {**args, **given}, warnings, True
    if request.content_type not in FORMS:
        raise SlackError("invalid_post_type")
    if request.charset and request.charset.lower() not in ("utf-8", "iso-8859-1"):
        raise SlackError("invalid_charset")
    form = await request.post()
    return {**args, **{key: value for key, value in form.items() if isinstance(value, str)}}, warnings, False


def token_of(slack, request, args):
    """The token of a request: of its header, or of the form."""
    header = request.headers.get("Authorization")
    if header is not None:
        scheme, _, given = header.partition(" ")
        if scheme.lower() != "bearer" or not given:
            raise SlackError("invalid_auth")
    else:
        given = args.get("token")
    args.pop("token", None)
    if not given:
        raise SlackError("not_authed")
    token = slack.state.get("token", given.strip())
    if not token:
        raise SlackError("invalid_auth")
    if token["fault"]:
        raise SlackError(token["fault"])
    return token


def answer(request, body, status=200, headers=None):
    request["error"] = body.get("error")
    headers = {**request.get("scopes", {}), "X-Slack-Req-Id": secrets.token_hex(16), **(headers or {})}
    text = json.dumps(body)
    return web.Response(text=text, status=status, headers=headers, content_type="application/json", charset="utf-8")


async def call(slack, request):
    """Answers a request to `/api/METHOD`."""
    name = request.match_info["method"]
    known = METHODS.get(name)
    try:
        args, warnings, is_json = await read(request)
        request["args"] = {key: value for key, value in args.items() if key != "token"}
        if not known:
            request["unknown"] = True
            raise SlackError("unknown_method", req_method=name)
        if request.method == "GET" and name == "apps.connections.open":
            raise SlackError("insecure_request")
        token = token_of(slack, request, args)
        request["scopes"] = {
            "X-OAuth-Scopes": ",".join(token["scopes"]),
            "X-Accepted-OAuth-Scopes": ",".join(known["scopes"]),
        }
        request["odd"] = sorted(set(args) - known["args"])
        if token["kind"] not in known["kinds"]:
            raise SlackError("not_allowed_token_type")
        if is_json and not known["reads_json"]:
            # Slack does not look into the body: what is asked for is missing.
            args = dict(request.query)
        wait = slack.limits.method(token, name, known["tier"])
        if wait:
            raise limited(wait)
        one = Call(slack, name, args, token)
        if known["scopes"]:
            one.need(*known["scopes"])
        body = {"ok": True, **known["run"](one)}
        warnings += one.warnings
        if warnings:
            metadata = body.setdefault("response_metadata", {})
            metadata["warnings"] = warnings
            if "message_truncated" in warnings:
                metadata["messages"] = [
                    "[WARN] Your message was truncated but still posted. The `text` field accepts up to 40,000 characters."
                ]
            body["warning"] = ",".join(warnings)
        return answer(request, body)
    except SlackError as error:
        return answer(request, error.body, error.status, error.headers)
