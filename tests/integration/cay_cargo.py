"""The crate for Rust as it is here, built in one folder for whoever needs it; a second run finds it there. And programs of other crates."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from cay_kept import Offline, kept
from cay_pypi import fetched

REPO = Path(__file__).resolve().parents[2]
SDK = REPO / "sdk" / "rust"
TARGET = REPO / "build-check" / "cargo"
OFFLINE = re.compile("[Cc]ould not resolve host|failed to resolve address|Couldn't connect|spurious network error|download of .* failed"
                     "|Temporary failure in name resolution|Timeout was reached|SSL certificate problem"
                     "|failed to get successful HTTP response|SSL_ERROR_SYSCALL")


# Other words of a registry that did not do what it should.
NOT_GOT = re.compile(OFFLINE.pattern + "|failed to (download|fetch|query)|HTTP response|registry index")


class TooOld(Offline):
    """This machine's cargo is older than the crate says that it needs."""


def is_there():
    return shutil.which("cargo") is not None


def version(text):
    return tuple(int(part) for part in re.search(r"(\d+)\.(\d+)", text).groups())


def check_age():
    """Debian 12 has 1.63, which knows neither the crate nor what it is made of."""
    wanted = re.search(r'^rust-version = "(.*)"', (SDK / "Cargo.toml").read_text(), re.M)[1]
    there = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=True).stdout
    if version(there) < version(wanted):
        raise TooOld(f"sdk/rust needs cargo {wanted}, this is {there.strip()}")


def surroundings():
    """All builds in one folder, and none with symbols for the next build. Where clippy is there it is the compiler of the crate, which finds what it
    finds without a build of its own; what the crate needs is compiled as ever."""
    lint = shutil.which("clippy-driver")
    clippy = {"RUSTC_WORKSPACE_WRAPPER": lint, "CLIPPY_ARGS": "-Dwarnings__CLIPPY_HACKERY__"} if lint else {}
    return {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "CARGO_INCREMENTAL": "0", **clippy}


def cargo(*argv, folder=SDK, **env):
    """Runs cargo there; what it said."""
    command = ["cargo", "--quiet", *(str(word) for word in argv)]

    def ask():
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**surroundings(), **env})

    done = ask()
    if done.returncode != 0 and NOT_GOT.search(done.stderr):
        done = fetched(ask)
    if done.returncode != 0 and OFFLINE.search(done.stderr):
        raise Offline("the registry of cargo cannot be reached")
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(command)}: {said[-8000:]}"
    return said


def example(name, release=False):
    """The program of one of the crate's examples. All are built at once, as the tests need them too."""
    check_age()
    cargo("build", "--locked", "--examples", *["--release"] * release)
    return TARGET / ("release" if release else "debug") / "examples" / name


def program(folder, name):
    """The program of another crate, in debug, which stays for the next run: who has made it of the same sources with the same compiler has the same."""
    sources = [folder / "Cargo.lock", folder / "Cargo.toml", *sorted(folder.glob("src/**/*.rs"))]
    compiler = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout

    def make(to):
        cargo("build", "--locked", folder=folder)
        shutil.copy(TARGET / "debug" / name, to)

    what = [compiler, str(shutil.which("clippy-driver")), os.environ.get("RUSTFLAGS", ""), *(f"{path.relative_to(folder)}:{path.read_text()}" for path in sources)]
    return kept("programs", what, make) / name
