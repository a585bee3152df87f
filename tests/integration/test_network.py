"""Sandboxes with networks, from the outside: what a create, PUT, stop, start, restore, clone and a killed daemon make of
a policy. What policies themselves mean, and what gets through, is tests/security/test_network_*.py."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cay_harness import CAY, cay, cli_environment, read_events, wait_until
from cay_oci import busybox_entries, layer, symlink, text
from cay_world import needs_network
from test_replace import replace
from test_state_faults import disk_full

pytestmark = [pytest.mark.core, needs_network]

ALLOWED, ADDRESS, EVIL = "allowed.test", "93.184.10.10", "66.66.66.66"
ONLY = {"rules": [{"action": "allow", "destination": ADDRESS, "protocol": "tcp"}]}

# Says "yes" when a TCP connection comes about, else the error's name.
DIAL = """import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()
    print("yes")
except OSError as e:
    print(type(e).__name__)"""


def dial(api, id, host=ADDRESS, port=9000, patience=20):
    """An address that the policy refuses refuses at once, so a long patience costs time only where nothing answers."""
    return api.sh(id, ["python3", "-c", DIAL, host, str(port), str(patience)], timeout=60).strip()


def reaches(api, id, host=ADDRESS, port=9000, patience=20):
    return dial(api, id, host, port, patience) == "yes"


def sends_nothing(world, api, id):
    """A dial of the allowed address comes to nothing, and no packet of it arrives. Nothing refuses it, so its time passes."""
    before = len(world.arrived(to=ADDRESS))
    return dial(api, id, patience=1) != "yes" and len(world.arrived(to=ADDRESS)) == before


def network(api, id):
    return api.get(f"/sandboxes/{id}/network").ok()


def put(api, id, policy):
    return api.call("PUT", f"/sandboxes/{id}/network", {"network": policy})


def denied(api, id, **query):
    words = "&".join(f"{k}={v}" for k, v in query.items())
    return api.get(f"/sandboxes/{id}/network/log?{words}").ok()


def boxes_in_kernel(daemon):
    """What the crossroads have of sandboxes: links by their alias."""
    pin = daemon.run / "netns"
    if not pin.exists():
        return set()
    links = daemon.world.host.run("nsenter", f"--net={pin}", "ip", "-j", "link", "show", "type", "veth")
    return {link["ifalias"] for link in json.loads(links or "[]") if link.get("ifalias", "").startswith("sbx_")}


# ---- create ----


def test_a_sandbox_without_network_reaches_nothing_and_one_with_it_the_internet(net, net_box):
    none, public = net_box(False), net_box(True)
    assert dial(net, none) == "OSError" and reaches(net, public)
    assert "network" not in net.sandbox(none)["config"] and net.sandbox(public)["config"]["network"] is True
    assert network(net, none)["address"] is None and network(net, none)["network"] is False
    assert network(net, public)["address"].startswith("10.241.")
    assert "nameserver 10.241.0.1" in net.sh(public, "cat /etc/resolv.conf")
    assert reaches(net, public, ALLOWED)


@pytest.mark.parametrize("given", ["public", "packages", "pypi,npm", ONLY, {"profiles": ["pypi"]}])
def test_what_a_create_takes_is_kept_in_one_form(net, net_box, given):
    id = net_box(given)
    kept = net.sandbox(id)["config"]["network"]
    assert kept is True if given == "public" else isinstance(kept, dict)
    assert network(net, id)["network"] == kept
    again = net_box(kept)
    assert net.sandbox(again)["config"]["network"] == kept


def test_a_wrong_policy_is_refused_and_nothing_is_made(net):
    """tests/unit/test_policy.c has the table. What is no policy at all is ignored: test_lifecycle.py."""
    before = net.ids()
    net.try_create(network={"rules": [{"action": "perhaps"}]}).failed(400, "bad_policy", "rules[0]")
    net.try_create(network="pypo").failed(400, "bad_policy", "pypo")
    assert net.ids() == before


PLACES = {"nothing": [], "a file": [text("etc/resolv.conf", "nameserver 8.8.8.8\n")],
          "a link to a file": [symlink("etc/resolv.conf", "mark")],
          "a link to nothing": [symlink("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")]}


@pytest.mark.parametrize("place", PLACES)
def test_a_sandbox_has_its_resolv_conf_and_the_image_keeps_its_own(net, tmp_path, place):
    (tmp_path / "root.tar").write_bytes(layer(*busybox_entries(), *PLACES[place]))
    net.post("/images/import", {"path": str(tmp_path / "root.tar"), "name": "resolv:1"}).ok()
    id = net.create("resolv:1")["id"]
    try:
        assert "nameserver 10.241.0.1\n" in net.sh(id, "cat /etc/resolv.conf")
        assert net.sh(id, "cat /etc/mark; test ! -e /run/systemd") == "of the image\n", "no link was followed"
        put(net, id, True).ok()
        assert "nameserver 10.241.0.1\n" in net.sh(id, "cat /etc/resolv.conf")
        net.sh(id, "echo 'nameserver 10.241.0.1' >/etc/resolv.conf; echo 'options attempts:1' >>/etc/resolv.conf")
        net.post(f"/sandboxes/{id}/commit", {"name": "resolv:2"}).ok()
        other = net.create("resolv:2", entrypoint=["/bin/sleep", "1000"])["id"]
        assert "attempts" not in net.sh(other, "cat /etc/resolv.conf"), "it is no part of the image"
        net.remove(other)
        saved = net.get("/images/resolv%3A2/export")
        assert saved.status == 200 and b"10.241.0.1" not in saved.body
    finally:
        net.remove(id)
        for name in ("resolv%3A1", "resolv%3A2"):
            wait_until(lambda name=name: net.delete(f"/images/{name}").status in (200, 404), 60, "the image to go")


def test_a_machine_without_networks_says_what_is_missing(online_of):
    own = online_of(env={"CAY_NETWORK": "false"}).start()
    with own.api() as api:
        api.try_create(network=True).failed(501, "network_unsupported", "CAY_NETWORK")
        id = api.create()["id"]
        put(api, id, True).failed(501, "network_unsupported")
        assert api.ids() == [id] and "network" not in api.sandbox(id)["config"]


# ---- change ----


def test_a_policy_is_changed_while_it_runs(net, net_box, world):
    id = net_box(False)
    assert put(net, id, ONLY).ok()["network"]["rules"][0]["destination"] == ADDRESS
    assert reaches(net, id) and not reaches(net, id, EVIL)
    put(net, id, True).ok()
    assert reaches(net, id, EVIL)
    assert put(net, id, False).ok()["address"] is None
    assert sends_nothing(world, net, id) and "network" not in net.sandbox(id)["config"]


def test_an_open_connection_that_is_no_longer_allowed_is_cut(net, net_box, world):
    id = net_box(True)
    job = net.background(id, ["python3", "-c", f"""import socket
