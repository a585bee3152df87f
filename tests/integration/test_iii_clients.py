"""The iii endpoint with the genuine SDKs of npm, PyPI and crates.io, each at an exact version."""

import pytest

from cay_harness import wait_until
from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import CLIENTS, FAMILIES, NEWEST, Relay, program_of

pytestmark = pytest.mark.full

MIB = 1 << 20
REATTACHES = ("node-0.22.1", "python-0.25.0", "rust-0.25.0")  # the others do not know it


def steps():
    return [line for line in (CLIENTS / "steps.txt").read_text().splitlines() if line and line[0] != "#"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_step(served, family):
    """Two clients in one program: functions, all of sandbox::*, and channels, whose 64 MiB one version of each language moves."""
    with program_of(family, served.iii_url, "steps", III_SIZE=str(64 * MIB if family in NEWEST else MIB)) as program:
        said = program.ends()
    assert [line.removeprefix("ok ") for line in said if line.startswith("ok ")] == steps(), program.trouble("steps are missing")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_daemon_that_is_started_again(iii_of, wire_of, family):
    """The client is there again by itself, with its functions; sandboxes are as they were; what was under way has failed."""
    daemon = iii_of().start()
    with program_of(family, daemon.iii_url, "stay") as program:
        program.until("here")
        program.tell("create")
        id = program.until("created")
        program.tell(f"exec {id} sleep 1000")
        with daemon.api() as api:
            wait_until(lambda: sleepers(api), what="the command under way")
        daemon.apis.remove(api)
        daemon.kill9()
        daemon.start()
        program.tell("list")
        assert program.until("listed").split() == [id]
        echoes(wire_of(daemon), family)
        daemon.stop()
        daemon.start()
        echoes(wire_of(daemon), family)
        program.tell("list")
        assert program.until("listed").split() == [id]
        program.tell("leave")
        assert "begun failed" in program.ends()


def sleepers(api):
    return [p for id in api.ids() for p in api.processes(id) if "sleep 1000" in p["command"]]


def echoes(wire, family):
    """Its function answers: asked by another client, until it is back."""
    wire.announce()
    wait_until(lambda: any(f["function_id"] == "cay.test::echo" for f in wire.call("engine::functions::list")["functions"]),
               what=f"the function of {family}")
    assert wire.call("cay.test::echo", {"word": "again"})["word"] == "again"


@pytest.mark.parametrize("family", REATTACHES)
def test_reattach_takes_the_place_of_a_connection_that_is_only_half_gone(served, wire, family):
    """The daemon has not heard that the old connection is lost: without the token it would keep name and functions."""
    with Relay(served.iii_port) as relay, program_of(family, relay.url, "stay") as program:
        program.until("here")
        before = worker_id(wire)
        relay.lose_clients()
        wait_until(lambda: worker_id(wire) not in (None, before), 60, "the new connection")
        echoes(wire, family)
        program.tell("list")
        program.until("listed")
        program.tell("leave")
        program.ends()


def worker_id(wire):
    return next((w["id"] for w in wire.call("engine::workers::list")["workers"] if w["name"] == "cay-test-stay"), None)


def test_clients_of_different_languages_call_one_another(served, wire):
    """What Rust has registered, the others find and call, and so on around."""
    if any(w["name"] == "cay-test-stay" for w in wire.call("engine::workers::list")["workers"]):
        wait_until(lambda: worker_id(wire) is None, what="the end of the client before")
    for family in NEWEST:
        with program_of(family, served.iii_url, "stay") as program:
            program.until("here")
            assert wire.call("cay.test::echo", {"word": family}) == {"word": family, "from": family.split("-")[0 if "rust" in family else 1]}
            program.tell("leave")
            program.ends()
        wait_until(lambda: wire.refused("cay.test::echo", {}).code == "function_not_found" if worker_id(wire) is None else False,
                   what="that its function goes with it")


def test_a_token_is_wanted(iii_of):
    """In the header that SDKs send; without it they are told nothing and try again."""
    daemon = iii_of(env={"CAY_AUTH_TOKEN": "secret-of-the-tests"}).start()
    with program_of("python-0.25.0", daemon.iii_url, "stay", III_TOKEN="secret-of-the-tests") as program:
        program.until("here")
        program.tell("list")
        assert program.until("listed") == ""
        program.tell("leave")
        program.ends()
    with program_of("rust-0.25.0", daemon.iii_url, "steps", III_TOKEN="secret-of-the-tests") as program:
        assert "ok download" in program.ends()
