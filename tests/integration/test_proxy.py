"""Requests that are passed on to ports of sandboxes: by path, by host name, and as JSON."""

import hashlib
import http.client
import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from cay_harness import rss_kib, wait_until
from cay_kept import environment
from test_state_faults import disk_full

pytestmark = pytest.mark.core

PORT = 8099
SERVED = Path(__file__).with_name("cay_served.py").read_text()


class Proxied:
    """The server in a sandbox, seen through a daemon."""

    def __init__(self, daemon, api, id, port=PORT):
        self.daemon, self.api, self.id, self.port = daemon, api, id, port

    @property
    def host(self):
        return f"{self.port}-{self.id.replace('_', '-')}.localhost:{self.daemon.port}"

    def ask(self, path="/", method="GET", body=None, headers=None, host=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers={"Host": host or self.host, **(headers or {})})
            answer = connection.getresponse()
            answer.data = answer.read()
            return answer
        finally:
            connection.close()

    def echo(self, path="/x", **how):
        answer = self.ask(path, **how)
        assert answer.status == 200, answer.data
        told = json.loads(answer.data)
        told["named"] = {}
        for name, value in told["headers"]:
            told["named"].setdefault(name.lower(), value)
        return told

    def counts(self):
        return json.loads(self.ask("/counts").data)

    def raw(self, data):
        """All that comes back for these bytes until the daemon closes."""
        with self.connect() as s:
            s.sendall(data)
            whole = b""
            while piece := s.recv(65536):
                whole += piece
            return whole

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.daemon.port), timeout=60)

    def sign(self, **fields):
        return self.api.post(f"/sandboxes/{self.id}/proxy/sign", {"port": self.port, **fields}).ok()

    def config(self, **fields):
        return self.api.post(f"/sandboxes/{self.id}/proxy/config", fields).ok()


def serve(daemon, api, id, port=PORT, tag=""):
    api.write(id, "served.py", SERVED)
    api.background(id, f"exec python3 served.py {port} {tag}")
    served = Proxied(daemon, api, id, port)
    wait_until(lambda: served.ask("/").status == 200, what="the server in the sandbox")
    return served


@pytest.fixture
def served(shared, api, make):
    return serve(shared, api, make(name="proxied-page")["id"])


# ---- the request as the server sees it ----

def test_a_request_by_host_name_reaches_the_server_as_one_of_localhost(served):
    told = served.echo("/a%20b?c=d&e", method="PUT", body=b"hello",
                     headers={"X-Mine": "1", "Origin": f"http://{served.host}", "Referer": f"http://{served.host}/p?q",
                              "Accept-Encoding": "gzip"})
    assert (told["method"], told["path"], told["length"]) == ("PUT", "/a%20b?c=d&e", 5)
    assert told["digest"] == hashlib.sha256(b"hello").hexdigest()
    named = told["named"]
    assert named["host"] == named["origin"].removeprefix("http://") == f"localhost:{PORT}"
    assert named["referer"] == f"http://localhost:{PORT}/p?q"
    assert named["x-forwarded-host"] == served.host and named["x-forwarded-proto"] == "http"
    assert named["x-forwarded-for"] == "127.0.0.1"
    assert named["forwarded"] == f'for=127.0.0.1;host="{served.host}";proto=http'
    assert named["x-mine"] == "1" and named["accept-encoding"] == "gzip"


def test_a_sandbox_is_found_by_its_name_and_by_both_spellings_of_its_id(served):
    for word in (served.id, served.id.replace("_", "-"), served.id.upper().replace("SBX_", "sbx-"), "proxied-page"):
        assert served.ask("/", host=f"{PORT}-{word}.localhost:{served.daemon.port}").status == 200, word
        if "-" not in word or word == "proxied-page":
            path = f"/sandbox/proxy/{word}/{PORT}/deep/path?x=1"
            told = served.echo(path, host=f"localhost:{served.daemon.port}")
            assert told["path"] == "/deep/path?x=1"
            assert told["named"]["x-forwarded-prefix"] == f"/sandbox/proxy/{word}/{PORT}"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_every_method_passes(served, method):
    before = served.counts()["counts"].get(f"/method/{method}", 0)
    answer = served.ask(f"/method/{method}", method=method)
    assert answer.status == 200 and answer.getheader("Content-Type") == "application/json"
    if method != "HEAD":
        assert json.loads(answer.data)["method"] == method
    assert served.counts()["counts"][f"/method/{method}"] == before + 1