s = socket.create_connection(("{EVIL}", 9000), 30)
print("up", flush=True)
try:
    while True:
        s.sendall(b"x"); s.recv(1)
except OSError as e:
    print("cut", flush=True)"""])["id"]
    wait_until(lambda: "up" in net.background_logs(job)["output"], 60, "the connection")
    put(net, id, ONLY).ok()
    net.background_end(job, 60)
    assert "cut" in net.background_logs(job)["output"]


def test_a_policy_is_changed_while_it_is_paused_or_stopped(net, net_box):
    id = net_box(False)
    net.post(f"/sandboxes/{id}/pause").ok()
    put(net, id, ONLY).ok()
    net.post(f"/sandboxes/{id}/resume").ok()
    assert reaches(net, id) and "nameserver" in net.sh(id, "cat /etc/resolv.conf")
    net.post(f"/sandboxes/{id}/stop").ok()
    assert network(net, id)["address"] is None
    put(net, id, True).ok()
    net.post(f"/sandboxes/{id}/start").ok()
    assert reaches(net, id, EVIL)


def test_a_wrong_change_leaves_all_as_it_was(net, net_box):
    id = net_box(ONLY)
    before = network(net, id)["network"]
    put(net, id, {"rules": 1}).failed(400, "bad_policy")
    assert network(net, id)["network"] == before and reaches(net, id) and not reaches(net, id, EVIL)


# ---- explain, log ----


@pytest.mark.needs("program:strace")
def test_a_change_that_cannot_be_stored_leaves_all_as_it_was(online, net, net_box, world):
    id = net_box(ONLY)
    before = network(net, id)["network"]
    with disk_full(online):
        put(net, id, False).failed(503, "no_space")
    assert network(net, id)["network"] == before and reaches(net, id)
    put(net, id, False).ok()
    assert sends_nothing(world, net, id)


def test_what_would_happen_is_explained_and_what_happened_is_logged(net, net_box):
    id = net_box(ONLY)
    assert net.get(f"/sandboxes/{id}/network/explain?host={ADDRESS}&port=80").ok()["allowed"]
    said = net.post(f"/sandboxes/{id}/network/explain", {"host": EVIL}).ok()
    assert not said["allowed"] and said["rule"] == -1 and "default" in said["why"] and said["port"] == 443
    assert not reaches(net, id, EVIL, 443)
    log = wait_until(lambda: denied(net, id)["denied"], 60, "the refusal in the log")
    assert log[-1]["address"] == EVIL and log[-1]["port"] == 443 and log[-1]["protocol"] == "tcp" and log[-1]["rule"] == -1
    assert denied(net, id, after=log[-1]["seq"])["denied"] == [] and network(net, id)["denied"] >= 1


def test_refusals_are_followed_as_they_come_until_the_sandbox_goes(online, net, net_box):
    id = net_box(ONLY)
    assert not reaches(net, id, EVIL, 443)
    wait_until(lambda: denied(net, id)["denied"], 60, "the first in the log")
    with net.again(timeout=30) as one, net.again(timeout=30) as other:
        all, new = (read_events(a.start("GET", f"/sandboxes/{id}/stream/network?tail={tail}"))
                    for a, tail in ((one, 10), (other, 0)))
        assert next(all)["port"] == 443
        person = subprocess.Popen([CAY, "net", "log", "-f", id], env=cli_environment(online), stdout=subprocess.PIPE, text=True)
        assert f"{EVIL}:443" in person.stdout.readline()
        wait_until(lambda: not reaches(net, id, EVIL, 444) and denied(net, id)["denied"][-1]["port"] == 444, 60, "another")
        assert next(all)["port"] == next(new)["port"] == 444
        assert f"{EVIL}:444" in person.stdout.readline()
        net.remove(id)
        assert {d["port"] for events in (all, new) for d in events} <= {444}, "the streams have an end"
        person.stdout.read()
        assert person.wait() == 0
    net.get(f"/sandboxes/{id}/stream/network").failed(404)


def test_one_that_is_stopped_or_has_no_network_is_explained_too(net, net_box):
    id = net_box(False)
    said = net.get(f"/sandboxes/{id}/network/explain?host=pypi.org").ok()
    assert not said["allowed"] and "no network" in said["why"]
    put(net, id, "pypi").ok()
    net.post(f"/sandboxes/{id}/stop").ok()
    assert net.get(f"/sandboxes/{id}/network/explain?host=pypi.org").ok()["allowed"]
    assert not net.get(f"/sandboxes/{id}/network/explain?host=evil.test").ok()["allowed"]


def test_a_command_that_was_refused_is_told_why(online, net, net_box):
    id = net_box(ONLY)
    command = f"python3 -c 'import socket; socket.create_connection((\"{EVIL}\", 443), 30)'"

    def hint():
        return net.exec(id, command).get("hint", "")

    said = wait_until(hint, 60, "a hint")
    assert EVIL in said and "443" in said and "default" in said
    told = wait_until(lambda: "network policy refused" in (out := cay(online, "exec", id, command).stderr.decode()) and out, 60)
    assert EVIL in told and "cay net log" in told


def test_the_counters_of_metrics_count(net, net_box):
    id = net_box(True)
    assert reaches(net, id)
    m = net.get(f"/sandboxes/{id}/metrics").ok()
    assert m["networkTxBytes"] > 0 and m["networkRxBytes"] > 0
    shown = network(net, id)
    assert shown["txBytes"] >= m["networkTxBytes"] and shown["rxBytes"] >= m["networkRxBytes"]


# ---- the CLI ----


def test_flags_and_commands_of_people(online, net, net_box):
    done = cay(online, "run", f"--allow={ADDRESS}:9000", "host", "python3", "-c", DIAL, ADDRESS, "9000", "30", check=True)
    assert done.stdout == b"yes\n"
    done = cay(online, "run", "--network", "host", "true")
    assert done.returncode == 2 and b"host.cay.internal" in done.stderr
    done = cay(online, "run", "--network", "none", "host", "true")
    assert done.returncode == 0
    id = net_box(False)
    assert b"none" in cay(online, "net", "show", id, check=True).stdout
    cay(online, "net", "set", "-q", id, "--allow", f"{ADDRESS}:9000", check=True)
    shown = cay(online, "net", "show", id, check=True).stdout
    assert shown.split()[-6:] == [b"0", b"allow", b"egress", ADDRESS.encode(), b"any", b"9000"] and b"\033" not in shown
    assert reaches(net, id)
    assert cay(online, "net", "explain", id, f"{ADDRESS}:9000").returncode == 0
    done = cay(online, "net", "explain", id, EVIL)
    assert done.returncode == 1 and b"refused" in done.stdout
    assert not reaches(net, id, EVIL)
    wait_until(lambda: EVIL.encode() in cay(online, "net", "log", id, check=True).stdout, 60, "the line")
    assert EVIL.encode() in cay(online, "logs", "--network", id, check=True).stdout
    assert b"did you mean pypi" in cay(online, "net", "set", id, "pypo").stderr


# ---- stop, start, snapshots, clones, templates, pool ----


def test_stop_detaches_and_start_attaches(online, net, net_box):
    id = net_box(ONLY)
    assert id in boxes_in_kernel(online)
    net.post(f"/sandboxes/{id}/stop").ok()
    wait_until(lambda: id not in boxes_in_kernel(online), 60, "the link to go")
    assert net.file(id, "list", path="/etc")  # a box for files has no network
    assert id not in boxes_in_kernel(online)
    net.post(f"/sandboxes/{id}/start").ok()
    assert reaches(net, id) and not reaches(net, id, EVIL) and id in boxes_in_kernel(online)


def test_a_restore_and_a_clone_have_the_policy(net, net_box):
    id = net_box(ONLY)
    snapshot = net.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
    clone = net.post(f"/sandboxes/{id}/clone", {}).ok()["id"]
    try:
        assert net.sandbox(clone)["config"]["network"] == net.sandbox(id)["config"]["network"]
        assert reaches(net, clone) and not reaches(net, clone, EVIL)
        assert network(net, clone)["address"] != network(net, id)["address"]
        net.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": snapshot}).ok()
        assert reaches(net, id) and not reaches(net, id, EVIL)
    finally:
        net.remove(clone)
        net.delete(f"/snapshots/{snapshot}").ok()


def test_a_template_and_its_setup_have_a_network(online_of):
    setup = [["python3", "-c", f'import socket; socket.create_connection(("{ADDRESS}", 9000), 25)']]
    own = online_of().start()
    with own.api() as api:
        api.post("/templates", {"name": "with-net", "config": {"image": "host", "network": ONLY, "setup": setup}}).ok()
        id = api.create(None, template="with-net")["id"]
        assert reaches(api, id) and not reaches(api, id, EVIL)
        other = api.create(None, template="with-net", network=False)["id"]
        assert not reaches(api, other)


def test_a_warm_sandbox_is_connected_already(online_of):
    own = online_of(env={"CAY_POOL_SIZE": 0}).start()
    with own.api() as api:
        profile = api.post("/pool/profiles", {"image": "host", "size": 1, "network": ONLY}).ok()["id"]
        wait_until(lambda: api.get("/pool/status").ok()["ready"] == 1, 60, "a warm one")
        id = api.create(network=ONLY)["id"]
        assert reaches(api, id) and not reaches(api, id, EVIL)
        assert api.get("/pool/status").ok()["total"] == 1
        api.delete(f"/pool/profiles/{profile}").ok()
        api.remove(id)
        wait_until(lambda: not boxes_in_kernel(own), 60, "all links to go")


# ---- a daemon or a gateway that ends ----


def test_a_killed_daemon_leaves_networks_as_they_are(online_of):
    own = online_of().start()
    with own.api() as api:
        id, gone = api.create(network=ONLY)["id"], api.create(network=True)["id"]
        assert not reaches(api, id, EVIL)
        wait_until(lambda: denied(api, id)["denied"], 60, "the refusal")
        job = api.background(id, ["python3", "-c", f"""import socket, time
