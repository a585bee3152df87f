"""System calls, devices, kernel files (E11-E26, E35, E39-E41), each with its control."""

import ctypes
import os
import platform
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from cay_probe import NUMBERS
from cay_harness import pids, read_text, wait_until

pytestmark = [pytest.mark.core, pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers are those of x86_64")]

GOLDEN = Path(__file__).with_name("golden_syscalls.txt")


# Judged by their arguments; the probe's are all ones.
BY_ARGUMENT = {"fcntl", "ioctl", "socket", "socketpair", "clone", "personality", "prlimit64", "setns",
               "setrlimit", "setsockopt"}
NEWEST = 456  # of the profile; what comes after is ENOSYS

HEADER = """\
# What each system call does for a process inside a sandbox: number, name, verdict.
#   allow   the filter lets it through (what the kernel then says to senseless arguments is not told)
#   EPERM   refused by the filter
#   ENOSYS  as if the kernel were older, so that libc falls back; or the kernel's own word
# Numbers after the last line are ENOSYS. Written by CAY_WRITE_GOLDEN=1 pytest tests/security; read
# every line of the difference before committing it.
"""


def read_golden():
    lines = (line.split() for line in open(GOLDEN) if not line.startswith("#"))
    return {words[0]: words[2] for words in lines if words}


def write_golden(got):
    names = {str(n): name for name, n in NUMBERS.items()}
    with open(GOLDEN, "w") as out:
        out.write(HEADER)
        for nr, word in got.items():
            if int(nr) <= NEWEST:
                note = " by-argument" if names.get(nr) in BY_ARGUMENT else ""
                out.write(f"{nr} {names.get(nr, '-')} {word}{note}\n")


def test_every_syscall_has_its_verdict(probe):
    """E23: the whole table, against the list that was reviewed."""
    got = probe.inside("syscalls")
    if os.environ.get("CAY_WRITE_GOLDEN"):
        write_golden(got)
    want = read_golden()
    assert len(want) > 350 and len(got) > 400
    wrong = []
    for nr, word in got.items():
        expected = want.get(nr, "ENOSYS")
        # A kernel that is older than the profile, or built without a call, says ENOSYS by itself.
        if word != expected and not (expected == "allow" and word == "ENOSYS" and int(nr) >= 446):
            wrong.append(f"{nr}: {word}, not {expected}")
    assert not wrong, wrong


def test_the_golden_list_agrees_with_the_policy():
    """No edit of the list may let these through."""
    verdict = {line.split()[1]: line.split()[2] for line in open(GOLDEN) if line[0] != "#"}
    for name in REFUSED:
        assert verdict[name] == "EPERM", name
    assert verdict["clone3"] == "ENOSYS"
    for name in ("read", "execve", "fork", "openat2", "futex_waitv", "ptrace", "seccomp", "statx"):
        assert verdict[name] == "allow", name


REFUSED = ["bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "keyctl", "add_key",
           "request_key", "kexec_load", "init_module", "finit_module", "open_by_handle_at",
           "process_vm_writev", "pidfd_getfd", "acct", "swapon", "quotactl", "iopl", "mount",
           "umount2", "pivot_root", "fsopen", "fsconfig", "open_tree", "move_mount", "mount_setattr",
           "unshare", "setns", "clock_settime", "adjtimex", "settimeofday", "sethostname",
           "setdomainname", "reboot", "syslog", "chroot", "name_to_handle_at", "vmsplice",
           "memfd_secret", "clock_adjtime", "delete_module", "ioperm"]
# What the kernel says to the same arguments without a filter: something else than EPERM.
CONTROLLED = ["bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "mount", "umount2", "fsopen",
              "fsconfig", "open_tree", "move_mount", "mount_setattr", "unshare", "setns",
              "open_by_handle_at", "pidfd_getfd", "vmsplice", "name_to_handle_at", "process_vm_writev"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_dangerous_call_is_refused_by_the_filter(probe, name):
    minus = ["0xffffffffffffffff"] * 6
    assert probe.call(name, *minus) == "EPERM"
    if name in CONTROLLED:
        assert probe.call_outside(name, *minus) not in ("EPERM", "ENOSYS"), "control"


def test_namespaces_cannot_be_made(probe, api):
    """E12."""
    newuser, sigchld = 0x10000000, 17
    assert probe.call("unshare", newuser) == "EPERM"
    assert probe.call("clone", newuser | sigchld, 0, 0, 0, 0) == "EPERM"
    assert probe.call("clone3", 0, 0) == "ENOSYS"
    assert probe.call_outside("clone3", 0, 0) in ("EINVAL", "EFAULT"), "control"
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000):
        assert probe.call("clone", flag | sigchld, 0, 0, 0, 0) == "EPERM", hex(flag)


def test_namespaces_cannot_be_made_without_the_filter_either(api, box, shared):
    """E12: by a process that the host puts beside the commands, where no filter is."""
    api.background(box, ["sleep", "1000"])
    sleeper = wait_until(lambda: next((pid for pid in pids() if box in read_text(f"/proc/{pid}/cgroup")
                                       and read_text(f"/proc/{pid}/comm") == "sleep\n"), None), what="the command")
    enter = ["nsenter", "--user", "--target"]
    made = subprocess.run(["unshare", "--user", "true"], capture_output=True)
    assert made.returncode == 0, "control"
    for pid in (sleeper, shared.agent_pid(box)):
        made = subprocess.run([*enter, str(pid), "unshare", "--user", "true"], capture_output=True, text=True)
        assert made.returncode != 0 and "No space left" in made.stderr, made


def test_no_namespace_can_be_entered(probe):
    """E13, by every file there is."""
    inside, control = probe.inside("setns"), probe.outside("setns")
    assert control["entered"] > 0, "control: outside, root may"
    assert inside["tried"] >= 7 and inside["entered"] == 0 and inside["refused"] == inside["tried"], inside


FAMILIES = {"AF_ALG": 38, "AF_VSOCK": 40, "AF_PACKET": 17, "AF_RDS": 21, "AF_TIPC": 30, "AF_XDP": 44,
            "AF_BLUETOOTH": 31, "AF_CAN": 29, "AF_KEY": 15, "AF_X25": 9, "AF_APPLETALK": 5,
            "AF_SMC": 43, "AF_QIPCRTR": 42, "AF_NFC": 39, "AF_LLC": 26}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_socket_family_that_is_not_needed_is_refused_by_the_filter(probe, name):
    """E24: EPERM is ours; the kernel's own word would be EAFNOSUPPORT or success."""
    assert probe.call("socket", FAMILIES[name], 3, 0) == "EPERM"
    assert probe.call_outside("socket", FAMILIES[name], 3, 0) != "EPERM", "control"
    high = FAMILIES[name] | 0xffffffff00000000
    assert probe.call("socket", high, 3, 0) == "EPERM"


UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DGRAM, RAW, SEQPACKET, DCCP = 1, 2, 3, 5, 6
CLOEXEC = 0o2000000


@pytest.mark.parametrize("what", [(UNIX, STREAM, 0), (UNIX, DGRAM, 0), (UNIX, SEQPACKET | CLOEXEC, 0),
                                  (INET, STREAM, 0), (INET, STREAM | CLOEXEC, 6), (INET6, STREAM, 6),
                                  (INET, DGRAM, 17), (INET6, DGRAM, 0), (INET, DGRAM, 1),
                                  (INET6, DGRAM, 58), (NETLINK, RAW, 0)])
def test_a_socket_that_is_needed_can_be_had(probe, what):
    assert probe.call("socket", *what) == "0"


@pytest.mark.parametrize("what", [(INET, STREAM, 132), (INET, SEQPACKET, 0), (INET6, SEQPACKET, 132),
                                  (INET, DCCP, 0), (INET6, DCCP | CLOEXEC, 33), (INET, STREAM, 262),
                                  (INET, DGRAM, 115), (INET, DGRAM, 136), (INET6, DGRAM, 1),
                                  (INET, RAW, 1), (INET, RAW, 255)])
def test_a_protocol_that_is_not_needed_is_refused_by_the_filter(probe, what):
    """sctp, dccp, mptcp, l2tp, udplite, raw: no module is asked for."""
    assert probe.call("socket", *what) == "EPERM"
    assert probe.call_outside("socket", *what) != "EPERM", "control"


@pytest.mark.parametrize("kind, protocol", [(RAW, 9), (DGRAM, 9), (DGRAM, 4), (RAW, 12), (RAW, 16)])
def test_netlink_beyond_routes_is_as_if_the_kernel_had_none(probe, kind, protocol):
    """audit, sock_diag, netfilter, generic. On any other word, EPERM too, programs with PAM end."""
    assert probe.call("socket", NETLINK, kind, protocol) == "EPROTONOSUPPORT"
    if protocol == 9:
        assert probe.call_outside("socket", NETLINK, kind, protocol) == "0", "control"


def test_other_call_tables_lead_nowhere(probe):
    """E25."""
    control = probe.outside("foreign")
    inside = probe.inside("foreign")
    assert inside["x32 getpid"] == "ENOSYS" and inside["x32 socket"] == "ENOSYS"
    for name in ("i386 getpid", "i386 socketcall"):
        if control["i386 getpid"] == "0":
            assert inside[name] == "signal 31", inside
        else:
            assert inside[name] != "0"


def test_nothing_is_pushed_into_a_terminal(probe):
    """E35, also with bits above the 32 that the kernel looks at."""
    tiocsti, tioclinux, tiocsetd = 0x5412, 0x541C, 0x5423
    for request in (tiocsti, tioclinux, tiocsetd):
        for high in (0, 1 << 32, 0xffffffff << 32):
            assert probe.inside("ioctl", hex(request | high))["errno"] == "EPERM"
    if read_text("/proc/sys/dev/tty/legacy_tiocsti").strip() == "1":
        assert probe.outside("ioctl", hex(tiocsti))["errno"] == "0", "control"
    assert probe.inside("ioctl", "0x5413")["errno"] == "0", "an ordinary one works"


def test_the_core_limit_cannot_be_changed(probe, api):
    """E18: 1 means that no handler is started; a process may not lower it to 0 and pipe again."""
    out = api.sh(probe.id, ["python3", "-c", """
import resource
print(resource.getrlimit(resource.RLIMIT_CORE))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print(resource.getrlimit(resource.RLIMIT_CORE))
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""])
    lines = out.splitlines()
    assert lines[0] == lines[1] and lines[0] in ("(1, 1)", "(0, 0)")
    assert lines[2] == "(512, 512)", "control: another limit can be lowered"


def test_the_mounts_are_what_they_should_be(api, box):
    """E11's other half: options of each mount."""
    mounts = {}
    for line in api.sh(box, "cat /proc/self/mountinfo").splitlines():
        left, right = line.split(" - ")
        words = left.split()
        mounts[words[4]] = (set(words[5].split(",")), right.split()[0])
    options, kind = mounts["/"]
    assert kind == "overlay" and {"nosuid", "nodev"} <= options
    assert {"nosuid", "nodev", "noexec"} <= mounts["/proc"][0] and mounts["/proc"][1] == "proc"
    for at in [at for at in mounts if at == "/sys" or at.startswith("/sys/")]:
        assert {"nosuid", "nodev", "noexec", "ro"} <= mounts[at][0], at
    assert mounts["/sys"][1] == "tmpfs" and mounts["/sys/devices/system"][1] == "sysfs"
    assert mounts["/dev"][1] == "tmpfs" and "nosuid" in mounts["/dev"][0]
    assert "ro" in mounts["/proc/sys"][0]
    assert {"ro", "nosuid", "nodev"} <= mounts["/usr"][0] and mounts["/usr"][1] == "overlay"
    for at, (options, _) in mounts.items():
        assert "nosuid" in options, at


def test_nothing_in_proc_sys_or_sys_can_be_written(api, probe):
    """E15, E17, E20."""
    found = probe.inside("writable", "/proc/sys", "/sys", "/proc/irq", "/proc/bus", "/proc/fs")
    assert found == [], found
    control = probe.outside("writable", "/proc/sys/kernel")
    assert "/proc/sys/kernel/core_pattern" in control, "control"
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
                 "/proc/sys/kernel/hotplug", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"):
        if os.path.exists(path):
            done = api.exec(probe.id, f"echo x > {path}")
            assert done["exitCode"] != 0 and ("ead-only" in done["stderr"]
                                              or "ermission" in done["stderr"]), (path, done)


def test_the_cgroup_view_shows_no_host_path(api, box):
    """E15, E16."""
    for line in api.sh(box, "cat /proc/self/cgroup").splitlines():
        assert line.split(":", 2)[2] == "/", line
    for command in ("mkdir /sys/fs/cgroup/x", "echo 0 > /sys/fs/cgroup/cgroup.procs",
                    "echo max > /sys/fs/cgroup/memory.max", "echo 1 > /sys/fs/cgroup/release_agent"):
        assert api.exec(box, command)["exitCode"] != 0, command


def test_the_release_agent_of_the_host_is_out_of_reach(api, box, tmp_path):
    """E14."""
    marker = tmp_path / "escaped"
    api.exec(box, f"""
mkdir /tmp/cg; mount -t cgroup -o memory cgroup /tmp/cg || mount -t cgroup -o rdma cgroup /tmp/cg
unshare -UrmC sh -c 'mount -t cgroup -o memory cgroup /tmp/cg'
mkdir /tmp/cg/x; echo 1 > /tmp/cg/x/notify_on_release; echo /tmp/run > /tmp/cg/release_agent
printf '#!/bin/sh\\ntouch {marker}\\n' > /tmp/run; chmod +x /tmp/run
sh -c 'echo $$ > /tmp/cg/x/cgroup.procs'
""", timeout=20)
    assert api.exec(box, "mount | grep -c /tmp/cg")["stdout"] == "0\n"
    assert not marker.exists()


def test_no_device_can_be_made(probe, tmp_path):
    """E21."""
    inside = probe.inside("devices", cwd="/tmp")
    assert inside["tried"] > 6000 and inside["opened"] == 0 and inside["made"] == 0, inside
    assert probe.call("mknod", "s:/tmp/null", 0o020666, (1 << 8) | 3) == "EPERM"
    assert probe.call_outside("mknod", f"s:{tmp_path}/null", 0o020666, (1 << 8) | 3) == "0", "control"


def test_the_devices_are_the_harmless_ones(api, box):
    """E22."""
    there = set(api.sh(box, "ls /dev").split())
    assert there <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm",
                     "mqueue", "fd", "stdin", "stdout", "stderr", "console", "core"}, there
    assert {"null", "zero", "full", "random", "urandom", "ptmx", "pts", "shm"} <= there
    for name in ("kvm", "mem", "fuse", "net/tun", "loop-control", "vda", "sda", "kmsg"):
        assert "No such file" in api.exec(box, f"cat /dev/{name}")["stderr"], name
    assert api.sh(box, "head -c 4 /dev/zero | od -An -tx1").split() == ["00"] * 4
    assert "No space left" in api.exec(box, "cat /proc/version > /dev/full")["stderr"]
    assert api.sh(box, "echo x > /dev/null; head -c 8 /dev/urandom | wc -c") == "8\n"


def test_the_clock_and_the_name_of_the_host_stay(api, box):
    """E39, E40."""
    name = socket.gethostname()
    done = api.exec(box, "hostname evil; date -s 2001-01-01; echo 1 > /proc/sys/kernel/hostname")
    assert "not permitted" in done["stderr"] or "ermission" in done["stderr"]
    assert socket.gethostname() == name
    import time
    assert time.time() > 1.5e9


def test_ipc_of_the_host_is_invisible(api, box):
    """E41."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x63617931
    shm = libc.shmget(key, 4096, 0o1000 | 0o666)
    assert shm >= 0
    try:
        assert hex(key) not in api.sh(box, "cat /proc/sysvipc/shm")
        out = api.sh(box, ["python3", "-c", f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget({key}, 4096, 0o666), ctypes.get_errno())
"""])
        assert out == "-1 2\n"
    finally:
        libc.shmctl(shm, 0, None)