def test_what_is_about_the_connection_does_not_pass(served):
    told = served.echo(headers={"Connection": "X-Secret, keep-alive", "X-Secret": "1", "Keep-Alive": "timeout=5", "TE": "trailers",
                              "Proxy-Authorization": "Basic YTpi", "Proxy-Connection": "close"})
    assert not {"x-secret", "connection", "keep-alive", "te", "proxy-authorization", "proxy-connection"} & set(told["named"])
    told = served.echo(headers={"Connection": "keep-alive", "connection": "X-Secret", "X-Secret": "1", "X-Open": "1"})
    assert "x-secret" not in told["named"] and "x-open" in told["named"]


def test_bodies_of_both_framings_arrive_whole(served):
    body = os.urandom(300000)
    assert served.echo(method="POST", body=body)["digest"] == hashlib.sha256(body).hexdigest()
    told = served.echo(method="POST", body=iter([body[:1], body[1:70000], body[70000:]]))
    assert told["digest"] == hashlib.sha256(body).hexdigest() and told["named"]["transfer-encoding"] == "chunked"


def test_trailers_pass_both_ways_but_for_those_that_mean_something_else(served):
    text = (f"POST /t HTTP/1.1\r\nHost: {served.host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            "2\r\nhi\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\n")
    told = json.loads(served.raw(text.encode()).split(b"\r\n\r\n", 1)[1])
    assert told["trailers"] == [["X-Sum", "1"]]
    answer = served.raw(f"GET /raw/trailers HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.endswith(b"5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n"), answer


def test_an_expecting_client_is_told_to_go_on(served):
    with served.connect() as s:
        s.sendall(f"POST /e HTTP/1.1\r\nHost: {served.host}\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode())
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"hi")
        assert s.recv(20).startswith(b"HTTP/1.1 200 OK")


def test_requests_of_one_connection_are_answered_in_order(served):
    text = "".join(f"GET /p/{i} HTTP/1.1\r\nHost: {served.host}\r\n\r\n" for i in range(20))
    text += f"POST /p/20 HTTP/1.1\r\nHost: {served.host}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
    text += f"GET /p/21 HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n\r\n"
    answer = served.raw(text.encode())
    places = [answer.index(f'"/p/{i}"'.encode()) for i in range(22)]
    assert places == sorted(places)


@pytest.mark.parametrize("head", [
    "POST / HTTP/1.1\r\nHost: {h}\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {h}\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
    "POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {h}\r\nX-A: b\r\n c\r\n\r\n",
    "GET / HTTP/1.1\nHost: {h}\n\n",
    "GET / HTTP/1.1\r\nHost: {h}\r\nHost: localhost\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n0\r\n\r\n",
])
def test_what_has_two_readings_is_refused(served, head):
    before = served.counts()["counts"].get("/", 0)
    assert served.raw(head.format(h=served.host).encode()).startswith(b"HTTP/1.1 400")
    assert served.counts()["counts"].get("/", 0) <= before + (1 if "zz" in head else 0)


# ---- answers ----

@pytest.mark.parametrize("name", [
    "lf", "folded", "two-lengths", "length-and-coding", "odd-coding", "coding-of-1.0", "space-before-colon", "nul", "bare-cr",
    "no-status", "status-999", "version-2", "ssh", "nothing", "half-a-head", "unasked-101", "long-head",
    "many-headers"])
def test_an_answer_that_is_not_http_becomes_a_502(served, name):
    answer = served.ask(f"/raw/{name}")
    assert answer.status == 502 and json.loads(answer.data)["code"] == "bad_answer", (answer.status, answer.data)
    assert not answer.getheader("X-Injected")


@pytest.mark.parametrize("name", ["bad-chunk-at-once", "cut-body", "cut-chunks"])
def test_an_answer_that_breaks_off_does_not_look_whole(served, name):
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer = served.ask(f"/raw/{name}")
        assert answer.status == 502
        raise ConnectionError  # it was found before anything was sent: as good


def test_answers_of_all_framings_pass(served):
    assert served.ask("/raw/until-close").data == b"all of it"
    assert served.ask("/raw/no-content").status == 204
    assert served.ask("/raw/trailers").data == b"hello"
    assert served.ask("/raw/extra").data == b"hi"
    assert served.ask("/x", method="HEAD").data == b""
    with served.connect() as s:
        s.sendall(f"GET /raw/early-hints HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n\r\n".encode())
        whole = b""
        while data := s.recv(4096):
            whole += data
    assert whole.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n")
    old = served.raw(f"GET /raw/until-close HTTP/1.0\r\nHost: {served.host}\r\n\r\n".encode())
    assert old.endswith(b"\r\n\r\nall of it") and b"chunked" not in old


def test_headers_of_answers_that_are_about_the_connection_stay_behind(served):
    answer = served.ask("/raw/hop-by-hop")
    assert answer.getheader("X-Other") == "2"
    for name in ("X-Mine", "Keep-Alive", "Alt-Svc", "Proxy-Authenticate"):
        assert answer.getheader(name) is None, name


def test_headers_that_any_connection_header_names_stay_behind(served):
    told = served.raw(f"GET /x HTTP/1.1\r\nHost: {served.host}\r\nConnection: close, X-One\r\nX-One: 1\r\n"
                      "Connection: X-Two\r\nX-Two: 2\r\nX-Three: 3\r\n\r\n".encode())
    assert b"X-Three" in told and b"X-One" not in told and b"X-Two" not in told


@pytest.mark.needs("program:strace")
def test_settings_that_cannot_be_stored_are_not_in_force(own):
    with own.api() as api:
        path = f"/sandboxes/{api.create()['id']}/proxy/config"
        before = api.post(path, {"requireAuth": True, "cors": "https://app.example"}).ok()
        with disk_full(own):
            api.post(path, {"requireAuth": False, "cors": "*"}).failed(503, "no_space")
        assert api.post(path, {}).ok() == before


def test_a_redirect_leads_back_through_the_proxy(served):
    assert served.ask("/raw/redirect").getheader("Location") == "/there?x=1"
    assert served.ask("/raw/redirect-away").getheader("Location") == "https://example.test/"
    prefix, host = f"/sandbox/proxy/{served.id}/{PORT}", f"localhost:{served.daemon.port}"
    assert served.ask(f"{prefix}/raw/redirect", host=host).getheader("Location") == f"{prefix}/there?x=1"
    assert served.ask(f"{prefix}/raw/redirect-path", host=host).getheader("Location") == f"{prefix}/there"
    bare = served.ask(prefix, host=host)
    assert (bare.status, bare.getheader("Location")) == (308, prefix + "/")


def is_probed(daemon, client):
    """Does the kernel ask the other end of the daemon's connection whether it lives?"""
    ends = [f":{port:04X}" for port in (daemon.port, client.getsockname()[1])]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return any(row[1].endswith(ends[0]) and row[2].endswith(ends[1]) and row[5].startswith("02:") for row in rows)


def test_a_client_that_goes_without_a_word_does_not_keep_a_silent_stream(served):
    with served.connect() as s:
        s.sendall(f"GET /sse HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 200 OK")
        wait_until(lambda: is_probed(served.daemon, s))


def test_events_come_as_they_are_sent(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.daemon.port, timeout=60)
    connection.request("GET", "/sse", headers={"Host": served.host})
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    assert answer.readline() == b"data: first\n"
    assert served.ask("/poke").data == b"poked"
    assert answer.read() == b"\ndata: second\n\n"
    connection.close()


def test_an_upgraded_connection_carries_bytes_until_both_have_ended(served):
    with served.connect() as s:
        s.sendall(f"GET /upgrade HTTP/1.1\r\nHost: {served.host}\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\nat once".encode())
        got = b""
        while not got.endswith(b"at once"):
            got += s.recv(4096)
        head, rest = got.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols") and b"Upgrade: anything" in head
        assert rest == b"hello at once"
        block = os.urandom(1 << 20)
        sent, back = 0, b""
        s.setblocking(False)
        while len(back) < len(block):
            try:
                sent += s.send(block[sent:sent + 65536]) if sent < len(block) else 0
            except BlockingIOError:
                pass
            try:
                back += s.recv(65536)
            except BlockingIOError:
                pass
        assert back == block
        s.setblocking(True)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(100) == b" bye"


def test_websockets_pass(served):
    """By the client of PyPI, against the server of PyPI in the sandbox."""
    packages = next((environment("websockets") / "lib").glob("python3*/site-packages"))
    tar = subprocess.run(["tar", "-C", packages, "-cz", "."], capture_output=True, check=True).stdout
    served.api.upload(served.id, "packages.tgz", tar)
    served.api.write(served.id, "ws.py", "import asyncio, websockets\n"
                   "async def echo(ws):\n    async for m in ws:\n        await ws.send(m)\n"
                   "async def main():\n    async with websockets.serve(echo, '127.0.0.1', 8098, max_size=None):\n"
                   "        await asyncio.Future()\nasyncio.run(main())\n")
    served.api.sh(served.id, "mkdir -p p && tar -xzf packages.tgz -C p")
    served.api.background(served.id, "PYTHONPATH=p exec python3 ws.py")
    there = Proxied(served.daemon, served.api, served.id, 8098)
    wait_until(lambda: there.ask("/").status == 426, what="the WebSocket server")
    client = ("import asyncio, sys, websockets\nasync def main():\n"
              "    async with websockets.connect(sys.argv[1], max_size=None, host='127.0.0.1', port=int(sys.argv[2])) as ws:\n"
              "        for m in ('text', b'bytes', 'x' * 3000000):\n"
              "            await ws.send(m)\n            assert await ws.recv() == m\n    print('ok')\nasyncio.run(main())\n")
    for url in (f"ws://{there.host}/", f"ws://localhost:{served.daemon.port}/sandbox/proxy/{served.id}/8098/"):
        done = subprocess.run(["/usr/bin/python3", "-c", client, url, str(served.daemon.port)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(packages)})
        assert done.stdout == "ok\n", done.stderr


def test_long_transfers_stream_and_the_daemon_stays_small(served):
    n = 100 << 20
    before = rss_kib(served.daemon.pid)
    digest = hashlib.sha256(bytes(range(256)) * 256 * (n >> 16)).hexdigest()
    down = subprocess.run(f"curl -sS -H 'Host: {served.host}' http://127.0.0.1:{served.daemon.port}/bytes/{n} | sha256sum",
                          shell=True, capture_output=True, text=True, timeout=120)
    assert down.stdout.split()[0] == digest, down.stderr
    up = subprocess.run(["curl", "-sS", "-H", f"Host: {served.host}", "-T", "-", "-X", "POST", f"http://127.0.0.1:{served.daemon.port}/up"],
                        input=bytes(range(256)) * 256 * (n >> 16), capture_output=True, timeout=120)
    told = json.loads(up.stdout)
    assert (told["digest"], told["length"]) == (digest, n)
    assert rss_kib(served.daemon.pid) - before < 20000


@pytest.mark.needs("program:node")
def test_node_fetch_posts_and_reads(served):
    code = (f"fetch('http://localhost:{served.daemon.port}/sandbox/proxy/{served.id}/{PORT}/n', {{method: 'POST', body: 'x'.repeat(99999)}})"
            ".then(r => r.json()).then(j => console.log(j.length))")
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "99999\n", done.stderr


def test_idle_streams_hold_no_thread(served):
    def threads():
        return len(os.listdir(f"/proc/{served.daemon.pid}/task"))

    def open_stream():
        s = served.connect()
        opened.append(s)
        s.sendall(f"GET /upgrade HTTP/1.1\r\nHost: {served.host}\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n".encode())
        return s

    def is_open(s):
        got = s.recv(2000)
        assert got.startswith(b"HTTP/1.1 101"), got

    opened = []
    try:
        # 100 at once are more than a sandbox may have unanswered: some wait for their turn. A worker that has opened a stream of one
        # hundred opens one of the next hundred. (Workers that are idle end after 10 s: those of other tests.)
        for _ in range(3):
            for s in [open_stream() for _ in range(100)]:
                is_open(s)
        wait_until(lambda: threads() < 200, what="fewer threads than streams")
        assert served.ask("/").status == 200
    finally:
        for s in opened:
            s.close()


# ---- connections to the sandbox ----

def test_connections_are_kept_and_a_closed_one_is_no_failure(served):
    for _ in range(20):
        assert served.ask("/x").status == 200
    assert served.counts()["connections"] < 8
    for _ in range(5):  # the server closes each kept connection when it is asked again
        assert served.ask("/leave").data == b"first"


def test_what_changes_something_is_sent_once(served):
    assert served.ask("/leave").data == b"first"
    for _ in range(3):
        assert served.ask("/leave", method="POST", body=b"x").data == b"first"
    before = served.counts()["counts"].get("/raw/nothing", 0)
    assert served.ask("/raw/nothing", method="POST", body=b"x").status == 502
    assert served.counts()["counts"]["/raw/nothing"] == before + 1


# ---- when nothing answers ----

def test_a_port_where_nothing_listens_yet_gets_a_page_that_looks_again(api, shared, box):
    there = Proxied(shared, api, box, 8001)
    answer = there.ask("/")
    assert (answer.status, json.loads(answer.data)["code"]) == (502, "port_closed")
    assert int(answer.getheader("Retry-After")) >= 1
    page = there.ask("/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert page.status == 502 and b'http-equiv="refresh"' in page.data and b"<script" not in page.data


def test_sandboxes_that_do_not_run_have_their_own_answers(served):
    html = {"Accept": "text/html"}
    served.api.post(f"/sandboxes/{served.id}/pause").ok()
    answer = served.ask("/", headers=html)
    assert answer.status == 503 and b"resume" in answer.data and answer.getheader("Retry-After")
    served.api.post(f"/sandboxes/{served.id}/resume").ok()
    assert served.ask("/").status == 200
    served.api.post(f"/sandboxes/{served.id}/stop").ok()
    assert json.loads(served.ask("/").data)["code"] == "sandbox_not_running"
    assert served.ask("/", host=f"80-sbx-{'0' * 24}.localhost").status == 404
    assert b"&lt;" not in served.ask("/", host="80-nobody.localhost", headers=html).data


def test_an_answer_that_does_not_come_is_given_up(served):
    assert served.config(timeout=300)["timeout"] == 300
    answer = served.ask("/hang")
    assert (answer.status, json.loads(answer.data)["code"]) == (504, "proxy_timeout")


# ---- settings ----

def test_settings_are_told_and_kept(daemon_of):
    daemon = daemon_of().start()
    with daemon.api() as api:
        id = api.create()["id"]
        assert api.post(f"/sandboxes/{id}/proxy/config").ok() == {
            "sandboxId": id, "proxyBase": f"sandbox/proxy/{id}", "cors": "*", "requireAuth": False, "timeout": 30000,
            "url": f"http://{{port}}-{id.replace('_', '-')}.localhost:{daemon.port}/"}
        new = api.post(f"/sandboxes/{id}/proxy/config", {"cors": "https://a.test", "requireAuth": True, "timeout": 5000}).ok()
        assert (new["cors"], new["requireAuth"], new["timeout"]) == ("https://a.test", True, 5000)
        metadata = api.sandbox(id)["metadata"]
        assert (metadata["proxy_cors"], metadata["proxy_auth"], metadata["proxy_timeout"]) == ("https://a.test", "true", "5000")
        for bad in ({"cors": "a.test"}, {"cors": "https://a.test/path"}, {"timeout": 1}):
            api.post(f"/sandboxes/{id}/proxy/config", bad).failed(400)
    daemon.kill9()
    daemon.start()
    with daemon.api() as api:
        assert api.post(f"/sandboxes/{id}/proxy/config").ok()["requireAuth"] is True


def expose(api, id, port=PORT):
    return api.post(f"/sandboxes/{id}/ports", {"containerPort": port, "hostPort": 0}).ok()


def test_pages_of_other_origins_read_what_cors_says(served):
    other = {"Origin": "https://other.test"}
    expose(served.api, served.id)
    assert served.ask("/x", headers=other).getheader("Access-Control-Allow-Origin") == "*"
    preflight = served.ask("/x", method="OPTIONS", headers={**other, "Access-Control-Request-Method": "PUT",
                                                             "Access-Control-Request-Headers": "x-mine"})
    assert preflight.status == 204 and preflight.getheader("Access-Control-Allow-Methods") == "PUT"
    assert preflight.getheader("Access-Control-Allow-Headers") == "x-mine"
    served.config(cors="https://a.test, https://other.test")
    answer = served.ask("/x", headers=other)
    assert answer.getheader("Access-Control-Allow-Origin") == "https://other.test"
    assert answer.getheader("Access-Control-Allow-Credentials") == "true" and answer.getheader("Vary") == "Origin"
    assert served.ask("/x", headers={"Origin": "https://b.test"}).getheader("Access-Control-Allow-Origin") is None
    served.config(cors="")
    assert served.ask("/x", headers=other).getheader("Access-Control-Allow-Origin") is None
    assert json.loads(served.ask("/x", method="OPTIONS", headers={**other, "Access-Control-Request-Method": "PUT"}).data)["method"] == "OPTIONS"


# ---- as JSON ----

def test_one_request_as_json(served):
    path = f"/proxy/{served.id}/{PORT}"
    served.api.post(path, {}).failed(409, "port_not_exposed", f"Port {PORT} is not exposed on sandbox {served.id}")
    expose(served.api, served.id)
    answer = served.api.post(path, {"method": "POST", "path": "/j?a=1", "headers": {"X-Mine": "1", "Connection": "x"}, "body": "hi"}).ok()
    told = json.loads(answer["body"])
    assert (answer["statusCode"], answer["url"]) == (200, f"http://localhost:{PORT}/j?a=1")
    assert answer["headers"]["content-type"] == "application/json"
    assert (told["method"], told["path"], told["length"]) == ("POST", "/j?a=1", 2)
    assert ["X-Mine", "1"] in told["headers"] and ["Connection", "close"] in told["headers"]
    assert served.api.post(path, {"path": "/raw/redirect"}).ok()["statusCode"] == 302
    assert served.api.post(path, {"path": "", "body": "dropped"}).ok()["url"] == f"http://localhost:{PORT}/"
    assert served.api.post(path, {"path": "/raw/early-hints"}).ok()["body"] == "hi"
    assert served.api.post(path, {"path": "/raw/trailers"}).ok()["body"] == "hello"
    assert served.api.post(path, {"path": "/raw/until-close"}).ok()["body"] == "all of it"
    assert served.api.post(path, {"method": "HEAD"}).ok()["body"] == ""
    served.api.post(path, {"path": "x"}).failed(400)
    served.api.post(path, {"path": "/a b"}).failed(400)
    served.api.post(path, {"headers": {"A": "b\r\nC: d"}}).failed(400)
    served.api.post(path, {"headers": {"A b": "c"}}).failed(400)
    served.api.post(path, {"path": "/raw/lf"}).failed(503, "bad_answer")
    served.api.post(path, {"path": f"/bytes/{9 << 20}"}).failed(413, "answer_too_large")
    assert len(served.api.post(path, {"path": f"/bytes/{1 << 20}"}).ok()["body"]) > 0
    before = served.counts()["counts"].get("/raw/nothing", 0)
    served.api.post(path, {"method": "POST", "path": "/raw/nothing", "body": "x"}).failed(503, "bad_answer")
    assert served.counts()["counts"]["/raw/nothing"] == before + 1
    served.config(timeout=300)
    served.api.post(path, {"path": "/hang"}).failed(408, "proxy_timeout")


# ---- signed addresses ----

def test_the_cli_prints_addresses(served):
    cay = [os.environ.get("CAY_BIN", "build/cay"), "--host", f"unix:{served.daemon.socket_path}", "url"]

    def url(*words):
        return subprocess.run([*cay, *words], capture_output=True, text=True, check=True).stdout.strip()

    assert url(served.id, str(PORT)) == f"http://{served.host}/"
    signed = url("--expires", "1h", "--path", "/a?b=c", served.id, str(PORT))
    assert signed.startswith(f"http://{served.host}/a?b=c&cay_signature=")
    told = served.echo(signed.removeprefix(f"http://{served.host}"))
    assert told["path"] == "/a?b=c"
