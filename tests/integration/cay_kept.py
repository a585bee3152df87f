"""What tests fetch or build and can use again: in one folder for all clones, where each thing stays as it was made."""

import fcntl
import hashlib
import os
import shutil
from pathlib import Path

ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cay-check"


class Offline(Exception):
    """A registry cannot be reached."""


unreachable = {}  # what this process has found that it cannot have, and why


def kept(kind, what, make):
    """The folder that make(folder) has filled for what: all that its contents depend on, as words. Of several who want it one makes it;
    what was left half made is made anew."""
    folder = ROOT / kind / hashlib.sha256("\0".join(str(word) for word in what).encode()).hexdigest()[:12]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "whole").exists():
            return folder
        if folder in unreachable:
            raise Offline(unreachable[folder])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            make(folder)
        except Offline as why:
            unreachable[folder] = str(why)
            raise
        (folder / "whole").touch()
    return folder
