"""What happens to a request on its way: it is sent again where that is safe, and nowhere else."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from typing import Any, Callable, Iterator, List

import pytest

import cay
import cay.sync
from cay import _address, _commands


class Wire:
    """Stands between a client and the daemon, and cuts connections when it is told to."""

    def __init__(self, target: _address.Address, path: str) -> None:
        self.target = target
        self.path = path
        self.cuts: List[bytes] = []
        """The answer to a request that has these bytes in it is not passed on: the connection is cut instead."""
        self.muted: List[socket.socket] = []
        self.seen: List[bytes] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def dial(self) -> socket.socket:
        if self.target.socket:
            out = socket.socket(socket.AF_UNIX)
            out.connect(self.target.socket)
            return out
        host, _, port = self.target.url[len("http://") :].partition(":")
        return socket.create_connection((host, int(port)))

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(connection, self.dial()), daemon=True).start()

    def pass_on(self, near: socket.socket, far: socket.socket) -> None:
        threading.Thread(target=self.back, args=(far, near), daemon=True).start()
        while data := self.read(near):
            self.seen.append(data)
            cut = next((word for word in self.cuts if word in data), None)
            if cut:
                # The daemon has done it when it answers; the client never hears.
                self.cuts.remove(cut)
                self.muted.append(far)
            far.sendall(data)
        for end in (near, far):
            end.close()

    def read(self, end: socket.socket) -> bytes:
        try:
            return end.recv(65536)
        except OSError:
            return b""

    def back(self, far: socket.socket, near: socket.socket) -> None:
        while data := self.read(far):
            if far in self.muted:
                break
            try:
                near.sendall(data)
            except OSError:
                break
        try:
            near.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def wire(tmp_path: Any) -> Iterator[Wire]:
    target = _address.find(None)
    assert target is not None
    made = Wire(target, str(tmp_path / "wire.sock"))
    yield made
    made.close()


def test_a_create_whose_answer_is_lost_makes_one_sandbox(wire: Wire, daemon: cay.sync.Client) -> None:
    with cay.sync.Client(wire.path) as client:
        wire.cuts.append(b"POST /sandbox/sandboxes ")
        made = client.api.sandbox_create(image="host", metadata={"wire": wire.path})
        found = daemon.api.sandbox_list(metadata={"wire": wire.path})
        daemon.api.sandbox_kill(made.id)
    assert [sandbox.id for sandbox in found.items] == [made.id]
    assert sum(b"POST /sandbox/sandboxes " in data for data in wire.seen) == 2


def test_a_write_whose_answer_is_lost_is_not_sent_again(wire: Wire, box: cay.sync.Sandbox) -> None:
    with cay.sync.Client(wire.path) as client:
        wire.cuts.append(b"/env ")
        with pytest.raises(cay.IoError) as lost:
            client.api.env_set(box.id, {"A": "b"})
    assert lost.value.code == "connection_lost" and lost.value.method == "POST"
    assert sum(b"/env " in data for data in wire.seen) == 1


def test_a_read_whose_answer_is_lost_is_sent_again(wire: Wire, box: cay.sync.Sandbox) -> None:
    with cay.sync.Client(wire.path) as client:
        wire.cuts.append(b"/files/read ")
        client.api.fs_write(box.id, "a.txt", "text")
        assert client.api.fs_read(box.id, "a.txt") == "text"
    assert sum(b"/files/read " in data for data in wire.seen) == 2


def test_a_removal_whose_answer_is_lost_tells_that_it_was_sent_twice(wire: Wire, box: cay.sync.Sandbox) -> None:
    with cay.sync.Client(wire.path) as client:
        wire.cuts.append(b"DELETE ")
        with pytest.raises(cay.SandboxNotFoundError) as gone:
            client.api.sandbox_kill(box.id)
    assert gone.value.resent and gone.value.code == "sandbox_removed"


def test_nobody_who_listens_is_said_at_once(tmp_path: Any) -> None:
    with cay.sync.Client(f"unix:{tmp_path}/none.sock") as client, pytest.raises(cay.IoError) as none:
        client.api.sandbox_list()
    assert none.value.code == "no_daemon" and "cay serve" in str(none.value)


def test_what_is_not_the_daemon_is_told_from_it(tmp_path: Any) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)

    def answer() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry")
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    with (
        cay.sync.Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client,
        pytest.raises(cay.CloudHttpError) as no,
    ):
        client.api.sandbox_list()
    thread.join()
    listener.close()
    assert no.value.status == 502 and "sorry" in str(no.value)


def test_an_answer_that_knows_more_or_less_breaks_nothing() -> None:
    from cay._model import from_value

    port = {
        "containerPort": 1,
        "hostPort": 2,
        "protocol": "sctp",
        "hostAddress": "::1",
        "state": "dreaming",
        "new": {"a": 1},
    }
    model = from_value("Port", port)
    assert (model.container_port, model.state, model.new, model["new"]) == (1, "dreaming", {"a": 1}, {"a": 1})
    assert from_value("Port", {"containerPort": 1}).state is None
    assert from_value("PullEvent", {"event": "unheard of", "x": 1}) == {"event": "unheard of", "x": 1}


def test_output_is_bytes(run: Callable[[Any], Any], box: cay.sync.Sandbox) -> None:
    async def main() -> Any:
        async with cay.Client() as client:
            return await _commands.run(client, box.id, {"command": "printf 'a\\377\\000b'; printf 'ok' >&2"})

    result = run(main())
    assert (result["stdoutBytes"], result["stderrBytes"]) == (b"a\xff\0b", b"ok")
    assert result["stdout"] == "a\ufffd\0b"


def test_a_cancelled_call_ends_the_command(run: Callable[[Any], Any], box: cay.sync.Sandbox) -> None:
    async def main() -> None:
        async with cay.Client() as client:
            task = asyncio.ensure_future(_commands.run(client, box.id, {"command": "touch begun; exec sleep 4711"}))
            files = cay.FileSystem(client, box.id)
            while not await files.list():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            processes = cay.ProcessManager(client, box.id)
            while any("4711" in process.command for process in (await processes.list()).processes):
                await asyncio.sleep(0.01)

    run(main())


def test_output_that_is_held_has_a_bound(box: cay.sync.Sandbox) -> None:
    output = box.exec("head -c 12000000 /dev/zero", tty=True)
    assert (len(output.stdout_bytes), output.truncated, output.exit_code) == (_commands.KEPT, True, 0)


def test_code_is_waited_for_as_long_as_it_may_take(box: cay.sync.Sandbox) -> None:
    with cay.sync.Client(timeout=0.2) as hasty:
        assert hasty.api.interp_execute(box.id, "sleep 1; echo on", language="bash", timeout=60).output == "on\n"


def test_a_hundred_calls_at_once(run: Callable[[Any], Any], box: cay.sync.Sandbox) -> None:
    async def main() -> None:
        async with cay.Client() as client:
            env = cay.EnvManager(client, box.id)
            values = await asyncio.gather(*[env.get("PATH") for _ in range(100)])
            assert len({value.value for value in values}) == 1
            assert client._pool is not None and len(client._pool._idle) > 1

    run(main())


def test_large_files_go_through_in_pieces(tmp_path: Any, box: cay.sync.Sandbox) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(1 << 20) * 9 + b"end")
    files = cay.sync.FileSystem(box._client, box.id)
    files.upload_file(source, "big.bin", mode="600")
    assert files.stat("big.bin").permissions == "-rw-------"
    files.download_file("big.bin", target)
    assert target.read_bytes() == source.read_bytes()
    with pytest.raises(cay.PathNotFoundError):
        files.download_file("none", tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source", "target"]


def test_a_stream_that_is_left_is_closed(run: Callable[[Any], Any], box: cay.sync.Sandbox) -> None:
    async def main() -> None:
        async with cay.Client() as client:
            changes = cay.FileSystem(client, box.id).watch()
            first = await changes.__anext__()
            await cay.FileSystem(client, box.id).write("seen.txt", "x")
            second = await changes.__anext__()
            await changes.aclose()  # type: ignore[attr-defined]
            assert first is not None and "seen.txt" in str(second)

    run(main())


def test_a_forked_process_speaks_on_connections_of_its_own(box: cay.sync.Sandbox) -> None:
    box.exec("true")  # its connection is kept

    def child(number: int) -> bool:
        return all(box.exec(f"echo {number} {i}").stdout == f"{number} {i}\n" for i in range(20))

    children = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if child(number) else 1)
            finally:
                os._exit(2)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * len(children)


def test_answers_that_always_break_off_are_given_up(tmp_path: Any) -> None:
    heard = []

    def answer(listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            heard.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            connection.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "breaks.sock"))
        listener.listen()
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        with (
            cay.sync.Client(f"unix:{tmp_path}/breaks.sock", retry_for=0.5) as client,
            pytest.raises(cay.IoError) as lost,
        ):
            client.get("/sandboxes")
    assert lost.value.code == "connection_lost" and 1 < len(heard) < 10


def test_a_token_that_cannot_be_sent_is_said_at_once() -> None:
    with cay.sync.Client(token="secret\n") as client, pytest.raises(cay.InvalidConfigError, match="end of a line"):
        client.get("/sandboxes")


def test_an_address_has_one_client(run: Callable[[Any], Any], box: cay.sync.Sandbox) -> None:
    async def ask() -> None:
        url = str(_address.find(None))
        found = [await cay.get_sandbox(box.id, base_url=url) for _ in range(3)]
        assert len({id(one._client) for one in found}) == 1

    run(ask())


def test_what_is_awaited_can_be_a_task(run: Callable[[Any], Any]) -> None:
    async def make() -> None:
        made = await asyncio.create_task(cay.Sandbox.create())
        async with made:
            handle = await asyncio.create_task(made.exec_stream("echo task"))
            assert (await handle.collect()).stdout == "task\n"

    run(make())


ATTACHES = """
import asyncio, cay

