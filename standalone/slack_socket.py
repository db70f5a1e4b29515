"""Socket Mode: connections of apps, envelopes to them, their acknowledgements, and what is delivered again.

An event that is not acknowledged within three seconds, or for which there is no connection, is delivered again at
once, after a minute and after five, as Slack documents it for events. Interactions and commands are delivered once.
"""

import asyncio
import collections
import json
import secrets
import time
import uuid

from aiohttp import WSMsgType, web

MOST_CONNECTIONS = 10
TICKET_FOR = 30


class Connection:
    def __init__(self, app, number, ws, request):
        self.app, self.number, self.ws, self.request = app, number, ws, request
        self.queue, self.pending = asyncio.Queue(), {}
        self.opened, self.heard = time.time(), time.monotonic()
        # Closing: was told to go. Silent: as if the network had swallowed everything.
        self.is_closing = self.is_silent = False
        self.acknowledged = 0

    def send(self, message):
        self.queue.put_nowait(message)

    async def write(self):
        while True:
            message = await self.queue.get()
            if self.is_silent:
                continue
            if message is None:
                return await self.ws.close()
            await self.ws.send_str(json.dumps(message))

    def abort(self):
        """Ends the connection without a word."""
        if self.request.transport:
            self.request.transport.abort()


class Socket:
    def __init__(self, slack):
        self.slack, self.connections, self.tickets, self.turn, self.number = slack, [], {}, 0, 0
        self.deliveries = collections.deque(maxlen=50_000)
        self.strays = []
        self.settings = {"ackWithin": 3, "retries": [0, 60, 300], "pingEvery": 10, "silentAfter": 40, "loseOffline": False}

    def ticket(self, app):
        """The address of a new connection, for one use."""
        ticket = secrets.token_urlsafe(24)
        self.tickets[ticket] = app, time.monotonic() + TICKET_FOR
        return f"{self.slack.base.replace('http', 'ws')}/link/?ticket={ticket}&app_id={app}"

    def of_app(self, app):
        return [one for one in self.connections if one.app == app]

    def host(self):
        return f"applink-{self.number % 8}"

    async def serve(self, request):
        """A connection, from its opening to its end."""
        app, until = self.tickets.pop(request.query.get("ticket", ""), (None, 0))
        if not app or until < time.monotonic():
            return web.Response(status=408, text="ticket is invalid or was used")
        # Pings are answered here, since a silent connection must not answer.
        ws = web.WebSocketResponse(autoping=False, max_msg_size=1 << 22)
        await ws.prepare(request)
        self.number += 1
        connection = Connection(app, self.number, ws, request)
        self.connections.append(connection)
        tasks = [asyncio.create_task(connection.write()), asyncio.create_task(self.ping(connection))]
        if len(self.of_app(app)) > MOST_CONNECTIONS:
            self.dismiss(connection, "too_many_websockets", 0)
        else:
            seconds = 360 if request.query.get("debug_reconnects") == "true" else 18_060
            debug = {"host": self.host(), "build_number": 100, "approximate_connection_time": seconds}
            count = len(self.of_app(app))
            hello = {"type": "hello", "num_connections": count, "debug_info": debug, "connection_info": {"app_id": app}}
            connection.send(hello)
        try:
            async for message in ws:
                if connection.is_silent:
                    continue
                connection.heard = time.monotonic()
                if message.type == WSMsgType.PING:
                    await ws.pong(message.data)
                elif message.type == WSMsgType.TEXT:
                    self.acknowledge(connection, message.data)
        except (ConnectionError, RuntimeError):
            pass
        finally:
            self.connections.remove(connection)
            for task in tasks:
                task.cancel()
            for delivery in list(connection.pending.values()):
                self.failed(delivery)
        return ws

    async def ping(self, connection):
        while True:
            await asyncio.sleep(self.settings["pingEvery"])
            if connection.is_silent:
                continue
            if time.monotonic() - connection.heard > self.settings["silentAfter"]:
                return connection.abort()
            try:
                await connection.ws.ping(f"Ping from {self.host()}".encode())
            except ConnectionError:
                return

    def dismiss(self, connection, reason, seconds):
        """Tells a connection to go; it is closed after so many seconds."""
        connection.is_closing = True
        connection.send({"type": "disconnect", "reason": reason, "debug_info": {"host": self.host()}})
        asyncio.get_running_loop().call_later(seconds, connection.send, None)

    def deliver(self, app, kind, payload, then=None):
        """Delivers a payload. `then` is called with what the app answers, or with `None` where it does not."""
        delivery = {
            "app": app, "kind": kind, "payload": payload, "attempt": 0, "reason": "", "then": then, "tries": [],
            "event": payload.get("event_id"), "state": "waiting", "timer": None, "at": None,
        }  # fmt: skip
        self.deliveries.append(delivery)
        self.attempt(delivery)

    def attempt(self, delivery):
        usable = [one for one in self.of_app(delivery["app"]) if not one.is_closing]
        if not usable:
            delivery["tries"].append({"at": time.time(), "connection": None})
            return self.failed(delivery)
        self.turn += 1
        connection = usable[self.turn % len(usable)]
        envelope = {"envelope_id": str(uuid.uuid4()), "payload": delivery["payload"], "type": delivery["kind"]}
        takes_answer = delivery["kind"] == "slash_commands" or delivery["payload"].get("type") == "view_submission"
        envelope["accepts_response_payload"] = takes_answer
        if delivery["kind"] == "events_api":
            envelope.update(retry_attempt=delivery["attempt"], retry_reason=delivery["reason"])
        delivery.update(state="sent", envelope=envelope["envelope_id"], at=time.monotonic(), on=connection)
        delivery["tries"].append({"at": time.time(), "connection": connection.number, "envelope": envelope["envelope_id"]})
        connection.pending[envelope["envelope_id"]] = delivery
        connection.send(envelope)
        within = self.settings["ackWithin"]
        delivery["timer"] = asyncio.get_running_loop().call_later(within, self.failed, delivery)

    def failed(self, delivery):
        """An attempt was not acknowledged, or could not be made."""
        self.let_go(delivery)
        retries = self.settings["retries"]
        is_lost = self.settings["loseOffline"] and not self.of_app(delivery["app"])
        if delivery["kind"] != "events_api" or delivery["attempt"] >= len(retries) or is_lost:
            delivery["state"] = "lost"
            if delivery["then"]:
                delivery["then"](None)
            return
        wait = retries[delivery["attempt"]]
        delivery.update(state="waiting", attempt=delivery["attempt"] + 1, reason="timeout")
        asyncio.get_running_loop().call_later(wait, self.attempt, delivery)

    def let_go(self, delivery):
        if delivery["timer"]:
            delivery["timer"].cancel()
            delivery["timer"] = None
        connection = delivery.pop("on", None)
        if connection:
            connection.pending.pop(delivery["envelope"], None)

    def acknowledge(self, connection, text):
        try:
            message = json.loads(text)
            delivery = connection.pending[message["envelope_id"]]
        except (ValueError, KeyError, TypeError):
            # Too late, unknown, or no acknowledgement at all. Slack ignores it.
            self.strays.append(text[:500])
            return
        self.let_go(delivery)
        connection.acknowledged += 1
        delivery["state"] = "acknowledged"
        delivery["took"] = time.monotonic() - delivery["at"]
        payload = message.get("payload") or None
        delivery["answered"] = payload
        if delivery["then"]:
            delivery["then"](payload or {})

    def drop(self, how, reason, seconds, app=None):
        """Ends the connections in one of four ways; how many there were."""
        chosen = [one for one in self.connections if app in (None, one.app)]
        for connection in chosen:
            if how == "disconnect":
                self.dismiss(connection, reason, seconds)
            elif how == "close":
                connection.is_closing = True
                connection.send(None)
            elif how == "silence":
                connection.is_silent = True
            else:
                connection.abort()
        return len(chosen)

    def report(self, state=None):
        """The connections, and the deliveries that are in a state, for the control API."""
        hidden = ("payload", "then", "timer", "at", "on")
        return {
            "connections": [
                {
                    "number": one.number, "app": one.app, "opened": one.opened, "acknowledged": one.acknowledged,
                    "pending": len(one.pending), "closing": one.is_closing, "silent": one.is_silent,
                }
                for one in self.connections
            ],
            "deliveries": [
                {name: value for name, value in one.items() if name not in hidden}
                | {"type": one["payload"].get("event", {}).get("type") or one["payload"].get("type")}
                | {"ts": one["payload"].get("event", {}).get("ts")}
                for one in self.deliveries
                if state in (None, one["state"])
            ],
            "strays": self.strays,
        }  # fmt: skip
