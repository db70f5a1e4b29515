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

    assert all(tool.annotations.read_only_hint is not None for tool in tools.values()), tools
    assert tools["flock_channel_read"].annotations.read_only_hint and tools["flock_channel_read"].title
    await check_reading(client, name)

    # Several at once, each with the answer to its own question.
    calls = [client.call_tool("flock_channel_read", {"channelId": f"none{n}"}) for n in range(8)]
    for n, result in enumerate(await asyncio.gather(*calls)):
        assert f"none{n}" in text(result), result
    print(f"{name}: ok")


async def check_reading(client, name):
    """What is read as a resource or a prompt."""
    resources = {str(one.uri): one for one in (await client.list_resources()).resources}
    assert sorted(resources) == ["flock://channel/dev", "flock://vault/wiki/start.md"], resources
    templates = (await client.list_resource_templates()).resource_templates
    assert len(templates) == 4, templates
    channel = (await client.read_resource("flock://channel/dev")).contents[0]
    assert f"by {name}" in channel.text and channel.mime_type == "text/plain", channel
    page = (await client.read_resource("flock://vault/wiki/start.md")).contents[0]
    assert page.text == "# Start\n", page
    for address, code in [
        ("flock://channel/nowhere", -32002),
        ("flock://vault/wiki/none.md", -32002),
        ("test://other", -32002),
        ("flock://vault/wiki/%2e%2e/x", -32602),
    ]:
        try:
            raise AssertionError(await client.read_resource(address))
        except MCPError as error:
            assert error.error.code == code, (address, error)

    prompts = (await client.list_prompts()).prompts
    assert [(one.name, one.description) for one in prompts] == [("deploy", "Release safely")], prompts
    prompt = await client.get_prompt("deploy")
    assert "First run the tests." in prompt.messages[0].content.text, prompt
    try:
        raise AssertionError(await client.get_prompt("none"))
    except MCPError as error:
        assert error.error.code == -32602, error


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
