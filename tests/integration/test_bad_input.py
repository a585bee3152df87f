"""Every route of /openapi.json, fed with what it must refuse. Never a 5xx, nothing half-done."""

import re

import pytest

from cay_harness import raw_http

pytestmark = pytest.mark.core

NOBODY = "sbx_000000000000000000000000"
DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.fixture
def api(shared):
    """Over the unix socket, where no route is closed to root."""
    with shared.unix_api() as api:
        yield api
        shared.apis.remove(api)


def table(api):
    out = []
    for path, methods in api.get("//openapi.json").ok()["paths"].items():
        for method, operation in methods.items():
            if method in ("get", "post", "delete"):
                schema = {}
                with_body = operation.get("requestBody", {}).get("content", {})
                if "application/json" in with_body:
                    schema = {"example": with_body["application/json"]["example"],
                              **with_body["application/json"]["schema"]}
                out.append((method.upper(), path, schema))
    return out


def fill(path, id=NOBODY):
    return "/" + re.sub(r"\{[^}]*\}", id, path)


WRONG = {"string": [5, ["x"], {"a": 1}, True], "integer": ["x", [1], {}, 1.5],
         "number": ["x", [1], {}], "boolean": ["x", 5, []], "array": ["x", 5, {"a": 1}],
         "object": ["x", 5, [1]]}


def bodies(schema):
    properties = schema.get("properties", {})
    good = {name: schema["example"][name] for name in schema.get("required", [])}
    return properties, good


def test_unknown_sandboxes_are_not_found_on_every_route(api):
    count = 0
    for method, path, schema in table(api):
        if "/sandboxes/{" not in path or path.endswith(("/attach", "/ws")) or "/dial/" in path:
            continue
        if method == "GET" and path.endswith("/snapshots"):  # they outlive their sandbox
            continue
        _, good = bodies(schema)
        if "files/" in path:
            good = {**good, "path": "x", "paths": ["x"], "content": "", "mode": "644", "pattern": "x",
                    "moves": [{"from": "a", "to": "b"}]}
        good.update({"vars": {"A": "b"}} if path.endswith("/env") and method == "POST" else {})
        good.update({"key": "A"} if "/env/" in path else {})
        good.update({"command": "true"} if "exec" in path else {})
        for id in (NOBODY, "%2e%2e", "..%2f..", "sbx_" + "0" * 24 + "%00"):
            query = {("GET", "explain"): "?host=a.test", ("DELETE", "ports"): "?containerPort=80"}.get((method, path.split("/")[-1]), "")
            reply = api.call(method, fill(path, id) + query, good if method != "GET" else None)
            said = reply.failed((404, 400, 501) if "%" in id else (404, 501))
            if id == NOBODY and reply.status == 404 and "{sessionId}" not in path:  # a session has a word of its own
                assert said["code"] == "sandbox_not_found", (path, said)
                assert said["error"].endswith(f"Sandbox not found: {NOBODY}"), (path, said)
        count += 1
    assert count > 25


def test_wrong_types_are_refused_by_every_route(api, box):
    count = 0
    for method, path, schema in table(api):
        properties, good = bodies(schema)
        for name, field in properties.items():
            for value in WRONG.get(field.get("type"), []):
                if field.get("type") == "string" and name == "path" and isinstance(value, list):
                    continue
                if "another type is ignored" in field.get("description", ""):
                    continue
                body = {**good, name: value}
                reply = api.call(method, fill(path, box), body)
                assert reply.status == 400, (method, path, body, reply.status, reply.body[:200])
                reply.failed(400)
                assert name in reply.error, (name, reply.error)
                count += 1
    assert count > 60
    assert api.sandbox(box)["status"] == "running"


def test_negative_counts_are_refused_by_every_route(api, box):
    """Also those that are moved to the nearer end of their range otherwise, in bodies and queries."""
    count = 0
    for method, path, schema in table(api):
        properties, good = bodies(schema)
        for name, field in properties.items():
            if field.get("type") in ("integer", "number") and field.get("minimum", -1) >= 0:
                said = api.call(method, fill(path, box), {**good, name: -1}).failed(400)
                assert said["error"].startswith(f"{name} must"), (path, said)
                count += 1
    assert count > 40
    described = api.get("//openapi.json").ok()["paths"]
    count = 0
    for path, methods in described.items():
        for parameter in methods.get("get", {}).get("parameters", []):
            field = parameter.get("schema", {})
            if parameter.get("in") == "query" and field.get("type") in ("integer", "number"):
                if "minimum" not in field or "/ws" in path:
                    continue
                needed = "".join(f"&{p['name']}=x" for p in methods["get"]["parameters"] if p.get("in") == "query" and p.get("required"))
                said = api.get(f"{fill(path, box)}?{parameter['name']}=-1{needed}").failed(400)
                assert said["error"].startswith(f"{parameter['name']} must"), (path, said)
                count += 1
    assert count > 15
    api.get(f"/sandboxes/{box}/git/log?count=-1").failed(400, text="count must not be negative")


