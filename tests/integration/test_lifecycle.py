"""Sandboxes: create, look, list, pause, resume, renew, remove."""

import re
import time

import pytest

from cay_harness import pids, read_text, wait_until

pytestmark = pytest.mark.core


def now_ms():
    return time.time() * 1000


def test_a_new_sandbox_is_the_object_of_the_contract(api, make):
    before = now_ms()
    s = make(name="first", memory=128, cpu=0.5, timeout=120, env={"A": "b"}, metadata={"k": "v"})
    assert re.fullmatch(r"sbx_[0-9a-f]{24}", s["id"])
    assert (s["name"], s["image"], s["status"]) == ("first", "host", "running")
    assert isinstance(s["createdAt"], int) and isinstance(s["expiresAt"], int)
    assert before - 1000 <= s["createdAt"] <= now_ms() + 1000
    assert s["expiresAt"] - s["createdAt"] == 120_000
    assert s["metadata"] == {"k": "v"}
    config = s["config"]
    assert (config["image"], config["memory"], config["cpu"]) == ("host", 128, 0.5)
    assert config["timeout"] == 120 and config["workdir"] == "/workspace"
    assert config["env"]["A"] == "b"
    assert api.sandbox(s["id"]) == s


def test_the_name_defaults_to_the_id(make):
    s = make()
    assert s["name"] == s["id"]


def test_names_need_not_be_unique(make):
    assert make(name="twin")["id"] != make(name="twin")["id"]


def test_numbers_outside_the_range_are_moved_into_it(make):
    """Each end of each range is in tests/unit/test_engine.c and test_ceilings.py."""
    config = make(memory=1, cpu=64, timeout=10**7)["config"]
    assert (config["memory"], config["cpu"], config["timeout"]) == (64, 4, 86400)


def test_null_and_unknown_fields_are_as_if_absent(make):
    s = make(name=None, timeout=None, memory=None, template=None, backend="x", memory_mb=3, **{"--": []})
    assert s["config"]["memory"] == 512 and s["config"]["timeout"] == 3600 and s["config"]["cpu"] == 1


def test_an_unknown_image_is_not_found_and_the_text_says_what_to_do(api):
    said = api.try_create("no-such-image:1", pull="never").failed(404)
    assert "image" in said["error"].lower() and "import" in said["error"]


def test_wrong_input_is_refused_and_makes_nothing(api):
    before = set(api.ids())
    for fields in ({"env": {"A": 5}}, {"metadata": {"a": {}}}, {"entrypoint": [1]}, {"env": {"A=B": "c"}}, {"env": {"": "c"}},
                   {"name": "x" * 256}, {"disk": "1024"}, {"runEntrypoint": "yes"}, {"pull": 1}, {"platform": 7},
                   {"registry_auth": "me"}, {"unique": 1}):
        said = api.try_create(**fields).failed(400)
        assert next(iter(fields)) in said["error"], said
    for body in ({}, {"image": ""}, {"image": None}, {"image": "a$b"}, {"image": "../x"}, {"image": 5}, {"image": ["host"]}):
        api.post("/sandboxes", body).failed(400, text="image")
    assert set(api.ids()) == before


def test_optional_fields_of_another_type_are_ignored_with_a_warning(api, make):
    """Several at once; tests/unit/test_shape.c has the types."""
    for wrong in ({"name": ["x"], "timeout": "300", "memory": 100.5, "cpu": "x", "network": "yes", "env": "A=b", "workdir": 5,
                   "metadata": [], "entrypoint": "sh", "template": 1},
                  {"name": 12345, "timeout": True, "memory": "1024", "network": 1, "env": [], "metadata": "x", "entrypoint": {}},
                  {"timeout": 1.5, "network": []}, {"network": "true"}):
        s = make(**wrong)
        assert s["name"] == s["id"] and s["metadata"] == {} and "entrypoint" not in s
        config = s["config"]
        assert (config["timeout"], config["memory"], config["cpu"]) == (3600, 512, 1)
        assert config["workdir"] == "/workspace" and not config.get("network")
        told = {text.split(" must be ")[0]: text for text in s["warnings"]}
        assert told.keys() == wrong.keys() and len(s["warnings"]) == len(wrong)
        assert all("ignored" in text for text in told.values())
        assert "warnings" not in api.sandbox(s["id"])


def test_what_can_be_used_is_used_without_a_word(make):
    s = make(timeout=300.0, memory=128, name="ok", env={}, metadata={}, entrypoint=None)
    assert s["config"]["timeout"] == 300 and "warnings" not in s