s = socket.create_connection(("{ADDRESS}", 9000), 30)
while True:
    s.sendall(b"x"); print(len(s.recv(1)), flush=True); time.sleep(0.05)"""])["id"]
        wait_until(lambda: api.background_logs(job)["output"], 60, "the connection")
        address = network(api, id)["address"]
    own.kill9()
    own.start()
    with own.api() as api:
        seen = len(api.background_logs(job)["output"])
        wait_until(lambda: len(api.background_logs(job)["output"]) > seen + 10, 60, "the connection to go on")
        wait_until(lambda: network(api, id)["address"] == address, 60, "its address")
        assert not reaches(api, id, EVIL) and denied(api, id)["denied"]
        put(api, id, True).ok()
        assert reaches(api, id, EVIL)
        api.remove(gone)
        wait_until(lambda: boxes_in_kernel(own) == {id}, 60, "its link to go")


def test_what_a_killed_daemon_was_about_to_make_or_remove_is_not_left_attached(online_of):
    own = online_of().start()
    with own.api() as api:
        keeps = api.create(network=True)["id"]
        stop = threading.Event()

        def churn():
            with own.api() as other:
                while not stop.is_set():
                    try:
                        other.delete(f"/sandboxes/{other.create(network=True)['id']}")
                    except (OSError, AssertionError, ValueError):
                        return

        threads = [threading.Thread(target=churn) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(boxes_in_kernel(own)) > 1, 60, "some in the making")
        own.kill9()
        stop.set()
        for thread in threads:
            thread.join()
    own.start()
    with own.api() as api:
        ids = set(api.ids())
        assert keeps in ids
        wait_until(lambda: boxes_in_kernel(own) == ids, 60, "those that are there, and no others")
        assert all(reaches(api, id) for id in ids)


def test_a_successor_takes_over_without_a_cut(online_of, monkeypatch):
    own = online_of().start()
    with own.api() as api:
        id = api.create(network=ONLY)["id"]
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **how: start([*own.within, *argv], **how))
    replace(own)
    monkeypatch.undo()
    with own.api() as api:
        wait_until(lambda: network(api, id)["address"], 60, "its address")
        assert reaches(api, id) and not reaches(api, id, EVIL)


def test_a_gateway_that_is_killed_is_started_again_and_told_everything(online_of):
    own = online_of().start()
    with own.api() as api:
        id = api.create(network=ONLY)["id"]
        before = own.gateway_pids()
        assert before
        for pid in before:
            with contextlib.suppress(ProcessLookupError):  # the worker ends with the warden
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: (now := own.gateway_pids()) and not set(now) & set(before), 60, "another gateway")
        assert wait_until(lambda: reaches(api, id, patience=3), 60, "its network") and not reaches(api, id, EVIL)
        other = api.create(network=True)["id"]
        assert reaches(api, other, EVIL)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_gateway_that_ends_under_a_call_is_replaced_and_there_are_never_two(online_of):
    """The daemon itself kills a gateway that has not answered for 5 s (unit-engine_gateway); here it may be faster than the test."""
    own = online_of().start()
    with own.api(timeout=60) as api, own.api(timeout=60) as waiting, ThreadPoolExecutor(1) as pool:
        id = api.create(network=ONLY)["id"]
        before = wait_until(lambda: len(pids := own.gateway_pids()) > 1 and pids)
        warden, = (pid for pid in before if parent_of(pid) not in before)
        for pid in before:
            os.kill(pid, signal.SIGSTOP)
        try:
            other = pool.submit(waiting.create, network=True)
            wait_until(lambda: own.gateway_has_unread_requests() or warden not in own.gateway_pids(), 60)
            assert not other.done() or warden not in own.gateway_pids()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(warden, signal.SIGKILL)
        other = other.result()["id"]
        assert not set(own.gateway_pids()) & set(before)
        assert reaches(api, other, EVIL)
        assert wait_until(lambda: reaches(api, id, patience=3), 60, "its network") and not reaches(api, id, EVIL)


def test_a_crossroads_that_is_gone_is_made_again_for_those_that_run(online_of):
    own = online_of().start()
    with own.api() as api:
        id = api.create(network=ONLY)["id"]
    own.kill9()
    for pid in own.gateway_pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not own.gateway_pids(), 60, "the end of the gateway")
    own.start()
    with own.api() as api:
        assert wait_until(lambda: network(api, id)["address"] and reaches(api, id, patience=3), 60, "its network")
        assert not reaches(api, id, EVIL)


def test_nothing_is_left_when_all_sandboxes_are_stopped(online_of, world):
    before = world.left_in_host()  # another daemon's
    own = online_of().start()
    with own.api() as api:
        ids = [api.create(network=policy)["id"] for policy in (True, ONLY, "pypi")]
        assert boxes_in_kernel(own) == set(ids) and world.left_in_host() != before
        assert not reaches(api, ids[1], EVIL)
        wait_until(lambda: denied(api, ids[1])["denied"], 60, "the refusal")
        assert (own.data / "netlog" / f"{ids[1]}.jsonl").exists()
        for id in ids:
            api.remove(id)
        wait_until(lambda: not boxes_in_kernel(own), 60, "all links to go")
        wait_until(lambda: not list((own.data / "netlog").iterdir()), 60, "logs of refusals to go")
        last = api.create(network=True)["id"]
        assert reaches(api, last)
    own.stop()
    own.start(["--stop-sandboxes"])
    own.stop()
    wait_until(lambda: world.left_in_host() == before and not own.gateway_pids(), 60, "everything to be taken down")
