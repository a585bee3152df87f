"""The Python SDK in the process of the tests: from its source, with the packages that it needs in a venv that is kept."""

import ast
import asyncio
import inspect
import os
import subprocess
import sys
import textwrap

import pytest

import cay_pypi
from cay_harness import CAY, REPO

SOURCES = [REPO / "sdk" / "python" / "src", REPO / "sdk" / "microsandbox" / "src"]


def python():
    """The interpreter of the venv, and what its environment must have to find the SDK."""
    return cay_pypi.python("sdk-python"), {"PYTHONPATH": ":".join(map(str, SOURCES)), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="session")
def importable():
    """`import cay` and `import microsandbox` work."""
    undo = cay_pypi.import_from("sdk-python")
    sys.path[:0] = map(str, SOURCES)
    yield
    undo()
    for source in SOURCES:
        sys.path.remove(str(source))


class Sdk:
    """Code that uses one daemon."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.env = {"CAY_HOST": f"unix:{daemon.socket_path}"}

    def run(self, function, *args):
        """A coroutine function to its end."""
        return asyncio.run(_closing(function(*args)))

    def printed(self, text, **names):
        """Code as a page prints it, with await wherever it likes; gives the names that it has at its end."""
        code = compile(textwrap.dedent(text), "printed", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):
            asyncio.run(_closing(result))
        return names

    def script(self, text, *args, **popen):
        """Code as a process of its own."""
        program, env = python()
        return subprocess.Popen([program, "-c", textwrap.dedent(text), *args], text=True, stdout=subprocess.PIPE,
                                env={**os.environ, **env, **self.env, "CAY_BIN": CAY, "LC_ALL": "C.UTF-8"}, **popen)


async def _closing(coroutine):
    """No connection stays open."""
    from cay import default_client

    try:
        return await coroutine
    finally:
        await default_client().aclose()


def of(daemon, monkeypatch):
    """Clients that nobody gave an address use this daemon."""
    for name in ("CAY_URL", "CAY_AUTH_TOKEN", "CAY_TOKEN", "III_SANDBOX_URL", "III_AUTH_TOKEN", "CAY_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    sdk = Sdk(daemon)
    for name, value in sdk.env.items():
        monkeypatch.setenv(name, value)
    return sdk
