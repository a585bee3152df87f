"""Tokens for some of it: every route against every scope, and every kind of object against a token that is not for its sandbox.

The routes come from /openapi.json, with the scope (x-scope) and the reach (x-reach) that the table has for each."""

import base64
import json
import re
import socket

import pytest
from cay_harness import Daemon, cay, raw_http, wait_until
from cay_mcp import Mcp
from test_proxy import PORT, SERVED, Proxied

pytestmark = pytest.mark.core

TOKEN = "the-operators-own-token"
ZEROS = "0" * 24
SCOPES = ("read", "exec", "write", "admin")
WHOLE = ["read", "exec", "write"]


@pytest.fixture(scope="module")
def guarded():
    daemon = Daemon("tokens", env={"CAY_AUTH_TOKEN": TOKEN, "CAY_MAX_TOKENS": 500}).start()
    yield daemon
    daemon.destroy()
    Daemon.everyone.remove(daemon)


@pytest.fixture
def admin(guarded):
    with guarded.api() as api:
        yield api
        for box in api.get("/sandboxes?pageSize=200").ok()["items"]:
            api.remove(box["id"])


def token_of(admin, *scopes, **what):
    return admin.post("/tokens", {"scopes": list(scopes), **what}).ok()["token"]


def routes(api):
    for path, methods in api.get("//openapi.json").ok()["paths"].items():
        for method, op in methods.items():
            yield method.upper(), path, op


def body_of(op):
    """What is required, as the examples have it."""
    content = op.get("requestBody", {}).get("content", {}).get("application/json", {})
    return dict(content.get("example", {}))


def query_of(op):
    asked = [p for p in op.get("parameters", []) if p["in"] == "query" and p.get("required")]
    return "?" + "&".join(f"{p['name']}={p['schema'].get('examples', ['80'])[0]}" for p in asked) if asked else ""


def send(api, method, path, op, body=None):
    """One request as the row wants it, and only its status and code: a stream or an upgrade is not read."""
    to = ("cay-exec" if path.endswith("/attach") else "cay-dial" if "/dial/" in path else
          "websocket" if path.endswith("/ws") or "/ws/" in path else None)
    head = [f"{method} {path}{query_of(op)} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {api.token}"]
    if to:
        head += ["Connection: Upgrade", f"Upgrade: {to}", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    else:
        head += ["Connection: close"]
    data = b""
    if op.get("requestBody"):
        data = json.dumps(body_of(op) if body is None else body).encode()
        head += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as s:
        s.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + data)
        got = b""
        while b"\r\n\r\n" not in got:
            piece = s.recv(65536)
            assert piece, (method, path, got)
            got += piece
        status = int(got.split()[1])
        top, text = got.split(b"\r\n\r\n", 1)
        length = re.search(rb"content-length: (\d+)", top, re.I)
        while status >= 400 and len(text) < int(length[1]):
            text += s.recv(65536)
    said = re.search(rb'\{.*\}', text, re.S) if status >= 400 else None
    return status, json.loads(said[0]) if said else {}


def test_every_route_wants_its_scope_and_no_other(guarded, admin):
    """A03: the exact set of what each scope allows; the ids are of nothing, so that what is allowed finds nothing."""
    count = 0
    for scope in SCOPES:
        with guarded.api(token=token_of(admin, scope)) as api:
            for method, path, op in routes(admin):
                where = re.sub(r"\{(\w+)\}", lambda m: "8080" if m[1] == "port" else f"sbx_{ZEROS}", path)
                status, said = send(api, method, where, op, {} if method != "GET" else None)
                refused = said.get("code") == "scope_missing"
                needs = op["x-scope"]
                assert status != 401 and said.get("code") not in ("invalid_token", "token_restricted"), (path, said)
                assert refused == (needs not in ("none", scope) and scope != "admin"), (scope, needs, method, path, status, said)
                assert not refused or status == 403
                count += 1
    assert count > 4 * 150


