"""The documented way to an image without any registry: tools/make-image."""

import json
import subprocess

import pytest

from cay_fresh import archive  # noqa: F401
from cay_harness import CAY, REPO, cay
from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = pytest.mark.full


def make_image(daemon, *words, **env):
    done = subprocess.run([REPO / "tools" / "make-image", *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**daemon.environment(), "CAY_BIN": CAY, **env})
    assert done.returncode == 0, done.stderr
    return done


def test_a_debian_image_with_interpreters_has_the_name_that_code_asks_for(images, archive):  # noqa: F811
    """Half a minute: packages are installed. No registry is asked, here or later."""
    make_image(images.daemon, "python:3.12-slim", CAY_APT_SOURCES=str(archive / "sources.list"))
    for words, said in ((["python3", "-c", "print(6 * 7)"], b"42\n"),
                        (["node", "-e", "console.log(6 * 7)"], b"42\n"),
                        (["git", "init", "-q", "/tmp/x"], b"")):
        done = cay(images.daemon, "run", "--pull", "never", "python:3.12-slim", "--", *words)
        assert (done.returncode, done.stdout) == (0, said), done
    with images.box("python", pull="never") as id:  # the preset
        out = images.api.sh(id, "python -c 'import json, ssl, sqlite3; print(json.dumps([1]))'")
        assert json.loads(out) == [1]
        assert images.api.sh(id, "stat -c '%U %a' /etc/shadow /tmp").split() == ["root", "640", "root", "1777"]


def test_a_tiny_image_in_a_second(images):
    make_image(images.daemon, "--busybox", "--cmd", "sh", "tiny:1")
    done = cay(images.daemon, "run", "tiny:1", "--", "echo", "hello")
    assert done.stdout == b"hello\n", done
    assert cay(images.daemon, "run", "-i", "tiny:1", input=b"echo from stdin\n").stdout == b"from stdin\n"
