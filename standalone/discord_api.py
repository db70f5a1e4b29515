"""The base of all routes of Discord's stand-in: their table, refusals with Discord's codes, the check of a body."""

import hashlib
import json
from dataclasses import dataclass, field

from aiohttp import web


class Refusal(Exception):
    """An answer of Discord's that refuses a request."""

    def __init__(self, status, code, message, errors=None):
        super().__init__(f"{status} {code} {message}")
        self.status = status
        self.body = {"message": message, "code": code}
        if errors:
            self.body["errors"] = errors


UNKNOWN = {
    "Channel": 10003, "Guild": 10004, "Member": 10007, "Message": 10008, "Role": 10011, "User": 10013, "Emoji": 10014,
    "Webhook": 10015, "interaction": 10062, "application command": 10063,
}


def unknown(thing):
    return Refusal(404, UNKNOWN[thing], f"Unknown {thing}")


def unauthorized():
    return Refusal(401, 0, "401: Unauthorized")


def missing_access():
    return Refusal(403, 50001, "Missing Access")


def missing_permissions():
    return Refusal(403, 50013, "Missing Permissions")


def empty_message():
    return Refusal(400, 50006, "Cannot send an empty message")


def answer(body, status=200, headers=None):
    """An answer in JSON. Discord names no character set, and libraries compare the whole header."""
    return web.Response(body=json.dumps(body).encode(), status=status, headers={**(headers or {}), "Content-Type": "application/json"})


class Form:
    """Collects what is wrong with a body, as Discord's "Invalid Form Body" lists it."""

    def __init__(self, body):
        self.body = body
        self.errors = {}

    def fail(self, path, code, message):
        at = self.errors
        for key in path.split("."):
            at = at.setdefault(key, {})
        at.setdefault("_errors", []).append({"code": code, "message": message})

    def text(self, name, low=0, high=None, required=False, path=None, body=None):
        """A text of the body, checked for its length; `None` where there is none."""
        path, value = path or name, (self.body if body is None else body).get(name)
        if value is None:
            if required:
                self.fail(path, "BASE_TYPE_REQUIRED", "This field is required")
            return None
        if not isinstance(value, str):
            self.fail(path, "STRING_TYPE_CONVERT", f"Could not interpret \"{value}\" as string.")
            return None
        if high is not None and len(value) > high:
            if low:
                self.fail(path, "BASE_TYPE_BAD_LENGTH", f"Must be between {low} and {high} in length.")
            else:
                self.fail(path, "BASE_TYPE_MAX_LENGTH", f"Must be {high} or fewer in length.")
        elif len(value) < low:
            self.fail(path, "BASE_TYPE_BAD_LENGTH", f"Must be between {low} and {high} in length.")
        return value

    def number(self, name, low, high, default=None, path=None, body=None):
        path, value = path or name, (self.body if body is None else body).get(name)
        if value is None:
            return default
        try:
            value = int(value)
        except (TypeError, ValueError):
            self.fail(path, "NUMBER_TYPE_COERCE", f"Value \"{value}\" is not int.")
            return default
        if value < low:
            self.fail(path, "NUMBER_TYPE_MIN", f"int value should be greater than or equal to {low}.")
        if value > high:
            self.fail(path, "NUMBER_TYPE_MAX", f"int value should be less than or equal to {high}.")
        return value

    def choice(self, name, choices, default=None, path=None, body=None):
        value = (self.body if body is None else body).get(name, default)
        if value is not None and value not in choices:
            listed = ", ".join(str(one) for one in choices)
            self.fail(path or name, "BASE_TYPE_CHOICES", f"Value must be one of {{{listed}}}.")
        return value

    def snowflake(self, name, path=None, body=None):
        value = (self.body if body is None else body).get(name)
        if value is not None and not str(value).isdigit():
            self.fail(path or name, "NUMBER_TYPE_COERCE", f"Value \"{value}\" is not snowflake.")
            return None
        return None if value is None else str(value)

    def listed(self, name, most, path=None, body=None):
        value = (self.body if body is None else body).get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(path or name, "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
            return []
        if len(value) > most:
            self.fail(path or name, "BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.")
        return value

    def mapping(self, value, path):
        """Checks that a value is an object."""
        if not isinstance(value, dict):
            self.fail(path, "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
        return isinstance(value, dict)

    def objects(self, name, most, path=None, body=None):
        """The objects of a list, with their places in it."""
        path = path or name
        found = enumerate(self.listed(name, most, path, body))
        return [(at, one) for at, one in found if self.mapping(one, f"{path}.{at}")]

    def close(self):
        """Refuses the request if anything was wrong."""
        if self.errors:
            raise Refusal(400, 50035, "Invalid Form Body", self.errors)


@dataclass
class Route:
    """One route: the limit of its bucket, and whether its caller must be a bot."""

    method: str
    path: str
    handler: object
    limit: int | None
    per: float
    auth: str
    globally: bool
    bucket: str = field(init=False)

    def __post_init__(self):
        self.bucket = hashlib.md5(f"{self.method} {self.path}".encode()).hexdigest()

    @property
    def name(self):
        return f"{self.method} {self.path}"


ROUTES = []


def route(method, path, limit=None, per=1.0, auth="bot", globally=True):
    """Adds a route. `auth` is "bot", or "token" where the path itself carries a secret."""

    def add(handler):
        ROUTES.append(Route(method, path, handler, limit, per, auth, globally))
        return handler

    return add


@dataclass
class Call:
    """One request that a handler answers."""

    world: object
    hub: object
    bot: dict | None
    args: dict
    query: dict
    body: dict
    files: dict
    route: Route
    limits: object

    def asked(self, name):
        """Tells if a boolean of the query string is set."""
        return str(self.query.get(name, "")).lower() in ("true", "1")
