"""A Debian that has nothing of this machine's packages, in a folder, and commands that run in it."""

import shutil
import subprocess
import urllib.request

import pytest

from cay_harness import REPO
from cay_pypi import fetched

REGISTRY = "http://deb.debian.org/debian"


def suite_of_this_machine():
    """The Debian that this one is; skips with the reason where none can be made."""
    names = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release") if "=" in line)
    if names.get("ID") != "debian":
        pytest.skip("needs Debian: a package is for the Debian that it was made on")
    if subprocess.run(["sh", "-c", "command -v mmdebstrap"], capture_output=True).returncode:
        pytest.skip("needs mmdebstrap")
    try:
        urllib.request.urlopen(f"{REGISTRY}/dists/{names['VERSION_CODENAME']}/InRelease", timeout=10).close()
    except OSError as e:
        pytest.skip(f"Debian's packages cannot be reached: {e}")
    return names["VERSION_CODENAME"]


class Fresh:
    def __init__(self, root, suite, include=()):
        self.root = root
        made = fetched(lambda: self._make(suite, include))
        assert made.returncode == 0, made.stderr

    def _make(self, suite, include):
        shutil.rmtree(self.root, ignore_errors=True)
        return subprocess.run(["unshare", "--mount", "mmdebstrap", "--quiet", "--mode=root", "--variant=apt",
                               "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=force-unsafe-io",
                               "--skip=cleanup/apt/lists",
                               f"--include={','.join(['mount', *include])}", suite, str(self.root), REGISTRY],
                              capture_output=True, text=True)

    def remove(self):
        shutil.rmtree(self.root)

    def run(self, script, timeout=300):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
                               str(REPO / "tests" / "fresh" / "enter"), str(self.root), script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout
