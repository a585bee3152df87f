"""A create with a network that fails at a step of the launcher, or whose daemon is killed, leaves nothing at the
crossroads."""

import contextlib
import os
import re
import signal
import threading

import pytest

from cay_harness import wait_until
from cay_order import commands_of
from cay_space import Space, owned_table
from cay_world import needs_network
from test_faults import STEPS
from test_network import reaches

pytestmark = [pytest.mark.core, needs_network]

# The attach begins with the parked child, so what fails after the START is what may leave something: some of it.
AFTER = STEPS[STEPS.index("wait for the start") + 1:]


def left(daemon):
    return daemon.crossroads() + [path.name for path in (daemon.data / "netlog").iterdir()]


@pytest.mark.parametrize("step", [*AFTER[::3], AFTER[-1], "make a network namespace"])
def test_a_failed_create_leaves_nothing_at_the_crossroads(online_of, step):
    own = online_of(env={"CAY_FAULT": step, "CAY_POOL_SIZE": 0}).start()
    with own.api() as api:
        for _ in range(2):
            assert api.try_create(network=True).status == 500
        assert api.ids() == []
        wait_until(lambda: not left(own), 60, "all of it to go")


def test_what_is_taken_back_while_it_is_made_leaves_nothing(online_of):
    """Callers who hang up, daemons that are killed, at whatever point that is."""
    own = online_of(env={"CAY_POOL_SIZE": 0}).start()
    for _ in range(3):
        stop = threading.Event()

        def churn():
            with own.api() as api:
                while not stop.is_set():
                    try:
                        api.delete(f"/sandboxes/{api.create(network=True)['id']}")
                    except (OSError, AssertionError, ValueError):
                        return

        threads = [threading.Thread(target=churn) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(own.crossroads, 60, "one in the making")
        own.kill9()
        stop.set()
        for thread in threads:
            thread.join()
        own.start()
        with own.api() as api:
            for id in api.ids():
                api.remove(id)
        wait_until(lambda: not left(own), 60, "all of it to go")


def test_a_gateway_that_is_killed_while_boxes_come_and_go_has_only_those_that_are_there(online_of):
    own = online_of(env={"CAY_POOL_SIZE": 0}).start()
    with own.api() as api:
        keeps = api.create(network=True)["id"]
        for _ in range(3):
            for pid in own.gateway_pids():
                os.kill(pid, signal.SIGKILL)
            made = [r.json["id"] for r in (api.try_create(network=True) for _ in range(3)) if r.status == 200]
            for id in made:
                api.remove(id)
        wait_until(lambda: own.crossroads().count("link") == 1 and own.crossroads().count("element of policy4") == 1, 60, "one")
        api.remove(keeps)
        wait_until(lambda: not left(own), 60, "all of it to go")


# ---- a kernel that refuses ----

ADDRESS, EVIL = "93.184.10.10", "66.66.66.66"
ONE = {"default": "deny", "rules": [{"action": "allow", "destination": ADDRESS}]}


@contextlib.contextmanager
def kernel_that_refuses(daemon):
    """The kernel refuses all changes of the rules at the crossroads."""
    with contextlib.ExitStack() as stack:
        with Space.at(daemon.run / "netns") as space:
            space.call(stack.enter_context, owned_table("inet cay"))
        yield


def policies(daemon):
    return daemon.crossroads().count("element of policy4")


def test_a_policy_that_the_kernel_refuses_is_an_error_and_the_one_before_stays(online_of):
    own = online_of(env={"CAY_POOL_SIZE": 0}).start()
    with own.api() as api:
        id, other = api.create(network=True)["id"], api.create(network=ONE)["id"]

        def put(policy):
            return api.call("PUT", f"/sandboxes/{id}/network", {"network": policy})

        with kernel_that_refuses(own):
            for policy in (ONE, "allow-all", {"default": "deny"}):  # the kernel has the rules of the first already
                put(policy).failed(503, "gateway_failed")
                assert api.get(f"/sandboxes/{id}/network").ok()["network"] is True
            api.try_create(network=ONE).failed(503, "gateway_failed")
        wait_until(lambda: policies(own) == 2, what="the rules of both")
        assert api.sandbox(id)["config"]["network"] is True
        assert reaches(api, id, EVIL) and reaches(api, id, ADDRESS)
        assert not reaches(api, other, EVIL)
        put(ONE).ok()
        assert reaches(api, id, ADDRESS) and not reaches(api, id, EVIL)
        for made in (id, other):
            api.remove(made)


def test_a_network_that_the_kernel_refuses_to_join_or_leave_is_an_error(online_of):
    own = online_of(env={"CAY_POOL_SIZE": 0}).start()
    with own.api() as api:
        one, two, three = (api.create(network=ONE)["id"] for _ in range(3))
        network = api.post("/networks", {"name": "refused"}).ok()["id"]

        def change(verb, id):
            return api.post(f"/networks/{network}/{verb}", {"sandboxId": id})

        def peers():
            return own.crossroads().count("element of peers4")

        for id in (one, two):
            change("connect", id).ok()
        assert peers() == 2
        with kernel_that_refuses(own):
            for _ in range(2):
                change("connect", three).failed(503, "gateway_failed")
                change("disconnect", two).failed(503, "gateway_failed")
            assert sorted(api.get(f"/networks/{network}").ok()["sandboxes"]) == sorted([one, two])
        wait_until(lambda: policies(own) == 3 and peers() == 2, what="the rules of all")
        change("connect", three).ok()
        assert peers() == 6
        change("disconnect", two).ok()
        assert peers() == 2
        for id in (one, two, three):
            api.remove(id)
        api.delete(f"/networks/{network}").ok()


# ---- what is refused while nobody listens ----

# The name of the command between two refusals says the last port.
REFUSED = "for port in {1..1000}; do curl -s --max-time 60 http://10.0.0.1:$port/; bash -c \"exec -a after-$port sleep 0.3\"; done"


def test_what_is_refused_while_the_daemon_is_away_is_in_its_log(online_of):
    """The gateway keeps what no daemon hears. A new daemon is in that state for a moment, too: its first create starts the gateway."""
    own = online_of().start()

    def port():
        return max((int(number) for command in commands_of(id).values() for number in re.findall(r"^after-(\d+) ", command)), default=0)

    with own.api() as api:
        id = api.create(network=True)["id"]
        api.background(id, ["bash", "-c", REFUSED])
        wait_until(lambda: api.get(f"/sandboxes/{id}/network/log").ok()["denied"], what="a first line")
    own.kill9()
    before = wait_until(port, what="a command after the end of the daemon")
    after = wait_until(lambda: (now := port()) > before + 1 and now, what="another one")
    own.start()
    with own.api() as api:
        wait_until(lambda: {line["port"] for line in api.get(f"/sandboxes/{id}/network/log").ok()["denied"]} >= set(range(before + 1, after)),
                   what="the lines of what was refused meanwhile")
        api.remove(id)
