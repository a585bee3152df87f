"""What a sandbox could try with a volume, a bind or the places that they are mounted at."""

import os
import subprocess

import pytest

from cay_harness import read_text, wait_until

pytestmark = pytest.mark.core


@pytest.fixture
def place(shared):
    """An API, and a sandbox that has a volume at /v."""
    with shared.api() as api:
        v = api.post("/volumes", {"name": "sec", "sizeMb": 32}).ok()["id"]
        id = api.create(volumes=[{"name": "sec", "mountPath": "/v"}])["id"]
        try:
            yield api, id
        finally:
            api.delete(f"/sandboxes/{id}")
            api.delete(f"/volumes/{v}")


def mount_lines(daemon, id):
    return read_text(f"/proc/{daemon.agent_pid(id)}/mountinfo").splitlines()


@pytest.mark.parametrize("path", ["/", "//", "/proc", "/proc/sys", "/sys/fs", "/dev", "/dev/shm", "/./proc", "proc", "/a/../proc"])
def test_nothing_is_mounted_over_what_is_the_kernels(place, path):
    api, id = place
    assert api.post("/volumes/sec/attach", {"sandboxId": id, "mountPath": path}).status == 400
    assert api.try_create(tmpfs=[{"mountPath": path, "sizeMb": 1}]).status == 400


def test_no_link_leads_a_mount_elsewhere(shared, place):
    api, id = place
    before = mount_lines(shared, id)
    api.sh(id, "ln -s /proc /l1; ln -s /proc/sys /l2; ln -s / /l3; ln -s /proc/1/root /l4; ln -s ../../../.. /l5")
    make = {"sandboxId": id, "subPath": "s"}
    for path in ("/l1/sys", "/l2", "/l3/proc", "/l4/x", "/l5/tmp/x"):
        api.post("/volumes/sec/attach", {**make, "mountPath": path}).failed(400, "bad_mount_path")
    assert mount_lines(shared, id) == before


def test_no_link_leads_an_unmount_elsewhere(shared, place):
    """/x/sys is a volume; the sandbox makes /x a link to /proc, where /proc/sys is closed by a mount."""
    api, id = place
    api.sh(id, "mkdir -p /x")
    api.post("/volumes/sec/attach", {"sandboxId": id, "mountPath": "/x/sys", "subPath": "s"}).ok()
    api.sh(id, "mv /x /y; ln -s /proc /x")
    closed = [line for line in mount_lines(shared, id) if " /proc" in line]
    api.post("/volumes/sec/detach", {"mountPath": "/x/sys"}).ok()
    assert [line for line in mount_lines(shared, id) if " /proc" in line] == closed
    assert not any(" /y/sys " in line for line in mount_lines(shared, id))
    assert api.exec(id, "echo 1 >/proc/sys/kernel/panic")["exitCode"] != 0


def test_a_mount_point_that_is_renamed_all_the_time(shared, place):
    api, id = place
    closed = [line.split(" ", 2)[2] for line in mount_lines(shared, id) if " /proc" in line or " /sys" in line]
    x = api.background(id, "mkdir -p /r/m; while :; do mv /r/m /r/n; ln -s /proc/sys /r/m; rm /r/m; mv /r/n /r/m; done 2>/dev/null")
    for _ in range(30):
        if api.post("/volumes/sec/attach", {"sandboxId": id, "mountPath": "/r/m", "subPath": "s"}).status == 200:
            api.post("/volumes/sec/detach", {"mountPath": "/r/m"})
    api.sh(id, f"kill -9 {x['pid']} || true")
    now = [line.split(" ", 2)[2] for line in mount_lines(shared, id) if " /proc" in line or " /sys" in line]
    assert now == closed


def test_setuid_devices_and_owners(shared, place):
    api, id = place
    said = api.exec(id, "mknod /v/null c 1 3; cp /usr/bin/id /v/id; chown 0:0 /v/id; chmod 4755 /v/id; "
                        "setpriv --reuid 1000 --clear-groups /v/id -u")
    assert said["stdout"] == "1000\n" and "mknod" in said["stderr"]
    assert all("nosuid" in line and "nodev" in line and "idmapped" in line
               for line in mount_lines(shared, id) if " /v " in line)
    # On the host's side ids are small ones of the image, and nobody can reach it there by a name.
    assert api.post("/volumes/sec/files/info", {"path": "/id"}).ok()["owner"] == "root"
    assert not [line for line in open("/proc/self/mountinfo") if "volumes/vol_" in line]
    other = api.create(volumes=[{"name": "sec", "mountPath": "/o"}])["id"]
    api.sh(id, "echo 1 >/v/f; chown 1234 /v/f")
    assert api.sh(other, "stat -c %u /o/f") == "1234\n"
    assert api.exec(id, "chown 70000 /v/f")["exitCode"] != 0
    api.remove(other)


