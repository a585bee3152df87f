"""Where host code meets paths that a sandbox controls (E02, E03, E06-E10, E32, E33, I09-I13)."""

import os
import shutil
import socket
import threading

import pytest

from cay_harness import busybox_root, cay, read_text, wait_until

pytestmark = pytest.mark.core

CANARY = "canary of the host"


@pytest.fixture
def canary(tmp_path):
    path = tmp_path / "canary"
    path.write_text(CANARY)
    yield path
    assert path.read_text() == CANARY


@pytest.mark.parametrize("fd", range(0, 20))
def test_a_cwd_in_proc_self_fd_is_no_way_out(api, box, fd):
    """E02 (CVE-2024-21626): the host's folders are not behind any descriptor."""
    for path in (f"/proc/self/fd/{fd}", f"/proc/1/fd/{fd}", f"/proc/self/fd/{fd}/../../.."):
        reply = api.try_exec(box, "ls -a; pwd -P; cat etc/hostname ../../../etc/shadow", cwd=path)
        if reply.status == 200:
            shadow = open("/etc/shadow").read().splitlines()[0]
            assert shadow not in reply.json["stdout"]
        else:
            reply.failed(400, "bad_cwd")


def test_a_workdir_in_proc_is_no_way_out(api):
    for path in ("/proc/self/fd/5", "/proc/1/cwd", "/proc/self/fd/8/../.."):
        reply = api.try_create(workdir=path)
        if reply.status == 200:
            id = reply.json["id"]
            try:
                reply = api.try_exec(id, "pwd -P; ls")
                assert reply.status == 400 or "shadow" not in reply.json["stdout"]
            finally:
                api.remove(id)
        else:
            reply.failed((400, 404))


def test_a_cwd_that_flips_under_the_call_never_leaves(api, box):
    """E03: a link that changes between a folder and /proc/self/fd/N while execs start."""
    api.background(box, "mkdir -p /tmp/real; while :; do ln -sfn /tmp/real /tmp/l; "
                        "ln -sfn /proc/self/fd/7 /tmp/l; ln -sfn /proc/1/root /tmp/l; done")
    wait_until(lambda: api.exec(box, "test -L /tmp/l")["exitCode"] == 0)
    inside = api.sh(box, "stat -c %d:%i /")
    for _ in range(150):
        reply = api.try_exec(box, "stat -c %d:%i /; pwd -P", cwd="/tmp/l")
        if reply.status == 200:
            where = reply.json["stdout"].splitlines()
            assert where[0] == inside.strip()
            assert where[1] in ("/tmp/real", "/", "/tmp/l") or where[1].startswith("/proc"), where
        else:
            reply.failed(400, "bad_cwd")


HOSTILE = {
    "dev is a link": lambda r, t: (shutil.rmtree(r / "dev"), (r / "dev").symlink_to(t)),
    "dev is a file": lambda r, t: (shutil.rmtree(r / "dev"), (r / "dev").write_text("x")),
    "dev/null is a link": lambda r, t: (r / "dev/null").symlink_to(t / "canary"),
    "dev/pts is a link": lambda r, t: (r / "dev/pts").symlink_to("/proc"),
    "dev/console is a link": lambda r, t: (r / "dev/console").symlink_to("/proc/sysrq-trigger"),
    "proc is a link": lambda r, t: (shutil.rmtree(r / "proc"), (r / "proc").symlink_to(t)),
    "proc is a file": lambda r, t: (shutil.rmtree(r / "proc"), (r / "proc").write_text("x")),
    "proc is filled": lambda r, t: (r / "proc/self/attr").mkdir(parents=True),
    "proc/self is a link": lambda r, t: (r / "proc/self").symlink_to("/"),
    "sys is a link": lambda r, t: (shutil.rmtree(r / "sys"), (r / "sys").symlink_to("/proc")),
    "sys is filled": lambda r, t: (r / "sys/fs/cgroup/x").mkdir(parents=True),
    "etc is a link": lambda r, t: (shutil.rmtree(r / "etc"), (r / "etc").symlink_to("/etc")),
    "tmp is a link": lambda r, t: (shutil.rmtree(r / "tmp"), (r / "tmp").symlink_to(t)),
    "workspace is a link": lambda r, t: (r / "workspace").symlink_to(t),
    "bin is a link to the host": lambda r, t: (r / "usr/x").symlink_to("/usr/bin"),
}


