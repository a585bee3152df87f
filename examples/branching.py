"""Branches: prepare once, keep that as a snapshot, try several ways from there at the same time, and go on with the one that works.

Run it with

    python examples/branching.py
"""

import asyncio
from typing import Optional

from cay import Sandbox, Snapshot

PROGRAM = "def roman(n):\n    return 'I' * n\n"
CHECK = "from roman import roman; assert [roman(n) for n in (3, 4, 9, 14)] == ['III', 'IV', 'IX', 'XIV'], roman(4)"

# What an agent came up with. Any of them may break things: each has a sandbox of its own for that.
ATTEMPTS = {
    "delete it": "rm -rf roman.py",
    "replace": "sed -i \"s/'I' \\* n/('I' * n).replace('IIII', 'IV')/\" roman.py",
    "rules": """cat > roman.py <<'END'
def roman(n):
    text = ''
    for value, sign in ((10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):
        text, n = text + sign * (n // value), n % value
    return text
END""",
}


async def attempt(snapshot: Snapshot, name: str, change: str) -> Optional[Sandbox]:
    """A sandbox with the change in it, if it works; one that does not is gone."""
    box = await Sandbox.create(from_snapshot=snapshot.id)
    await box.exec(change)
    checked = await box.exec("python3", ["-c", CHECK])
    print(f"{name}: {'works' if checked.success else checked.stderr.splitlines()[-1]}")
    if checked.success:
        return box
    await box.destroy()
    return None


async def main() -> None:
    async with Sandbox.create() as base:
        # What takes long is done once: clone, install, compile…
        await base.fs.write("roman.py", PROGRAM)
        snapshot = await base.snapshot("prepared")
        try:
            ends = await asyncio.gather(*[attempt(snapshot, name, change) for name, change in ATTEMPTS.items()])
            (best,) = [box for box in ends if box is not None]
            async with best:
                print("kept:", (await best.exec("wc -l < roman.py")).stdout.strip(), "lines")

            # The base did not notice any of that. What is done to it can be undone, too.
            assert await base.fs.read_text("roman.py") == PROGRAM
            await base.exec("rm -rf /workspace/*")
            await base.restore(snapshot.id)
            assert await base.fs.read_text("roman.py") == PROGRAM
            print("the base is as it was")
        finally:
            await Snapshot.remove(snapshot.id)  # snapshots outlive their sandbox


if __name__ == "__main__":
    asyncio.run(main())