def make_objects(api, guarded, id):
    """One of every kind that a route can name, all of them the sandbox's or the operator's."""
    api.write(id, "kept.txt", "kept")
    job = api.post(f"/sandboxes/{id}/exec/queue", {"command": "sleep 1000"}).ok()
    alert = api.post(f"/sandboxes/{id}/alerts", {"metric": "memory", "threshold": 99, "action": "notify"}).ok()
    context = api.post(f"/sandboxes/{id}/interpret/contexts", {"language": "python"}).ok()
    objects = {
        "sandboxId": id, "port": "8080", "strayId": id, "image": "host", "name": "host", "templateId": "tpl_none",
        "execId": api.background(id, "sleep 1000")["id"],
        "sessionId": api.post(f"/sandboxes/{id}/terminal", {}).ok()["sessionId"],
        "snapshotId": api.post(f"/sandboxes/{id}/snapshots", {"name": "taken"}).ok()["id"],
        "volumeId": api.post("/volumes", {"name": "shared", "sizeMb": 16}).ok()["id"],
        "networkId": "backend", "profileId": f"wp_{ZEROS}", "channelId": "none",
        "tokenId": api.post("/tokens", {"scopes": ["read"]}).ok()["id"],
        "webhookId": f"wh_{ZEROS}",
        "jobId": job.get("jobId", job.get("id")), "alertId": alert["id"],
        "contextId": context.get("contextId", context.get("id")),
    }
    missing = {p for _, path, _ in routes(api) for p in re.findall(r"\{(\w+)\}", path)} - set(objects)
    assert not missing, f"say here how one of these is made: {missing}"
    return objects


def unmake_objects(api, objects):
    api.remove(objects["sandboxId"])
    api.delete(f"/snapshots/{objects['snapshotId']}").ok()
    api.delete(f"/volumes/{objects['volumeId']}").ok()


def test_no_guessed_id_leads_to_the_sandbox_of_another(guarded, admin):
    """A03, IDOR: tokens of another sandbox and of another label, over every route with objects that are there."""
    red = admin.create(name="red", metadata={"team": "red"})["id"]
    blue = admin.create(name="blue", metadata={"team": "blue"})["id"]
    objects = make_objects(admin, guarded, red)
    before = admin.sandbox(red)
    tokens = [token_of(admin, *WHOLE, sandboxId=blue), token_of(admin, *WHOLE, label={"team": "blue"})]
    count = 0
    for method, path, op in routes(admin):
        if op["x-reach"] in ("all", "makers", "itself") or op["x-scope"] in ("none", "admin"):
            continue
        count += 1
        where = re.sub(r"\{(\w+)\}", lambda m: objects[m[1]], path)
        nowhere = re.sub(r"\{(\w+)\}", lambda m: re.sub(r"[0-9a-f]{24}$", ZEROS, objects[m[1]]), path)
        body = {**body_of(op)}
        for name in ("sandboxId", "snapshotId"):
            if name in body:
                body[name] = objects[name]
        for token in tokens:
            with guarded.api(token=token) as api:
                by = "&" if query_of(op) else "?"
                asked = where + (f"{query_of(op)}{by}sandboxId={red}" if op["x-reach"] == "filter" else "")
                status, said = send(api, method, asked, {**op, "parameters": []} if "?" in asked else op, body)
                assert status in (403, 404), (method, path, status, said)
                assert status == 404 or said["code"] == "token_restricted", (method, path, said)
                if op["x-reach"] in ("sandbox", "owned", "clones") and nowhere != where:
                    # What is there and what is not look the same.
                    other = {k: v if k != "sandboxId" else f"sbx_{ZEROS}" for k, v in body.items()}
                    unknown = send(api, method, nowhere, op, other)
                    assert (status, said["code"]) == (unknown[0], unknown[1]["code"]), (method, path, said, unknown)
                    text = re.sub(r"[0-9a-f]{24}", ZEROS, said["error"])
                    assert text == re.sub(r"[0-9a-f]{24}", ZEROS, unknown[1]["error"]), (method, path)
    assert count > 100
    after = admin.sandbox(red)
    assert (after["status"], after["expiresAt"]) == (before["status"], before["expiresAt"])
    assert admin.read(red, "kept.txt") == "kept"
    unmake_objects(admin, objects)


