"""MCP from Python: the official package `mcp` (pip install mcp) talks to `cay mcp`, as assistants and editors do.

    python examples/mcp_client.py

`cay mcp` uses the daemon that is running, or one of its own. Over HTTP it is Client("http://localhost:3111/mcp").
"""

import asyncio
import os

from mcp import Client, StdioServerParameters

# `core` are the ten tools that most work needs, of 39. The program is started with few variables, so those of cay are handed on.
CAY = StdioServerParameters(
    command=os.environ.get("CAY_BIN", "cay"),
    args=["mcp", "--tools", "core"],
    env={name: value for name, value in os.environ.items() if name.startswith("CAY_")},
)


async def main() -> None:
    async with Client(CAY) as client:
        tools = (await client.list_tools()).tools
        print("tools:", ", ".join(sorted(tool.name for tool in tools)))

        # Every answer is a text for a model, and the same as data for programs.
        made = await client.call_tool("sandbox_create", {"image": "host"})
        sandbox = made.structured_content["id"]
        try:
            await client.call_tool(
                "sandbox_write_file",
                {"sandboxId": sandbox, "path": "hello.py", "content": "print('hello from', 6 * 7)"},
            )
            ran = await client.call_tool("sandbox_exec", {"sandboxId": sandbox, "command": "python3 hello.py"})
            print("data:", ran.structured_content["stdout"].strip(), "| text:", ran.content[0].text.strip())

            # What fails is an answer, too: a model can read it and do better.
            failed = await client.call_tool("sandbox_read_file", {"sandboxId": sandbox, "path": "nowhere.txt"})
            print("failed:", failed.is_error, failed.content[0].text)
        finally:
            await client.call_tool("sandbox_kill", {"sandboxId": sandbox})


if __name__ == "__main__":
    asyncio.run(main())
