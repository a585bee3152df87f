"""Terminals: the contract's routes, WebSockets and channels, `cay shell`; what outlives what."""

import base64
import contextlib
import json
import os
import socket

import pytest

from cay_harness import cay, wait_until
from cay_pypi import import_from
from test_first_hour import Terminal
from test_replace import replace

pytestmark = pytest.mark.core

TOKEN = "a-token/with+odd~bytes?>"
NOBODY = "term_" + "0" * 24


@pytest.fixture(scope="module", autouse=True)
def websockets():
    """The client of PyPI."""
    undo = import_from("websockets")  # which stays: tests of other files have what was imported from it
    import websockets.sync.client
    yield websockets
    undo()


class Viewer:
    """One who looks at a terminal, or at an end of a channel."""

    def __init__(self, api, path, **how):
        from websockets.sync.client import connect
        self.socket = connect(f"ws://127.0.0.1:{api.port}{path}", **how)
        self.shown, self.texts, self.closed = b"", [], None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def take(self):
        from websockets.exceptions import ConnectionClosed
        try:
            message = self.socket.recv(timeout=60)
        except ConnectionClosed as e:
            self.closed = e.rcvd.code if e.rcvd else 1006
            return False
        if isinstance(message, str):
            self.texts.append(json.loads(message))
        else:
            self.shown += message
        return True

    def see(self, what):
        """Until it has been shown; all that was."""
        while what not in self.shown:
            assert self.take(), (what, self.shown, self.texts, self.closed)
        return self.shown

    def end(self):
        """The code of the Close, after all else."""
        while self.take():
            pass
        return self.closed

    def type(self, text):
        self.socket.send(text.encode())

    def say(self, **word):
        self.socket.send(json.dumps(word))


def new(api, box, **fields):
    return api.post(f"/sandboxes/{box}/terminal", {"env": {"PS1": "$ "}, **fields}).ok()


def view(api, session, query="", **how):
    box, id = session["sandboxId"], session["sessionId"]
    return Viewer(api, f"/sandbox/sandboxes/{box}/terminal/{id}/ws{query}", **how)


def path_of(session):
    return f"/sandboxes/{session['sandboxId']}/terminal/{session['sessionId']}"


def refused(api, session, query="", **how):
    """The status and the code of one that gets no WebSocket."""
    from websockets.exceptions import InvalidStatus
    with pytest.raises(InvalidStatus) as e:
        view(api, session, query, **how)
    response = e.value.response
    return response.status_code, json.loads(response.body)["code"]


# ---- the routes ----


def test_a_session_has_the_shape_of_the_contract(api, box):
    s = new(api, box, cols=100, rows=30)
    assert s["sessionId"].startswith("term_") and s["execId"].startswith("ex_")
    assert (s["sandboxId"], s["cols"], s["rows"], s["shell"]) == (box, 100, 30, "/bin/sh")
    assert (s["status"], s["backend"], s["recorded"]) == ("running", "native", False)
    writer, reader = s["channel"]["writer"], s["channel"]["reader"]
    assert (writer["direction"], reader["direction"]) == ("write", "read")
    assert writer["channel_id"] == reader["channel_id"] and writer["access_key"] != reader["access_key"]
    assert [x["sessionId"] for x in api.get(f"/sandboxes/{box}/terminal").ok()["sessions"]] == [s["sessionId"]]
    assert api.delete(path_of(s)).ok() == {"closed": s["sessionId"]}
    now = api.get(path_of(s)).ok()
    assert (now["status"], now["reason"]) == ("exited", "cancelled")
    assert api.delete(path_of(s)).ok() == {"closed": s["sessionId"]}
    api.post(path_of(s) + "/resize", {"cols": 1, "rows": 1}).failed(409, "terminal_exited")


def test_what_makes_no_sense_is_refused(api, box):
    where = f"/sandboxes/{box}/terminal"
    api.post(where, {"shell": "/bin/cat"}).failed(403, "shell_not_allowed")
    api.post(where, {"shell": "sh"}).failed(403, "shell_not_allowed")
    api.post(where, {"shell": "/bin/ash"}).failed(400, "command_not_found")
    for cols, rows in ((0, 24), (80, 0), (65536, 24), ("x", 24)):
        api.post(where, {"cols": cols, "rows": rows}).failed(400)
        api.post(f"{where}/{NOBODY}/resize", {"cols": cols, "rows": rows}).failed(400)
    api.post(f"{where}/{NOBODY}/resize", {"cols": 1, "rows": 1}).failed(404, text=f"Terminal session not found: {NOBODY}")
    api.delete(f"{where}/{NOBODY}").failed(404, "terminal_not_found")
    api.get(f"{where}/ex_{'0' * 24}").failed(404, "terminal_not_found")
    api.post("/sandboxes/sbx_" + "0" * 24 + "/terminal", {}).failed(404, "sandbox_not_found")
    plain = api.background(box, "sleep 1000")["id"]
    assert api.get(where).ok()["sessions"] == []
    api.get(f"{where}/term_{plain[3:]}").failed(404, "terminal_not_found")


