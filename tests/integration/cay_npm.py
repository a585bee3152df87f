"""The SDK for TypeScript as it is here, built once in build-check for whoever needs it, and packages of npm."""

import fcntl
import functools
import hashlib
import json
import platform
import re
import shutil
import subprocess
from pathlib import Path

from cay_kept import Offline, kept
from cay_pypi import fetched

REPO = Path(__file__).resolve().parents[2]
SDK = REPO / "sdk" / "typescript"
BUILT = REPO / "build-check" / "npm"
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


def installed(package, proof=()):
    """The folder with what a package.json asks for, which stays for the next run."""
    def make(folder):
        (folder / "package.json").write_text(package)
        install(folder, proof=proof)

    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return kept("npm", [platform.machine(), node, *sorted(proof), package], make)


def packages(*words, proof=()):
    """The folder with these packages, each with its exact version as npm writes it: name@1.2.3."""
    wanted = dict(word.rsplit("@", 1) for word in sorted(words))
    return installed(json.dumps({"private": True, "dependencies": wanted}), proof)


def programs(**wanted):
    """The folder of the programs of these packages of npm, each with its exact version."""
    words = (f"{name}@{version}" for name, version in wanted.items())
    return packages(*words, proof=MACHINE_CODE & wanted.keys()) / "node_modules" / ".bin"


@functools.lru_cache(maxsize=None)
def node(at_least=20):
    """A Node that is new enough: the machine's, else that of npm."""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return "node" if int(version[1:].split(".")[0]) >= at_least else programs(node=NODE) / "node"


def sources():
    return sorted(path for path in SDK.rglob("*") if path.is_file() and not NOT_SOURCE & set(path.relative_to(SDK).parts))


def typescript_sdk():
    """The folder of the built SDK: dist/ is the package, out/ its tests, the conformance adapter and the bench. Who has it has a Node for it.
    It stays as long as its sources do; of several who want it one makes it."""
    node()
    digest = hashlib.sha256()
    for path in sources():
        digest.update(str(path.relative_to(SDK)).encode() + b"\0" + path.read_bytes() + b"\0")
    BUILT.mkdir(parents=True, exist_ok=True)
    folder, mark = BUILT / "sdk-typescript", BUILT / "sdk-typescript.whole"
    with open(BUILT / "sdk-typescript.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists() or mark.read_text() != digest.hexdigest():
            mark.unlink(missing_ok=True)
            build_typescript_sdk(folder)
            mark.write_text(digest.hexdigest())
    return folder


def build_typescript_sdk(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path in sources():
        to = folder / path.relative_to(SDK)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    needs = installed((SDK / "package.json").read_text(), proof=["biome"])
    shutil.copytree(needs / "node_modules", folder / "node_modules", symlinks=True)
    run("node", "tools/build.mjs", cwd=folder)
    run("node", "node_modules/typescript/bin/tsc", "-p", "tsconfig.test.json", cwd=folder)
