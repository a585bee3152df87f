"""Packages that tests take from PyPI: a venv that has one, or a skip where PyPI cannot be reached."""

import importlib.util
import os
import platform
import re
import subprocess
import sys
import time

import pytest

from cay_kept import Offline, kept

OFFLINE = re.compile("NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|CERTIFICATE_VERIFY_FAILED|Name or service not known|"
                     "Temporary failure in name resolution|Network is unreachable|Max retries exceeded|Connection (?:aborted|broken|reset)|"
                     "RemoteDisconnected|ProtocolError|IncompleteRead|Read timed out|HTTP error (?:429|5..)|(?:429|5..) (?:Client|Server) Error")

WEBSOCKETS = "websockets==15.0.1"
# What the SDK for Python needs, and what looks at it: one venv for all who use it.
SDK = ("httpx==0.28.1", "httpcore==1.0.9", "pydantic==2.12.5", "hatchling==1.27.0", "mypy==1.18.2", "pytest==8.4.2", "ruff==0.14.0")

TRIES = 3


def fetched(ask):
    """What came of ask(), which gets something from a registry and tells its end by its status: who fails is asked again, for registries
    are somebody else's, and far away."""
    for _ in range(TRIES - 1):
        done = ask()
        if done.returncode == 0:
            return done
        time.sleep(2)
    return ask()


def pip_install(venv, *words):
    pip = fetched(lambda: subprocess.run([venv / "bin" / "pip", "install", "-q", "--retries", "1", "--disable-pip-version-check", *words],
                                         capture_output=True, text=True))
    if pip.returncode != 0 and OFFLINE.search(pip.stderr):
        raise Offline("PyPI cannot be reached")
    assert pip.returncode == 0, pip.stderr


def kept_venv(*packages):
    """The folder of a venv that has the packages, which stays for the next run."""
    def make(venv):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip_install(venv, *packages)

    python = [platform.machine(), os.path.realpath(sys.executable), "%d.%d" % sys.version_info[:2]]
    return kept("venvs", [" ".join([*python, *packages])], make)


def venv_with(folder, package):
    """The folder of a new venv that has the package and what it needs."""
    venv = folder / "venv"
    if not importlib.util.find_spec("ensurepip"):
        pytest.skip("needs python3-venv")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    try:
        pip_install(venv, "--no-cache-dir", "--no-compile", package)
    except Offline as why:
        pytest.skip(str(why))
    return venv


def import_from(venv):
    """Its packages can be imported from here on; undone by what this returns."""
    path = str(next((venv / "lib").glob("python3*/site-packages")))
    sys.path.insert(0, path)
    return lambda: sys.path.remove(path)
