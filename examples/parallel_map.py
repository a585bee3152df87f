"""A parallel map: a function of this file runs over 100 inputs, each in a sandbox of its own.

Run it with

    python examples/parallel_map.py
"""

import asyncio
import inspect
import json
import time
from typing import Any, Callable, Iterable, List

from cay import Sandbox

AT_ONCE = 25  # a daemon has room for 50 sandboxes unless CAY_MAX_SANDBOXES says otherwise


def primes_below(limit):
    """What is to be done. It goes to the sandbox as source, so it must bring along what it needs."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, limit))


async def sandbox_map(function: Callable[[Any], Any], arguments: Iterable[Any]) -> List[Any]:
    """[function(a) for a in arguments], in sandboxes. Arguments and results are whatever JSON can say."""
    name = function.__name__
    code = f"{inspect.getsource(function)}\nimport json, sys\nprint(json.dumps({name}(json.load(sys.stdin))))"
    room = asyncio.Semaphore(AT_ONCE)

    async def call(argument: Any) -> Any:
        async with room, Sandbox.create() as box:
            output = await box.exec("python3", ["-c", code], stdin=json.dumps(argument), timeout=60)
        if not output.success:
            raise RuntimeError(f"{name}({argument!r}): {output.stderr}")
        return json.loads(output.stdout.splitlines()[-1])

    return list(await asyncio.gather(*[call(argument) for argument in arguments]))


async def main() -> None:
    begin = time.monotonic()
    counts = await sandbox_map(primes_below, range(0, 1000, 10))
    print(f"{len(counts)} sandboxes in {time.monotonic() - begin:.1f} seconds")
    print("primes below 10, 100 and 990:", counts[1], counts[10], counts[99])
    assert counts == [primes_below(limit) for limit in range(0, 1000, 10)]


if __name__ == "__main__":
    asyncio.run(main())