def test_an_exec_on_a_terminal_is_a_session(shared, api, box):
    id = cay(shared, "exec", "-dt", box, "sleep 1000", check=True).stdout.decode().strip()
    [session] = api.get(f"/sandboxes/{box}/terminal").ok()["sessions"]
    assert session["execId"] == id and session["sessionId"] == "term_" + id[3:]


def test_a_new_size_is_in_force_when_it_is_answered(api, box):
    s = new(api, box)
    with view(api, s) as v:
        assert api.post(path_of(s) + "/resize", {"cols": 132, "rows": 50}).ok() == {"cols": 132, "rows": 50}
        v.type("stty size\r")
        v.see(b"50 132\r\n")
        v.say(resize={"cols": 90, "rows": 20})
        v.type("stty size\r")
        v.see(b"20 90\r\n")
        now = api.get(path_of(s)).ok()
        assert (now["cols"], now["rows"]) == (90, 20)
    with view(api, s, "?cols=70&rows=10") as v:
        v.type("stty size\r")
        v.see(b"10 70\r\n")


# ---- viewers ----


def test_bytes_go_both_ways_and_the_end_is_told(api, box):
    s = new(api, box)
    with view(api, s) as v:
        v.type("printf 'a\\377b'; stty -echo\r")
        v.see(b"a\xffb")
        v.type("exit 7\r")
        assert v.end() == 1000
        assert v.texts[0] == {"type": "ready", "sessionId": s["sessionId"], "cursor": 0, "readOnly": False}
        assert v.texts[-1] == {"type": "exit", "exitCode": 7, "reason": "exit"}
    with view(api, s) as v:  # as long as it is kept
        assert v.end() == 1000 and b"a\xffb" in v.shown and v.texts[-1]["exitCode"] == 7


def test_who_comes_back_sees_what_was_there_or_only_what_is_new(api, box):
    s = new(api, box)
    with view(api, s) as v:
        v.type("echo fir''st\r")
        v.see(b"first\r\n$ ")
        cursor = len(v.shown)
    with view(api, s, f"?cursor={cursor}") as v:
        v.type("echo sec''ond\r")
        assert b"first" not in v.see(b"second\r\n$ ")
        assert v.texts[0]["cursor"] == cursor
    with view(api, s, "?cursor=9007199254740991") as v:
        v.type("echo thi''rd\r")
        assert b"second" not in v.see(b"third\r\n")
    with view(api, s) as v:
        v.see(b"third\r\n")
        assert v.shown.index(b"first\r\n") < v.shown.index(b"second\r\n")


def test_several_look_on_and_several_type(api, box):
    s = new(api, box)
    with view(api, s) as one, view(api, s) as two, view(api, s, "?readOnly=1") as three:
        one.see(b"$ ")
        assert three.take() and three.texts[0]["readOnly"]
        three.type("echo ne''ver\r")
        three.say(resize={"cols": 11, "rows": 11})
        one.type("echo by''one\r")
        for v in (one, two, three):
            v.see(b"byone\r\n")
        two.type("echo by''two; stty size\r")
        for v in (one, two, three):
            assert b"never" not in v.see(b"24 80\r\n")
        # What many type at once arrives, all of it.
        one.type("stty raw -echo; echo re''ady; exec cat\r")
        for v in (one, two):
            v.see(b"ready")
        for i in range(200):
            one.type(f"<a{i}>")
            two.type(f"<b{i}>")
        # All three read to the end: the client library's close() waits 10 s when too many messages are unread.
        for i in range(200):
            for c in "ab":
                for v in (one, two, three):
                    v.see(f"<{c}{i}>".encode())


def test_input_of_who_leaves_at_once_is_taken(api, box):
    s = new(api, box)
    for i in range(20):
        with view(api, s) as v:
            v.type(f"touch /tmp/{i}\r")
    def all_there():
        got = sorted(map(int, api.exec(box, "ls /tmp")["stdout"].split()))
        return got == list(range(20)) or print(got)

    wait_until(all_there)


