"""An agent: a model says what to do, a sandbox does it, and the model sees what came of it, until it is content.

    python examples/agent_loop.py

The model here is a stand-in of a few rules, so that this runs without a key. It decides by what it sees, as a real one does: put a
call of your model's API in the place of `model`, with TOOLS as its tools.
"""

from cay.sync import Sandbox

TOOLS = {
    "run": "Runs a line in the shell: {command}",
    "write": "Replaces a file: {path, content}",
    "finish": "The task is done: {answer}",
}

MEDIAN = """def median(numbers):
    numbers.sort()
    return numbers[len(numbers) // 2]
"""
TEST = """import unittest
from median import median


class MedianTest(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(median([3, 1, 2]), 2)

    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

    def test_its_argument_stays_as_it_is(self):
        numbers = [2, 1]
        median(numbers)
        self.assertEqual(numbers, [2, 1])
"""


def model(messages):
    """The stand-in: what a model would answer to these messages, as the name of a tool and what it is given."""
    seen = messages[-1]["content"]
    source = next((m["content"] for m in reversed(messages) if m["content"].startswith("def median")), None)
    if messages[-1]["role"] == "user" or seen == "written":
        return "run", {"command": "python3 -m unittest -q"}
    if "FAILED" in seen and source is None:
        return "run", {"command": "cat median.py"}
    if "numbers.sort()" in seen:  # it changes its argument
        return "write", {"path": "median.py", "content": seen.replace("numbers.sort()", "numbers = sorted(numbers)")}
    if "2.5" in seen and source is not None:  # of an even count the two in the middle count
        fixed = "def median(numbers):\n    half = sorted(numbers)\n    n = len(half)\n    return (half[(n - 1) // 2] + half[n // 2]) / 2\n"
        return "write", {"path": "median.py", "content": fixed}
    if "OK" in seen:
        return "finish", {"answer": "the tests pass"}
    raise RuntimeError(f"the stand-in does not know what to say to {seen!r}")


def use(box, tool, given):
    """Does in the sandbox what the model wants done; the text is what it sees of it."""
    if tool == "write":
        box.filesystem.write(given["path"], given["content"])
        return "written"
    # Whatever it runs, it runs in there, for at most a minute, and a book of output does not fill its context.
    output = box.execute(given["command"], timeout=60)
    return (output.stdout + output.stderr)[-4000:] or f"exit code {output.exit_code}"


def main() -> None:
    messages = [{"role": "user", "content": "The tests of median.py fail. Mend it."}]
    with Sandbox.create() as box:
        box.filesystem.write("median.py", MEDIAN)
        box.filesystem.write("test_median.py", TEST)
        for _ in range(20):  # a model may go round in circles
            tool, given = model(messages)
            print(f"{tool}: {next(iter(given.values())).splitlines()[0]}")
            if tool == "finish":
                break
            messages += [
                {"role": "assistant", "content": f"{tool} {given}"},
                {"role": "tool", "content": use(box, tool, given)},
            ]

        # Do not believe it: look.
        assert box.exec("python3 -m unittest -q").success


if __name__ == "__main__":
    main()