def test_lists_names_and_creates_stay_within_a_label(guarded, admin):
    red = admin.create(name="same", metadata={"team": "red"})["id"]
    blue = admin.create(name="same", metadata={"team": "blue"})["id"]
    taken = admin.post(f"/sandboxes/{red}/snapshots", {"name": "taken"}).ok()
    snapshot, image = taken["id"], taken["imageId"]
    with guarded.api(token=token_of(admin, *WHOLE, label={"team": "blue"})) as api:
        assert [b["id"] for b in api.get("/sandboxes").ok()["items"]] == [blue]
        assert api.get("/sandboxes").ok()["total"] == 1
        assert api.get("/sandboxes/same").ok()["id"] == blue
        assert api.get("/snapshots").ok()["snapshots"] == []
        api.get("/snapshots/taken").failed(404, "snapshot_not_found")
        for disk in (image, image.split(":")[1][:12]):
            api.get(f"/images/{disk}").failed(404, "image_not_found")
            api.try_create(image=disk).failed(404, "image_not_found")
        own = api.post(f"/sandboxes/{blue}/snapshots", {}).ok()
        assert api.get(f"/images/{own['imageId']}").ok()["id"] == own["imageId"]
        api.delete(f"/snapshots/{own['id']}").ok()
        made = api.create(metadata={"x": "y"})
        assert made["metadata"] == {"team": "blue", "x": "y"}
        twin = api.post(f"/sandboxes/{made['id']}/clone", {}).ok()
        assert twin["metadata"]["team"] == "blue"
        assert {b["id"] for b in api.get("/sandboxes").ok()["items"]} == {blue, made["id"], twin["id"]}
        api.try_create(volumes=[{"name": "shared", "mountPath": "/data"}]).failed(403, "token_restricted")
        api.try_create(networks=["backend"]).failed(403, "token_restricted")
        api.post(f"/sandboxes/{blue}/commit", {"name": "python:3.12-slim"}).failed(403, "token_restricted")
    with guarded.api(token=token_of(admin, *WHOLE, sandboxId=blue)) as api:
        assert [b["id"] for b in api.get("/sandboxes").ok()["items"]] == [blue]
        api.try_create().failed(403, "token_restricted")
        api.post(f"/sandboxes/{blue}/clone", {}).failed(403, "token_restricted")
        assert api.sh(blue, "echo in") == "in\n"
        # A snapshot of another is no more there than one that is not.
        said = api.post(f"/sandboxes/{blue}/snapshots/restore", {"snapshotId": snapshot}).failed(404)
        none = api.post(f"/sandboxes/{blue}/snapshots/restore", {"snapshotId": f"snap_{ZEROS}"}).failed(404)
        assert said["code"] == none["code"] and said["error"].replace(snapshot, "") == none["error"].replace(f"snap_{ZEROS}", "")
    admin.delete(f"/snapshots/{snapshot}").ok()


def locked(reply, key):
    assert f"metadata.{key} is the label of a token" in reply.failed(403, "token_restricted")["error"]