def test_one_who_does_not_read_holds_nobody_up(api, box):
    s = new(api, box, shell="/bin/bash")
    with view(api, s, max_size=None) as slow, view(api, s, max_size=None) as quick:
        slow.see(b"$ ")
        quick.type("stty -echo; head -c 60000000 /dev/zero | tr '\\0' x; echo en''d\r")
        seen, tail = 0, b""
        while b"end" not in tail:
            message = quick.socket.recv(timeout=60)
            if isinstance(message, bytes):
                seen, tail = seen + len(message), (tail + message)[-100:]
        assert seen > 60_000_000
        while slow.take():  # what it missed is not kept any more
            slow.shown = b""
        assert slow.closed == 4008 and slow.texts[-1]["code"] == "too_slow"
        quick.type("echo go''es on\r")
        quick.see(b"goes on")


def test_words_that_mean_nothing_close_it(api, box):
    s = new(api, box)
    for text in ("x", "[]", "{}", '{"resize": {"cols": 0, "rows": 1}}', '{"resize": 1}', '{"signal": "SIGNONE"}'):
        with view(api, s) as v:
            v.socket.send(text)
            assert v.end() == 1008 and v.texts[-1]["code"] == "bad_message", text
    with view(api, s) as v:
        v.socket.send(b"x" * 200_000)
        assert v.end() == 1009
    with view(api, s) as v:
        v.type("trap 'echo to''ld' USR1; echo se''t\r")
        v.see(b"set\r\n")  # its echo alone would not say that the shell has read it
        v.say(signal="SIGUSR1")
        v.type("\r")
        v.see(b"told")


def test_a_session_ends_with_its_sandbox(api, make):
    s = new(api, make()["id"])
    with view(api, s) as v:
        v.see(b"$ ")
        api.remove(s["sandboxId"])
        assert v.end() in (1000, 1011)


# ---- the handshake ----


