"""Who may call, from where, and how much at once."""

import errno
import os
import re
import socket
import stat
import subprocess

import pytest

import cay_shapes
from cay_harness import CAY, Daemon, raw_http

pytestmark = pytest.mark.core

TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def guarded():
    daemon = Daemon("guarded", env={"CAY_AUTH_TOKEN": TOKEN})
    daemon.start()
    with daemon.api() as api:
        api.remove(api.create()["id"])
    yield daemon
    daemon.destroy()
    Daemon.everyone.remove(daemon)


def routes(api):
    document = api.get("//openapi.json").ok()
    for path, methods in document["paths"].items():
        for method in methods:
            if method in ("get", "post", "delete", "put"):
                yield method.upper(), path, methods[method]


def concrete(path):
    return re.sub(r"\{[^}]*\}", "sbx_000000000000000000000000", path)


def test_every_route_wants_the_token(guarded):
    """Missing is 401, wrong is 403; the body says which; nothing happens."""
    with guarded.api() as api, guarded.api(token=None) as stranger:
        count = 0
        for method, path, _ in routes(api):
            if path.endswith(("/health", "/openapi.json", "/pool/status")) or "/ws/channels/" in path:
                continue  # channels have keys of their own: test_terminal.py
            count += 1
            where = "/" + concrete(path)
            assert stranger.call(method, where).failed(401)["error"] == "Missing authorization header"
            for wrong in ("Bearer wrong", "Bearer", "Bearer ", TOKEN[:-1], f"Bearer {TOKEN}x",
                          f"Basic {TOKEN}"):
                reply = stranger.call(method, where, headers={"Authorization": wrong})
                reply.failed((401, 403))
            stranger.call(method, where + "?token=" + TOKEN).failed(401)
            if path.endswith("/stream/events"):
                continue  # its answer has no end
            reply = api.call(method, where)
            assert reply.status not in (401, 403) or reply.code == "local_only", (method, path)
        assert count > 30


def test_both_forms_of_the_header_work(guarded):
    with guarded.api(token=None) as api:
        for form in (f"Bearer {TOKEN}", TOKEN):
            api.get("/sandboxes", headers={"Authorization": form}).ok()


@pytest.mark.parametrize("token", ["", "wrong"])
def test_the_command_says_where_the_token_goes(guarded, token):
    env = {**os.environ, "CAY_HOST": f"http://127.0.0.1:{guarded.port}", "CAY_TOKEN": token}
    done = subprocess.run([CAY, "ls"], env=env, capture_output=True, text=True)
    assert done.returncode != 0 and "set CAY_TOKEN to the daemon's token" in done.stderr


def test_health_is_open(guarded):
    with guarded.api(token=None) as api:
        assert api.get("/health").ok()["status"] == "healthy"


def test_how_full_the_pool_is_is_open_and_what_is_in_it_is_not(guarded):
    with guarded.api(token=None) as stranger, guarded.api() as api:
        said, whole = stranger.get("/pool/status").ok(), api.get("/pool/status").ok()
        assert set(said) == {"total", "ready", "by_profile"} and said["by_profile"] == {}
        assert said["total"] == whole["total"] and len(whole["profiles"]) == len(whole["by_profile"])
        stranger.get("/pool/profiles").failed(401)


def test_streams_want_the_token_too(guarded):
    with guarded.api(token=None) as api:
        for path in ("stream/logs", "stream/metrics", "stream/network"):
            api.get(f"/sandboxes/sbx_000000000000000000000000/{path}").failed(401)
        api.post("/sandboxes/sbx_000000000000000000000000/exec/stream", {"command": "x"}).failed(401)


def test_two_authorization_headers_are_refused(guarded):
    out = raw_http(guarded.port, (
        f"GET /sandbox/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n"
        f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n").encode())
    assert out.split()[1] in (b"400", b"401", b"403")


def test_without_a_token_any_authorization_is_fine(api):
    api.get("/health", headers={"Authorization": "Bearer whatever"}).ok()
    api.get("/sandboxes", headers={"Authorization": "Bearer whatever"}).ok()


@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1.evil.test", "localhost.evil.test",
                                  "evil.test:3111", "169.254.169.254", "0.0.0.0", "[::2]", "", "a b",
                                  "localhost@evil.test", "127.0.0.1:99999999"])
def test_a_host_that_is_not_ours_is_refused(shared, host):
    out = raw_http(shared.port, f"GET /sandbox/sandboxes HTTP/1.1\r\nHost: {host}\r\n"
                                "Connection: close\r\n\r\n".encode())
    assert out.split()[1] in (b"400", b"403", b"421"), out[:200]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "localhost:{port}",
                                  "127.0.0.1:{port}", "LOCALHOST"])
