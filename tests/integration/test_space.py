"""The host's disk fills: nothing that was written is lost, and who writes waits for room."""

import contextlib
import http.client
import json
import os
import subprocess
import textwrap

import pytest

from cay_harness import Daemon, cay, wait_until

pytestmark = [pytest.mark.core, pytest.mark.alone]

REASON = "the host's disk is low"
HOST_MB = 600

# Writes files of a megabyte, each from a seed, and notes the name of one only when it is closed.
WRITER = textwrap.dedent("""
    import errno, os, sys, time
    name, n = sys.argv[1], int(sys.argv[2])
    done = open(f"/dev/shm/{name}", "w")
    for i in range(n):
        while True:
            try:
                with open(f"/root/{name}-{i}", "wb") as f:
                    f.write((f"{name} {i}\\n".encode() * 300000)[:1 << 20])
                break
            except OSError as e:
                if e.errno != errno.ENOSPC:
                    raise
                time.sleep(0.01)
        done.write(f"{i}\\n")
        done.flush()
    done.write("end\\n")
""")

# Reads them from the disk, and not from what is still in memory.
READER = textwrap.dedent("""
    import os, sys
    name, n = sys.argv[1], int(sys.argv[2])
    for i in range(n):
        with open(f"/root/{name}-{i}", "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if f.read() != (f"{name} {i}\\n".encode() * 300000)[:1 << 20]:
                sys.exit(f"{name}-{i} is not what was written")
    print("whole")
""")


@pytest.fixture
def host(tmp_path, request):
    """A daemon whose data folder is on a small disk of its own, with blocks of 4 KiB or what a test says."""
    image, point = tmp_path / "host.img", tmp_path / "host"
    point.mkdir()
    with open(image, "wb") as f:
        f.truncate(HOST_MB << 20)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-b", str(getattr(request, "param", 4096)), str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=True)
    daemon = Daemon("space", parent=str(point), env={"CAY_DISK_RESERVE": 64, "CAY_POOL": 0,
                                                               "CAY_LOG_LEVEL": "info"})
    daemon.run = tmp_path / "run"  # as on a real host, where it is in memory
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.destroy()
        wait_until(lambda: subprocess.run(["umount", str(point)], capture_output=True).returncode == 0, 30,
                   "the kernel to let go of what was in it")


def ballast(host, mb):
    """Room that something else takes, and gives back."""
    path = host.root / "ballast"
    if mb:
        with open(path, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, mb << 20)
    else:
        path.unlink()


def start_writer(api, id, name, mb):
    api.write(id, "/root/writer.py", WRITER, anywhere=True)
    return api.background(id, f"exec python3 /root/writer.py {name} {mb}")


def is_paused_for_room(api, id):
    s = api.sandbox(id)
    return s["status"] == "paused" and s.get("reason") == REASON


def written(api, id, name, timeout=20):
    """What the writer knows to be written; nothing while it is paused, also in the middle of this."""
    lines = []
    with api.again(timeout=timeout) as mine, contextlib.suppress(TimeoutError):
        lines = (mine.try_exec(id, f"cat /dev/shm/{name}").json.get("stdout") or "").split()
    return [int(i) for i in lines if i != "end"], "end" in lines


def has_ended(api, id, name):
    return api.sandbox(id)["status"] == "running" and written(api, id, name)[1]


def check_files(api, id, name, n):
    assert written(api, id, name, timeout=60)[0] == list(range(n))
    api.write(id, "/root/reader.py", READER, anywhere=True)
    checked = api.exec(id, f"python3 /root/reader.py {name} {n}")
    assert checked["stdout"] == "whole\n", checked


