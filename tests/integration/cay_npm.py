"""The SDK for TypeScript as it is here, built once in build-check for whoever needs it, and programs of npm."""

import fcntl
import functools
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from cay_pypi import Offline, fetched

REPO = Path(__file__).resolve().parents[2]
SDK = REPO / "sdk" / "typescript"
KEPT = REPO / "build-check" / "npm"
# Somebody who looks into TLS on the way, whom npm does not know, keeps it from the registry too.
OFFLINE = re.compile("ENOTFOUND|ECONNREFUSED|ECONNRESET|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|SELF_SIGNED_CERT|UNABLE_TO_|"
                     "EPIPE|EPROTO|E429|E50[0-9]|socket hang up|network timeout")
# It says why it fails, and does not try for minutes.
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")
MACHINE_CODE = {"bun", "deno", "node"}
NOT_SOURCE = {"node_modules", "dist", "out"}
# Where the machine's own is older than what is tried needs: Debian 12 has 18.
NODE = "22.23.3"


def run(*argv, cwd, **how):
    argv = [node(), *argv[1:]] if argv[0] == "node" else argv
    done = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True, **how)
    if done.returncode != 0 and argv[0] == "npm" and OFFLINE.search(done.stdout + done.stderr):
        raise Offline("the registry of npm cannot be reached")
    assert done.returncode == 0, f"{argv}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def install(folder, *words, proof=()):
    """Packages of npm, in a folder that has a package.json. Of those that are optional, as all that have machine code are, npm leaves out
    without a word what it does not get: so the programs of the proof must tell their versions."""
    def ask():
        shutil.rmtree(folder / "node_modules", ignore_errors=True)  # what is there keeps npm from what is not
        done = subprocess.run([*INSTALL, "--no-package-lock", *words], cwd=folder, capture_output=True, text=True)
        for name in proof if done.returncode == 0 else ():
            done = subprocess.run([folder / "node_modules" / ".bin" / name, "--version"], cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                break
        return done

    done = fetched(ask)
    if done.returncode != 0 and OFFLINE.search(done.stdout + done.stderr):
        raise Offline("the registry of npm cannot be reached")
    assert done.returncode == 0, f"{words}: {done.stdout[-4000:]}{done.stderr[-4000:]}"


def kept(name, key, make):
    """A folder that make(folder) fills, which stays as long as the key does; of several who want it one makes it."""
    KEPT.mkdir(parents=True, exist_ok=True)
    folder, mark = KEPT / name, KEPT / f"{name}.whole"
    with open(KEPT / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists() or mark.read_text() != key:
            mark.unlink(missing_ok=True)
            make(folder)
            mark.write_text(key)
    return folder


def programs(**packages):
    """The folder of the programs of these packages of npm, each with its exact version."""
    words = sorted(f"{name}@{version}" for name, version in packages.items())

    def make(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "package.json").write_text('{"private": true}')
        install(folder, *words, proof=MACHINE_CODE & packages.keys())

    return kept("-".join(sorted(packages)), " ".join(words), make) / "node_modules" / ".bin"


@functools.lru_cache(maxsize=None)
def node(at_least=20):
    """A Node that is new enough: the machine's, else that of npm."""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return "node" if int(version[1:].split(".")[0]) >= at_least else programs(node=NODE) / "node"


def sources():
    return sorted(path for path in SDK.rglob("*") if path.is_file() and not NOT_SOURCE & set(path.relative_to(SDK).parts))


def typescript_sdk():
    """The folder of the built SDK: dist/ is the package, out/ its tests, the conformance adapter and the bench. Who has it has a Node for it."""
    node()
    digest = hashlib.sha256()
    for path in sources():
        digest.update(str(path.relative_to(SDK)).encode() + b"\0" + path.read_bytes() + b"\0")

    def make(folder):
        folder.mkdir(exist_ok=True)
        whole, wanted = folder / "node_modules" / ".whole", (SDK / "package.json").read_bytes()
        for old in folder.iterdir():
            if old.name != "node_modules":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        for path in sources():
            to = folder / path.relative_to(SDK)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
        if not whole.exists() or whole.read_bytes() != wanted:
            install(folder, proof=["biome"])
            whole.write_bytes(wanted)
        run("node", "tools/build.mjs", cwd=folder)
        run("node", "node_modules/typescript/bin/tsc", "-p", "tsconfig.test.json", cwd=folder)

    return kept("sdk-typescript", digest.hexdigest(), make)
