"""Small clients of our own in three languages, each of which uses every call of the contract and reads the answers into
fixed types: what one of them cannot read, or what has no effect, fails it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import cay_cargo
import cay_npm
from cay_world import AUTHORITY, TRUST, needs_network

CLIENTS = Path(__file__).resolve().parent.parent / "clients"

pytestmark = [pytest.mark.full, needs_network]


def calls():
    return [line for line in (CLIENTS / "calls.txt").read_text().splitlines() if line and line[0] != "#"]


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="cay-test-contract-") as name:
        yield Path(name)


def uses_all(world, daemon, *argv):
    """Run in the daemon's namespace, where its sandboxes find a registry of packages."""
    env = {**os.environ, "CAY_URL": f"http://127.0.0.1:{daemon.port}", "CAY_TEST_ENV": json.dumps(TRUST),
           "CAY_TEST_CA": str(world.authority["ca"]), "CAY_TEST_CA_AT": AUTHORITY, "NO_PROXY": "*", "no_proxy": "*"}
    done = subprocess.run(world.host.argv(*argv), env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(f"ok {name}" for name in calls())


@pytest.fixture
def daemon(online_of):
    return online_of(env={"CAY_ALERT_INTERVAL": "1"}).start()


def test_python(world, daemon):
    uses_all(world, daemon, sys.executable, CLIENTS / "python" / "contract.py")


@pytest.mark.needs("program:node")
def test_typescript(world, daemon, folder):
    here = shutil.copytree(CLIENTS / "typescript", folder / "typescript")
    (here / "node_modules").symlink_to(cay_npm.modules("client-typescript"))
    cay_npm.run(here / "node_modules" / ".bin" / "tsc", cwd=here)
    uses_all(world, daemon, "node", here / "out" / "contract.js")


def test_rust(world, daemon):
    why = cay_cargo.lacking(CLIENTS / "rust")
    if why:
        pytest.skip(why)
    uses_all(world, daemon, cay_cargo.program(CLIENTS / "rust", "cay-contract"))