def test_who_writes_waits_for_room_and_nothing_is_lost(host):
    with host.api() as api:
        ids = {name: api.create(memory=256)["id"] for name in ("a", "b")}
        bystander = api.create(memory=64)["id"]
        for name, id in ids.items():
            start_writer(api, id, name, 250)
        wait_until(lambda: all(is_paused_for_room(api, id) or has_ended(api, id, name)
                               for name, id in ids.items()), 120, "the writers to be paused")
        # Together they want more than there is: one of them waits, or both.
        name = next(name for name, id in ids.items() if is_paused_for_room(api, id))
        waits, other = ids.pop(name), ids.popitem()[1]
        st = os.statvfs(host.data)
        assert st.f_bavail * st.f_frsize > 32 << 20, "the reserve was used up"
        assert api.sh(bystander, "echo on") == "on\n", "who does not write goes on"
        assert api.get("/metrics").ok()["diskLow"] is True
        assert [p["what"] for p in api.get("/health").ok()["problems"]] == ["disk_low"]
        assert b"has a problem: disk_low" in cay(host, "doctor").stdout
        api.post(f"/sandboxes/{waits}/resume").failed(503, "no_space", "CAY_DISK_RESERVE")
        api.try_create(disk=64).failed(503, "no_space", "the host's disk is low")
        host.restart()
        assert is_paused_for_room(api, waits), "also after a restart"
        # Room for one of them: the other is removed, and this one comes to its end.
        api.post(f"/sandboxes/{bystander}/pause").ok()
        api.remove(other)
        wait_until(lambda: has_ended(api, waits, name), 120, "it to go on to its end")
        check_files(api, waits, name, 250)
        s = api.sandbox(bystander)
        assert (s["status"], s.get("reason")) == ("paused", None), "a user paused it"
        wait_until(lambda: api.get("/metrics").ok()["diskLow"] is False)
        assert "problems" not in api.get("/health").ok()


def test_what_was_taken_from_writers_is_there_when_something_else_takes_the_room(host):
    """Both are paused at some point, given room, and everything that they closed is whole."""
    with host.api() as api:
        ids = {name: api.create(memory=256)["id"] for name in ("a", "b")}
        ballast(host, 300)
        for name, id in ids.items():
            start_writer(api, id, name, 100)
        wait_until(lambda: any(is_paused_for_room(api, id) for id in ids.values()), 120,
                   "a writer to be paused")
        ballast(host, 0)
        for name, id in ids.items():
            wait_until(lambda: has_ended(api, id, name), 120, "it to go on to its end")
            check_files(api, id, name, 100)


def test_no_disk_is_promised_that_cannot_be(host):
    with host.api() as api:
        said = api.try_create(disk=1 << 20).failed(503, "no_space")
        for word in ("1048576 MB", "MB are free on the host", "CAY_DISK_RESERVE"):
            assert word in said["error"], said
        assert "promised" not in said["error"] and "low" not in said["error"], said
        assert api.ids() == []
        api.remove(api.create(disk=128)["id"])
        api.remove(api.create()["id"])  # the default is a limit, not a wish


def test_promises_end_with_their_sandboxes(host):
    host.extra["CAY_DISK_OVERCOMMIT"] = "1"
    host.restart()
    with host.api() as api:
        first = api.create(disk=250)["id"]
        api.try_create(disk=250).failed(503, "no_space", "promised to others")
        host.restart()
        api.try_create(disk=250).failed(503, "no_space", "CAY_DISK_OVERCOMMIT")
        api.remove(first)
        wait_until(lambda: api.get("/metrics").ok()["diskPromisedBytes"] == 0)
        api.remove(api.create(disk=250)["id"])


def fill(host):
    """Down to the last block."""
    with open(host.root / "ballast", "wb", buffering=0) as f:
        for size in (1 << 20, 4096, 1024):
            with contextlib.suppress(OSError):
                while f.write(bytes(size)) == size:
                    pass


