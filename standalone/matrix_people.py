"""People on a homeserver, by the client library matrix-nio. They live on a thread of their own."""

import asyncio
import collections
import io
import logging
import threading
import uuid

import aiohttp
import nio

# Programs that a restart leaves without an answer try again soon.
PATIENCE = nio.AsyncClientConfig(max_timeout_retry_wait_time=0.5, request_timeout=60)
FILTER = {
    "presence": {"not_types": ["*"]},
    "account_data": {"not_types": ["*"]},
    "room": {"timeline": {"limit": 200}, "ephemeral": {"types": ["m.typing"]}, "account_data": {"not_types": ["*"]}},
}
# It says each retry.
logging.getLogger("nio").setLevel(logging.CRITICAL)


class People:
    """The thread on which people live."""

    def __init__(self, url):
        self.url, self.everybody = url, []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def do(self, work, limit=300):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(limit)

    def person(self, user, token):
        return self.do(self.arrive(user, token))

    async def arrive(self, user, token):
        client = nio.AsyncClient(self.url, user, config=PATIENCE)
        client.access_token, client.user_id = token, user
        person = Person(self, client)
        self.everybody.append(person)
        return person

    def leave(self):
        for person in self.everybody:
            self.do(person.leave())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)


class Person:
    """Somebody with an account."""

    def __init__(self, people, client):
        self.people, self.client, self.following = people, client, None
        self.user = client.user_id
        # What was seen of each room: its events, the oldest first, and their ids.
        self.rooms = collections.defaultdict(list)
        self.ids = collections.defaultdict(set)
        # Who was seen to write in each room.
        self.writing = collections.defaultdict(set)

    async def leave(self):
        if self.following:
            self.following.cancel()
        await self.client.close()

    async def insist(self, ask):
        """Asks until there is an answer. An answer that refuses is an error."""
        while True:
            try:
                answer = await ask()
            except (aiohttp.ClientError, ValueError):  # The connection broke off in the middle of an answer.
                answer = None
            is_refused = isinstance(answer, nio.ErrorResponse)
            if answer and not is_refused:
                return answer
            # A homeserver that stops or starts says nothing or one of these.
            if is_refused and answer.status_code not in (None, "M_UNKNOWN", "M_LIMIT_EXCEEDED"):
                raise RuntimeError(f"{self.user}: {answer}")
            await asyncio.sleep(0.1)

    def send(self, room, content, kind="m.room.message"):
        """Sends an event; its id, once it was acknowledged."""
        key = uuid.uuid4().hex

        def send():
            return self.client.room_send(room, kind, content, tx_id=key)

        return self.people.do(self.insist(send)).event_id

    def say(self, room, text, **content):
        """Says something; the message's id."""
        return self.send(room, {"msgtype": "m.text", "body": text, **content})

    def answer(self, room, event, text, **content):
        """Says something in reply to a message."""
        return self.say(room, text, **content, **{"m.relates_to": {"m.in_reply_to": {"event_id": event}}})

    def edit(self, room, event, text):
        """Gives a message a new text."""
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": event}
        return self.send(room, {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": relation})

    def rename(self, name):
        """Takes another display name."""
        self.people.do(self.insist(lambda: self.client.set_displayname(name)))

    def redact(self, room, event):
        self.people.do(self.insist(lambda: self.client.room_redact(room, event)))

    def upload(self, room, name, content, caption="", claimed=None):
        """Sends a file, maybe with another size than it has; the message's id."""
        size = len(content)

        async def upload():
            return (await self.client.upload(lambda *_: io.BytesIO(content), "text/plain", name, filesize=size))[0]

        address = self.people.do(self.insist(upload)).content_uri
        more = {"filename": name} if caption else {}
        return self.send(room, {"msgtype": "m.file", "body": caption or name, "url": address, "info": {"size": claimed or size},
                                **more})

    def download(self, address):
        return self.people.do(self.insist(lambda: self.client.download(address))).body

    def put(self, room, kind, content):
        """Changes the state of a room."""
        self.people.do(self.insist(lambda: self.client.room_put_state(room, kind, content)))

    def kick(self, room, user):
        self.people.do(self.insist(lambda: self.client.room_kick(room, user)))

    def create(self, name, invite=(), is_public=False, is_encrypted=False, powers=None, is_direct=False):
        """Makes a room; its id."""
        preset = nio.RoomPreset.public_chat if is_public else nio.RoomPreset.private_chat
        state = [nio.EnableEncryptionBuilder().as_dict()] if is_encrypted else []

        def create():
            return self.client.room_create(
                name=name, preset=preset, invite=list(invite), initial_state=state, is_direct=is_direct,
                power_level_override={"users": powers} if powers else None,
            )

        return self.people.do(self.insist(create)).room_id

    def join(self, room):
        self.people.do(self.insist(lambda: self.client.join(room)))

    def invite(self, room, user):
        self.people.do(self.insist(lambda: self.client.room_invite(room, user)))

    def members(self, room):
        return {one.user_id for one in self.people.do(self.insist(lambda: self.client.joined_members(room))).members}

    def state(self, room, kind):
        return self.people.do(self.insist(lambda: self.client.room_get_state_event(room, kind, ""))).content

    def follow(self):
        """From now on everything in the rooms is seen."""
        self.people.do(self.look(0))
        self.following = asyncio.run_coroutine_threadsafe(self.look_on(), self.people.loop)

    async def look_on(self):
        while True:
            await self.look(30_000)

    async def look(self, limit):
        answer = await self.insist(lambda: self.client.sync(timeout=limit, sync_filter=FILTER))
        for room, news in answer.rooms.join.items():
            events = [event.source for event in news.timeline.events]
            if news.timeline.limited and self.rooms[room]:
                events = await self.missed(room, news.timeline.prev_batch) + events
            for event in news.ephemeral:
                self.writing[room].update(getattr(event, "users", ()))
            for event in events:
                if event["event_id"] not in self.ids[room]:
                    self.ids[room].add(event["event_id"])
                    self.rooms[room].append(event)

    async def missed(self, room, place):
        """What was said before a place, up to what was seen."""
        found = []
        while place:
            page = await self.page(room, place, nio.MessageDirection.back)
            found += [event.source for event in page.chunk]
            if not page.chunk or page.chunk[-1].event_id in self.ids[room]:
                break
            place = page.end
        return found[::-1]

    async def page(self, room, place, direction):
        return await self.insist(lambda: self.client.room_messages(room, place, direction=direction, limit=500))

    def history(self, room):
        """Everything that the homeserver has of a room, the oldest first."""
        return self.people.do(self.read(room))

    async def read(self, room):
        found, place = [], ""
        while place is not None:
            page = await self.page(room, place, nio.MessageDirection.front)
            found += [event.source for event in page.chunk]
            place = page.end if page.chunk else None
        return found

    def seen(self, room, sender=None):
        """The messages that were seen in a room, the oldest first, of one sender or of all."""
        return messages(self.rooms[room], sender)


def messages(events, sender=None):
    """Those of the events that are messages, of one sender or of all."""
    return [
        event for event in list(events)
        if event["type"] == "m.room.message" and sender in (None, event["sender"]) and "body" in event["content"]
    ]


def bodies(events):
    return [event["content"]["body"] for event in events]
