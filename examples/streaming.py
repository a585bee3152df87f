"""Output while it comes, input while it runs, and an end to what takes too long.

Run it with

    python examples/streaming.py
"""

import asyncio
import sys

from cay import ExitedEvent, Sandbox, StderrEvent, Stdin, StdoutEvent


async def follow(box: Sandbox) -> None:
    """What a command does, event by event; data are bytes, as the command wrote them."""
    command = await box.exec_stream("for n in 1 2 3; do echo step $n; done; echo careful >&2; exit 4")
    async for event in command:
        if isinstance(event, StdoutEvent):
            print(event.text, end="")
        elif isinstance(event, StderrEvent):
            print(event.text, end="", file=sys.stderr)
        elif isinstance(event, ExitedEvent):
            print("it ended with", event.code)


async def talk(box: Sandbox) -> None:
    """A program that answers what it is told: `bc`, a REPL, a language server…"""
    program = "import sys\nfor line in sys.stdin: print(eval(line), flush=True)"
    async with await box.exec_stream("python3", ["-c", program], stdin=Stdin.pipe()) as command:
        stdin = command.take_stdin()
        assert stdin is not None  # it is, for who asked for Stdin.pipe()
        for question in (b"6 * 7\n", b"2 ** 64\n"):
            await stdin.write(question)
            async for event in command:
                if isinstance(event, StdoutEvent):
                    print(question.decode().strip(), "=", event.text.strip())
                    break
        await stdin.close()
        print("it ended with", (await command.collect()).exit_code)


async def leave(box: Sandbox) -> None:
    """Who has seen enough leaves the loop: the command is ended in the sandbox, with all that it started."""
    async for chunk in box.exec_stream("n=0; while true; do n=$((n + 1)); echo $n; sleep 0.01; done"):
        if "3" in chunk.data:
            break
    print("seen enough")


async def main() -> None:
    async with Sandbox.create() as box:
        await follow(box)
        await talk(box)
        await leave(box)


if __name__ == "__main__":
    asyncio.run(main())
