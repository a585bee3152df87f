"""What tests need beside this repository, in one folder for all clones: packages, which `tools/packages install test` fetches, and programs built
from sources. An entry that was not used for 14 days is removed."""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cay-check"
PYTHON = "/usr/bin/python3"  # the interpreter of the tests, and of every venv
UNUSED_SECONDS = 14 * 24 * 3600

# Every environment of packages by its lock file: requirements.txt makes a venv, package-lock.json a folder with node_modules,
# Cargo.lock a home of cargo's with the crates.
LOCKS = {
    "sdk-python": "tests/packages/sdk-python/requirements.txt",  # what the SDK needs, and what checks it
    "examples": "tests/packages/examples/requirements.txt",
    "websockets": "tests/packages/websockets/requirements.txt",
    "otlp": "tests/packages/otlp/requirements.txt",
    "openapi-client": "tests/packages/openapi-client/requirements.txt",
    "schemathesis": "tests/packages/schemathesis/requirements.txt",
    "mcp-python": "tests/packages/mcp-python/requirements.txt",
    "mcp-node": "tests/packages/mcp-node/package-lock.json",
    "iii-python-0.11": "tests/packages/iii-python-0.11/requirements.txt",
    "iii-python-0.25": "tests/packages/iii-python-0.25/requirements.txt",
    "iii-node-0.9": "tests/packages/iii-node-0.9/package-lock.json",
    "iii-node-0.11": "tests/packages/iii-node-0.11/package-lock.json",
    "iii-node-0.22": "tests/packages/iii-node-0.22/package-lock.json",
    "iii-rust": "tests/clients/iii/rust/Cargo.lock",
    "sdk-typescript": "sdk/typescript/package-lock.json",
    "sdk-rust": "sdk/rust/Cargo.lock",
    "client-typescript": "tests/clients/typescript/package-lock.json",
    "client-rust": "tests/clients/rust/Cargo.lock",
    "node": "tests/packages/node/package-lock.json",  # for machines with an older one
    "npm-programs": "tests/packages/npm-programs/package-lock.json",  # other runtimes, and a checker of packages
}


class NotInstalled(Exception):
    """An environment is missing in the cache."""


def is_whole(folder):
    """Whether an entry is complete; if so it counts as used now."""
    if not (folder / "whole").exists():
        return False
    with contextlib.suppress(OSError):  # of another user, or removed just now
        os.utime(folder / "whole")
    return (folder / "whole").exists()


def is_same(path, file):
    """Whether path names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked(folder, wait=True):
    """Holds the lock of an entry. Raises BlockingIOError if another process holds it and wait is false."""
    path = folder.with_name(folder.name + ".lock")
    folder.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open(path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if is_same(path, lock):  # remove_unused() removes locks too
                yield
                return


def made(folder, make):
    """The entry, which make(folder) fills unless it is complete. An incomplete entry is made anew."""
    with locked(folder):
        if not is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / "whole").touch()
    return folder


def digest(words):
    return hashlib.sha256("\0".join(str(word) for word in words).encode()).hexdigest()[:12]


def kept(kind, what, make):
    """The folder that make(folder) has filled; `what` lists all that its contents depend on."""
    return made(ROOT / kind / digest(what), make)


def entry_of(name, lock):
    """Where the packages of a lock file are, once they are installed."""
    python = os.path.realpath(PYTHON) if lock.name == "requirements.txt" else ""
    return ROOT / "packages" / f"{name}-{digest([platform.machine(), python, lock.read_text()])}"


def environment(name):
    """The folder of an environment of LOCKS."""
    folder = entry_of(name, REPO / LOCKS[name])
    if not is_whole(folder):
        raise NotInstalled(f"the packages of {LOCKS[name]} are not installed: run tools/packages install test")
    return folder


def debian_packages():
    """Names of the Debian packages that tests install into new roots: those of an image, and what cay needs to run."""
    image = re.search("^include=(.+)$", (REPO / "tools" / "make-image").read_text(), re.M)[1].split(",")
    run = subprocess.run([REPO / "tools" / "packages", "list", "run"], capture_output=True, text=True, check=True).stdout.split()
    return ["apt", "mount", *image, *run]


def debian_entry():
    """Where they are once they are fetched; None if this machine is no Debian. What is built here may need libraries as new as those here."""
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian":
        return None
    names = debian_packages()
    here = subprocess.run(["dpkg-query", "-W", *names], capture_output=True, text=True).stdout
    return ROOT / "packages" / f"debian-{digest([platform.machine(), system['VERSION_CODENAME'], *names, here])}"


def remove_unused():
    """Removes every entry that was not used for 14 days, also those of other versions of this repository."""
    def is_old(folder):
        used = next((path for path in (folder / "whole", folder) if path.exists()), None)
        return used and time.time() - used.stat().st_mtime > UNUSED_SECONDS

    for folder in ROOT.glob("*/*/"):
        with contextlib.suppress(OSError):  # in use, of another user, or removed by another clone just now
            if is_old(folder):
                with locked(folder, wait=False):
                    if is_old(folder):
                        (folder / "whole").unlink(missing_ok=True)  # first: what is left, should the rest fail, is incomplete
                        shutil.rmtree(folder)
                    if not folder.exists():  # removed here, or by another clone before locked() made its lock file anew
                        folder.with_name(folder.name + ".lock").unlink()
