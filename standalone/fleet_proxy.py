"""A socket in front of an engine's socket: fleet_proxy.py LISTEN TARGET, told by lines on standard input.

    in       nothing from the engine passes any more, and nobody is told
    out      nothing to the engine does
    both     neither does
    reset    all connections end, and new ones get no answer
    go       everything passes again
"""

import asyncio
import os
import sys

OPEN = set()
PASSES = {"in": asyncio.Event(), "out": asyncio.Event()}


async def pump(reader, writer, way):
    try:
        while data := await reader.read(1 << 16):
            await PASSES[way].wait()
            writer.write(data)
            await writer.drain()
        # A stream that was upgraded ends in one direction first.
        if writer.can_write_eof():
            writer.write_eof()
    except (OSError, EOFError, RuntimeError):
        writer.transport.abort()


async def serve(reader, writer, target):
    OPEN.add(writer)
    other = None
    try:
        await PASSES["out"].wait()
        back, other = await asyncio.open_unix_connection(target)
        OPEN.add(other)
        await asyncio.gather(pump(reader, other, "out"), pump(back, writer, "in"))
    except OSError:
        pass
    finally:
        for one in (writer, other):
            if one is not None:
                OPEN.discard(one)
                one.transport.abort()


def obey():
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    word = line.strip()
    for way, passes in PASSES.items():
        if word in (way, "both", "reset"):
            passes.clear()
        elif word == "go":
            passes.set()
    if word == "reset":
        for one in list(OPEN):
            one.transport.abort()
    print(word, flush=True)


async def main(listen, target):
    for passes in PASSES.values():
        passes.set()
    server = await asyncio.start_unix_server(lambda reader, writer: serve(reader, writer, target), listen)
    asyncio.get_running_loop().add_reader(sys.stdin, obey)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
