"""The proxy between hostile servers, hostile pages and the operator."""

import base64
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
import time

import pytest
from cay_harness import SLOW, wait_until
from cay_order import comes_before, hung_up, settled
from test_proxy import PORT, SERVED, Proxied, serve

pytestmark = pytest.mark.core

TOKEN = "the-operators-own-token"


@pytest.fixture
def guarded(daemon_of):
    """A server in a sandbox of a daemon that has a token."""
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": TOKEN}).start()
    api = daemon.api(token=TOKEN)
    id = api.create(name="guarded")["id"]
    yield serve_guarded(daemon, api, id)
    api.close()


def serve_guarded(daemon, api, id, port=PORT):
    api.write(id, "served.py", SERVED)
    api.background(id, f"exec python3 served.py {port}")
    served = Proxied(daemon, api, id, port)
    wait_until(lambda: served.ask("/", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200)
    return served


def below(served, path="/"):
    return {"path": f"/sandbox/proxy/{served.id}/{served.port}{path}", "host": f"localhost:{served.daemon.port}"}


def test_the_token_never_reaches_the_sandbox_and_other_authorization_does(guarded):
    for value in (f"Bearer {TOKEN}", TOKEN, f"bearer {TOKEN}"):
        for how in ({"path": "/x"}, below(guarded, "/x")):
            told = guarded.echo(**how, headers={"Authorization": value})
            assert TOKEN not in json.dumps(told)
            assert "authorization" not in told["named"]
    word = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": f"chat,bearer.{word}, bearer.b3RoZXI"}
    for how in ({"path": "/x"}, below(guarded, "/x")):
        told = guarded.echo(**how, headers=upgrade)
        assert told["named"]["sec-websocket-protocol"] == "chat, bearer.b3RoZXI"
        assert word not in json.dumps(told)
    signature = guarded.sign()["url"].split("cay_signature=")[1]
    told = guarded.echo(f"/x?a=b&cay_signature={signature}&c=d", headers={"Authorization": "Basic YTpi"})
    assert told["named"]["authorization"] == "Basic YTpi" and told["path"] == "/x?a=b&c=d"


def test_a_signature_reaches_the_sandbox_neither_by_query_cookie_nor_referer(guarded):
    signature = guarded.sign()["url"].split("cay_signature=")[1]
    told = guarded.echo(f"/x?cay_signature={signature}",
                        headers={"Cookie": f"a=b; cay_signature={signature}; c=d",
                                 "Referer": f"http://{guarded.host}/y?cay_signature={signature}"})
    assert signature not in json.dumps(told)
    assert told["named"]["cookie"] == "a=b; c=d" and told["named"]["referer"] == f"http://localhost:{PORT}/y"
    assert told["path"] == "/x"


def test_without_proof_there_is_no_way_in(guarded):
    for how in ({"path": "/x"}, below(guarded, "/x"), {"path": "/x", "host": f"{PORT}-guarded.localhost"}):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "cay_signature=1-2"}):
            assert guarded.ask(**how, headers=headers).status == 401
    before = guarded.ask("/counts", headers={"Authorization": TOKEN}).data
    assert json.loads(before)["counts"].get("/x", 0) == 0


def test_a_signature_opens_its_port_of_its_sandbox_until_its_time(guarded):
    good = guarded.sign(path="/x")
    path = good["url"].removeprefix(f"http://{guarded.host}")
    signature = path.split("cay_signature=")[1]
    assert guarded.ask(path).status == 200
    assert guarded.ask(good["path"], host=f"localhost:{guarded.daemon.port}").status == 200
    other = serve_guarded(guarded.daemon, guarded.api, guarded.id, PORT + 1)
    assert other.ask(path).status == 401
    twin = guarded.api.create()["id"]
    assert serve_guarded(guarded.daemon, guarded.api, twin).ask(path).status == 401
    time_part, mac = signature.split("-")
    for bad in (f"{int(time_part, 16) + 1:x}-{mac}", f"{time_part}-{mac[:-1]}", f"{time_part}-{'0' * len(mac)}", mac, "-",
                f"{time_part}-{mac}0", f"0{time_part}-{mac}", ""):
        assert guarded.ask(f"/x?cay_signature={bad}").status == 401, bad
    short = guarded.sign(expiresIn=1)["url"].split("cay_signature=")[1]
    while time.time() * 1000 < int(short.split("-")[0], 16):
        time.sleep(0.05)  # what is waited for is its end
    assert guarded.ask(f"/x?cay_signature={short}").status == 401
    guarded.config(revokeSigned=True)
    assert guarded.ask(path).status == 401
    assert guarded.ask(guarded.sign()["url"].removeprefix(f"http://{guarded.host}")).status == 200


