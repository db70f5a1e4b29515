"""Runs a server of MCP-GuardBench in its sandbox, and writes down what its tools really did."""

import json
import os
import sys

sys.path.insert(0, "/workspace/packages")

import anyio  # noqa: E402
from guardbench.mcp_lab.base import FixtureLedger  # noqa: E402
from guardbench.mcp_lab.fixtures import create_fixture  # noqa: E402
from mcp.server.stdio import stdio_server  # noqa: E402

in_memory = FixtureLedger.record


def record(self, kind, tool, *arguments, **named):
    in_memory(self, kind, tool, *arguments, **named)
    entry = self.entries[-1]
    with open("/workspace/ledger", "a") as file:
        file.write(json.dumps({"kind": str(entry.kind), "tool": entry.tool, "markers": entry.markers}) + "\n")


async def serve(name):
    fixture = create_fixture(name)
    if os.path.exists("/workspace/advance"):
        fixture.advance_state()
    server = fixture.build_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


FixtureLedger.record = record
anyio.run(serve, sys.argv[1])