async def main():
    async with cay.Sandbox.create() as box:
        raise SystemExit(await box.attach("cat; exit 3"))

asyncio.run(main())
"""


@pytest.mark.parametrize("text", ["of a file\n", ""])
def test_an_attached_command_reads_a_file(tmp_path: Any, text: str) -> None:
    path = tmp_path / "input" if text else "/dev/null"
    if text:
        path.write_text(text)
    with open(path) as file:
        done = subprocess.run([sys.executable, "-c", ATTACHES], stdin=file, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (3, text), done.stderr


def test_a_folder_with_a_pipe_in_it_is_copied_without(tmp_path: Any, box: cay.sync.Sandbox) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    copying = threading.Thread(target=box.fs.copy_from_host, args=(tmp_path, "copied"), daemon=True)
    copying.start()
    copying.join(60)
    assert not copying.is_alive()
    assert [entry.name for entry in box.fs.list("copied")] == ["file"]


def test_names_that_are_no_text_can_be_copied_moved_and_linked(box: cay.sync.Sandbox) -> None:
    odd, other = "odd-\udcff", "other-\udcfe"
    box.fs.write(odd, b"x")
    box.fs.copy(odd, "copied")
    box.fs.rename(odd, other)
    box.fs.symlink("abcd", odd)  # which is base64 too
    box.fs.symlink(other, "plain")
    assert [box.fs.read(name) for name in ("copied", other, "plain")] == [b"x"] * 3
    assert (box.fs.read_link(odd), box.fs.read_link("plain")) == ("abcd", other)
