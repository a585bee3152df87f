"""Functions behind paths of HTTP that stream, with the helpers of genuine SDKs: what they are sent and what they answer goes through channels."""

import hashlib
import http.client
import json
import os
import socket
import threading

import pytest

from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import CLIENTS, PATIENCE, Program, node_sdk, python_sdk
from cay_npm import node

MIB = 1 << 20
GENERATIONS = ("0.9.0", "0.11.6", "0.22.1")
NEWEST = GENERATIONS[-1]


@pytest.fixture
def program_at(served):
    """program_at(version): the functions of that SDK, bound to paths of the shared daemon."""
    programs = []

    def start(version=NEWEST):
        program = Program([node(), CLIENTS / "node" / "http.mjs", node_sdk(version)], III_URL=served.iii_url)
        programs.append(program)
        program.until("here")
        return program

    yield start
    for program in programs:
        program.__exit__()


@pytest.fixture
def functions(program_at):
    return program_at()


class Client:
    """One request, whose answer is read piece by piece."""

    def __init__(self, port, path, method="GET", body=None, headers=None, **how):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.connection.request(method, path if path[0] == "/" else f"/cay-http/{path}", body, headers or {}, **how)

    def __enter__(self):
        self.answer = self.connection.getresponse()
        return self.answer

    def __exit__(self, *_):
        self.connection.close()


def ask(daemon, path, *words, **how):
    with Client(daemon.port, path, *words, **how) as answer:
        return answer, answer.read()


def pieces(size, piece=99_991):
    for at in range(0, size, piece):
        yield os.urandom(min(piece, size - at))


@pytest.mark.parametrize("version", GENERATIONS)
def test_what_is_sent_and_what_is_answered_is_streamed(served, program_at, version):
    """By each generation of the helper; one that is told its length and one that is not."""
    program = program_at(version)
    size = 64 * MIB if version == NEWEST else 3 * MIB
    sent = hashlib.sha256()

    def body():
        for piece in pieces(size):
            sent.update(piece)
            yield piece

    for headers, chunked in (({}, True), ({"Content-Length": str(size)}, False)):
        sent = hashlib.sha256()
        answer, text = ask(served, "up", "POST", body(), {"Content-Type": "application/octet-stream", **headers}, encode_chunked=chunked)
        assert (answer.status, answer.headers["X-Of"], answer.headers["Content-Type"]) == (201, "tests", "application/json")
        assert json.loads(text) == {"size": size, "digest": sent.hexdigest(), "body": None}

    for query, length in (("", None), ("&told=1", str(size))):
        with Client(served.port, f"down?size={size}{query}") as answer:
            assert answer.headers["Content-Length"] == length
            got = hashlib.sha256()
            while piece := answer.read(MIB):
                got.update(piece)
        assert program.until("sent") == got.hexdigest()


def test_python_streams_as_well(served):
    with Program([python_sdk("0.25.0"), CLIENTS / "python" / "streams.py"], III_URL=served.iii_url) as program:
        program.until("here")
        for data, type, parsed in ((os.urandom(5 * MIB), "application/octet-stream", None), (b'{"a": 1}', "application/json", {"a": 1})):
            answer, text = ask(served, "/cay-http-python/up", "POST", data, {"Content-Type": type})
            assert answer.status == 201
            assert json.loads(text) == {"size": len(data), "digest": hashlib.sha256(data).hexdigest(), "body": parsed}
        answer, data = ask(served, "/cay-http-python/down?pieces=50")
        assert len(data) == 5_000_000 and program.until("sent") == hashlib.sha256(data).hexdigest()


def test_a_short_body_is_there_both_ways(served, functions):
    for type, body, parsed in (("application/json", b'{"z":2, "a":1}', {"z": 2, "a": 1}), ("text/plain", b"a text", "a text")):
        answer, text = ask(served, "up", "POST", body, {"Content-Type": type})
        assert answer.status == 201
        assert json.loads(text) == {"size": len(body), "digest": hashlib.sha256(body).hexdigest(), "body": parsed}


def test_each_piece_arrives_as_it_is_written(served, functions):
    """The next event is only made once the one before was seen, and the head before any of them."""
    with Client(served.port, "events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        functions.until("open")
        for n in range(5):
            functions.tell(f"event {n}")
            assert (answer.readline(), answer.readline()) == (f"data: event {n}\n".encode(), b"\n")
        functions.tell("end")
        assert answer.read() == b""


def test_both_ways_at_once(served, functions):
    """16 MiB through a function that holds none of it: a client that reads what it has sent before it sends more is given it."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as client:
        client.sendall(b"POST /cay-http/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent, got, answer = hashlib.sha256(), hashlib.sha256(), http.client.HTTPResponse(client)
        for n in range(64):
            piece = os.urandom(MIB // 4)
            sent.update(piece)
            client.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            if n == 0:
                answer.begin()
            got.update(answer.read(len(piece)))
        client.sendall(b"0\r\n\r\n")
        assert answer.read() == b"" and got.digest() == sent.digest()


def test_an_answer_that_comes_after_the_call_is_over(served, functions):
    for _ in range(20):
        answer, text = ask(served, "hasty")
        assert (answer.status, answer.headers["Content-Type"], text) == (202, "text/plain", b"said in haste")
    answer, text = ask(served, "empty")
    assert (answer.status, answer.headers["X-Of"], answer.headers["Content-Length"], text) == (404, "tests", "0", b"")


def test_functions_that_use_no_channel_answer_as_ever(served, functions):
    answer, text = ask(served, "plain", "POST", b"words", {"Content-Type": "text/plain"})
    assert (answer.status, text) == (203, b"plain words")
    answer, text = ask(served, "nothing")
    assert (answer.status, text) == (200, b"{}")
    answer, text = ask(served, "throws")
    assert answer.status == 500 and "before anything was sent" in json.loads(text)["error"]["message"]


@pytest.mark.parametrize("how", ("late", "breaks", "dies"))
def test_what_breaks_off_does_not_look_whole(served, functions, how):
    """The function fails, ends its stream without a word, or is killed, when the head and a part of the body were sent."""
    with Client(served.port, how) as answer:
        assert answer.status == 200
        assert answer.read(6) == b"a part"
        functions.tell("go on")
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_a_client_that_goes_ends_the_answer(served, functions):
    with Client(served.port, "endless") as answer:
        assert len(answer.read(3 * MIB)) == 3 * MIB
    assert int(functions.until("closed")) >= 3 * MIB


def test_a_client_that_goes_ends_the_body(served, functions):
    client = socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE)
    client.sendall(b"POST /cay-http/reads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: 10000000\r\n\r\n" + bytes(MIB))
    functions.until("reading")
    client.close()
    assert int(functions.until("closed")) > 0


def test_an_answer_before_all_was_sent(served, functions):
    """Nobody reads the body: the client is told, and need not send the rest of it."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as client:
        client.sendall(b"POST /cay-http/early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n" + bytes(100_000))
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert (answer.status, answer.headers["Connection"], answer.read()) == (409, "close", b"too early")


def test_many_requests_leave_no_channel_behind(served, functions):
    """More than there may be at once, two for each, some of them broken off."""
    def some():
        for n in range(150):
            if n % 5 == 0:
                with Client(served.port, "endless") as answer:
                    assert answer.read(10)
            else:
                answer, text = ask(served, "up", "POST", b"x" * n)
                assert answer.status == 201 and json.loads(text)["size"] == n

    failed = []

    def guarded():
        try:
            some()
        except BaseException as why:
            failed.append(why)

    threads = [threading.Thread(target=guarded) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