def test_a_restricted_token_changes_no_metadata_that_is_the_label_of_a_token(guarded, admin):
    """A28: of its own label and of those of others, in one sandbox or in those of a label."""
    box = admin.create(metadata={"team": "red", "note": "1"})["id"]
    blue, red = (token_of(admin, *WHOLE, label={"team": team}) for team in ("blue", "red"))
    token_of(admin, "read", label={"zone": "a"})
    one = token_of(admin, *WHOLE, sandboxId=box)
    for token in (one, red):
        with guarded.api(token=token) as api:
            locked(api.call("PATCH", f"/sandboxes/{box}", {"metadata": {"team": "blue"}}), "team")
            locked(api.call("PATCH", f"/sandboxes/{box}", {"metadata": {"team": "red", "zone": "a"}}), "zone")
            assert admin.sandbox(box)["metadata"] == {"team": "red", "note": "1"}, "all of it or nothing"
            # What is left out stays, and the value that is there may be sent.
            assert api.call("PATCH", f"/sandboxes/{box}", {"metadata": {"note": "2"}}).ok()["metadata"] == {"team": "red", "note": "2"}
            sent = {"team": "red", "note": "1"}
            assert api.call("PATCH", f"/sandboxes/{box}", {"metadata": sent}).ok()["metadata"] == sent
    with guarded.api(token=blue) as api:
        assert api.get("/sandboxes").ok()["items"] == []
        api.post(f"/sandboxes/{box}/exec", {"command": "true"}).failed(404, "sandbox_not_found")
    # An unrestricted token does.
    with guarded.api(token=token_of(admin, "write")) as api:
        assert api.call("PATCH", f"/sandboxes/{box}", {"metadata": {"team": "blue"}}).ok()["metadata"] == {"team": "blue"}
    with guarded.api(token=blue) as api:
        api.get(f"/sandboxes/{box}").ok()


def test_a_restricted_token_makes_sandboxes_with_its_own_label_only(guarded, admin):
    """A28: created, over MCP too, from a template, cloned, forked and from a snapshot that is older than the label."""
    blue = token_of(admin, *WHOLE, label={"team": "blue"})
    token_of(admin, "read", label={"zone": "a"})
    admin.post("/templates", {"name": "zoned", "config": {"image": "host", "metadata": {"zone": "a", "team": "red", "x": "y"}}}).ok()
    box = admin.create(metadata={"team": "red", "zone": "a", "x": "y"})["id"]
    taken = admin.post(f"/sandboxes/{box}/snapshots", {}).ok()["id"]
    admin.call("PATCH", f"/sandboxes/{box}", {"metadata": {"team": "blue", "zone": "a", "x": "y"}}).ok()
    with guarded.api(token=blue) as api:
        locked(api.try_create(metadata={"team": "red"}), "team")
        locked(api.try_create(metadata={"team": "blue", "zone": "a"}), "zone")
        locked(api.try_create(image=None, template="zoned", metadata={"zone": "b"}), "zone")
        said = Mcp(guarded, token=blue).tool("sandbox_create", image="host", metadata={"zone": "a"})
        assert said["isError"] and "metadata.zone" in said["content"][0]["text"], said
        assert api.create(metadata={"team": "blue"})["metadata"] == {"team": "blue"}
        made = [api.create(image=None, template="zoned"), api.post(f"/sandboxes/{box}/clone", {}).ok(),
                api.post(f"/snapshots/{taken}/clone", {}).ok(), *api.post(f"/sandboxes/{box}/fork", {"count": 2}).ok()["sandboxes"]]
        for one in made:
            assert one["metadata"] == {"team": "blue", "x": "y"}, one
            assert [w for w in one["warnings"] if "metadata.zone" in w] and not [w for w in one["warnings"] if "team" in w], one
            api.get(f"/sandboxes/{one['id']}").ok()
        # Files go back, what the sandbox belongs to does not.
        again = api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": taken}).ok()
        assert again["metadata"] == {"team": "blue", "zone": "a", "x": "y"}
    whole = admin.post(f"/snapshots/{taken}/clone", {}).ok()
    assert whole["metadata"] == {"team": "red", "zone": "a", "x": "y"} and "warnings" not in whole
    admin.delete(f"/snapshots/{taken}").ok()
    admin.delete("/templates/zoned").ok()


