"""Files: the upload in three steps, what is known of a file, and its download with a token."""

import base64
import contextlib
import mimetypes
import re
import secrets
import time

from aiohttp import web

import slack_messages as messages
from slack_chat import author, thread_of
from slack_state import new_id
from slack_text import stored
from slack_web import SlackError, method

LOGIN = "<!DOCTYPE html><html><head><title>Login | Slack</title></head><body>Sign in to your workspace</body></html>"


def make(slack, team, user, name, data, kind=None, title=None):
    """A file with its content."""
    file = {
        "id": new_id("F"), "team": team, "user": user, "name": name, "title": title or name, "size": len(data),
        "mimetype": kind or mimetypes.guess_type(name)[0] or "application/octet-stream", "created": int(time.time()),
        "content": base64.b64encode(data).decode(), "shares": {}, "state": "uploaded",
    }  # fmt: skip
    slack.state.put("file", file["id"], file)
    return file


def render(slack, file):
    """A file as Slack's API shows it."""
    place = f"{slack.base}/files-pri/{file['team']}-{file['id']}"
    # Slack's addresses have few of the characters of a name.
    name = re.sub(r"[^a-z0-9_.-]|\.\.+", "_", file["name"].lower())
    suffix = file["name"].rpartition(".")[2] if "." in file["name"] else ""
    return {
        "id": file["id"], "created": file["created"], "timestamp": file["created"], "name": file["name"],
        "title": file["title"], "mimetype": file["mimetype"], "filetype": suffix or "binary", "pretty_type": suffix.upper(),
        "user": file["user"], "user_team": file["team"], "editable": False, "size": file["size"], "mode": "hosted",
        "is_external": False, "is_public": False, "url_private": f"{place}/{name}",
        "url_private_download": f"{place}/download/{name}", "permalink": f"https://files.example/{file['id']}",
        "has_rich_preview": False, "file_access": "visible",
    }  # fmt: skip


def share(slack, channel, files, body, thread=None, sent=None):
    """Posts a message with files."""
    shown = [render(slack, file) for file in files]
    record = messages.post(slack, channel, {**body, "subtype": "file_share", "files": shown, "upload": False}, thread, sent=sent)
    for file in files:
        place = "public" if channel["kind"] == "public" else "private"
        one = {"ts": record["message"]["ts"], "channel_name": channel["name"]}
        file["shares"].setdefault(place, {}).setdefault(channel["id"], []).append(one)
        file["state"] = "shared"
        slack.state.put("file", file["id"], file)
        slack.events.file(channel, file, file["user"])
    return record


@method("files.getUploadURLExternal", 4, ["files:write"], reads_json=False, args="filename length alt_txt snippet_type")
def get_upload_url(call):
    name = call.text("filename", needed=True)
    call.text("length", needed=True)
    length = call.number("length", 0, 1 << 30)
    if not length:
        raise SlackError("invalid_arguments")
    if len(call.text("alt_txt")) > 1000:
        raise SlackError("alt_txt_too_large")
    file = make(call.slack, call.team, call.user, name, b"")
    file.update(state="announced", size=length, by=call.token["token"], ticket=secrets.token_urlsafe(24))
    call.state.put("file", file["id"], file)
    return {"upload_url": f"{call.slack.base}/upload/v1/{file['ticket']}", "file_id": file["id"]}


async def upload(slack, request):
    """The second step: the bytes, as they are or in a form."""
    ticket = request.match_info["ticket"]
    file = next((one for one in slack.state.tables["file"].values() if one.get("ticket") == ticket), None)
    if not file or file["state"] != "announced":
        return web.Response(status=404, text="upload_ticket_not_found")
    if request.content_type == "multipart/form-data":
        form = await request.post()
        part = next((one for one in form.values() if hasattr(one, "file")), None)
        data = part.file.read() if part else b""
    else:
        data = await request.read()
    if len(data) != file["size"]:
        return web.Response(status=400, text="length does not match")
    file.update(state="uploaded", content=base64.b64encode(data).decode())
    slack.state.put("file", file["id"], file)
    return web.Response(text=f"OK - {len(data)}")


@method("files.completeUploadExternal", 4, ["files:write"],
        args="files channel_id channels initial_comment thread_ts blocks")  # fmt: skip
def complete_upload(call):
    listed = call.structure("files", "invalid_arguments")
    if not isinstance(listed, list) or not listed:
        raise SlackError("invalid_arguments", response_metadata={"messages": ["[ERROR] missing required field: files"]})
    files = [call.state.get("file", str(one.get("id"))) for one in listed if isinstance(one, dict)]
    if len(files) != len(listed) or any(not one or one["state"] != "uploaded" or one.get("by") != call.token["token"] for one in files):
        raise SlackError("file_not_found")
    names = [one for one in [call.text("channel_id"), *call.text("channels").split(",")] if one]
    channels = []
    for name in names:
        channel = call.state.get("channel", name)
        if not channel or channel["team"] != call.team:
            raise SlackError("invalid_channel" if call.text("channel_id") else "channel_not_found")
        if call.user not in channel["members"]:
            raise SlackError("not_in_channel")
        channels.append(channel)
    thread = thread_of(call)
    for file, given in zip(files, listed, strict=True):
        file.update(title=given.get("title") or file["name"], state="complete")
        call.state.put("file", file["id"], file)
    for channel in channels:
        body = {"type": "message", **author(call), "text": stored(call.text("initial_comment"))}
        share(call.slack, channel, files, body, thread, {"text": call.text("initial_comment")})
    # The answer does not name the message.
    return {"files": [render(call.slack, file) for file in files]}


@method("files.info", 4, ["files:read"], reads_json=False, args="file cursor limit count page")
def file_info(call):
    file = call.state.get("file", call.text("file", needed=True))
    if not file or file["team"] != call.team or file["state"] == "announced":
        raise SlackError("file_not_found")
    return {"file": {**render(call.slack, file), "shares": file["shares"]}}


async def download(slack, request):
    """A file's bytes. Without a token that may read files there is a page to sign in, with status 200 in the end."""
    file = slack.state.get("file", request.match_info["place"].partition("-")[2])
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = slack.state.get("token", given.strip()) if scheme.lower() == "bearer" else None
    if not token or token["fault"] or "files:read" not in token["scopes"] or (file and file["team"] != token["team"]):
        raise web.HTTPFound(f"{slack.base}/?redir={request.path}")
    if not file:
        return web.Response(status=404, text="file_not_found")
    headers = {"Content-Disposition": f'attachment; filename="{file["id"]}"'}
    if file.get("length"):
        return await stream(request, file, headers)
    return web.Response(body=base64.b64decode(file["content"]), content_type=file["mimetype"], headers=headers)


async def stream(request, file, headers):
    """A large file, of which only the length is kept."""
    response = web.StreamResponse(headers={**headers, "Content-Type": file["mimetype"], "Content-Length": str(file["length"])})
    await response.prepare(request)
    rest = file["length"]
    # Whoever finds it too large hangs up in the middle.
    with contextlib.suppress(ConnectionResetError):
        while rest > 0:
            await response.write(b"\0" * min(rest, 1 << 16))
            rest -= 1 << 16
        await response.write_eof()
    return response


async def login(_slack, _request):
    return web.Response(text=LOGIN, content_type="text/html")
