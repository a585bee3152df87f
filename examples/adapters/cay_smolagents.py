"""smolagents: an executor, so that the code that an agent writes runs in a sandbox. Needs cay and smolagents.

With an agent of yours:

    with CayExecutor() as executor:
        CodeAgent(tools=[], model=model, executor=executor).run("…")

To see it at work, with a stand-in for the model:

    python examples/adapters/cay_smolagents.py
"""

import base64
from io import BytesIO
from typing import Any, List, Optional

import PIL.Image
from cay.sync import Sandbox
from smolagents import AgentError, AgentLogger
from smolagents.local_python_executor import CodeOutput
from smolagents.remote_executors import RemotePythonExecutor


class CayExecutor(RemotePythonExecutor):
    """Runs code in a sandbox of its own, which `options` of Sandbox.create describe. Tools go along as source."""

    def __init__(
        self, additional_imports: Optional[List[str]] = None, logger: Optional[AgentLogger] = None, **options: Any
    ) -> None:
        super().__init__(additional_imports or [], logger or AgentLogger())
        self.box = Sandbox.create(**options)
        try:
            self.context = self.box.interpreter.create_context("python").id
            self.installed_packages = self.install_packages(additional_imports or [])
        except BaseException:
            self.cleanup()
            raise

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        run = self.box.interpreter.run(code, context=self.context)
        if run.exception and run.exception.name == self.FINAL_ANSWER_EXCEPTION:
            return CodeOutput(self._deserialize_final_answer(run.exception.value), run.output, is_final_answer=True)
        if run.error:
            raise AgentError(f"{run.output}\n{run.error}", self.logger)
        value = None
        for result in run.results:
            if result.mime in ("image/png", "image/jpeg"):
                return CodeOutput(
                    PIL.Image.open(BytesIO(base64.b64decode(result.data))), run.output, is_final_answer=False
                )
            if result.main and result.mime == "text/plain":
                value = result.data
        return CodeOutput(value, run.output, is_final_answer=False)

    def install_packages(self, additional_imports: List[str]) -> List[str]:
        if additional_imports:  # with a network: CayExecutor(["pandas"], network=True)
            self.box.interpreter.install(additional_imports)
        return additional_imports

    def cleanup(self) -> None:
        self.box.destroy()

    def __enter__(self) -> "CayExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def main() -> None:
    from smolagents import ChatMessage, CodeAgent, LogLevel, MessageRole, Model, tool

    @tool
    def price(fruit: str) -> float:
        """What a fruit costs.

        Args:
            fruit: Its name.
        """
        return {"apple": 0.5, "melon": 3.0}[fruit]

    class StandIn(Model):
        """Decides by what it sees, and makes a mistake first."""

        def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
            seen = str(messages[-1].content)
            if "KeyError" in seen:
                code = "total = 3 * price('apple') + price('melon')\nprint('total', total)"
            elif "total 4.5" in seen:
                code = "final_answer(total)"  # the variable is still there
            else:
                code = "price('apples')"
            print("it writes:", code.splitlines()[0])
            return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{code}\n</code>")

    quiet = AgentLogger(level=LogLevel.OFF)
    with CayExecutor(logger=quiet) as executor:
        agent = CodeAgent(tools=[price], model=StandIn(), executor=executor, logger=quiet, verbosity_level=LogLevel.OFF)
        answer = agent.run("What do three apples and a melon cost?")
    print("the answer:", answer)
    assert answer == 4.5


if __name__ == "__main__":
    main()
