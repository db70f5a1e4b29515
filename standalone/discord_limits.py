"""Discord's rate limits: a bucket for each route and top-level resource, one for all requests, one for refused ones."""

import math
import time

from discord_api import Refusal

GLOBAL, INVALID, INVALID_PER = 50, 10_000, 600
# A refusal of Discord's own comes through its proxies, and says so. Clients take any other 429 for a ban.
VIA = {"Via": "1.1 google"}


class Limited(Refusal):
    """A request too many."""

    def __init__(self, after, headers=(), scope="user"):
        everything = scope == "global"
        text = "The resource is being rate limited." if scope == "shared" else "You are being rate limited."
        super().__init__(429, 0, text)
        self.body = {"message": text, "retry_after": round(after, 3), "global": everything}
        self.headers = {**dict(headers), "Retry-After": str(math.ceil(after)), "X-RateLimit-Scope": scope, **VIA}
        if everything:
            self.headers["X-RateLimit-Global"] = "true"


def headers_of(route, limit, remaining, until):
    """The headers that tell of a route's bucket."""
    return {
        "X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": str(remaining), "X-RateLimit-Reset": f"{until:.3f}",
        "X-RateLimit-Reset-After": f"{max(0.0, until - time.time()):.3f}", "X-RateLimit-Bucket": route.bucket,
    }


def exhausted(route, after):
    """The headers of a bucket that is empty for some time."""
    return headers_of(route, route.limit or 1, 0, time.time() + after)


class Window:
    """A number of requests in a time that begins with the first of them."""

    def __init__(self):
        self.until = 0.0
        self.used = 0

    def take(self, limit, per):
        """Uses one; gives whether there was one left."""
        now = time.time()
        if now >= self.until:
            self.until, self.used = now + per, 0
        if self.used >= limit:
            return False
        self.used += 1
        return True


class Limits:
    """All windows, and what a test has set instead of the ordinary limits."""

    def __init__(self):
        self.windows = {}
        self.off = False
        # The documentation names X-RateLimit-Scope for 429s only. A client may expect it with every answer.
        self.scoped = False
        self.routes = {}
        self.overall = GLOBAL
        self.most_invalid = INVALID
        self.invalid = 0
        self.banned_until = 0.0

    def _window(self, *key):
        if len(self.windows) > 10_000:
            now = time.time()
            self.windows = {one: window for one, window in self.windows.items() if window.until > now}
        return self.windows.setdefault(key, Window())

    def refused(self, status, scope=None):
        """Counts an invalid request; too many of them shut an address out."""
        if status in (401, 403) or status == 429 and scope != "shared":
            window = self._window("invalid")
            window.take(self.most_invalid, INVALID_PER)
            self.invalid += 1
            if window.used >= self.most_invalid:
                self.banned_until = window.until

    def banned(self):
        return max(0.0, self.banned_until - time.time())

    def take(self, route, major, who):
        """Uses one request of a route. Gives the headers, or refuses."""
        if self.off:
            return {}
        if route.globally:
            window = self._window("global", who)
            if not window.take(self.overall, 1):
                raise Limited(window.until - time.time(), scope="global")
        limit, per = self.routes.get(route.name, (route.limit, route.per))
        if limit is None:
            return {}
        window = self._window(route.bucket, major, who)
        had = window.take(limit, per)
        headers = headers_of(route, limit, limit - window.used, window.until)
        if self.scoped:
            headers["X-RateLimit-Scope"] = "user"
        if not had:
            raise Limited(window.until - time.time(), headers)
        return headers

    def sub(self, name, resource, limit, per):
        """A limit within the one of a route. The headers of the route do not tell of it."""
        if self.off:
            return
        limit, per = self.routes.get(name, (limit, per))
        window = self._window(name, resource)
        if not window.take(limit, per):
            raise Limited(window.until - time.time(), scope="shared")
