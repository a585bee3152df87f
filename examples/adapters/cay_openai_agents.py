"""OpenAI Agents: two tools, `run_python` and `run_shell`, that work in a sandbox. Needs cay and openai-agents.

With an agent of yours:

    async with Sandbox.create() as box:
        agent = Agent(name="…", tools=await sandbox_tools(box))
        result = await Runner.run(agent, "…")

To see them at work, with a stand-in for the model:

    python examples/adapters/cay_openai_agents.py
"""

import asyncio
import json
from typing import Any, List

from agents import Tool, function_tool
from cay import Sandbox

LONGEST = 20_000  # characters of an answer: more would fill the model's context


async def sandbox_tools(box: Sandbox) -> List[Tool]:
    """Tools of a sandbox, which the caller made and removes."""
    context = (await box.interpreter.create_context("python")).id

    @function_tool
    async def run_python(code: str) -> str:
        """Runs Python code. Variables and imports stay for the next call. Answers what was printed, the value of the last
        expression, and the traceback of an error."""
        run = await box.interpreter.run(code, context=context, timeout=120)
        values = [str(result.data) for result in run.results if result.mime == "text/plain"]
        return "\n".join([run.output + (run.stderr or ""), *values])[-LONGEST:]

    @function_tool
    async def run_shell(command: str) -> str:
        """Runs a line in the shell, in the same files. Answers its output, and its exit code when that is not 0."""
        output = await box.execute(command, timeout=120)
        end = "" if output.success else f"\n(exit code {output.exit_code})"
        return (output.stdout + output.stderr)[-LONGEST:] + end

    return [run_python, run_shell]


async def main() -> None:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class StandIn(Model):
        """Decides by what it sees, as a model does."""

        def answer(self, items: List[Any]) -> Any:
            seen = [item["output"].strip() for item in items if item.get("type") == "function_call_output"]
            if not seen:
                return self.call(
                    "run_python", code="open('numbers.txt', 'w').writelines(f'{n}\\n' for n in range(1, 101))"
                )
            if len(seen) == 1:
                return self.call("run_shell", command="paste -sd+ numbers.txt | python3 -c 'print(eval(input()))'")
            text = ResponseOutputText(text=f"They add up to {seen[-1]}.", type="output_text", annotations=[])
            return ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")

        def call(self, name: str, **arguments: str) -> ResponseFunctionToolCall:
            print(f"{name}: {next(iter(arguments.values()))}")
            return ResponseFunctionToolCall(
                call_id=f"call-{name}", name=name, arguments=json.dumps(arguments), type="function_call"
            )

        async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
            return ModelResponse([self.answer([] if isinstance(input, str) else input)], Usage(), None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    async with Sandbox.create() as box:
        agent = Agent(name="counter", model=StandIn(), tools=await sandbox_tools(box))
        result = await Runner.run(agent, "Add up 1 to 100.", run_config=RunConfig(tracing_disabled=True))
    print(result.final_output)
    assert result.final_output == "They add up to 5050."


if __name__ == "__main__":
    asyncio.run(main())