def test_a_full_disk_does_not_keep_the_daemon_away(host):
    """It is the one that can make room: by removing sandboxes."""
    with host.api() as api:
        id, other = api.create()["id"], api.create()["id"]
        api.sh(id, "head -c 30000000 /dev/urandom > /root/big; sync /root/big")
        host.stop()
        (host.data / "scratch" / "spares").rmdir()  # as of a cay that had none
        fill(host)
        host.start()
        assert set(api.ids()) == {id, other}
        api.remove(id)
        wait_until(lambda: not (host.data / "sandboxes" / f"{id}.img").exists(),
                   what="the disk to go")
        ballast(host, 0)
        host.process.terminate()  # nobody else can look into the database before
        assert host.process.wait(30) == 0
        host.start()
        assert api.ids() == [other]
        assert api.sh(other, "echo on") == "on\n"


@pytest.mark.parametrize("host", [1024, 4096], indirect=True)
def test_a_full_disk_ends_no_daemon(host):
    """Also where a page of memory is more than a block: what databases map has all of its blocks before."""
    with host.api() as api:
        id = api.create()["id"]
        fill(host)
        for _ in range(20):
            api.exec(id, "true")
            api.post("/events/publish", {"topic": "a.b", "sandboxId": id, "data": {"a": "x" * 8000}})
            api.post(f"/sandboxes/{id}/exec/queue", {"command": "true"})
            api.post(f"/sandboxes/{id}/renew", {})
            api.call("POST", f"/sandboxes/{id}/exec/background", {"command": "true"}, headers={"Idempotency-Key": "k"})
        assert host.running()
        ballast(host, 0)
        assert api.sh(id, "echo on") == "on\n"
        api.remove(id)


@pytest.mark.parametrize("again", [False, True], ids=["created", "started-again"])
def test_a_volume_has_its_room_or_is_refused(host, again):
    """What was written to a volume has its place on the host's disk; who writes is told when there is none."""
    write = textwrap.dedent("""
        import os
        n = 0
        try:
            while True:
                with open(f"/v/{n}", "wb") as f:
                    f.write((b"%d " % n * 400000)[:1 << 20])
                n += 1
        except OSError as e:
            print(n, e.errno)
    """)
    check = textwrap.dedent("""
        import os, sys
        for n in range(int(sys.argv[1])):
            with open(f"/v/{n}", "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                assert f.read() == (b"%d " % n * 400000)[:1 << 20], n
        print("whole")
    """)
    with host.api() as api:
        api.post("/volumes", {"name": "huge", "sizeMb": 10000}).failed(503, "no_space")
        v = api.post("/volumes", {"name": "v", "sizeMb": 400}).ok()["id"]
        id = api.create(memory=256, volumes=[{"name": "v", "mountPath": "/v"}])["id"]
        if again:
            api.post(f"/sandboxes/{id}/stop").ok()
            api.post(f"/sandboxes/{id}/start").ok()
        ballast(host, 250)
        api.write(id, "/root/write.py", write, anywhere=True)
        api.write(id, "/root/check.py", check, anywhere=True)
        n, error = api.sh(id, "python3 /root/write.py").split()
        assert error == "28" and int(n) > 20
        st = os.statvfs(host.data)
        assert st.f_bavail * st.f_frsize > 32 << 20, "the reserve was used up"
        assert api.sh(id, f"python3 /root/check.py {n}") == "whole\n"
        ballast(host, 0)
        wait_until(lambda: api.exec(id, "head -c 3000000 /dev/zero >/v/more")["exitCode"] == 0, 60, "room again")
        api.remove(id)
        api.delete(f"/volumes/{v}").ok()


def test_a_clone_costs_a_create_also_where_a_whole_disk_would_not_fit(host):
    """The usual size of a disk is a limit and no wish, for the clone of a sandbox as for the sandbox."""
    with host.api() as api:
        id = api.create()["id"]
        assert api.sandbox(id)["config"]["disk"] > HOST_MB
        snap = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
        twins = [api.post(path, {}).ok()["id"] for path in (f"/sandboxes/{id}/clone", f"/snapshots/{snap}/clone")]
        for one in (*twins, id):
            api.remove(one)
        api.delete(f"/snapshots/{snap}").ok()


