"""Names: unique ones, and names in place of ids in the paths of the API."""

import json
import subprocess
import threading
from urllib.parse import quote

import pytest

from cay_harness import CAY

pytestmark = pytest.mark.core


def at_once(n, work):
    """Calls work(i) on n threads that start together; what each gave."""
    barrier = threading.Barrier(n)
    gave = [None] * n

    def one(i):
        barrier.wait()
        gave[i] = work(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return gave


# ---- unique ----


def test_a_unique_name_is_refused_with_the_holder_while_it_is_taken(api, make):
    first = make(name="web", unique=True)
    assert first["name"] == "web"
    said = api.try_create(name="web", unique=True).failed(409, "name_taken", first["id"])
    assert '"web"' in said["error"]
    # Who does not ask for it may share the name, and then nobody can have it alone.
    second = make(name="web")
    api.remove(first["id"])
    api.try_create(name="web", unique=True).failed(409, "name_taken", second["id"])
    api.remove(second["id"])
    make(name="web", unique=True)


def test_unique_false_and_null_are_as_if_absent(make):
    make(name="pair")
    make(name="pair", unique=False)
    make(name="pair", unique=None)


def test_a_unique_name_must_be_one(api):
    for fields, text in (({"unique": True}, "name"), ({"unique": True, "name": ""}, "name"),
                         ({"unique": True, "name": "sbx_web"}, "sbx_"), ({"unique": "yes", "name": "web"}, "unique")):
        api.try_create(**fields).failed(400, text=text)


def test_a_failed_create_leaves_the_name_free(api, make):
    api.try_create("no-such-image:1", name="free", unique=True, pull="never").failed(404)
    api.try_create(name="free", unique=True, entrypoint=["/no/such/program"]).failed(400)
    make(name="free", unique=True)


@pytest.mark.counts_rows
def test_of_fifty_creates_at_once_exactly_one_gets_the_name(shared):
    def create(_):
        with shared.api() as api:
            return api.try_create(name="only", unique=True)

    replies = at_once(50, create)
    won = [r.ok() for r in replies if r.status == 200]
    assert len(won) == 1
    for r in replies:
        if r.status != 200:
            r.failed(409, "name_taken")
    with shared.api() as api:
        assert api.get("/sandboxes/only").ok()["id"] == won[0]["id"]
        api.remove(won[0]["id"])


@pytest.mark.counts_rows
def test_after_kill_9_a_name_is_taken_by_what_is_there_and_by_nothing_else(own):
    for round in range(6):
        taken = set()

        def create(i):
            try:
                with own.api() as api:
                    reply = api.try_create(name=f"n{i % 4}", unique=True)
                    if reply.status == 200:
                        taken.add((reply.json["name"], reply.json["id"]))
            except OSError:
                pass  # the daemon is gone
            except Exception as e:  # noqa: BLE001: a connection that breaks in an answer
                assert "Incomplete" in repr(e) or "Disconnected" in repr(e), e

        threads = [threading.Thread(target=create, args=(i,)) for i in range(16)]
        for t in threads:
            t.start()
        if round % 2:
            threads[0].join()  # another moment for the crash
        own.kill9()
        for t in threads:
            t.join()
        own.start()
        with own.api() as api:
            there = api.get("/sandboxes?pageSize=200").ok()["items"]
            assert len({s["name"] for s in there}) == len(there)
            assert taken <= {(s["name"], s["id"]) for s in there}
            for i in range(4):
                holder = [s["id"] for s in there if s["name"] == f"n{i}"]
                reply = api.try_create(name=f"n{i}", unique=True)
                if holder:
                    reply.failed(409, "name_taken", holder[0])
                else:
                    reply.ok()
                api.delete(f"/sandboxes/n{i}").ok()


@pytest.mark.counts_rows
def test_no_two_have_a_unique_name_after_kill_9_while_it_changes_hands(own):
    """Some remove the holder and others take its name at once: no crash may leave both."""
    for round in range(8):
        seen = threading.Semaphore(0)

        def change_hands(_):
            try:
                with own.api() as api:
                    while True:
                        api.delete("/sandboxes/hot")
                        api.try_create(name="hot", unique=True)
                        seen.release()
            except OSError:
                pass
            except Exception as e:  # noqa: BLE001: a connection that breaks in an answer
                assert "Incomplete" in repr(e) or "Disconnected" in repr(e), e

        threads = [threading.Thread(target=change_hands, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for _ in range(3 + 2 * round):  # each round another moment
            assert seen.acquire(timeout=30)
        own.kill9()
        for t in threads:
            t.join()
        own.start()
        with own.api() as api:
            there = api.get("/sandboxes?pageSize=200").ok()["items"]
            assert len(there) <= 1, there
            if there:
                assert api.get("/sandboxes/hot").ok()["id"] == there[0]["id"]
    with own.api() as api:
        api.delete("/sandboxes/hot")


# ---- in paths ----


def test_a_name_can_stand_for_the_id(api, make):
    id = make(name="box-1", unique=True)["id"]
    assert api.get("/sandboxes/box-1").ok()["id"] == id
    assert api.exec("box-1", "echo hello")["stdout"] == "hello\n"
    api.file("box-1", "write", path="a.txt", content="x").ok()
    assert api.file(id, "read", path="a.txt").ok() == "x"
    assert api.get("/sandboxes/box-1/metrics").ok()["sandboxId"] == id
    running = api.background("box-1", "sleep 1000")
    assert running["sandboxId"] == id and api.background_status(running["id"])["running"]
    assert api.post("/sandboxes/box-1/pause").ok()["status"] == "paused"
    assert api.post("/sandboxes/box-1/resume").ok()["status"] == "running"
    api.delete("/sandboxes/box-1").ok()
    api.get(f"/sandboxes/{id}").failed(404, "sandbox_removed")
    api.get("/sandboxes/box-1").failed(404, "sandbox_removed", "box-1")


def test_a_name_in_a_path_is_percent_encoded(api, make):
    for name in ("my box", "a/b", "50%", "ünï-☃", "a+b", "x?y=z#w", "..."):
        id = make(name=name)["id"]
        assert api.get(f"/sandboxes/{quote(name, safe='')}").ok()["id"] == id
        assert api.exec(quote(name, safe=""), "echo hello")["stdout"] == "hello\n"


def test_a_path_that_is_no_text_is_refused(api):
    for bad in ("%", "%2", "%zz", "%00", "%ff", "%c3%28", "x" * 1025):
        api.get(f"/sandboxes/{bad}").failed(400, text="sandboxId")


def test_a_name_that_several_have_is_refused_with_their_ids(api, make):
    ids = {make(name="twins")["id"] for _ in range(2)}
    said = api.get("/sandboxes/twins").failed(409, "name_ambiguous")
    assert all(id in said["error"] for id in ids)
    api.delete("/sandboxes/twins").failed(409, "name_ambiguous")
    more = [make(name="twins")["id"] for _ in range(4)]
    said = api.get("/sandboxes/twins").failed(409, "name_ambiguous", "6 sandboxes")
    assert "2 more" in said["error"] and said["error"].endswith("use an id or NAME@KEY=VALUE")
    assert more[-1] in said["error"]  # the newest are told
    for id in [*ids, *more[1:]]:
        api.remove(id)
    assert api.get("/sandboxes/twins").ok()["id"] == more[0]


def test_an_entry_of_the_metadata_selects_one_of_those_that_share_a_name(api, make):
    ids = {value: make(name="a=b@c.d", metadata={"k": value})["id"] for value in ("1", "x@y.z", "x@y=z", "")}
    for value, id in ids.items():
        assert api.get(f"/sandboxes/{quote('a=b@c.d@k=' + value, safe='')}").ok()["id"] == id
    other = make(name="other", metadata={"k": "1"})["id"]
    assert api.get("/sandboxes/other@k=1").ok()["id"] == other
    for none in ("other@k=2", "other@K=1", "other@=1", "other@k", "@k=1", "never@k=1"):
        api.get(f"/sandboxes/{none}").failed(404, "sandbox_not_found", none)
    make(name="other", metadata={"k": "1"})
    assert other in api.get("/sandboxes/other@k=1").failed(409, "name_ambiguous", "2 sandboxes")["error"]


def test_a_selector_is_as_long_as_its_parts_can_be(api, make):
    name, key, value = "n" * 255, "k" * 256, "v" * 256
    id = make(name=name, metadata={key: value})["id"]
    word = f"{name}@{key}={value}"
    assert api.get(f"/sandboxes/{word}").ok()["id"] == id
    # tests/unit/test_proxy.c has the addresses of ports.
    assert {e["sandboxId"] for e in api.get(f"/events/history?sandboxId={word}").ok()["events"]} == {id}


def test_what_looks_like_an_id_is_never_a_name(api, make):
    one = make()["id"]
    other = make(name=one)["id"]
    assert api.get(f"/sandboxes/{one}").ok()["id"] == one
    api.remove(one)
    api.get(f"/sandboxes/{one}").failed(404, "sandbox_removed")
    make(name="sbx_web")
    api.get("/sandboxes/sbx_web").failed(404, "sandbox_not_found")
    assert api.get(f"/sandboxes/{other}").ok()["name"] == one


def routes():
    """Each route with a sandbox in its path, with an example of its body."""
    document = json.loads(subprocess.run([CAY, "serve", "--openapi"], capture_output=True,
                                         check=True).stdout)
    for path, item in document["paths"].items():
        if "{sandboxId}" not in path:
            continue
        for method, operation in item.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            yield method.upper(), path.removeprefix("/sandbox"), body.get("example")


def test_every_route_takes_names(api, make):
    for _ in range(2):
        make(name="namesake")
    api.remove(api.create(name="went")["id"])
    seen = 0
    for method, path, body in routes():
        path = path.replace("{execId}", "ex_" + "0" * 24).replace("{port}", "80")
        path += {("GET", "explain"): "?host=a.test", ("DELETE", "ports"): "?containerPort=80"}.get(
            (method, path.split("/")[-1]), "")
        to = "cay-exec" if "attach" in path else "cay-dial" if "/dial/" in path else "websocket" if path.endswith("/ws") else None
        how = {"headers": {"Connection": "Upgrade", "Upgrade": to, "Sec-WebSocket-Version": "13",
                           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}} if to else {}
        api.call(method, path.replace("{sandboxId}", "namesake"), body, **how).failed(409, "name_ambiguous")
        api.call(method, path.replace("{sandboxId}", "went"), body, **how).failed(404, "sandbox_removed")
        seen += 1
    assert seen > 30


def test_a_token_is_asked_for_before_a_name_is_looked_up(daemon_of):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "secret"}).start()
    with daemon.api(token="secret") as api, daemon.api(token="wrong") as other:
        id = api.create(name="hidden")["id"]
        other.get("/sandboxes/hidden").failed(403, "invalid_token")
        other.get("/sandboxes/nothing").failed(403, "invalid_token")
        assert api.get("/sandboxes/hidden").ok()["id"] == id
        api.remove(id)
