"""The crate for Rust as it is here, built in one folder for all tests, and programs of other crates. Their dependencies are in cay_kept.LOCKS."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from cay_kept import LOCKS, REPO, NotInstalled, environment, kept

SDK = REPO / "sdk" / "rust"
TARGET = REPO / "build-check" / "cargo"


def version(text):
    return tuple(int(part) for part in re.search(r"(\d+)\.(\d+)", text).groups())


@functools.lru_cache(maxsize=None)
def compiler():
    """(What the newest cargo says of its version, the environment that has it and its compiler in front.) A machine may have Debian's and a newer
    one."""
    folders = {*os.get_exec_path(), str(Path.home() / ".cargo" / "bin")}
    found = [(subprocess.run([f"{folder}/cargo", "--version"], capture_output=True, text=True).stdout.strip(), folder)
             for folder in folders if os.access(f"{folder}/cargo", os.X_OK)]
    found = [(said, folder) for said, folder in found if said]  # a link of rustup may lead to nothing
    if not found:
        raise NotInstalled("cargo is not installed: run tools/packages install test")
    said, folder = max(found, key=lambda one: version(one[0]))
    return said, {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def lacking(folder=SDK):
    """Why this machine cannot build a crate, or None: Debian 12 has cargo 1.63."""
    wanted = re.search(r'^rust-version = "(.*)"', (folder / "Cargo.toml").read_text(), re.M)[1]
    said, _ = compiler()
    return f"{folder.relative_to(REPO)} needs cargo {wanted}, this is {said}" if version(said) < version(wanted) else None


def surroundings():
    """All builds in one folder, and none with symbols for the next build. Where clippy is there it is the compiler of the crate, which finds what it
    finds without a build of its own; what the crate needs is compiled as ever."""
    _, env = compiler()
    lint = shutil.which("clippy-driver", path=env["PATH"])
    clippy = {"RUSTC_WORKSPACE_WRAPPER": lint, "CLIPPY_ARGS": "-Dwarnings__CLIPPY_HACKERY__"} if lint else {}
    return {**env, "CARGO_TARGET_DIR": str(TARGET), "CARGO_INCREMENTAL": "0", **clippy}


def cargo(*argv, folder=SDK, **env):
    """Runs cargo there, with the crates that are kept and no others; returns its output."""
    name = next(name for name, lock in LOCKS.items() if (REPO / lock).parent == folder)
    command = ["cargo", "--quiet", "--offline", "--locked", *(str(word) for word in argv)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**surroundings(), "CARGO_HOME": str(environment(name)), **env})
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(command)}: {said[-8000:]}"
    return said


def example(name, release=False):
    """The program of one of the crate's examples. All are built at once, as the tests need them too."""
    cargo("build", "--examples", *["--release"] * release)
    return TARGET / ("release" if release else "debug") / "examples" / name


def program(folder, name):
    """The program of another crate, in debug, which stays for the next run: who has made it of the same sources with the same compiler has the same."""
    sources = [folder / "Cargo.lock", folder / "Cargo.toml", *sorted(folder.glob("src/**/*.rs"))]
    env = surroundings()
    rustc = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True, env=env).stdout

    def make(to):
        cargo("build", folder=folder)
        shutil.copy(TARGET / "debug" / name, to)

    what = [rustc, env.get("RUSTC_WORKSPACE_WRAPPER"), os.environ.get("RUSTFLAGS", ""), *(f"{path.relative_to(folder)}:{path.read_text()}" for path in sources)]
    return kept("programs", what, make) / name
