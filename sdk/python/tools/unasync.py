"""Makes the blocking twin of every module of `cay` that is written for asyncio: src/cay/X.py becomes src/cay/sync/X.py.

    python tools/unasync.py            writes them
    python tools/unasync.py --check    fails when one is not as it would be written

A module has a twin when its first line is the mark below. Twins import one another relatively (`from ._http import Client`) and so
find the other twins; what both share they import absolutely (`from cay.errors import CayError`). What asyncio and threads do in
different ways is in `_aio.py`, which is written by hand on both sides.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

MARK = "# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.\n"
HEAD = "# Made from cay/{name} by tools/unasync.py: change that one.\n"

WORDS = {
    "AsyncContextManager": "ContextManager",
    "AsyncGenerator": "Generator",
    "AsyncHTTPConnection": "HTTPConnection",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "anext": "next",
    "aread": "read",
    "asynccontextmanager": "contextmanager",
    "handle_async_request": "handle_request",
}

RULES = [
    (re.compile(r"\basync (def|with|for)\b"), r"\1"),
    (re.compile(r"\bawait\s+"), ""),
    # What can be awaited or entered is in the twin the value itself.
    (re.compile(r"\b(?:Pending|Awaitable)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]"), r"\1"),
    (re.compile(r"\b(" + "|".join(WORDS) + r")\b"), lambda m: WORDS[m[1]]),
]


def twin(name: str, text: str) -> str:
    """The text of the blocking module."""
    body = text[len(MARK) :]
    for pattern, replacement in RULES:
        body = pattern.sub(replacement, body)
    return HEAD.format(name=name) + body


def main() -> int:
    package = Path(__file__).resolve().parent.parent / "src" / "cay"
    stale = []
    for path in sorted(package.glob("*.py")):
        text = path.read_text()
        if not text.startswith(MARK):
            continue
        target = package / "sync" / path.name
        wanted = twin(path.name, text)
        if target.exists() and target.read_text() == wanted:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            target.write_text(wanted)
    if stale and "--check" in sys.argv:
        print("not as tools/unasync.py makes them: " + ", ".join(stale), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
