"""A server that is no daemon, or an evil one: what it says must neither fill the memory nor hold its caller for ever, and fails as
an error of ours."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List

import pytest

import cay
import cay.sync
from cay.sync import _http, _pool

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@contextmanager
def stranger(*pieces: bytes) -> Iterator[cay.sync.Client]:
    """A client of a server that answers every request with these bytes; `asked` of it has the requests."""
    asked: List[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                asked.append(connection.recv(65536))
                try:
                    for piece in pieces:
                        connection.sendall(piece)
                except OSError:
                    pass  # it was hung up on

    threading.Thread(target=answer, daemon=True).start()
    with cay.sync.Client(f"http://127.0.0.1:{listener.getsockname()[1]}", "secret", retry_for=1.0) as client:
        client.asked = asked  # type: ignore[attr-defined]
        yield client
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def whole(status: bytes, body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, more, len(body), body)


def first_event(client: cay.sync.Client) -> Any:
    return next(client.stream_get("/events"))


def download(client: cay.sync.Client) -> Any:
    return list(client.download("/files/download"))


def attach(client: cay.sync.Client) -> Any:
    return client.attach("/exec/attach", {"command": "true"}).recv()


def look(client: cay.sync.Client) -> Any:
    return client.get("/sandboxes")


@pytest.mark.parametrize(
    "answer, use",
    [
        (EVENTS + b"data: {no\n\n", first_event),
        (EVENTS + b'data: {"a": "\xff"}\n\n', first_event),
        (EVENTS + b"data: [1]\n\n", first_event),
        (EVENTS + b"data: " + b"[" * 100000 + b"\n\n", first_event),
        (whole(b"200 OK", b"[" * 100000), look),
        (whole(b"500 No", b"[" * 100000), look),
        (whole(b"503 Busy", b'{"code": "busy", "error": "later"}', b"Retry-After: \xb2\r\n"), look),
        (
            b"HTTP/1.1 101 Yes\r\nUpgrade: cay-exec\r\nConnection: Upgrade\r\n\r\n\xff\xff\xff\xff\4\0\0\0"
            + bytes(999),
            attach,
        ),
    ],
    ids=["no JSON", "no UTF-8", "no object", "deep event", "deep", "deep refusal", "odd Retry-After", "huge frame"],
)
def test_what_makes_no_sense_is_an_error_of_ours(answer: bytes, use: Callable[[cay.sync.Client], Any]) -> None:
    with stranger(answer) as client, pytest.raises(cay.CayError):
        use(client)


@pytest.mark.parametrize("use", [look, download])
def test_a_token_goes_nowhere_else(use: Callable[[cay.sync.Client], Any]) -> None:
    with stranger() as other:
        to = b"Location: http://%s/\r\n" % str(other.url).partition("//")[2].encode()
        with stranger(whole(b"307 There", b"not the file", to)) as client, pytest.raises(cay.CayError) as no:
            use(client)
        assert not other.asked  # type: ignore[attr-defined]
    assert no.value.status == 307


def test_who_says_at_once_is_not_flooded() -> None:
    busy = whole(b"503 Busy", b'{"code": "busy", "error": "now"}', b"Retry-After: 0\r\n")
    with stranger(busy) as client, pytest.raises(cay.CayError, match="now"):
        look(client)
    assert 2 <= len(client.asked) < 20  # type: ignore[attr-defined]


def test_an_answer_that_is_always_cut_is_given_up() -> None:
    with stranger(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{") as client, pytest.raises(cay.IoError) as lost:
        look(client)
    assert lost.value.code == "connection_lost"
    assert 2 <= len(client.asked) < 20  # type: ignore[attr-defined]


def test_nothing_is_kept_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http, "EVENT_MAX", 1 << 20)
    monkeypatch.setattr(_pool, "ANSWER_MAX", 1 << 20)
    endless = [b"a" * 65536] * 1000
    for head, use in (
        (EVENTS + b"data: ", first_event),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", look),
        (b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", look),
    ):
        with stranger(head, *endless) as client, pytest.raises(cay.CayError) as no:
            use(client)
        assert no.value.code == "bad_answer"
