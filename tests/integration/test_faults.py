"""Every step of a launch fails once: create says which, and nothing is left behind."""

import pathlib
import re

import pytest

from cay_harness import Daemon

BOX_C = pathlib.Path(__file__).parents[2] / "src/launch/box.c"


def steps():
    if not BOX_C.exists():
        return []
    return re.findall(r'^    \{"([^"]+)", \w+\},$', BOX_C.read_text(), re.M)


def test_the_steps_are_found():
    if not BOX_C.exists():
        pytest.skip("the sources are not here")
    assert "mount /dev" in steps() and "load the seccomp filter" in steps()


@pytest.mark.parametrize("step", steps() + ["equip"])
def test_a_failed_step_is_named_and_leaves_nothing(step):
    daemon = Daemon("fault", env={"CAY_FAULT": step, "CAY_POOL": 0})
    try:
        daemon.start()
        with daemon.api() as api:
            reply = api.try_create()
            assert reply.status == 500, reply.body
            log = daemon.log()
            assert step in log or step == "equip", log
            assert api.ids() == []
            assert api.get("/health").status == 200
    finally:
        daemon.destroy()
        Daemon.everyone.remove(daemon)
