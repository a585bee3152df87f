"""LangChain: two tools, `python` and `shell`, that work in a sandbox. Needs cay and langchain-core.

With an agent of LangChain's:

    with Sandbox.create() as box:
        agent = create_agent(model, tools=sandbox_tools(box))

To see them at work, with a stand-in for the model:

    python examples/adapters/cay_langchain.py
"""

from typing import Any, List

from cay.sync import Sandbox
from langchain_core.tools import BaseTool, tool

LONGEST = 20_000  # characters of an answer: more would fill the model's context


def sandbox_tools(box: Sandbox) -> List[BaseTool]:
    """Tools of a sandbox, which the caller made and removes."""
    context = box.interpreter.create_context("python").id

    @tool
    def python(code: str) -> str:
        """Runs Python code. Variables and imports stay for the next call. Answers what was printed, the value of the last
        expression, and the traceback of an error."""
        run = box.interpreter.run(code, context=context, timeout=120)
        values = [str(result.data) for result in run.results if result.mime == "text/plain"]
        return "\n".join([run.output + (run.stderr or ""), *values])[-LONGEST:]

    @tool
    def shell(command: str) -> str:
        """Runs a line in the shell, in the same files. Answers its output, and its exit code when that is not 0."""
        output = box.execute(command, timeout=120)
        end = "" if output.success else f"\n(exit code {output.exit_code})"
        return (output.stdout + output.stderr)[-LONGEST:] + end

    return [python, shell]


def main() -> None:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolCall

    def call(name: str, **arguments: str) -> AIMessage:
        return AIMessage("", tool_calls=[ToolCall(name=name, args=arguments, id=f"call-{name}")])

    model = GenericFakeChatModel(
        messages=iter(
            [
                call(
                    "python", code="squares = [n * n for n in range(10)]\nopen('sum.txt', 'w').write(str(sum(squares)))"
                ),
                call("shell", command="cat sum.txt"),
                AIMessage("The sum of the first ten squares is 285."),
            ]
        )
    )
    with Sandbox.create() as box:
        tools = {each.name: each for each in sandbox_tools(box)}
        messages: List[Any] = [HumanMessage("What is the sum of the first ten squares?")]
        while True:
            answer = model.invoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                break
            for wanted in answer.tool_calls:
                messages.append(tools[wanted["name"]].invoke(wanted))
                print(f"{wanted['name']}: {messages[-1].content.strip()}")
    print(answer.content)
    assert messages[-2].content == "285"


if __name__ == "__main__":
    main()
