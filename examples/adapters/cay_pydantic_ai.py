"""Pydantic AI: a tool that runs Python in a sandbox. Needs cay and pydantic-ai-slim.

With an agent of yours:

    agent = Agent("…", deps_type=Workbench, tools=[run_python])
    async with Workbench.open() as workbench:
        result = await agent.run("…", deps=workbench)

To see it at work, with a stand-in for the model:

    python examples/adapters/cay_pydantic_ai.py
"""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import AsyncIterator

from cay import Sandbox
from pydantic_ai import ModelRetry, RunContext

LONGEST = 20_000  # characters of an answer: more would fill the model's context


@dataclass
class Workbench:
    """A sandbox, and a Python in it that keeps its variables."""

    box: Sandbox
    context: str

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["Workbench"]:
        async with Sandbox.create() as box:
            yield cls(box, (await box.interpreter.create_context("python")).id)


async def run_python(ctx: RunContext[Workbench], code: str) -> str:
    """Runs Python code in a sandbox. Variables and imports stay for the next call.

    Args:
        code: What to run. What it prints, and the value of its last expression, are the answer.
    """
    run = await ctx.deps.box.interpreter.run(code, context=ctx.deps.context, timeout=120)
    if run.error:
        raise ModelRetry(run.error[-LONGEST:])  # it sees its mistake, and may try again
    values = [str(result.data) for result in run.results if result.mime == "text/plain"]
    return "\n".join([run.output, *values])[-LONGEST:]


async def main() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def model(messages: "list[ModelMessage]", info: AgentInfo) -> ModelResponse:
        """A stand-in that decides by what it sees, and makes a mistake first."""
        seen = messages[-1].parts[-1]
        if not isinstance(seen, ToolReturnPart):
            return ModelResponse([ToolCallPart("run_python", {"code": "math.comb(10, 3)"})])
        print("it sees:", seen.content.strip().splitlines()[-1])
        if "NameError" in seen.content:
            return ModelResponse([ToolCallPart("run_python", {"code": "import math\nmath.comb(10, 3)"})])
        return ModelResponse([TextPart(f"There are {seen.content.strip()}.")])

    agent = Agent(FunctionModel(model), deps_type=Workbench, tools=[run_python])
    async with Workbench.open() as workbench:
        result = await agent.run("How many ways are there to choose 3 of 10?", deps=workbench)
    print(result.output)
    assert result.output == "There are 120."


if __name__ == "__main__":
    asyncio.run(main())