@pytest.mark.needs("program:busybox")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_image_reaches_nothing(shared, api, tmp_path, case):
    """E06-E08: links and files where we mount; create fails, or it is what it should be inside."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "canary").write_text(CANARY)
    root = busybox_root(tmp_path / "root")
    HOSTILE[case](root, target)
    done = cay(shared, "image", "import", root, "hostile:1")
    if done.returncode == 0:
        try:
            reply = api.try_create("hostile:1")
            if reply.status == 200:
                id = reply.json["id"]
                out = api.exec(id, ["/bin/sh", "-c", "echo y > /dev/null; ls /dev; stat -f -c %T /proc; "
                                                     "echo z > /tmp/z; cat /proc/self/status"])
                listed = out["stdout"]
                assert "canary" not in listed, out
                api.write(id, "f", "x")
                api.remove(id)
            else:
                assert reply.status in (400, 404, 409, 500, 501, 503) and reply.json["error"], reply.body
        finally:
            wait_until(lambda: cay(shared, "image", "rm", "hostile:1").returncode == 0,
                       what="the end of the sandbox that used the image")
    assert [p.name for p in target.iterdir()] == ["canary"]
    assert (target / "canary").read_text() == CANARY


FAKES = ["proc/sys/user/max_user_namespaces", "proc/sys/net/ipv4/ip_unprivileged_port_start",
         "proc/sys/net/ipv4/ping_group_range", "proc/self/attr/exec",
         "proc/self/oom_score_adj", "proc/self/setgroups", "proc/sys/kernel/core_pattern"]


@pytest.mark.needs("program:busybox")
def test_what_is_written_to_proc_goes_to_the_kernel(shared, api, make, tmp_path):
    """E09 (CVE-2025-52881): files of the image that look like those we write are neither written nor seen."""
    root = busybox_root(tmp_path / "root")
    for name in FAKES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("fake")
    cay(shared, "image", "import", root, "fakes:1", check=True)
    try:
        id = make(image="fakes:1")["id"]
        for path, want in (("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"),
                           # Of all groups of the host: who cannot name them sees the overflow id.
                           ("/proc/sys/net/ipv4/ping_group_range", "65534\t65534")):
            assert read_text(path).strip() != want, "control: not by itself"
            assert api.exec(id, ["/bin/cat", path])["stdout"].strip() == want, "the kernel has it"
        api.exec(id, ["/bin/touch", "/etc/changed"])
        api.post(f"/sandboxes/{id}/commit", {"name": "fakes:2"}).ok()
        layers = list((shared.data / "images/layers").iterdir())
        assert any((layer / "etc/changed").exists() for layer in layers), "control: what is written shows"
        fakes = [layer / name for layer in layers for name in FAKES if (layer / name).exists()]
        assert len(fakes) == len(FAKES) and all(fake.read_text() == "fake" for fake in fakes)
        api.remove(id)
    finally:
        for name in ("fakes%3A2", "fakes%3A1"):
            wait_until(lambda: api.delete(f"/images/{name}").status in (200, 404), what=f"the end of {name}")


def put_link(at, target):
    if at.is_dir() and not at.is_symlink():
        at.rmdir()
    at.symlink_to(target)


def put_folder(at):
    if at.is_symlink():
        at.unlink()
    at.mkdir()


def test_a_mount_point_that_flips_leads_nowhere(shared, api, make, tmp_path):
    """E10 (CVE-2021-30465): where the host's /usr is to be mounted there is a link, at times, while sandboxes
    start. Only the host can flip it in a layer; a sandbox cannot (below)."""
    target = tmp_path / "target"
    target.mkdir()
    id = make()["id"]
    api.sh(id, "echo x > /opt/x")
    before = set((shared.data / "images/layers").iterdir())
    api.post(f"/sandboxes/{id}/commit", {"name": "flips:1"}).ok()
    [layer] = set((shared.data / "images/layers").iterdir()) - before
    usr = layer / "usr"
    try:
        for where in ("/opt", target):  # there inside, and outside only
            put_link(usr, where)
            reply = api.try_create("flips:1")
            assert reply.status >= 400 and "bind" in reply.json["error"], reply.json
            usr.unlink()
        stop = threading.Event()

        def flip():
            while not stop.is_set():
                put_folder(usr)
                put_link(usr, target)

        flipper = threading.Thread(target=flip)
        flipper.start()
        try:
            for _ in range(30):
                reply = api.try_create("flips:1")
                if reply.status == 200:
                    mounts = [line.split()[4] for line in api.sh(reply.json["id"], "cat /proc/self/mountinfo").splitlines()]
                    assert "/usr" in mounts
                    api.remove(reply.json["id"])
        finally:
            stop.set()
            flipper.join()
        if usr.is_symlink():
            put_folder(usr)
        made = api.create("flips:1")["id"]
        assert api.sh(made, "ls /usr/bin/env") == "/usr/bin/env\n", "control: with a folder it is mounted"
        api.remove(made)
        assert list(target.iterdir()) == []
    finally:
        api.remove(id)
        wait_until(lambda: api.delete("/images/flips%3A1").status in (200, 404), what="the end of the image")


@pytest.mark.parametrize("folder", ["/usr", "/proc", "/sys", "/dev"])
def test_a_mount_point_cannot_be_replaced_from_inside(api, box, folder):
    """E10: so that no commit has a link there."""
    done = api.exec(box, ["python3", "-c", f"""
