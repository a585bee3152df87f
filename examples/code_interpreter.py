"""A code interpreter, as assistants have one: cells that share their variables, values, mistakes, and plots as pictures.

    python examples/code_interpreter.py [FOLDER]    # where the pictures go; the current folder if none is named

The sandbox has this machine's own Python, and so its matplotlib (Debian: python3-matplotlib). With another image, and a network to
install from: Sandbox.create(image="python:3.12", network=True), then box.interpreter.install(["matplotlib"]).
"""

import base64
import sys
from pathlib import Path
from typing import List

from cay.sync import Sandbox

CELLS = [
    "import math\nwaves = {n: [math.sin(n * x / 20) for x in range(126)] for n in (1, 2, 3)}\nlen(waves)",
    "print('highest:', round(max(waves[2]), 3))",
    "waves[4]",  # a mistake: code that fails is a result like any other
    """
import matplotlib.pyplot as plt
for n, wave in waves.items():
    plt.plot(wave, label=f"sin {n}x")
plt.legend()
plt.show()
""",
]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    pictures: List[Path] = []
    with Sandbox.create() as box:
        # A context keeps its variables from one run to the next.
        context = box.interpreter.create_context("python")
        for number, code in enumerate(CELLS, 1):
            run = box.interpreter.run(code, context=context.id, timeout=60)
            print(f"[{number}] {run.output.rstrip()}".rstrip())
            if run.exception:
                print(f"    {run.exception.name}: {run.exception.value}, in line {run.exception.line}")
            for result in run.results:
                if result.mime == "image/png":
                    path = folder / f"plot-{len(pictures) + 1}.png"
                    path.write_bytes(base64.b64decode(result.data))
                    pictures.append(path)
                    print("    a picture:", path)
                elif result.mime == "text/plain":
                    print("    a value:", result.data)

    assert len(pictures) == 1 and pictures[0].read_bytes().startswith(b"\x89PNG")


if __name__ == "__main__":
    main()