def test_an_abstract_socket_of_the_host_is_out_of_reach(probe):
    """E34."""
    name = f"cay-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("\0" + name)
        s.listen()
        assert probe.outside("unix", name)["errno"] == "0", "control"
        assert probe.inside("unix", name)["errno"] == "ECONNREFUSED"


def test_there_is_loopback_and_nothing_else(api, box, shared):
    """The default network: our own API is not reachable either."""
    links = api.sh(box, "cut -d: -f1 /proc/net/dev | tail -n +3").split()
    assert links == ["lo"]
    out = api.sh(box, ["python3", "-c", f"""
import socket
for host, port in (("127.0.0.1", {shared.port}), ("169.254.169.254", 80), ("8.8.8.8", 53)):
    s = socket.socket()
    s.settimeout(5)
    try:
        s.connect((host, port))
        print("connected", host)
    except OSError as e:
        print(e.errno)
l = socket.socket(); l.bind(("127.0.0.1", 80)); l.listen()
c = socket.create_connection(("127.0.0.1", 80)); print("own loopback works")
"""], timeout=30)
    assert "connected" not in out and "own loopback works" in out


def test_walks_out_of_proc_stay_inside(api, box):
    """E45."""
    with tempfile.NamedTemporaryFile("w", prefix="cay-test-marker-", dir="/tmp") as marker:
        marker.write("of the host")
        marker.flush()
        os.chmod(marker.name, 0o644)  # a sandbox's root is an ordinary user of the host: 0600 would stop an escape as well
        assert subprocess.run(["cat", marker.name], user=65534, group=65534, extra_groups=(), capture_output=True, check=True).stdout == b"of the host"
        out = api.exec(box, "for p in /proc/self/root /proc/self/cwd /proc/self/fd/0/.. /proc/1/root "
                            f"/proc/self/task/*/root; do cat $p{marker.name}; "
                            f"cat $p/../../../../../..{marker.name}; done")
        assert "of the host" not in out["stdout"]