import os
for what in (lambda: os.rename("{folder}", "/gone"), lambda: os.rmdir("{folder}"), lambda: os.unlink("{folder}")):
    try:
        what(); print("done")
    except OSError as e:
        print(e.strerror)
os.mkdir("/other"); os.rename("/other", "/gone"); print("control")
"""])
    lines = done["stdout"].splitlines()
    assert len(lines) == 4 and "done" not in lines and lines[-1] == "control", done


@pytest.mark.parametrize("path", [
    "/workspace/../../../../etc/passwd", "//etc/passwd", "/workspace//../etc/passwd",
    "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc/passwd", "/proc/self/root/etc/passwd",
    "/workspace/proc/../../etc/passwd", "..\\..\\etc\\passwd", "/workspace/x/", "./../../etc/passwd",
    "\u002e\u002e/etc/passwd", "/proc/1/root/etc/passwd"])
def test_odd_paths_stay_in_the_sandbox(api, box, path):
    """I09."""
    host = open("/etc/passwd").read()
    for fields in ({}, {"anywhere": True}):
        reply = api.file(box, "read", path=path, **fields)
        assert reply.status < 500
        if reply.status == 200:
            assert reply.json != host
    reply = api.file(box, "write", path=path, content="overwritten", anywhere=True)
    assert reply.status < 500
    assert open("/etc/passwd").read() == host


def test_overlong_and_broken_utf8_in_a_path_is_refused(api, box):
    for raw in (b"\xc0\xae\xc0\xae/etc/passwd", b"\xff", b"\xe0\x80\xaf"):
        reply = api.call("POST", f"/sandboxes/{box}/files/read", type="application/json",
                         raw=b'{"path":"' + raw + b'"}')
        reply.failed(400)


def test_a_flipping_folder_never_leads_to_the_host(api, box, canary):
    """I10: files are read and written while a folder and a link to / take turns in its place."""
    where = str(canary.parent)
    api.sh(box, f"mkdir -p /tmp/good{where}; echo inside > /tmp/good{where}/canary")
    api.background(box, "cd /workspace; mkdir -p d0; cp -r /tmp/good/* d0; while :; do "
                        "ln -sfn / flip 2>/dev/null; rm -rf flip; ln -sfn /proc/1/root flip; "
                        "rm -rf flip; cp -r d0 flip; rm -rf flip; done")
    seen = set()
    for n in range(200):
        reply = api.file(box, "read", path=f"/workspace/flip{where}/canary", anywhere=True)
        assert reply.status < 500
        if reply.status == 200:
            seen.add(reply.json)
        reply = api.file(box, "write", path=f"/workspace/flip{where}/written", content="x",
                         anywhere=True)
        assert reply.status < 500, reply.body
    assert CANARY not in seen
    assert [p.name for p in canary.parent.iterdir()] == ["canary"]


def test_cp_out_does_not_write_through_a_link(shared, api, box, tmp_path):
    """I11 (CVE-2026-103916): a link in the folder that is copied into is not followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    workspace = tmp_path / "workspace"
    (workspace / "tree").mkdir(parents=True)
    (workspace / "tree" / "sub").symlink_to(outside)
    (workspace / "tree" / "file").symlink_to(outside / "made")
    api.sh(box, "mkdir -p tree/sub; echo evil > tree/sub/evil; echo evil > tree/file")
    cay(shared, "cp", f"{box}:/workspace/tree", workspace)
    assert list(outside.iterdir()) == []


