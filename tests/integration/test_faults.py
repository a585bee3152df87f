"""Every step of a launch fails once: create says which, and nothing is left behind."""

import pathlib
import re

import pytest

from cay_harness import Daemon

pytestmark = pytest.mark.full

BOX_C = pathlib.Path(__file__).parents[2] / "src/launch/box.c"


# What a launch has to do, in its order. Kept here by hand: a step that is lost from the program fails this test, and so does
# one that nobody has thought about here.
STEPS = [
    "join the cgroups",
    "close standard descriptors",
    "close other descriptors",
    "open the stage",
    "set the hostname",
    "open the counters of memory",
    "make /proc",
    "wait for ids",
    "make the commands' user namespace",
    "become root of the box",
    "unshare the cgroup namespace",
    "leave the host's mounts",
    "mount /proc",
    "mount /sys",
    "make files of limits",
    "choose a cpu",
    "make /sys read-only",
    "mount /sys/fs/cgroup",
    "show files of limits",
    "mount /dev",
    "mask kernel files",
    "set sysctls",
    "make /proc read-only",
    "join a new keyring",
    "set rlimits",
    "bound capabilities",
    "wait for the start",
    "choose cpus",
    "tell the limits",
    "attach the root filesystem",
    "bind the host's folders",
    "show /etc/hosts",
    "show /etc/resolv.conf",
    "move /proc, /sys and /dev",
    "limit /dev/shm",
    "mount volumes",
    "enter the root filesystem",
    "limit the size of files",
    "drop capabilities",
    "set no_new_privs",
    "arrange descriptors",
    "load the seccomp filter",
]
# And what the launcher does for it.
BESIDE = ["make a network namespace", "raise the loopback interface", "make /sys", "make /dev", "equip"]


def test_the_steps_are_those_of_the_program():
    assert re.findall(r'\{"([^"]+)", \w+\}', BOX_C.read_text()) == STEPS


# A child that fails to wait has nobody to tell: that it is gone is all that is known.
@pytest.mark.parametrize("step", [s for s in STEPS if s != "wait for the start"] + BESIDE)
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