def ask(api, path, *headers):
    """The head of the answer to a handshake that is made by hand."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as s:
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{api.port}", *headers, "", ""]
        s.sendall("\r\n".join(lines).encode())
        data = b""
        while b"\r\n\r\n" not in data:
            piece = s.recv(4096)
            assert piece, data
            data += piece
    return data.decode(errors="replace")


UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
VERSION = "Sec-WebSocket-Version: 13"


def test_a_handshake_is_checked(api, box):
    s = new(api, box)
    path = "/sandbox" + path_of(s) + "/ws"
    good = ask(api, path, *UPGRADE, KEY, VERSION)
    assert good.startswith("HTTP/1.1 101") and "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in good
    assert "Sec-WebSocket-Extensions" not in ask(
        api, path, *UPGRADE, KEY, VERSION, "Sec-WebSocket-Extensions: permessage-deflate")
    assert "Sec-WebSocket-Protocol: cay\r\n" in ask(
        api, path, *UPGRADE, KEY, VERSION, "Sec-WebSocket-Protocol: other, cay")
    for headers, code in (((), "upgrade_required"), ((*UPGRADE, VERSION), "bad_websocket"),
                          ((*UPGRADE, KEY), "bad_websocket"), ((*UPGRADE, KEY, VERSION[:-1] + "2"), "bad_websocket"),
                          ((*UPGRADE, VERSION, "Sec-WebSocket-Key: c2hvcnQ="), "bad_websocket")):
        answer = ask(api, path, *headers)
        assert answer.startswith("HTTP/1.1 400"), answer
        assert code in answer
    assert "Sec-WebSocket-Version: 13" in ask(api, path, *UPGRADE, KEY)
    assert ask(api, path, *UPGRADE, KEY, VERSION, "Origin: http://evil.test").startswith("HTTP/1.1 403")
    assert ask(api, path, *UPGRADE, KEY, VERSION,
               f"Origin: http://127.0.0.1:{api.port}").startswith("HTTP/1.1 101")
    assert refused(api, {**s, "sessionId": NOBODY}) == (404, "terminal_not_found")


def test_a_web_page_names_its_token_as_a_subprotocol(daemon_of):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": TOKEN}).start()
    word = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    wrong = base64.urlsafe_b64encode(b"wrong").decode().rstrip("=")
    with daemon.api(token=TOKEN) as api:
        s = new(api, api.create()["id"])
        with view(api, s, subprotocols=["cay", f"bearer.{word}"]) as v:
            assert v.socket.subprotocol == "cay"
            v.see(b"$ ")
        with view(api, s, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as v:
            v.see(b"$ ")
        assert refused(api, s)[0] == 401
        for bad in (f"bearer.{wrong}", "bearer.", "bearer.!", "bearer.AAAA", f"bearer.{word[:-2]}"):
            assert refused(api, s, subprotocols=["cay", bad])[0] in (401, 403), bad
        # Only for a WebSocket.
        with daemon.api(token=None) as stranger:
            stranger.call("GET", "/sandboxes", headers={"Sec-WebSocket-Protocol": f"bearer.{word}"}).failed(401)
        with channel(api, s, "read") as reader:  # its key is enough
            reader.see(b"$ ")
    assert TOKEN not in daemon.log() and word not in daemon.log()


# ---- channels ----


def channel(api, session, direction, key=None, id=None):
    end = session["channel"]["reader" if direction == "read" else "writer"]
    return Viewer(api, f"/ws/channels/{id or end['channel_id']}?key={key or end['access_key']}&dir={direction}")


def test_a_channel_carries_bytes_once_in_each_direction(api, box):
    from websockets.exceptions import InvalidStatus
    s = new(api, box)
    for wrong in ({"key": "0" * 36}, {"id": "0" * 36}):
        with pytest.raises(InvalidStatus) as e:
            channel(api, s, "read", **wrong)
        assert e.value.response.status_code == 404
    with channel(api, s, "read") as reader, channel(api, s, "write") as writer:
        writer.socket.send("a text is no input")
        writer.type("echo o''ver\r")
        assert b"a text" not in reader.see(b"over\r\n")
        for direction in ("read", "write"):
            with channel(api, s, direction) as second:
                assert second.end() == 4009
        writer.type("exit 3\r")
        assert reader.end() == 1000 and writer.end() == 1000
        assert reader.texts == [] and writer.texts == [] and writer.shown == b""


def test_the_key_of_one_end_of_a_channel_does_not_open_the_other(api, box):
    from websockets.exceptions import InvalidStatus
    s = new(api, box)
    ends = s["channel"]
    for direction, other in (("write", "reader"), ("read", "writer")):
        with pytest.raises(InvalidStatus) as e:
            channel(api, s, direction, key=ends[other]["access_key"])
        assert e.value.response.status_code == 404
    # The refused tries have taken nothing.
    with channel(api, s, "read") as reader, channel(api, s, "write") as writer:
        writer.type("echo o''ver\r")
        reader.see(b"over\r\n")


def test_the_reader_of_a_channel_is_waited_for(api, box):
    s = new(api, box)
    with channel(api, s, "write") as writer, channel(api, s, "read") as reader:
        writer.type("stty -echo; head -c 40000000 /dev/zero; echo en''d\r")
        count, tail = 0, b""
        while b"end" not in tail:
            message = reader.socket.recv(timeout=60)
            count, tail = count + len(message), (tail + message)[-10:]
        assert count >= 40_000_000


# ---- what outlives what ----


def test_a_session_outlives_the_daemon(own):
    with own.api() as api:
        s = new(api, api.create()["id"])
        with contextlib.ExitStack() as stack:
            v = stack.enter_context(view(api, s))
            v.type("x=kept; echo be''fore\r")
            v.see(b"before\r\n$ ")
            cursor = len(v.shown)
            own.kill9()
            assert v.end() == 1006
        own.start()
        assert api.get(path_of(s)).ok()["status"] == "running"
        with view(api, s, f"?cursor={cursor}") as v:
            v.type("echo $x\r")
            assert b"before" not in v.see(b"kept\r\n")
        with view(api, s) as v:
            v.see(b"before\r\n")
            replace(own)
            assert v.end() == 1012 and v.texts[-1]["code"] == "restarting"
        with view(api, s) as v:
            v.see(b"kept\r\n")
            v.type("exit 4\r")
            assert v.end() == 1000 and v.texts[-1]["exitCode"] == 4


# ---- recordings ----


def read_cast(api, session):
    text = api.get(path_of(session) + "/recording")
    assert text.status == 200 and text.headers["content-type"] == "application/x-asciicast"
    lines = [json.loads(line) for line in text.body.decode().splitlines()]
    head, events = lines[0], lines[1:]
    assert head["version"] == 2 and head["timestamp"] > 1.6e9
    assert [e[0] for e in events] == sorted(e[0] for e in events)
    return head, events


def test_a_recording_is_an_asciicast(own):
    with own.api() as api:
        box = api.create()["id"]
        api.get(path_of(new(api, box)) + "/recording").failed(404, "recording_not_found")
        s = new(api, box, record=True, cols=90, rows=25)
        assert s["recorded"]
        with view(api, s) as v:
            v.type("printf '\\303'; printf '\\251\\n'\r")
            v.see("é".encode())
            v.say(resize={"cols": 100, "rows": 30})
            v.type("stty size\r")
            v.see(b"30 100\r\n")
        head, events = read_cast(api, s)  # while it goes on
        assert (head["width"], head["height"], head["command"]) == (90, 25, "/bin/sh")
        own.kill9()
        own.start()
        with view(api, s) as v:
            v.type("exit 3\r")
            assert v.end() == 1000
        head, events = read_cast(api, s)
        shown = "".join(e[2] for e in events if e[1] == "o")
        assert shown.encode() == v.shown and "é" in shown
        assert [e[2] for e in events if e[1] == "r"] == ["100x30"]
        assert events[-1][1:] == ["m", "exit 3"]


FILL = """
import itertools
try:
    for i in itertools.count():
        open(f"/workspace/{i}", "w").close()