def test_a_volume_that_was_taken_away_does_not_come_back_by_a_clone(guarded, admin):
    """A27: nor does one that the token could not name itself, and what became read-only stays so."""
    for name in ("gone", "kept"):
        admin.post("/volumes", {"name": name, "sizeMb": 16}).ok()
    box = admin.create(metadata={"team": "blue"}, volumes=[{"name": "gone", "mountPath": "/gone"}, {"name": "kept", "mountPath": "/kept"}],
                       tmpfs=[{"mountPath": "/t", "sizeMb": 8}])["id"]
    taken = admin.post(f"/sandboxes/{box}/snapshots", {}).ok()["id"]
    for name in ("gone", "kept"):
        admin.post(f"/volumes/{name}/detach", {"sandboxId": box}).ok()
    admin.post("/volumes/kept/attach", {"sandboxId": box, "mountPath": "/kept", "readOnly": True}).ok()
    now = admin.sandbox(box)["config"]["mounts"]
    ways = [f"/snapshots/{taken}/clone", f"/sandboxes/{box}/clone"]
    for way in ways:
        made = admin.post(way, {}).ok()
        assert made["config"]["mounts"] == now and "warnings" not in made, made
        said = admin.exec(made["id"], "touch /kept/f")
        assert said["exitCode"] != 0 and "Read-only" in said["stderr"], said
    with guarded.api(token=token_of(admin, *WHOLE, label={"team": "blue"})) as api:
        forked = api.post(f"/sandboxes/{box}/fork", {"count": 1}).ok()["sandboxes"]
        for made in [api.post(way, {}).ok() for way in ways] + forked:
            assert [m["mountPath"] for m in made["config"]["mounts"]] == ["/t"], made
            assert len(made["warnings"]) == 1 and "/kept" in made["warnings"][0], made
        # The sandbox keeps what the operator gave it, and nothing that its snapshot had.
        assert api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": taken}).ok()["config"]["mounts"] == now
    for one in admin.get("/sandboxes").ok()["items"]:
        admin.remove(one["id"])
    # The sandbox is gone: nobody can say what its clone may have.
    made = admin.post(f"/snapshots/{taken}/clone", {}).ok()
    assert [m["mountPath"] for m in made["config"]["mounts"]] == ["/t"]
    assert all(any(path in text and "gone" in text for text in made["warnings"]) for path in ("/gone", "/kept")), made
    admin.delete(f"/snapshots/{taken}").ok()
    for name in ("gone", "kept"):
        admin.delete(f"/volumes/{name}").ok()


def test_a_name_that_two_tenants_use_is_refused_to_the_operator_and_a_label_selects_one(guarded, admin):
    """A29: by REST, MCP and the command line. No name that a tenant chooses stands for another's sandbox."""
    red, blue = (admin.create(name="twin", metadata={"team": team})["id"] for team in ("red", "blue"))
    tokens = {team: token_of(admin, *WHOLE, label={"team": team}) for team in ("red", "blue")}
    operator = {"CAY_TOKEN": TOKEN}
    for path in ("/sandboxes/twin", "/events/history?sandboxId=twin", "/stream/events?sandboxId=twin"):
        said = admin.get(path).failed(409, "name_ambiguous")["error"]
        assert red in said and blue in said and "NAME@KEY=VALUE" in said
    for team, id in (("red", red), ("blue", blue)):
        assert admin.get(f"/sandboxes/twin@team={team}").ok()["id"] == id
        assert admin.get(f"/sandboxes/twin%40team%3D{team}").ok()["id"] == id
        assert admin.sh(f"twin@team={team}", "echo here") == "here\n"
        assert admin.get(f"/events/history?sandboxId=twin@team={team}").ok()["events"][0]["sandboxId"] == id
        assert cay(guarded, "inspect", f"twin@team={team}", env=operator, check=True).stdout.decode().count(id)
        assert "here" in Mcp(guarded, token=TOKEN).text("sandbox_exec", sandboxId=f"twin@team={team}", command="echo here")
        with guarded.api(token=tokens[team]) as api:
            for word in ("twin", f"twin@team={team}"):
                assert api.get(f"/sandboxes/{word}").ok()["id"] == id
            api.get(f"/sandboxes/twin@team={'blue' if team == 'red' else 'red'}").failed(404, "sandbox_not_found")
    assert b"name_ambiguous" in cay(guarded, "exec", "twin", "true", env=operator).stderr
    # A tenant names its sandbox like the selector of another's, and gets nothing by it.
    with guarded.api(token=tokens["blue"]) as api:
        api.create(name="twin@team=red")
        api.try_create(name="twin@team=red", unique=True).failed(400)
    assert admin.get("/sandboxes/twin@team=red").ok()["id"] == red
    admin.remove(red)
    admin.get("/sandboxes/twin@team=red").failed(404, "sandbox_not_found")


