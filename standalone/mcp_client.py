"""Checks flock's tools with the official MCP client. Usage: mcp_client.py URL FLOCK, with FLOCK_MCP_TOKEN set.

By HTTP, as the protocol is now and as it was, and by the standard streams of `flock mcp`.
"""

import asyncio
import os
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

url, flock = sys.argv[1:3]
token = os.environ["FLOCK_MCP_TOKEN"]


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


async def check(client, name):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert "flock_channel_post" in tools and "flock_status" in tools, sorted(tools)
    assert "exec" not in tools and "flock_create_agent" not in tools, sorted(tools)
    assert tools["flock_channel_post"].input_schema["type"] == "object"

    posted = await client.call_tool("flock_channel_post", {"channelId": "dev", "message": f"by {name}"})
    assert not posted.is_error, posted
    read = await client.call_tool("flock_channel_read", {"channelId": "dev"})
    assert f"by {name}" in text(read), read

    # What the role does not allow, and what is wrong in a call, is for the model to read.
    denied = await client.call_tool("flock_create_agent", {"agentId": "mole"})
    assert denied.is_error and "belongs to the orchestrator" in text(denied), denied
    wrong = await client.call_tool("flock_channel_read", {"channelId": "nowhere"})
    assert wrong.is_error, wrong
    try:
        await client.call_tool("exec", {"command": "id"})
        raise AssertionError("a tool of the sandbox was called")
    except MCPError as error:
        assert error.error.code == -32602, error

    # Several at once, each with the answer to its own question.
    calls = [client.call_tool("flock_channel_read", {"channelId": f"none{n}"}) for n in range(8)]
    for n, result in enumerate(await asyncio.gather(*calls)):
        assert f"none{n}" in text(result), result
    print(f"{name}: ok")


async def by_http(name, mode, headers):
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            await check(client, name)


async def main():
    ours = {"Authorization": f"Bearer {token}"}
    await by_http("http", "auto", ours)
    await by_http("http-handshake", "legacy", ours)
    try:
        await by_http("wrong", "auto", {"Authorization": "Bearer wrong"})
        raise AssertionError("a wrong token was taken")
    except AssertionError:
        raise
    except BaseException:  # The client has several ways to say it.
        print("wrong token: refused")
    environment = {"FLOCK_MCP_URL": url, "FLOCK_MCP_TOKEN": token}
    server = StdioServerParameters(command=flock, args=["mcp"], env=environment)
    async with Client(server) as client:
        await check(client, "stdio")


asyncio.run(main())