def test_ignored_fields_are_told_in_the_last_event_too(api):
    events = list(api.events("POST", "/sandboxes", {"image": "host", "memory": "1024"}))
    sandbox = events[-1]["sandbox"]
    assert sandbox["warnings"] == ["memory must be a whole number; what was sent is "
                                   "ignored"]
    api.remove(sandbox["id"])


def test_the_list_has_pages(api, make):
    mine = [make(metadata={"set": "pages"})["id"] for _ in range(3)]
    first = api.get("/sandboxes?page=1&pageSize=2").ok()
    assert set(first) == {"items", "total", "page", "pageSize", "nextCursor"}
    assert first["page"] == 1 and first["pageSize"] == 2 and len(first["items"]) == 2
    assert first["total"] >= 3
    assert set(mine) <= set(api.ids())
    assert api.get("/sandboxes?pageSize=0").ok()["pageSize"] == 1
    assert api.get("/sandboxes?pageSize=9999").ok()["pageSize"] == 200
    assert api.get("/sandboxes?page=9999").ok()["items"] == []


def test_a_new_sandbox_is_first_on_the_first_page(api, make):
    mine = [make(metadata={"set": "order"})["id"] for _ in range(21)]
    page = api.get("/sandboxes").ok()
    assert page["pageSize"] == 20 and [s["id"] for s in page["items"]] == mine[:0:-1]
    older = api.get("/sandboxes?page=2").ok()["items"]
    assert older[0]["id"] == mine[0]


@pytest.mark.counts_rows
def test_a_cursor_misses_and_repeats_nothing_while_others_come_and_go(api, make):
    mine = [make(metadata={"set": "cursor"})["id"] for _ in range(9)]
    seen, cursor = [], None
    while cursor or not seen:
        path = "/sandboxes?pageSize=2" + (f"&cursor={cursor}" if cursor else "")
        page = api.get(path).ok()
        seen += [s["id"] for s in page["items"]]
        cursor = page.get("nextCursor")
        make()
        if len(seen) == 4:
            api.remove(seen[-1])  # what was shown goes
    assert [id for id in seen if id in mine] == mine[::-1] and len(seen) == len(set(seen))


def test_a_cursor_that_is_none_is_refused(api):
    for bad in ("0", "-1", "x", "sbx_1", "1.5"):
        api.get(f"/sandboxes?cursor={bad}").failed(400, text="cursor")


@pytest.mark.counts_rows
def test_the_order_and_a_cursor_outlive_the_daemon(own):
    with own.api() as api:
        ids = [api.create()["id"] for _ in range(4)]
        first = api.get("/sandboxes?pageSize=1").ok()
        # Those of one millisecond may change places.
        order = [s["createdAt"] for s in api.get("/sandboxes").ok()["items"]]
        own.kill9()
        own.start()
    with own.api() as api:
        assert [s["createdAt"] for s in api.get("/sandboxes").ok()["items"]] == order
        rest = api.get(f"/sandboxes?cursor={first['nextCursor']}").ok()["items"]
        assert len(rest) >= 2 and ids[0] in [s["id"] for s in rest]
        for id in ids:
            api.remove(id)


def test_a_list_can_be_filtered_by_what_clients_know(api):
    for status in ("creating", "running", "paused", "stopped", "expired"):
        api.get(f"/sandboxes?status={status}").ok()
    for status in ("bogus", "", "Running", "prepared"):
        said = api.get(f"/sandboxes?status={status}").failed(400, text="status")
        assert "creating, running, paused, stopped, expired" in said["error"]


def test_the_list_is_filtered_by_status_and_by_metadata(api, make):
    a = make(metadata={"set": "filter", "n": "1"})["id"]
    b = make(metadata={"set": "filter", "n": "2"})["id"]
    api.post(f"/sandboxes/{b}/pause").ok()
    paused = api.get("/sandboxes?status=paused&pageSize=200").ok()
    assert [s["id"] for s in paused["items"]] == [b] and paused["total"] == 1
    found = api.call("GET", "/sandboxes", {"metadata": {"set": "filter", "n": "1"}}).ok()
    assert [s["id"] for s in found["items"]] == [a] and found["total"] == 1
    api.post(f"/sandboxes/{b}/resume").ok()


def test_a_removed_sandbox_is_gone(api):
    id = api.create()["id"]
    assert api.remove(id) == {"success": True}
    api.get(f"/sandboxes/{id}").failed(404, "sandbox_removed", f"Sandbox not found: {id}")
    api.delete(f"/sandboxes/{id}").failed(404)