def test_a_name_that_is_taken_does_not_tell_whose_it_is(guarded, admin):
    red = admin.create(name="wanted", metadata={"team": "red"})["id"]
    blue = admin.create(metadata={"team": "blue"})["id"]
    assert red in admin.try_create(name="wanted", unique=True).failed(409, "name_taken")["error"]
    with guarded.api(token=token_of(admin, *WHOLE, label={"team": "blue"})) as api:
        for reply in (api.try_create(name="wanted", unique=True), api.post(f"/sandboxes/{blue}/clone", {"name": "wanted", "unique": True})):
            assert red not in reply.failed(409, "name_taken")["error"]


def test_what_is_almost_a_token_opens_nothing(guarded, admin):
    """A01: wrong, truncated, longer, of another id, with another case, in the query, twice."""
    token = token_of(admin, "read")
    other = token_of(admin, "read")
    with guarded.api(token=None) as stranger:
        for wrong in (token[:-1], token + "0", token.upper(), token[:29] + other[29:], "cay_", token.split("_")[2],
                      f"cay_{ZEROS}_{token.split('_')[2]}", f"x{token}"):
            reply = stranger.get("/sandboxes", headers={"Authorization": f"Bearer {wrong}"})
            reply.failed(403, "invalid_token")
            assert reply.error == "Invalid token"
        stranger.get(f"/sandboxes?token={token}").failed(401)
    head = f"GET /sandbox/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nAuthorization: Bearer x\r\n\r\n"
    assert raw_http(guarded.port, head.encode()).split()[1] in (b"400", b"401", b"403")
    with guarded.api(token=token) as api:
        api.get("/sandboxes").ok()


def test_only_digests_are_kept_and_a_token_is_told_once(guarded, admin):
    made = admin.post("/tokens", {"scopes": ["read"], "name": "once"}).ok()
    secret = made["token"].split("_")[2]
    assert "token" not in next(t for t in admin.get("/tokens").ok()["tokens"] if t["id"] == made["id"])
    with guarded.api(token=made["token"]) as api:
        api.get("/sandboxes").ok()
    guarded.restart()
    with guarded.api(token=made["token"]) as api:
        api.get("/sandboxes").ok()
    for path in [p for p in guarded.root.rglob("*") if p.is_file() and p.stat().st_size < 64 << 20]:
        assert secret.encode() not in path.read_bytes(), path
    admin.delete(f"/tokens/{made['id']}").ok()
    guarded.restart()
    with guarded.api(token=made["token"]) as api:
        api.get("/sandboxes").failed(403, "invalid_token")


def test_a_token_ends_with_its_time_and_so_does_what_it_made(guarded, admin):
    id = admin.create()["id"]
    ends = admin.post("/tokens", {"scopes": ["admin"], "expiresIn": 4}).ok()
    with guarded.api(token=ends["token"]) as api:
        child = api.post("/tokens", {"scopes": ["admin"], "expiresIn": 9999}).ok()
        assert child["expiresAt"] == ends["expiresAt"]
        url = api.post(f"/sandboxes/{id}/proxy/sign", {"port": PORT, "expiresIn": 9999}).ok()
        assert url["expiresAt"] == ends["expiresAt"]
        wait_until(lambda: api.get("/sandboxes").status == 403, 60)
        api.get("/sandboxes").failed(403, "token_expired")