def test_cp_out_ignores_names_that_climb(shared, api, box, tmp_path):
    api.sh(box, "mkdir t; ln -s /etc t/etc; echo x > t/ok; mkfifo t/fifo")
    out = tmp_path / "out"
    done = cay(shared, "cp", f"{box}:/workspace/t", out, timeout=30)
    assert done.returncode in (0, 1)
    where = out if (out / "ok").exists() else out / "t"
    if where.exists():
        assert not (where / "etc").is_dir() or (where / "etc").is_symlink()
        assert not (where / "fifo").is_fifo()


def test_special_files_do_not_block(api, box):
    """I12."""
    api.sh(box, "mkfifo f; ln -s /dev/zero z; ln -s /dev/tty t; ln -s /proc/kmsg k; "
                "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"")
    for name in "fztks":
        for what in ("read", "download"):
            reply = api.file(box, what, path=name)
            assert 400 <= reply.status < 500, (name, reply.status)
        reply = api.post(f"/sandboxes/{box}/files/download", {"path": name},
                         headers={"Accept": "application/octet-stream"})
        assert 400 <= reply.status < 500
    assert len(api.file(box, "list").ok()) == 5


def test_an_endless_file_is_bounded(api, box):
    reply = api.file(box, "read", path="/proc/self/pagemap", anywhere=True)
    assert reply.status in (200, 400, 403, 409, 413)


def test_uploads_that_are_killed_leave_nothing(api, box):
    """I13: many of them, and no temporary file is left."""
    for n in range(10):
        s = socket.create_connection(("127.0.0.1", api.port))
        s.sendall(f"POST /sandbox/sandboxes/{box}/files/upload?path=up{n} HTTP/1.1\r\n"
                  "Host: localhost\r\nContent-Type: application/octet-stream\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n10000\r\n".encode() + b"u" * 0x10000)
        s.close()
    wait_until(lambda: api.sh(box, "ls -A /workspace") == "", what="an empty folder")


def test_the_agent_s_socket_has_no_path_inside(api, box, shared):
    """E32, E33."""
    out = api.sh(box, "cat /proc/net/unix; find / -xdev -type s 2>/dev/null")
    assert "agent.sock" not in out and "exec.sock" not in out and "cay.sock" not in out
    assert str(shared.root) not in api.sh(box, "cat /proc/self/mountinfo /proc/mounts")


def test_garbage_to_the_agent_from_the_host_side_does_no_harm(api, box, shared):
    """E32: half frames, a length of 4 GiB, noise; the agent goes on."""
    sockets = list((shared.run / box).glob("*.sock"))
    assert sockets
    for path in sockets:
        for junk in (b"\xff\xff\xff\xff\x00", b"\x00\x00\x00\x10\x10abc", os.urandom(5000), b"",
                     b"\x05\x00\x00\x00"):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(60)
                s.connect(str(path))
                try:
                    s.sendall(junk)
                except OSError:
                    pass
    assert api.sh(box, "echo alive") == "alive\n"


def test_a_shared_layer_cannot_be_changed(api, make):
    """E42: what one sandbox writes over an image's file, no other sees, nor the host."""
    a, b = make()["id"], make()["id"]
    host = open("/etc/os-release").read() if os.path.exists("/etc/os-release") else ""
    api.sh(a, "echo changed > /etc/passwd; rm -rf /home/user; chmod 777 /etc")
    assert "changed" not in api.sh(b, "cat /etc/passwd") and api.sh(b, "ls -d /home/user")
    assert api.exec(a, "touch /usr/bin/x")["exitCode"] != 0
    assert api.exec(a, "chmod 777 /usr/bin/env")["exitCode"] != 0
    if host:
        assert open("/etc/os-release").read() == host
