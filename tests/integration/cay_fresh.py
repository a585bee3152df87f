"""A Debian that has nothing of this machine's packages, in a folder, and commands that run in it."""

import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cay_harness import REPO
from cay_kept import NotInstalled, debian_entry, is_whole


def needs_debian():
    """Skips with the reason where the package cannot be made."""
    if platform.freedesktop_os_release()["ID"] != "debian":
        pytest.skip("needs Debian: a package is for the Debian that it was made on")


@pytest.fixture(scope="module")
def archive():
    """A folder with the Debian packages that tools/packages has fetched, and a sources.list for them. apt reads it as a user of its own."""
    needs_debian()
    entry = debian_entry()
    if not is_whole(entry):
        raise NotInstalled("the Debian packages for new roots are not there: run tools/packages install test")
    folder = Path(tempfile.mkdtemp(prefix="debian-of-tests-"))
    folder.chmod(0o755)
    shutil.copytree(entry / "debs", folder / "debs")
    (folder / "sources.list").write_text(f"deb [trusted=yes] copy:{folder}/debs ./\n")
    yield folder
    shutil.rmtree(folder)


class Fresh:
    """A root made of the archive's packages, which has them at the same path."""

    def __init__(self, root, archive):
        self.root = root
        made = subprocess.run(["unshare", "--mount", "mmdebstrap", "--quiet", "--mode=root", "--variant=apt",
                               "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=force-unsafe-io", "--skip=cleanup/apt/lists", "--include=mount",
                               platform.freedesktop_os_release()["VERSION_CODENAME"], str(root), str(archive / "sources.list")],
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        shutil.copytree(archive / "debs", Path(f"{root}{archive}/debs"))

    def remove(self):
        shutil.rmtree(self.root)

    def run(self, script, timeout=300):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
                               str(REPO / "tests" / "fresh" / "enter"), str(self.root), script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout
