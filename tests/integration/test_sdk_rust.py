"""The crate for Rust: its own tests against a real daemon, its documentation, what it is made from, the package, and the page
that shows it. One folder has all that cargo builds."""

import json
import os
import re
import subprocess
import sys

import pytest

import cay_cargo
from cay_cargo import SDK, cargo
from cay_harness import CAY, REPO

pytestmark = pytest.mark.full


@pytest.fixture(scope="module", autouse=True)
def old_enough():
    why = cay_cargo.lacking()
    if why:
        pytest.skip(why)


def openapi():
    return subprocess.run([CAY, "serve", "--openapi"], capture_output=True, check=True, text=True).stdout


def address(daemon):
    return {"CAY_HOST": f"unix:{daemon.socket_path}"}


def test_what_is_made_from_the_daemons_description_is_as_it_would_be_made_now():
    done = subprocess.run([sys.executable, SDK / "tools" / "generate.py", "--check"], input=openapi(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_operation_has_a_method():
    source = (SDK / "src" / "operations.rs").read_text()
    methods = set(re.findall(r"pub async fn (\w+)\(", source))
    left_out = dict(re.findall(r'^    \("(\w+)", "(\w+)"\),$', source, re.M))
    operations = {operation["operationId"] for path in json.loads(openapi())["paths"].values() for operation in path.values()}
    assert operations == (operations & methods) | left_out.keys()
    assert set(left_out.values()) <= methods


def test_its_own_tests(own):
    """Those that need a daemon, too; what its documentation shows is compiled, and clippy looks at all of it (cay_cargo)."""
    said = cargo("test", "--", "--include-ignored", **address(own))
    assert len(re.findall("test result: ok", said)) >= 4, said


def libraries():
    """What the crate is linked with, as it was built: rustdoc needs no build of its own then."""
    lines = cargo("build", "--message-format=json").splitlines()
    built = [json.loads(line) for line in lines if line.startswith('{"reason":"compiler-artifact"')]
    direct = {name.replace("-", "_") for name in re.findall(r"^([\w-]+) = ", (SDK / "Cargo.toml").read_text().split("[dependencies]")[1], re.M)}
    return {one["target"]["name"]: file for one in built if one["target"]["name"] in direct for file in one["filenames"] if file.endswith(".rlib")}


def test_documentation_is_whole(tmp_path):
    """Nothing public without a word, and no link that leads nowhere."""
    extern = [word for name, file in libraries().items() for word in ("--extern", f"{name}={file}")]
    done = subprocess.run(["rustdoc", SDK / "src" / "lib.rs", "--crate-name", "cay", "--edition", "2021", "-D", "warnings", "-o", tmp_path,
                           "-L", cay_cargo.TARGET / "debug" / "deps", *extern], capture_output=True, text=True,
                          env={**cay_cargo.surroundings(), "CARGO_PKG_VERSION": "0"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cay" / "struct.Sandbox.html").exists()


def test_the_package_is_whole():
    """With what a crate needs and nothing else, under the daemon's version."""
    cargo("package", "--allow-dirty", "--no-verify")
    version = json.loads(openapi())["info"]["version"]
    listed = set(cargo("package", "--allow-dirty", "--list").split())
    assert {"Cargo.toml", "LICENSE", "README.md", "src/lib.rs", "src/types.rs", "examples/quickstart.rs"} <= listed
    assert not [name for name in listed if name.startswith(("target", "tools"))]
    assert (cay_cargo.TARGET / "package" / f"cay-{version}.crate").exists()


def test_what_the_page_shows_runs(own):
    shown, said = re.search(r"```rust\n(.*?)```\n\n```text\n(.*?)```", (REPO / "docs" / "sdk-rust.md").read_text(), re.S).groups()
    assert shown == (SDK / "examples" / "quickstart.rs").read_text()
    program = cay_cargo.example("quickstart")
    done = subprocess.run([program], env={**os.environ, **address(own)}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
