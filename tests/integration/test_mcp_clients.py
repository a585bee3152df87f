"""MCP with the official SDKs and the official conformance suite, each at an exact version."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from cay_harness import CAY, REPO, SLOW
from cay_kept import environment
from cay_npm import lacking, node
from cay_pypi import python

pytestmark = pytest.mark.full

HERE = REPO / "tests" / "mcp"


@pytest.fixture(scope="module")
def npm():
    why = lacking(at_least=22)
    if why:
        pytest.skip(why)
    return environment("mcp-node")


def uses(daemon, transport, *argv):
    """Where it is for HTTP is a URL, for stdio a program that finds the daemon by itself."""
    target = CAY if transport == "stdio" else f"http://127.0.0.1:{daemon.port}/mcp"
    env = {**os.environ, "CAY_HOST": f"unix:{daemon.socket_path}", "NO_PROXY": "*", "no_proxy": "*"}
    words = [str(target if word == "TARGET" else word) for word in argv]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=180 * SLOW)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stdout + done.stderr


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_sdk_for_python(shared, box, mode, transport):
    uses(shared, transport, python("mcp-python"), HERE / "client.py", mode, transport, "TARGET", box)


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("sdk", ["one", "two"])
def test_the_sdks_for_typescript(shared, box, npm, sdk, transport):
    uses(shared, transport, node(22), HERE / "client.mjs", npm, sdk, transport, "TARGET", box)


@pytest.mark.needs("built:tests/unit/mcp_conformance_server")
def test_the_conformance_suite(npm):
    program = Path(CAY).parent / "tests" / "unit" / "mcp_conformance_server"
    suite = [node(22), npm / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"]
    with subprocess.Popen([program, HERE / "fixture.json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        done = subprocess.run([*suite, "server", "--url", f"http://localhost:{port}/mcp", "--suite", "all"], capture_output=True,
                              text=True, timeout=240 * SLOW)
        server.stdin.close()
    total = re.search(r"Total: (\d+) passed, (\d+) failed", done.stdout)
    assert done.returncode == 0 and total and int(total[1]) >= 43 and total[2] == "0", done.stdout[-4000:] + done.stderr[-2000:]
