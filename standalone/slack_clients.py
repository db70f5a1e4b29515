"""Bots of Slack's own client libraries: one of slack_sdk, in this process, and the Bolt app, in its own."""

import json
import logging
import subprocess
import threading
import warnings

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

from checking import until
from slack_stand import SOON

logging.getLogger("slack_sdk").setLevel(logging.CRITICAL)
# It advises a text where a check sends none.
warnings.filterwarnings("ignore", message="The top-level `text` argument is missing")


def client(stand, token):
    return WebClient(token=token, base_url=stand.api, timeout=60)


def refusal(call, *args, **more):
    """The error that Slack answers; nothing where it does what it was asked."""
    try:
        call(*args, **more)
    except SlackApiError as error:
        return error.response["error"]
    return None


class Bot:
    """A Socket Mode client that notes what it gets, and acknowledges it unless it holds back."""

    def __init__(self, stand, app_token, **more):
        self.requests, self.hellos, self.is_holding = [], [], False
        self.answer = None
        web = WebClient(base_url=stand.api, timeout=60)
        self.client = SocketModeClient(app_token=app_token, web_client=web, **more)
        self.client.logger.setLevel(logging.CRITICAL)
        self.client.message_listeners.append(self.hello)
        self.client.socket_mode_request_listeners.append(self.hear)

    def hello(self, _client, message, _raw):
        if message.get("type") == "hello":
            self.hellos.append(message)

    def hear(self, sender, request):
        self.requests.append(request)
        if not self.is_holding:
            payload = self.answer if request.type == "slash_commands" else None
            sender.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id, payload=payload))

    def connect(self):
        before = len(self.hellos)
        self.client.connect()
        return until(SOON, lambda: len(self.hellos) > before)

    def events(self, kind="message", **fields):
        """The events of a type whose fields have these values."""
        found = []
        for request in list(self.requests):
            event = request.payload.get("event", {})
            if event.get("type") == kind and all(event.get(name) == value for name, value in fields.items()):
                found.append(event)
        return found

    def gets(self, kind="message", **fields):
        found = until(SOON, lambda: self.events(kind, **fields))
        return found[0] if found else None

    def close(self):
        """Ends the client. Its own `close` waits for the session's thread, which takes back the wish to end if it begins
        only then, and goes on for ever."""
        closing = threading.Thread(target=self.client.close, daemon=True)
        closing.start()

        def is_closed():
            self.client.current_session_state.terminated = True
            return not closing.is_alive()

        if not until(SOON, is_closed):
            raise TimeoutError("the client does not end")


class Bolt:
    """The Bolt app as a process, and the lines that it has written."""

    def __init__(self, folder, stand, token, app_token):
        self.lines = []
        self.process = subprocess.Popen(
            ["node", f"{folder}/node/slack_bolt.mjs", stand.api, token, app_token],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"said": line})

    def told(self, **fields):
        """Waits for a line with these fields, and gives all of them."""
        return until(SOON, lambda: [one for one in self.lines if fields.items() <= one.items()])

    def close(self):
        self.process.stdin.close()
        try:
            return self.process.wait(SOON)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
