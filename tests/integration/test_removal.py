"""F20: what cannot be taken away now is tried until it can be, and /health says so meanwhile."""

import contextlib
import glob
import subprocess

import pytest

from cay_harness import wait_until

pytestmark = pytest.mark.core


@contextlib.contextmanager
def occupied(id):
    """A process of somebody else in a cgroup of the sandbox, which cannot be removed then."""
    guest = subprocess.Popen(["sleep", "1000"])
    try:
        (*_, procs) = sorted(glob.glob(f"/sys/fs/cgroup/**/{id}/**/cgroup.procs", recursive=True))
        with open(procs, "w") as f:
            f.write(str(guest.pid))
        yield
    finally:
        guest.kill()
        guest.wait()


def problems(api):
    return api.get("/health").ok().get("problems", [])


def test_a_sandbox_that_cannot_be_taken_away_is_told_of_until_it_is_gone(daemon_of):
    own = daemon_of(env={"CAY_AUTH_TOKEN": "secret"}).start()
    with own.api() as api, own.api(token=None) as stranger:
        id, other = api.create()["id"], api.create()["id"]
        with occupied(id):
            api.remove(id)  # its caller does not wait for that
            # Four attempts and more are seen by unit-engine_turns, which sets the time between them.
            wait_until(lambda: [p for p in problems(api) if p["attempts"] >= 2], 30, "health to say so")
            (problem,) = problems(api)
            assert (problem["what"], problem["sandboxId"]) == ("sandbox_not_removed", id)
            assert problem["since"] > 0 and problem["text"]
            (seen,) = problems(stranger)
            assert set(seen) == {"what", "since", "attempts"}
            api.remove(other)  # and others are not held up
            wait_until(lambda: not glob.glob(f"/sys/fs/cgroup/**/{other}", recursive=True), 60, "its end")
        wait_until(lambda: not problems(api), 60, "the problem to be over")
        assert not glob.glob(f"/sys/fs/cgroup/**/{id}", recursive=True)
    assert own.log().count("could not be taken away") < 10
