"""What the official client for Python makes of the daemon: `python client.py MODE TRANSPORT TARGET SANDBOX`."""

import asyncio
import json
import os
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

MODE, TRANSPORT, TARGET, SANDBOX = sys.argv[1:]
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def server():
    if TRANSPORT == "stdio":
        return stdio_client(StdioServerParameters(command=TARGET, args=["mcp"], env=dict(os.environ)))
    return TARGET


async def processes(client):
    return (await client.call_tool("sandbox_process_list", {"sandboxId": SANDBOX})).content[0].text


async def main():
    async with Client(server(), mode=MODE) as client:
        assert client.protocol_version == VERSIONS[MODE]
        assert len((await client.list_tools()).tools) == 39
        said = await client.call_tool("sandbox_exec", {"sandboxId": SANDBOX, "command": "echo hello"})
        assert said.content[0].text == "hello\n" and said.structured_content["exitCode"] == 0
        heard = []

        async def on_progress(progress, total, message):
            heard.append(progress)

        await client.call_tool("sandbox_exec", {"sandboxId": SANDBOX, "command": "sleep 2.5"}, progress_callback=on_progress)
        assert heard
        contents = (await client.read_resource(f"sandbox://{SANDBOX}")).contents
        assert json.loads(contents[0].text)["id"] == SANDBOX
        assert (await client.list_prompts()).prompts
        started = asyncio.Event()

        async def on_started(*_):
            started.set()

        call = asyncio.create_task(client.call_tool("sandbox_exec", {"sandboxId": SANDBOX, "command": "sleep 54321"},
                                                    progress_callback=on_started))
        await started.wait()
        call.cancel()
        while "54321" in await processes(client):
            pass
    print("ok")


asyncio.run(main())