def test_a_browser_keeps_a_signature_as_a_cookie_that_others_pages_cannot_use(guarded):
    path = guarded.sign(path="/x?a=b")["url"].removeprefix(f"http://{guarded.host}")
    first = guarded.ask(path, headers={"Accept": "text/html"})
    assert (first.status, first.getheader("Location")) == (303, "/x?a=b")
    signature = path.split("cay_signature=")[1]
    for elsewhere in ("//evil.test/", "/\\evil.test/"):
        assert guarded.ask(f"{elsewhere}?cay_signature={signature}", headers={"Accept": "text/html"}).status == 200
    cookie = first.getheader("Set-Cookie")
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Domain" not in cookie
    pair = cookie.split(";")[0]
    assert guarded.ask("/x", headers={"Cookie": pair}).status == 200
    # What is none does not become a cookie beside one that is.
    for bad in ("1-2", "x;Domain=localhost;Path=/", signature + "0"):
        other = guarded.ask(f"/x?cay_signature={bad}", headers={"Cookie": pair, "Accept": "text/html"})
        assert (other.status, other.getheader("Set-Cookie")) == (200, None), bad
    for headers in ({"Origin": "http://evil.test"}, {"Origin": "null"},
                    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
                    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "websocket", "Sec-Fetch-Dest": "websocket"}):
        assert guarded.ask("/x", headers={"Cookie": pair, **headers}).status == 401, headers


def test_below_the_api_a_signature_is_kept_too_also_behind_tls(guarded):
    for proto in ("http", "https"):
        first = guarded.ask(guarded.sign(path="/x")["path"], host="localhost", headers={"X-Forwarded-Proto": proto})
        cookie = first.getheader("Set-Cookie") or ""
        assert f"Path=/sandbox/proxy/{guarded.id}/{PORT}/;" in cookie and ("Secure" in cookie) == (proto == "https")
        again = guarded.ask(f"/sandbox/proxy/{guarded.id}/{PORT}/x", host="localhost", headers={"Cookie": cookie.split(";")[0]})
        assert (first.status, again.status) == (200, 200)


def test_names_that_lead_here_by_rebinding_are_refused(guarded):
    token = {"Authorization": TOKEN}
    for host in ("evil.test", f"{PORT}-{guarded.id}.evil.test", f"{PORT}-{guarded.id}.localhost.evil.test", "guarded.localhost"):
        assert guarded.ask(f"/sandbox/proxy/{guarded.id}/{PORT}/x", host=host, headers=token).status == 403, host
        assert guarded.ask("/x", host=host, headers=token).status == 403, host