def test_our_own_names_are_fine(shared, host):
    host = host.format(port=shared.port)
    out = raw_http(shared.port, f"GET /sandbox/health HTTP/1.1\r\nHost: {host}\r\n"
                                "Connection: close\r\n\r\n".encode())
    assert out.split()[1] == b"200", out[:300]


def test_no_host_or_two_are_refused(shared):
    for hosts in ("", "Host: localhost\r\nHost: localhost\r\n", "Host: localhost\r\nHost: evil\r\n"):
        out = raw_http(shared.port, f"GET /sandbox/sandboxes HTTP/1.1\r\n{hosts}"
                                    "Connection: close\r\n\r\n".encode())
        assert out.split()[1] in (b"400", b"403", b"421"), out[:200]


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "https://localhost.evil.test",
                                    "file://", "chrome-extension://x"])
def test_a_page_of_another_site_can_do_nothing(api, origin):
    before = set(api.ids())
    for type in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        reply = api.post("/sandboxes", raw=b'{"image":"host"}', type=type, headers={"Origin": origin})
        reply.failed(403)
        assert not [h for h in reply.headers if h.lower().startswith("access-control")]
    assert api.get("/sandboxes", headers={"Origin": origin}).status == 403
    preflight = api.call("OPTIONS", "/sandboxes", headers={
        "Origin": origin, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type"})
    assert preflight.status >= 400
    assert not [h for h in preflight.headers if h.lower().startswith("access-control")]
    assert set(api.ids()) == before


def test_a_simple_post_of_a_browser_makes_nothing(api):
    """No Origin was sent, but a form can only send these types: the body is not taken as JSON."""
    before = set(api.ids())
    for type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        api.post("/sandboxes", raw=b'{"image":"host"}', type=type).failed((400, 403, 415))
    assert set(api.ids()) == before


def test_configured_origins_get_cors_and_others_do_not(daemon_of):
    daemon = daemon_of(env={"CAY_CORS_ORIGINS": "https://app.test, http://localhost:5173"}).start()
    with daemon.api() as api:
        ask = {"Access-Control-Request-Method": "POST",
               "Access-Control-Request-Headers": "content-type, authorization"}
        for origin in ("https://app.test", "http://localhost:5173"):
            reply = api.get("/health", headers={"Origin": origin})
            reply.ok()
            assert reply.headers["Access-Control-Allow-Origin"] == origin
            assert "Origin" in reply.headers["Vary"]
            preflight = api.call("OPTIONS", "/sandboxes", headers={"Origin": origin, **ask})
            assert preflight.status in (200, 204), preflight.body
            assert preflight.headers["Access-Control-Allow-Origin"] == origin
            for method in ("GET", "POST", "PATCH", "DELETE"):
                assert method in preflight.headers["Access-Control-Allow-Methods"]
            allowed = preflight.headers["Access-Control-Allow-Headers"].lower()
            assert {"content-type", "authorization", "*"} <= set(allowed.split(", "))  # for * is all but authorization
        reply = api.get("/sandboxes", headers={"Origin": "https://other.test"})
        reply.failed(403)
        assert "Access-Control-Allow-Origin" not in reply.headers


HEAD = b"POST /sandbox/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SMUGGLED = {
    "CL and TE": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TE and CL": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two CL": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "two equal CL": HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "CL list": HEAD + b"Content-Length: 2, 2\r\n\r\n{}",
    "xchunked": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "identity": HEAD + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
    "two TE": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "fold": HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "bare LF": b"POST /sandbox/sandboxes HTTP/1.1\nHost: localhost\nContent-Length: 2\n\n{}",
    "one bare LF": HEAD + b"X: y\nContent-Length: 2\r\n\r\n{}",
    "bare CR": HEAD + b"X: a\rb\r\nContent-Length: 2\r\n\r\n{}",
    "space before colon": HEAD + b"Content-Length : 2\r\n\r\n{}",
    "tab before colon": HEAD + b"Content-Length\t: 2\r\n\r\n{}",
    "negative CL": HEAD + b"Content-Length: -2\r\n\r\n{}",
    "plus CL": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "hex CL": HEAD + b"Content-Length: 0x2\r\n\r\n{}",
    "CL overflow": HEAD + b"Content-Length: 18446744073709551618\r\n\r\n{}",
    "empty CL": HEAD + b"Content-Length: \r\n\r\n{}",
    "chunk overflow": HEAD + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
    "negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "chunk without CRLF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
    "NUL in a header": HEAD + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "NUL in the path": b"GET /sandbox/he\0alth HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no version": b"GET /sandbox/health\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version 9": b"GET /sandbox/health HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n",
    "empty header name": HEAD + b": x\r\nContent-Length: 2\r\n\r\n{}",
    "absolute form": b"GET http://evil.test/sandbox/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("case", SMUGGLED)
def test_a_request_that_two_could_read_differently_is_refused_and_closed(shared, case):
    """A second request is hidden behind each; it must never be answered."""
    hidden = b"GET /sandbox/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    out = raw_http(shared.port, SMUGGLED[case] + hidden)
    assert len(re.findall(rb"(?:^|\n|\})HTTP/1\.", out)) == (1 if out else 0), out
    if out:
        assert out.split()[1] in (b"400", b"403", b"404", b"421", b"501", b"505"), out[:200]
    assert b"totalCreated" not in out


def test_pipelined_requests_are_answered_in_order(shared):
    one = b"GET /sandbox/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /sandbox/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    out = raw_http(shared.port, one * 3 + last)
    assert out.count(b"HTTP/1.1 200") == 4
    assert out.rindex(b"totalCreated") > out.rindex(b"healthy")


def test_a_chunked_body_is_read(shared):
    body = b"2\r\n{}\r\n0\r\n\r\n"
    out = raw_http(shared.port, HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body)
    assert out.split()[1] == b"400" and b"image" in out


def test_heads_have_a_limit(shared, api):
    long = raw_http(shared.port, b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert not long or long.split()[1] == b"414", long[:100]
    one = raw_http(shared.port, b"GET /sandbox/health HTTP/1.1\r\nHost: localhost\r\nX: "
                   + b"b" * (1 << 20) + b"\r\n\r\n")
    assert not one or one.split()[1] == b"431", one[:100]
    many = raw_http(shared.port, b"GET /sandbox/health HTTP/1.1\r\nHost: localhost\r\n"
                    + b"".join(b"X%d: y\r\n" % i for i in range(10_000)) + b"\r\n")
    assert not many or many.split()[1] == b"431", many[:100]
    api.get("/health").ok()


def test_a_body_too_large_is_refused_before_it_is_read(shared):
    with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as s:
        s.sendall(HEAD + b"Content-Length: 10000000000\r\nExpect: 100-continue\r\n\r\n")
        answer = s.recv(4096)
    assert answer.split()[1] == b"413", answer
    assert b"100 Continue" not in answer


def test_a_chunked_body_too_large_is_cut_off(shared):
    with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as s:
        s.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        sent = 0
        try:
            while sent < 200:
                s.sendall(piece)
                sent += 1
            s.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            answer = s.recv(4096)
        except ConnectionResetError:
            answer = b""
    assert sent < 200 or answer.split()[1] == b"413"


def test_expect_100_continue_is_answered(shared):
    with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as s:
        s.sendall(HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 100 ")
        s.sendall(b"{}")
        out = b""
        while piece := s.recv(4096):
            out += piece
    assert out.split()[1] == b"400"


def test_half_open_connections_do_not_hold_others_up(shared, api):
    """A few hundred that never finish their head; a normal client does not notice."""
    idle = []
    try:
        for _ in range(300):
            s = socket.create_connection(("127.0.0.1", shared.port))
            s.sendall(b"GET /sandbox/health HTTP/1.1\r\nHost: loc")
            idle.append(s)
        with api.again() as other:
            for _ in range(20):
                other.get("/health").ok()
    finally:
        for s in idle:
            s.close()


def test_the_rate_is_limited_per_token_when_asked(daemon_of):
    daemon = daemon_of(env={"CAY_RATE_LIMIT_ENABLED": "true", "CAY_RATE_TOKEN_BURST": 5,
                            "CAY_RATE_TOKEN_RPM": 1, "CAY_AUTH_TOKEN": TOKEN})
    daemon.start()
    with daemon.api() as api:
        statuses = [api.get("/sandboxes").status for _ in range(8)]
        assert statuses[:5] == [200] * 5 and set(statuses[6:]) == {429}
        api.get("/health").ok()


def test_unknown_routes_and_methods(api):
    api.get("/no/such/route").failed(404)
    api.call("PUT", "/sandboxes").failed((404, 405))
    api.call("DELETE", "/health").failed((404, 405))
    assert api.get("//").status in (200, 404)
    api.get("//other/health").failed(404)
    api.get("/sandboxes/").failed(404)


def test_head_and_options_do_not_confuse_a_kept_connection(api):
    assert api.call("HEAD", "/health").status in (200, 404, 405)
    api.get("/health").ok()


def test_the_unix_socket_answers_and_is_not_for_everyone(shared):
    mode = stat.S_IMODE(os.stat(shared.socket_path).st_mode)
    assert mode & 0o007 == 0, oct(mode)
    with shared.unix_api() as api:
        api.get("/health").ok()
        api.get("/health", headers={"Host": "anything"}).ok()
        id = api.create()["id"]
        assert api.sh(id, "echo over unix") == "over unix\n"
        api.remove(id)


def test_another_user_of_the_machine_may_not_use_the_socket(shared):
    program = (f"import socket; s = socket.socket(socket.AF_UNIX); "
               f"print(s.connect_ex({str(shared.socket_path)!r}))")
    root = subprocess.run(["/usr/bin/python3", "-c", program], capture_output=True, check=True)
    assert root.stdout == b"0\n", "control"
    os.chmod(shared.root, 0o711)
    other = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                            "/usr/bin/python3", "-c", program], capture_output=True, check=True)
    assert int(other.stdout) == errno.EACCES


ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
r = s.connect_ex(sys.argv[1])
if r:
    sys.exit(f"connect {r}")
s.sendall(b"%s /sandbox/%s HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Type: application/json\\r\\n"
          b"Content-Length: %%d\\r\\n\\r\\n" %% len(sys.argv[2]) + sys.argv[2].encode())
print(s.makefile().read())
"""


def ask_as(daemon, uid, gid, groups, method="GET", path="sandboxes", body=""):
    """What the socket says to a process of that user and these groups."""
    os.chmod(daemon.root, 0o711)
    extra = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    done = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(gid), *extra, "/usr/bin/python3",
                           "-c", ASK % (method, path), str(daemon.socket_path), body],
                          capture_output=True, text=True)
    return done.stdout.split("\n")[0] or done.stderr.strip()


def test_members_of_the_group_use_the_socket_without_a_token(daemon_of):
    """Any group will do for this; no process of the machine is in `games` or `nogroup` by accident."""
    games, other = 60, 65534
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": TOKEN, "CAY_SOCKET_GROUP": "games"}).start()
    at = os.stat(daemon.socket_path)
    assert (at.st_gid, stat.S_IMODE(at.st_mode)) == (games, 0o660)
    assert ask_as(daemon, 65534, games, []) == "HTTP/1.1 200 OK"
    assert ask_as(daemon, 65534, other, [1, games]) == "HTTP/1.1 200 OK"
    assert ask_as(daemon, 65534, other, [*range(2000, 2200), games]) == "HTTP/1.1 200 OK"
    assert ask_as(daemon, 65534, other, [1]) == f"connect {errno.EACCES}"
    # Paths of the host stay root's, and what the file's mode has become lets nobody in.
    body = '{"path": "/etc", "name": "stolen:1"}'
    assert "403" in ask_as(daemon, 65534, games, [], "POST", "images/import", body)
    os.chmod(daemon.socket_path, 0o666)
    assert "401" in ask_as(daemon, 65534, other, [1])
    # Over TCP a token is needed by everybody.
    with daemon.api(token=None) as api:
        api.get("/sandboxes").failed(401)


def test_without_a_token_members_still_may_and_tcp_can_be_off(daemon_of):
    daemon = daemon_of(env={"CAY_SOCKET_GROUP": "games", "CAY_NO_TCP": "true"})
    ready = daemon.spawn()
    try:
        assert os.read(ready, 100), daemon.log()
    finally:
        os.close(ready)
    assert not (daemon.run / "port").exists()
    assert ask_as(daemon, 65534, 60, []) == "HTTP/1.1 200 OK"
    os.chmod(daemon.socket_path, 0o666)
    assert "403" in ask_as(daemon, 65534, 65534, [])


def test_a_group_that_is_not_there_stops_the_start(daemon_of):
    status, said = daemon_of(env={"CAY_SOCKET_GROUP": "no-such-group"}).refused()
    assert status != 0 and "no-such-group" in said


def test_paths_of_the_host_are_only_for_root_on_the_socket(shared, api):
    """image import reads them as root, so a token or a browser is not enough."""
    body = {"path": "/etc", "name": "stolen:1"}
    api.post("/images/import", body).failed(403, "local_only")
    with shared.unix_api() as local:
        local.post("/images/import", {"path": "/no/such/place", "name": "x:1"}).failed((400, 404))
        shared.apis.remove(local)


def test_state_is_private(shared):
    for path in (shared.data, shared.data / "cay.db"):
        assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path


def test_the_openapi_document_is_whole(api):
    document = api.get("//openapi.json").ok()
    assert document["openapi"].startswith("3.")
    assert document["info"]["title"] and document["info"]["version"]
    ids = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method == "parameters":
                continue
            assert operation["operationId"] not in ids
            ids.add(operation["operationId"])
            assert operation["summary"] and "responses" in operation
            assert operation["x-function"] == operation["operationId"].replace("_", "::", 1)
    assert len(ids) >= 35
    assert document == cay_shapes.document(CAY).document, "what answers are held against"