def test_what_lasts_is_not_begun_without_room(host):
    """It is said that there is none; the sandbox runs on with the files that it had."""
    with host.api() as api:
        id = api.create()["id"]
        api.sh(id, "echo old >/root/f; sync")
        snap = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
        api.sh(id, "echo new >/root/f; sync")
        st = os.statvfs(host.data)
        ballast(host, (st.f_bavail * st.f_frsize >> 20) - 1)
        for path, body in ((f"/sandboxes/{id}/snapshots/restore", {"snapshotId": snap}),
                           (f"/sandboxes/{id}/snapshots", {}), (f"/sandboxes/{id}/clone", {})):
            api.post(path, body).failed(503, "no_space")
        with contextlib.suppress(OSError), open(host.root / "rest", "wb", buffering=0) as f:
            while True:
                f.write(bytes(4096))
        api.post(f"/snapshots/{snap}/label", {"name": "n" * 100, "labels": {"k": "v" * 5000}}).failed(503, "no_space")
        assert api.get(f"/snapshots/{snap}").ok()["labels"] == {}
        (host.root / "rest").unlink()
        ballast(host, 0)
        wait_until(lambda: "problems" not in api.get("/health").ok(), what="room again")
        assert api.sh(id, "cat /root/f") == "new\n"
        api.remove(id)
        api.delete(f"/snapshots/{snap}").ok()
def test_files_of_a_build_leave_the_reserve_alone(host):
    """Who sends an archive without end takes no room that sandboxes may need."""
    piece, least = bytes(1 << 20), HOST_MB << 20
    sending = http.client.HTTPConnection("127.0.0.1", host.port, timeout=30)
    sending.putrequest("POST", "/sandbox/templates/build?name=t")
    sending.putheader("Content-Type", "application/octet-stream")
    sending.putheader("Content-Length", str(HOST_MB << 20))
    sending.endheaders()
    with contextlib.suppress(ConnectionError, TimeoutError):
        for _ in range(HOST_MB):
            sending.send(piece)
            st = os.statvfs(host.data)
            least = min(least, st.f_bavail * st.f_frsize)
    with contextlib.suppress(ConnectionError):
        answer = sending.getresponse()
        assert answer.status == 503 and json.loads(answer.read())["code"] == "no_space"
    sending.close()
    assert least > 32 << 20, "the reserve was used up"
    with host.api() as api:
        wait_until(lambda: api.try_create(memory=64, disk=64).status == 200, 30, "room again")


def test_a_full_disk_is_told_to_who_submits_a_job_and_loses_none(host):
    with host.api() as api:
        id = api.create()["id"]
        url = f"/sandboxes/{id}/exec/queue"
        ballast(host, (os.statvfs(host.data).f_bavail * os.statvfs(host.data).f_frsize >> 20) - 1)
        with contextlib.suppress(OSError), open(host.root / "rest", "wb", buffering=0) as f:
            while True:
                f.write(bytes(4096))
        # What is small fits into the log, which has its length.
        jobs = []
        while (reply := api.post(url, {"command": "echo ran >>/dev/shm/ran; : " + "x" * 50000})).status == 200:
            jobs.append(reply.json["id"])
            assert len(jobs) < 2000
        reply.failed(503, "no_space")
        (host.root / "rest").unlink()
        ballast(host, 0)
        wait_until(lambda: api.sandbox(id)["status"] == "running", 30, "the sandbox goes on")
        jobs.append(wait_until(lambda: (r := api.post(url, {"command": "true"})).status == 200 and r.json["id"],
                               what="a job can be submitted"))
        for job in jobs:
            wait_until(lambda: api.get(f"/queue/{job}/status").ok()["status"] == "completed", 30, f"end of {job}")
        assert len(api.exec(id, "cat /dev/shm/ran")["stdout"].split()) == len(jobs) - 1
        api.remove(id)