def test_streams_terminals_and_commands_end_when_their_token_is_revoked(guarded, admin):
    id = admin.create()["id"]
    made = admin.post("/tokens", {"scopes": WHOLE, "sandboxId": id}).ok()
    api = guarded.api(token=made["token"])
    terminal = api.post(f"/sandboxes/{id}/terminal", {}).ok()
    session = terminal["sessionId"]
    read, write = (f"/sandbox/ws/channels/{end['channel_id']}?key={end['access_key']}&dir={end['direction']}"
                   for end in (terminal["channel"]["reader"], terminal["channel"]["writer"]))
    word = base64.urlsafe_b64encode(made["token"].encode()).decode().rstrip("=")
    upgrade = "Connection: Upgrade\r\nUpgrade: {}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    bearer = f"Authorization: Bearer {made['token']}\r\n"
    body = b'{"command":"sleep 1000"}'
    long = [
        (f"GET /sandbox/sandboxes/{id}/terminal/{session}/ws HTTP/1.1\r\nHost: localhost\r\n{upgrade.format('websocket')}"
         f"Sec-WebSocket-Protocol: bearer.{word}\r\n\r\n", b"", b" 101 "),
        (f"POST /sandbox/sandboxes/{id}/exec/attach HTTP/1.1\r\nHost: localhost\r\n{bearer}{upgrade.format('cay-exec')}"
         f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n", body, b" 101 "),
        (f"POST /sandbox/sandboxes/{id}/exec/stream HTTP/1.1\r\nHost: localhost\r\n{bearer}"
         f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n", body, b" 200 "),
        (f"GET /sandbox/stream/events?sandboxId={id} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n", b"", b" 200 "),
        # Its key needs no token, and is worth no more than the one that it came with.
        (f"GET {read} HTTP/1.1\r\nHost: localhost\r\n{upgrade.format('websocket')}\r\n", b"", b" 101 "),
    ]
    socks = []
    for head, data, want in long:
        s = socket.create_connection(("127.0.0.1", guarded.port), timeout=60)
        s.sendall(head.encode() + data)
        assert want in s.recv(4096).split(b"\r\n")[0]
        socks.append(s)
    admin.delete(f"/tokens/{made['id']}").ok()
    for s in socks:
        while s.recv(65536):
            pass  # its end comes, or the time is over
        s.close()
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=60) as s:
        s.sendall(f"GET {write} HTTP/1.1\r\nHost: localhost\r\n{upgrade.format('websocket')}\r\n".encode())
        assert b" 404 " in s.recv(4096).split(b"\r\n")[0]
    api.get("/sandboxes").failed(403, "invalid_token")
    api.close()


@pytest.mark.parametrize("what", ["json", "upload", "mcp"])
def test_a_call_whose_token_was_revoked_before_its_body_came_is_refused(guarded, admin, what):
    id = admin.create()["id"]
    made = admin.post("/tokens", {"scopes": WHOLE}).ok()
    write = f"/sandbox/sandboxes/{id}/files/write"
    path, kind, body = {
        "json": (write, "application/json", b'{"path":"late","content":"x"}'),
        "upload": (f"/sandbox/sandboxes/{id}/files/upload?path=late", "application/octet-stream", b"x" * (200 << 10)),
        "mcp": ("/mcp", "application/json", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()),
    }[what]
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=60) as s:
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {made['token']}\r\nExpect: 100-continue\r\n"
                  "Accept: application/json, text/event-stream\r\n"
                  f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert s.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"  # so its token was found good
        s.sendall(body[:-1])
        admin.delete(f"/tokens/{made['id']}").ok()
        s.sendall(body[-1:])
        reply = s.recv(4096)
        assert b" 403 " in reply.split(b"\r\n")[0] and b"invalid_token" in reply
    assert "late" not in admin.sh(id, "ls")


