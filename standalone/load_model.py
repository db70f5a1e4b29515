"""A model on loopback for `load.py`: load_model.py FOLDER writes its port to FOLDER/port.

It does what the last user message's first line says:

    giant N      N MiB of text in pieces of 32 KiB
    giantline N  N MiB of text in one piece
    slow N       N pieces, a tenth of a second apart
    cut          two pieces, then the connection ends
    hang         one piece, then nothing until the client goes away
    anything     five pieces at once

At `/responses`, with or without `/v1`, it answers always the same.
"""

import asyncio
import json
import os
import sys

WORDS = ["All", " is", " well", " here", "."]


def piece(text, finish=None):
    delta = {"role": "assistant", "content": text} if text else {}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"


END = piece("", "stop") + b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5}}\n\ndata: [DONE]\n\n'
WELL = b"".join(piece(word) for word in WORDS)


def event(kind, **more):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


SAID = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "All is well.", "annotations": []}]}
BEGINNING = b"".join([
    event("response.created", response={"id": "r", "status": "in_progress"}),
    event("response.output_item.added", output_index=0, item={**SAID, "status": "in_progress", "content": []}),
    event("response.output_text.delta", item_id="m", output_index=0, content_index=0, delta="All is well."),
    event("response.output_item.done", output_index=0, item=SAID),
])


def ending(length):
    """The end of an answer to a request of that many bytes, whose tokens are counted as a model would: one for four bytes."""
    usage = {"input_tokens": length // 4, "output_tokens": 5, "total_tokens": length // 4 + 5}
    response = {"id": "r", "status": "completed", "output": [SAID], "usage": usage}
    return event("response.completed", response=response)


def said(body):
    """The last user message's words."""
    for message in reversed(body.get("messages", [])):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):
                content = next((part["text"] for part in content if part.get("type") == "text"), "")
            return (content or "").split("\n")[0].split() or [""]
    return [""]


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


async def write(writer, data):
    writer.write(chunk(data))
    await writer.drain()


async def answer(reader, writer, words):
    """Answers one request; `False` where the connection is not to be used again."""
    kind, count = words[0], int(words[1]) if len(words) > 1 and words[1].isdigit() else 1
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    if kind == "giant":
        text = piece("word " * (32 * 1024 // 5))
        for _ in range(count * 32):
            await write(writer, text)
    elif kind == "giantline":
        await write(writer, piece("word " * (count * 1024 * 1024 // 5)))
    elif kind == "slow":
        for _ in range(count):
            await write(writer, piece("slowly "))
            await asyncio.sleep(0.1)
    elif kind in ("cut", "hang"):
        await write(writer, piece("half "))
        await write(writer, piece("of it "))
        if kind == "hang":
            await reader.read(1)
        return False
    else:
        writer.write(chunk(WELL))
    await write(writer, END)
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = await reader.readexactly(length)
            if b"/responses " in head.split(b"\r\n")[0]:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                             + chunk(BEGINNING))
                await writer.drain()
                writer.write(chunk(ending(length)) + b"0\r\n\r\n")
                await writer.drain()
                continue
            body = json.loads(body or b"{}")
            if not await answer(reader, writer, said(body)):
                return
    except (OSError, EOFError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()


async def main(folder):
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    with open(f"{folder}/port.new", "w") as file:
        file.write(str(port))
    os.rename(f"{folder}/port.new", f"{folder}/port")
    async with server:
        await server.serve_forever()


asyncio.run(main(sys.argv[1]))