def test_what_is_no_file_is_not_opened_from_outside(place):
    api, id = place
    api.sh(id, "cd /v; mkfifo fifo; ln -s /etc/shadow out; ln -s ../../../etc/passwd up; ln -s loop loop; ln -s /f in; echo 1 >f; "
               "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"")
    files = "/volumes/sec/files"
    for name in ("fifo", "out", "up", "loop", "sock"):
        for what in ("read", "download"):
            reply = api.post(f"{files}/{what}", {"path": f"/{name}"})
            assert reply.status in (400, 404), (name, reply.body)
    assert api.post(f"{files}/read", {"path": "/in"}).ok() == "1\n"
    # A write replaces the link, and never what it leads to.
    for name in ("out", "fifo", "in"):
        api.post(f"{files}/write", {"path": f"/{name}", "content": "mine"}).ok()
    assert api.sh(id, "cat /v/out /v/fifo /v/in /v/f") == "mineminemine1\n"
    api.sh(id, "ln -s /etc /v/dir")
    api.post(f"{files}/write", {"path": "/dir/passwd", "content": "x"}).failed(404)
    api.post(f"{files}/mkdir", {"path": "/dir/new"}).failed(400)
    api.post(f"{files}/delete", {"path": "/dir", "recursive": True}).ok()
    assert os.path.exists("/etc/passwd")


def test_a_sub_path_does_not_lead_out(place):
    api, id = place
    api.sh(id, "ln -s / /v/root; ln -s ../.. /v/up; echo 1 >/v/file")
    for sub in ("root", "up", "root/etc", "file", "../x"):
        reply = api.post("/volumes/sec/attach", {"sandboxId": id, "mountPath": "/s", "subPath": sub})
        assert reply.status == 400, (sub, reply.body)


def test_a_sandbox_does_not_keep_what_is_detached(shared, place):
    """It renames the place, and who has the whole volume the folder: nothing is called as it was."""
    api, id = place
    other = api.create()["id"]
    api.post("/volumes/sec/attach", {"sandboxId": other, "mountPath": "/x/m", "subPath": "s"}).ok()
    api.sh(id, "echo secret >/v/s/f; mv /v/s /v/t")
    api.sh(other, "mv /x /y; cat /y/m/f")
    api.post("/volumes/sec/detach", {"sandboxId": other, "mountPath": "/x/m"}).ok()
    assert api.exec(other, "cat /y/m/f")["exitCode"] != 0
    assert not any(" /y/m " in line for line in mount_lines(shared, other))
    api.remove(other)


def test_two_places_that_change_their_names(place):
    api, id = place
    api.sh(id, "mkdir /v/ro /v/rw")
    other = api.create(volumes=[{"name": "sec", "mountPath": "/x/m", "subPath": "ro", "readOnly": True},
                                {"name": "sec", "mountPath": "/y/m", "subPath": "rw"}])["id"]
    api.sh(other, "mv /x /z; mv /y /x; mv /z /y")
    api.post("/volumes/sec/detach", {"sandboxId": other, "mountPath": "/y/m"}).ok()
    assert "Read-only" in api.exec(other, "touch /y/m/f")["stderr"]
    assert api.exec(other, "touch /x/m/f; ls /v 2>&1")["exitCode"] != 0
    assert api.sh(id, "ls /v/rw /v/ro") == "/v/ro:\n\n/v/rw:\n"
    api.remove(other)


def test_a_part_of_a_volume_below_the_whole_of_it(place):
    """The folder is there already by another way, but not as it was asked for."""
    api, id = place
    api.sh(id, "mkdir /v/s; chmod 777 /v/s")
    api.post("/volumes/sec/attach", {"sandboxId": id, "mountPath": "/v/s", "subPath": "s", "readOnly": True}).ok()
    assert "Read-only" in api.exec(id, "touch /v/s/f")["stderr"]
    api.post("/volumes/sec/detach", {"sandboxId": id, "mountPath": "/v/s"}).ok()
    api.sh(id, "touch /v/s/f")


HOLDER = """
import os, resource, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
fd = os.open("/etc/passwd", os.O_RDONLY)
try:
    while True:
        os.dup(fd)
except OSError:
    pass
for _ in range(40):
    if os.fork() == 0:
        time.sleep(1000)
if os.fork() == 0:
    os.close(most - 1)
    assert os.open("/v", os.O_RDONLY) == most - 1
    print("held", flush=True)
time.sleep(1000)
"""


def test_open_files_do_not_hold_up_a_detach(shared):
    """The folder of the volume is the last of 2.6 million: the call looks at a hundred thousand and names no process."""
    with shared.api() as api:
        v = api.post("/volumes", {"name": "held", "sizeMb": 16}).ok()["id"]
        id = api.create(memory=512, volumes=[{"name": "held", "mountPath": "/v"}])["id"]
        api.write(id, "/workspace/h.py", HOLDER)
        x = api.background(id, "exec python3 /workspace/h.py")
        wait_until(lambda: "held" in str(api.background_logs(x["id"])), 60)
        said = api.post("/volumes/held/detach", {"sandboxId": id}).failed(409, "volume_busy", "cannot be named")
        assert said["processes"] == []
        # The folder that a process is in is looked at in any case.
        pid = api.background(id, "cd /v; exec sleep 1234")["pid"]
        wait_until(lambda: [p for p in api.processes(id) if p["pid"] == pid and p["command"] == "sleep 1234"])
        said = api.post("/volumes/held/detach", {"sandboxId": id}).failed(409, "volume_busy")
        assert [p["command"] for p in said["processes"]] == ["sleep 1234"]
        api.remove(id)
        api.delete(f"/volumes/{v}").ok()


def test_what_was_just_made_for_a_sub_path_becomes_a_link(place, probe_path, tmp_path):
    """Who has the volume waits for the folder that an attach makes and puts a link to a file of the host there."""
    api, id = place
    secret = tmp_path / "secret"
    secret.write_text("the host's")
    secret.chmod(0o600)
    other = api.create()["id"]
    api.upload(id, "/workspace/probe", probe_path.read_bytes())
    api.background(id, f"chmod 755 /workspace/probe && cd /v && exec /workspace/probe swap {secret} s 200")
    for i in range(200):
        made = api.post("/volumes/sec/attach", {"sandboxId": other, "mountPath": "/m", "subPath": f"s{i}"})
        assert made.status in (200, 400), made.body
        assert secret.stat().st_mode & 0o777 == 0o600, f"the {i + 1}. attach"
        if made.status == 200:
            # Who races for the folder may be in it at this moment.
            wait_until(lambda: api.post("/volumes/sec/detach", {"sandboxId": other, "mountPath": "/m"}).status == 200)
    api.remove(other)


def test_a_sub_path_that_cannot_be_made(place):
    api, id = place
    attach = {"sandboxId": id, "mountPath": "/s"}
    api.post("/volumes/sec/attach", {**attach, "subPath": "x" * 256}).failed(400, "bad_sub_path")
    api.sh(id, "cd /v; i=0; while mkdir d$i 2>/dev/null; do i=$((i+1)); done")
    api.post("/volumes/sec/attach", {**attach, "subPath": "new"}).failed(429, "no_space", "the volume is full")


# ---- folders of the host ----


REFILL = """
import os
made = 0
while True:
    made += 1
    try:
        os.mkdir(f"/v/top/{os.getpid()}.{made}")
    except FileNotFoundError:  # all of it was removed
        os.makedirs("/v/top", exist_ok=True)
    except OSError:  # the volume is full
        pass
    if made == 100:
        print("refilling", flush=True)
"""


def test_a_folder_that_is_refilled_all_the_time_cannot_hold_up_its_removal(daemon_of):
    own = daemon_of(env={"CAY_VOLUME_DELETE_TIMEOUT": 1}).start()
    with own.api() as api:
        api.post("/volumes", {"name": "v", "sizeMb": 32}).ok()
        id = api.create(volumes=[{"name": "v", "mountPath": "/v"}])["id"]
        api.sh(id, "mkdir /v/top")
        api.write(id, "refill.py", REFILL)
        fillers = [api.background(id, "exec python3 refill.py")["id"] for _ in range(2)]
        for x in fillers:
            wait_until(lambda: api.background_logs(x)["output"] == "refilling\n")
        remove = {"path": "/top", "recursive": True}

        def held_up():
            """On a busy machine the sandbox may not run for so long that all is removed: 200, or 404 before it is there again."""
            reply = api.post("/volumes/v/files/delete", remove)
            return reply.status not in (200, 404) and reply

        wait_until(held_up).failed(409, "delete_incomplete", "CAY_VOLUME_DELETE_TIMEOUT")
        api.remove(id)
        wait_until(lambda: api.post("/volumes/v/files/delete", remove).status == 200)  # the rest of it
        assert api.post("/volumes/v/files/list", {}).ok() == []
        api.delete("/volumes/v").ok()


@pytest.fixture
def host(daemon_of, tmp_path):
    allowed = tmp_path / "allowed"
    for name in ("ann", "rooted", "ann/deep"):
        (allowed / name).mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (allowed / "ann/f").write_text("ann's")
    (allowed / "ann/roots").write_text("root's")
    for name in ("ann", "ann/f", "ann/deep"):
        os.chown(allowed / name, 4321, 4321)
    (allowed / "link").symlink_to(tmp_path / "secret")
    (allowed / "ann/link").symlink_to(tmp_path / "secret")
    own = daemon_of(env={"CAY_BIND_ALLOW": str(allowed)}).start()
    with own.api() as api:
        yield api, allowed


def bind(path, **more):
    return [{"path": str(path), "mountPath": "/b", **more}]


def test_only_what_the_operator_listed(host, shared, tmp_path):
    api, allowed = host
    for path in (tmp_path / "secret", "/etc", "/", f"{allowed}x", tmp_path):
        api.try_create(volumes=bind(path)).failed(403, "bind_not_allowed")
    api.try_create(volumes=bind(f"{allowed}/../secret")).failed(400, "path_traversal")
    for path in (allowed / "link", allowed / "ann/link", allowed / "none"):
        api.try_create(volumes=bind(path)).failed(400, "bad_bind")
    api.try_create(volumes=bind(allowed / "ann", subPath="link")).failed(400, "bad_bind")
    with shared.api() as other:
        other.try_create(volumes=bind(allowed / "ann")).failed(403, "bind_not_allowed")
    assert api.ids() == []


def test_the_owner_is_root_inside_and_nobody_else_is_anybody(host):
    api, allowed = host
    id = api.create(volumes=bind(allowed / "ann"))["id"]
    assert api.sh(id, "cat /b/f; stat -c %u /b/f /b/roots; echo new >/b/new") == "ann's0\n65534\n"
    st = os.stat(allowed / "ann/new")
    assert (st.st_uid, st.st_gid) == (4321, 4321)
    assert api.exec(id, "chown 5 /b/f || rm -f /b/roots || setpriv --reuid 1000 touch /b/x")["exitCode"] != 0
    assert (allowed / "ann/roots").read_text() == "root's" and os.stat(allowed / "ann/f").st_uid == 4321
    assert "idmapped" in api.sh(id, "grep ' /b ' /proc/self/mountinfo")
    api.remove(id)


def test_what_is_roots_is_only_shown(host):
    api, allowed = host
    api.try_create(volumes=bind(allowed / "rooted")).failed(403, "bind_not_allowed", "readOnly")
    id = api.create(volumes=bind(allowed / "rooted", readOnly=True))["id"]
    assert "Read-only" in api.exec(id, "touch /b/x")["stderr"]
    api.remove(id)


@pytest.mark.needs("root")
def test_what_cannot_be_mapped_is_refused(daemon_of):
    own = daemon_of(env={"CAY_BIND_ALLOW": "/proc/sys,/sys/kernel"}).start()
    with own.api() as api:
        api.try_create(volumes=bind("/proc/sys/kernel", readOnly=True)).failed(400, "mount_unmappable")
        assert api.ids() == []


def test_mounts_of_the_host_do_not_come_in(host):
    api, allowed = host
    id = api.create(volumes=bind(allowed / "ann"))["id"]
    subprocess.run(["mount", "-t", "tmpfs", "late", str(allowed / "ann/deep")], check=True)
    try:
        assert "late" not in api.sh(id, "cat /proc/self/mountinfo")
    finally:
        subprocess.run(["umount", str(allowed / "ann/deep")], check=True)
    api.remove(id)