def test_a_port_is_open_to_a_token_of_its_sandbox_only_and_the_token_stays_outside(guarded, admin):
    red = admin.create(name="served")["id"]
    blue = admin.create()["id"]
    admin.write(red, "served.py", SERVED)
    admin.background(red, f"exec python3 served.py {PORT}")
    served = Proxied(guarded, admin, red, PORT)
    mine = token_of(admin, "exec", sandboxId=red)
    wait_until(lambda: served.ask("/", headers={"Authorization": f"Bearer {mine}"}).status == 200)
    told = served.echo("/x", headers={"Authorization": f"Bearer {mine}"})
    assert mine not in json.dumps(told) and "authorization" not in told["named"]
    for token in (token_of(admin, "exec", sandboxId=blue), token_of(admin, "read", "write", sandboxId=red), mine[:-1] + "x"):
        assert served.ask("/", headers={"Authorization": f"Bearer {token}"}).status == 401
    word = base64.urlsafe_b64encode(mine.encode()).decode().rstrip("=")
    told = served.echo("/x", headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": f"chat, bearer.{word}"})
    assert told["named"]["sec-websocket-protocol"] == "chat"


def test_a_port_that_is_asked_for_by_name_does_not_tell_which_names_there_are(guarded, admin):
    """Who knows an id reaches what was exposed, and a name can be guessed: so none of it leads to the other."""
    def ask(name, bearer=""):
        head = f"GET /sandbox/proxy/{name}/{PORT}/ HTTP/1.1\r\nHost: localhost\r\n{bearer}Connection: close\r\n\r\n"
        top, body = raw_http(guarded.port, head.encode()).split(b"\r\n\r\n", 1)
        return int(top.split()[1]), json.loads(body)

    ids = [admin.create(name=name)["id"] for name in ("single", "double", "double", "removed")]
    admin.remove(ids[3])
    said = {name: ask(name) for name in ("single", "double", "removed", "never")}
    assert all(status == 401 and body["error"].replace(name, "single") == said["single"][1]["error"]
               for name, (status, body) in said.items()), said
    assert ask("double", f"Authorization: Bearer {TOKEN}\r\n")[1]["code"] == "name_ambiguous"


def test_where_no_token_is_needed_one_that_was_sent_counts(daemon_of):
    """And where one is required, none of the daemon's own has to be set."""
    daemon = daemon_of().start()
    with daemon.api() as api:
        one, two = api.create()["id"], api.create()["id"]
        made = api.post("/tokens", {"scopes": ["read"], "sandboxId": one}).ok()
        assert "CAY_REQUIRE_TOKEN" in made["warning"]
        for way in (daemon.api, daemon.unix_api):
            with way(token=made["token"]) as mine:
                mine.get(f"/sandboxes/{one}").ok()
                mine.get(f"/sandboxes/{two}").failed(404)
                mine.delete(f"/sandboxes/{one}").failed(403, "scope_missing")
    daemon.stop()
    daemon.extra["CAY_REQUIRE_TOKEN"] = "true"
    daemon.start()
    with daemon.api() as stranger, daemon.api(token=made["token"]) as mine, daemon.unix_api() as root:
        stranger.get("/sandboxes").failed(401)
        stranger.get("/sandboxes", headers={"Authorization": "Bearer x"}).failed(403, "invalid_token")
        mine.get(f"/sandboxes/{one}").ok()
        assert len(root.get("/sandboxes").ok()["items"]) == 2
        assert "warning" not in root.post("/tokens", {"scopes": ["read"]}).ok()


def test_the_command_line_makes_uses_and_revokes_tokens(guarded, admin):
    id = admin.create(name="mine")["id"]
    operator = {"CAY_TOKEN": TOKEN}
    token = cay(guarded, "token", "create", "--scope", "read,exec", "--sandbox", "mine", "ci", check=True, env=operator).stdout.decode().strip()
    mine = {"CAY_TOKEN": token, "CAY_HOST": f"http://127.0.0.1:{guarded.port}"}
    assert cay(guarded, "exec", "mine", "echo", "in", env=mine, check=True).stdout == b"in\n"
    refused = cay(guarded, "rm", "mine", env=mine)
    assert refused.returncode == 1 and b"scope" in refused.stderr
    listed = cay(guarded, "token", "ls", check=True, env=operator).stdout.decode()
    row = next(line for line in listed.splitlines() if id in line)
    assert " ci " in row and "read,exec" in row and token not in listed
    cay(guarded, "token", "revoke", row.split()[0], check=True, env=operator)
    assert b"invalid_token" in cay(guarded, "ls", env=mine).stderr