def test_pause_stops_the_clock_of_its_processes_and_resume_starts_it(api, box):
    running = api.background(box, "i=0; while :; do i=$((i+1)); echo $i > /tmp/n; sleep 0.01; done")
    wait_until(lambda: api.exec(box, "cat /tmp/n")["stdout"], what="the counter")
    assert api.post(f"/sandboxes/{box}/pause", headers={"Content-Type": "application/json"}).ok()[
        "status"] == "paused"
    assert api.sandbox(box)["status"] == "paused"
    api.try_exec(box, "true").failed(409, text="not running: paused")
    api.file(box, "read", path="n").failed(409, text="not running: paused")
    api.post(f"/sandboxes/{box}/pause").failed(409)
    assert api.post(f"/sandboxes/{box}/resume").ok()["status"] == "running"
    n = int(api.sh(box, "cat /tmp/n") or 0)
    wait_until(lambda: int(api.sh(box, "cat /tmp/n") or 0) > n, what="counting to go on")
    api.post(f"/sandboxes/{box}/resume").failed(409, text="not paused: running")
    assert api.background_status(running["id"])["running"]


def test_a_paused_sandbox_uses_no_cpu(api, box, shared):
    api.background(box, "while :; do :; done")

    def cpu():
        return api.get(f"/sandboxes/{box}/metrics").ok()

    wait_until(lambda: any("while" in p["command"] for p in api.processes(box)))
    api.post(f"/sandboxes/{box}/pause").ok()
    mine = pids_of(box)
    first = ticks(mine)
    for _ in range(50):
        cpu()
    assert ticks(mine) == first
    api.post(f"/sandboxes/{box}/resume").ok()
    wait_until(lambda: ticks(mine) > first, what="cpu time to go on")


def pids_of(box):
    return [int(p) for p in pids() if box in read_text(f"/proc/{p}/cgroup")]


def ticks(some):
    total = 0
    for pid in some:
        stat = read_text(f"/proc/{pid}/stat")
        if stat:
            rest = stat[stat.rindex(")") + 2:].split()
            total += int(rest[11]) + int(rest[12])
    return total


def test_a_paused_sandbox_can_be_removed(api):
    id = api.create()["id"]
    api.post(f"/sandboxes/{id}/pause").ok()
    api.remove(id)
    api.get(f"/sandboxes/{id}").failed(404)


def test_renew_moves_the_end_within_its_bounds(api, box):
    now = now_ms()
    far = api.post(f"/sandboxes/{box}/renew", {"expiresAt": int(now + 7200_000)}).ok()
    assert far["expiresAt"] == int(now + 7200_000)
    assert api.sandbox(box)["expiresAt"] == far["expiresAt"]
    soon = api.post(f"/sandboxes/{box}/renew", {"expiresAt": int(now)}).ok()
    assert now + 59_000 <= soon["expiresAt"] <= now_ms() + 61_000
    late = api.post(f"/sandboxes/{box}/renew", {"expiresAt": int(now + 10**12)}).ok()
    assert late["expiresAt"] <= now_ms() + 86400_000 + 1000
    api.post(f"/sandboxes/{box}/renew", {}).failed(400, text="expiresAt")
    api.post(f"/sandboxes/{box}/renew", {"expiresAt": "soon"}).failed(400)


def test_the_entrypoint_is_the_main_process(api, make):
    s = make(entrypoint=["sh", "-c", "echo from main; exec sleep 1000"])
    assert s["entrypoint"] == ["sh", "-c", "echo from main; exec sleep 1000"]
    wait_until(lambda: any("sleep 1000" in p["command"] for p in api.processes(s["id"])))


def test_the_workdir_is_where_commands_start(api, make):
    assert api.sh(make(workdir="/tmp")["id"], "pwd") == "/tmp\n"


def test_the_environment_of_create_reaches_commands(api, make):
    id = make(env={"GREETING": "hello $HOME ü"})["id"]
    assert api.sh(id, 'printf %s "$GREETING"') == "hello $HOME ü"


def test_the_hostname_is_the_sandbox_s_own(api, make):
    assert api.sh(make()["id"], "hostname").strip() != read_text("/etc/hostname").strip()


def test_only_allowed_images_are_used(daemon_of):
    daemon = daemon_of(env={"CAY_ALLOWED_IMAGES": "python:*, host"}).start()
    with daemon.api() as api:
        api.create("host")
        api.try_create("node:20").failed(403, text="Image not allowed: node:20")
        api.try_create("python:3", pull="never").failed(404)