except OSError:
    pass
"""


def test_a_shell_that_cannot_be_recorded_does_not_stay(api, make):
    box = make(disk=64)["id"]
    assert api.exec(box, ["python3", "-c", FILL])["exitCode"] == 0  # no file more
    api.post(f"/sandboxes/{box}/terminal", {"record": True}).failed(429, "no_space")
    wait_until(lambda: [s["status"] for s in api.get(f"/sandboxes/{box}/terminal").ok()["sessions"]] == ["exited"])


# ---- cay shell ----


@pytest.fixture
def hands(own, tmp_path):
    terminal = Terminal(own, tmp_path, f"cay-shell-{os.getpid()}")
    yield terminal
    terminal.close()


def session_of(daemon, box):
    with daemon.api() as api:
        return [x for x in api.get(f"/sandboxes/{box}/terminal").ok()["sessions"] if x["status"] == "running"]


@pytest.mark.needs("program:tmux")
def test_a_shell_is_typed_into_left_and_come_back_to(own, hands):
    with own.api() as api:
        box = api.create(name="web")["id"]
    hands.tmux("set-option", "-g", "window-size", "manual")
    hands.begin("cay shell web")
    hands.see(r"bash-\S+[#$] $")
    hands.type("stty size; x=ke''pt; echo $BASH_VERSION > /tmp/is-bash\n")
    hands.see(r"^50 180$")
    hands.tmux("resize-window", "-x", "120", "-y", "40")
    wait_until(lambda: session_of(own, box)[0]["cols"] == 120)
    hands.keys("C-p", "C-q")
    text, status = hands.end()
    assert status == 0 and "it goes on" in text
    [session] = session_of(own, box)
    assert session["sessionId"] in hands.do("cay shell --ls") and session["sessionId"] in hands.do("cay shell --ls web")
    own.kill9()
    own.start()
    hands.do("clear")
    hands.begin(f"cay shell web --session {session['sessionId']}")
    hands.see(r"^50 180$")
    hands.type("echo $x$((1+1)); exit 9\n")
    text, status = hands.end()
    assert status == 9 and "kept2" in text
    assert "not found" in hands.do(f"cay shell web --session {NOBODY}", status=125)
    assert "cay exec -i" in hands.do("cay shell web </dev/null", status=2)


@pytest.mark.needs("program:tmux")
def test_a_shell_comes_back_by_itself_when_the_daemon_does(own, hands):
    with own.api() as api:
        api.create(name="web")
    hands.begin("cay shell web --shell sh")
    hands.see(r"^[#$] $")
    own.kill9()
    own.start()
    hands.type("echo st''ill\n")
    hands.see(r"^still$")
    hands.type("exit 6\n")
    assert hands.end()[1] == 6


def test_sessions_are_listed_and_ended(own):
    with own.api() as api:
        s = new(api, api.create(name="web")["id"])
        listed = json.loads(cay(own, "shell", "--ls", "--json", check=True).stdout)
        assert [x["sessionId"] for x in listed] == [s["sessionId"]]
        cay(own, "shell", "web", "--session", s["sessionId"], "--end", check=True)
        assert api.get(path_of(s)).ok()["status"] == "exited"


def test_a_daemon_with_a_token_and_an_address_is_reached(daemon_of):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "t"}).start()
    with daemon.api(token="t") as api:
        s = new(api, api.create(name="web")["id"])
        env = {"CAY_HOST": f"http://127.0.0.1:{api.port}", "CAY_TOKEN": "t"}
        assert s["sessionId"] in cay(daemon, "shell", "--ls", "web", env=env, check=True).stdout.decode()
