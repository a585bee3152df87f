"""Packages of PyPI, in the venvs of cay_kept.LOCKS."""

import sys

from cay_kept import environment


def python(name):
    """The interpreter of a venv."""
    return environment(name) / "bin" / "python"


def import_from(name):
    """Makes the packages of a venv importable here; returns a function that undoes it."""
    path = str(next((environment(name) / "lib").glob("python3*/site-packages")))
    sys.path.insert(0, path)
    return lambda: sys.path.remove(path)