def test_pages_of_other_origins_cannot_use_a_name(shared, api, make):
    served = serve(shared, api, make(name="guessable")["id"])
    host = f"{PORT}-guessable.localhost:{shared.port}"
    assert served.ask("/x", host=host).status == 200
    for headers in ({"Origin": "http://evil.test"}, {"Origin": f"http://localhost:{shared.port}"},
                    {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
                    {"Origin": "http://evil.test", "Connection": "Upgrade", "Upgrade": "websocket"}):
        assert served.ask("/x", host=host, headers=headers).status == 403, headers
    preflight = served.ask("/x", method="OPTIONS", host=host,
                           headers={"Origin": "http://evil.test", "Access-Control-Request-Method": "PUT"})
    assert preflight.status == 403 and preflight.getheader("Access-Control-Allow-Origin") is None
    api.call("PATCH", f"/sandboxes/{served.id}", {"metadata": {"k": "right"}}).ok()
    for value, status in (("right", 200), ("wrong", 404)):
        path = f"/sandbox/proxy/guessable@k={value}/{PORT}/x"
        assert served.ask(path, host="localhost").status == status
        assert served.ask(path, host="localhost", headers={"Origin": "http://evil.test"}).status == 403


def test_a_refusal_does_not_tell_which_names_and_metadata_there_are(guarded):
    """A29: neither by its status nor by a header, whatever origin the client claims."""
    api, id = guarded.api, guarded.id
    api.call("PATCH", f"/sandboxes/{id}", {"metadata": {"secret": "right"}}).ok()
    proved = guarded.ask(f"/sandbox/proxy/guarded@secret=right/{PORT}/x", host="localhost", headers={"Authorization": f"Bearer {TOKEN}"})
    assert proved.status == 200

    def said(word, **headers):
        answer = guarded.ask(f"/sandbox/proxy/{word}/{PORT}/x", host="localhost", headers=headers)
        return answer.status, sorted(name for name, _ in answer.getheaders()), answer.data.replace(word.encode(), b"")

    for cors in ("*", "https://app.test"):
        guarded.config(cors=cors)
        for headers in ({}, {"Origin": "https://other.test"}, {"Origin": "https://app.test"}):
            got = said("guarded@secret=right", **headers)
            assert got[0] == 401 and got == said("guarded@secret=wrong", **headers), (cors, headers)
            if headers.get("Origin") != cors:  # a page that the sandbox's owner has named may know it
                assert said("guarded", **headers) == said("nobody", **headers), (cors, headers)


def test_a_page_of_a_sandbox_cannot_call_the_api(shared, api, make):
    served = serve(shared, api, make()["id"])
    page = served.ask(**below(served, "/raw/cookies"))
    assert page.getheader("Content-Security-Policy").startswith("sandbox ")
    assert "allow-same-origin" not in page.getheader("Content-Security-Policy")
    assert page.getheader("Set-Cookie") is None
    told = served.echo(**below(served, "/x"), headers={"Cookie": "of=others"})
    assert "cookie" not in told["named"]
    assert served.ask(**below(served, "/sw.js"), headers={"Service-Worker": "script"}).status == 403
    # What such pages send to the API itself: by path an origin of their own, by host name that of the port.
    for origin in ("null", f"http://{served.host}"):
        assert served.ask("/sandbox/sandboxes", host=f"localhost:{shared.port}", headers={"Origin": origin}).status == 403
    # And the API is not served at the port's host name.
    assert json.loads(served.ask("/sandbox/sandboxes").data)["path"] == "/sandbox/sandboxes"
    assert served.ask("/raw/cookies").getheader("Set-Cookie") == "a=b; Path=/"


def test_requireauth_holds_also_where_there_is_no_token(shared, api, make):
    served = serve(shared, api, make()["id"])
    served.config(requireAuth=True)
    assert served.ask("/x").status == 401
    assert served.ask(**below(served)).status == 401
    assert served.ask(served.sign()["url"].removeprefix(f"http://{served.host}")).status == 200


def test_h2c_is_not_passed_on(shared, api, make):
    served = serve(shared, api, make()["id"])
    told = served.echo("/x", headers={"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA"})
    assert not {"upgrade", "http2-settings", "connection"} & set(told["named"])


def test_the_key_is_the_daemons_alone(guarded):
    key = guarded.daemon.root / "data" / "proxy.key"
    assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_size == 32


# Answers that are longer than sockets on the way take in, and that come when nobody waits for them with a thread any more.
LONG = """import asyncio
async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 9000000\\r\\n\\r\\n")
    await asyncio.sleep(0.1)
    writer.write(bytes(600000))
async def main():
    async with await asyncio.start_server(answer, "127.0.0.1", 8099, backlog=500) as server:
        await server.serve_forever()
asyncio.run(main())"""


def open_unread(daemon, id):
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(daemon.socket_path))  # a socket with a timeout would fail where this one waits for room in the daemon's queue
    s.settimeout(60 * SLOW)
    s.sendall(f"GET / HTTP/1.1\r\nHost: {Proxied(daemon, None, id).host}\r\n\r\n".encode())
    return s


def test_those_who_do_not_read_answers_hold_up_no_stream_of_the_api(daemon_of):
    own = daemon_of(env={"CAY_STALL_TIMEOUT": 600}).start()  # until the daemon closes a connection of the crowd
    with own.api() as api:
        def is_served(id):
            with open_unread(own, id) as s:
                return s.recv(15) == b"HTTP/1.1 200 OK"

        victim, served = api.create()["id"], [api.create(memory=1024)["id"] for _ in range(3)]
        for id in served:
            api.write(id, "long.py", LONG)
            api.background(id, "exec python3 long.py")
            wait_until(lambda id=id: is_served(id))

        def fds():
            return len(os.listdir(f"/proc/{own.process.pid}/fd"))

        @contextlib.contextmanager
        def crowd():
            before = fds()
            with contextlib.ExitStack() as opened:
                unread = [opened.enter_context(open_unread(own, served[i % 3])) for i in range(3 * 480)]

                def in_sockets():
                    return sum(struct.unpack("i", fcntl.ioctl(s, termios.FIONREAD, b"\0" * 4))[0] for s in unread)

                settled(in_sockets)  # they take no more
                yield
                assert not hung_up(unread)
            wait_until(lambda: fds() < before + 50, what="the end of the connections")

        def stream():
            return list(api.events("POST", f"/sandboxes/{victim}/exec/stream", {"command": "echo hi"}, timeout=120))

        with crowd():
            said = comes_before(stream, lambda: api.exec(victim, "true"), 100)
        assert said[-1]["type"] == "exit"