def test_missing_fields_are_named(api, box):
    for method, path, schema in table(api):
        for name in schema.get("required", []):
            _, good = bodies(schema)
            good.pop(name)
            said = api.call(method, fill(path, box), good).failed(400)
            assert said["error"].startswith(f"{name} is required"), (path, said)


def test_a_body_that_is_not_json_is_refused_by_every_route(api, box):
    """One parser reads them all; tests/unit/test_rest.c has the table of what it refuses, except for a NUL byte."""
    before = set(api.ids())
    for method, path, schema in table(api):
        if method != "POST" or not schema:
            continue
        for raw in (b"hello", b'{"image":"a\0b"}', DEEP):
            reply = api.call(method, fill(path, box), raw=raw, type="application/json")
            assert reply.status == 400, (path, reply.status, reply.body[:200])
            reply.failed(400)
    assert set(api.ids()) == before
    assert api.sh(box, "ls -A") == ""


def test_numbers_at_the_edges_do_not_wrap(api, box):
    for method, path, schema in table(api):
        properties, good = bodies(schema)
        for name, field in properties.items():
            if field.get("type") not in ("integer", "number") or "stream" in path:
                continue
            for value in (2**31, 2**32, 2**63 - 1, -1, -(2**63)):
                body = {**good, name: value}
                if path.endswith("/sandboxes"):
                    body.update({"image": "no-such-image", "pull": "never"})
                if "exec" in path:
                    body["command"] = "true"
                reply = api.call(method, fill(path, box), body)
                assert reply.status < 500 or reply.code == "no_space", (path, name, value, reply.body)


def test_bodies_too_large_are_refused_by_every_route(api, shared, box):
    for method, path, schema in table(api):
        if method != "POST" or not schema or "upload" in path or "write" in path:
            continue
        reply = raw_http(None, (
            f"POST {fill(path, box)[1:]} HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/json\r\nContent-Length: 3000000000\r\n\r\n").encode(),
            unix=shared.socket_path)
        assert reply.split()[1] == b"413", (path, reply[:200])


def test_error_texts_show_nothing_of_the_host(api, shared, box):
    texts, before = [], set(api.ids())
    for method, path, schema in table(api):
        for id in (box, NOBODY):
            reply = api.call(method, fill(path, id), raw=b'{"path":"x","timeout":"x"}',
                             type="application/json") if method == "POST" else None
            if reply and reply.status >= 400:
                texts.append(reply.error)
    for snapshot in api.get("/snapshots").ok()["snapshots"]:  # some rows need no input
        api.delete(f"/snapshots/{snapshot['id']}").ok()
    for id in set(api.ids()) - before:
        api.remove(id)
    joined = "\n".join(texts)
    for secret in (str(shared.root), "/var/lib", "sqlite", "0x", ".c:"):
        assert secret not in joined, joined


def test_bad_queries_are_refused(api):
    api.get("/sandboxes?page=1.5").failed(400, text="page")
    api.get("/sandboxes?page=%00").failed(400, text="query")


def test_query_strings_are_decoded(api, box):
    api.write(box, "a b+c", "x")
    reply = api.post(f"/sandboxes/{box}/files/download?path=a+b%2Bc",
                     headers={"Accept": "application/octet-stream"})
    assert reply.status == 200 and reply.body == b"x"


def test_the_path_wins_over_the_body(api, make):
    a, b = make()["id"], make()["id"]
    api.post(f"/sandboxes/{a}/files/write", {"id": b, "path": "who", "content": "a"}).ok()
    assert api.sh(a, "ls") == "who\n" and api.sh(b, "ls") == ""


def test_posts_without_a_body_or_type_are_fine(api, box):
    api.post(f"/sandboxes/{box}/pause").ok()
    api.post(f"/sandboxes/{box}/resume", raw=b"", type="application/json").ok()
    api.get("/sandboxes", type="application/json").ok()
