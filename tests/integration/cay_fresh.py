"""A Debian that has nothing of this machine's packages, in a folder, and commands that run in it."""

import platform
import shutil
import subprocess

import pytest

from cay_harness import REPO


def needs_debian():
    """Skips with the reason where the package cannot be made."""
    if platform.freedesktop_os_release()["ID"] != "debian":
        pytest.skip("needs Debian: a package is for the Debian that it was made on")


def output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


class Fresh:
    def __init__(self, root, include=()):
        self.root, sources, suite = root, root.with_suffix(".list"), platform.freedesktop_os_release()["VERSION_CODENAME"]
        sources.write_text(output(REPO / "tools" / "apt-sources"))
        proxy = output("apt-config", "dump", "--format", '%F "%v";', "Acquire::http::Proxy")
        made = subprocess.run(["unshare", "--mount", "mmdebstrap", "--quiet", "--mode=root", "--variant=apt",
                               f"--aptopt={proxy}Acquire::Retries \"3\";", "--aptopt=Acquire::Languages \"none\"",
                               "--dpkgopt=force-unsafe-io", "--skip=cleanup/apt/lists", f"--include={','.join(['mount', *include])}",
                               suite, str(root), str(sources)], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr

    def remove(self):
        shutil.rmtree(self.root)

    def run(self, script, timeout=300):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
                               str(REPO / "tests" / "fresh" / "enter"), str(self.root), script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout
