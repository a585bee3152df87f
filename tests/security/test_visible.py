"""What /proc and /sys tell inside: the sandbox's own, and what programs need to know of the machine;
nothing of neighbours, of the host's disks and folders, nor of its devices (E16, E19)."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from cay_harness import read_text

pytestmark = pytest.mark.core

# What /proc has beside processes. A name that is added here is one more thing that is shown.
SHOWN = {"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "mounts", "net", "self", "stat", "sys", "sysvipc",
         "thread-self", "tty", "uptime", "version", "vmstat"}


def says(path):
    """What the host's root gets to read there; some files wait for events."""
    try:
        with open(path, "rb", buffering=0, opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as f:
            return f.read(4096) or b""
    except OSError:
        return b""


def others_files():
    return sorted(str(p) for p in Path("/proc").iterdir()
                  if not p.name.isdigit() and p.name not in SHOWN and not p.is_dir())


def test_files_of_the_kernel_say_nothing_but_those_that_are_needed(api, box):
    """E19, whatever this kernel has."""
    files = others_files()
    assert sum(1 for path in files if says(path)) > 5, "control: outside they say something"
    out = api.sh(box, "for f in %s; do n=$(head -c 4096 $f 2>/dev/null | wc -c); [ $n = 0 ] || echo $f; done; echo end"
                 % " ".join(files), timeout=60)
    assert out == "end\n"


SECRETS = ["/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/interrupts",
           "/proc/kallsyms", "/proc/config.gz", "/proc/latency_stats", "/proc/vmallocinfo", "/proc/slabinfo",
           "/proc/kpagecount", "/proc/cmdline", "/proc/diskstats", "/proc/partitions", "/proc/locks",
           "/proc/swaps", "/proc/modules", "/proc/iomem", "/proc/key-users", "/proc/zoneinfo"]


@pytest.mark.parametrize("path", SECRETS)
def test_a_kernel_file_says_nothing(api, box, path):
    """E19, by name."""
    if not says(path):
        pytest.skip(f"{path} says nothing on this kernel either")
    done = api.exec(box, f"head -c 4096 {path}", timeout=10)
    assert done["stdout"] == "", (path, done["stdout"][:200])


FOLDERS = ["/sys/firmware", "/sys/class/dmi", "/sys/devices/virtual/dmi", "/sys/devices/virtual/powercap",
           "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/kernel/btf", "/sys/fs/bpf",
           "/sys/module", "/sys/block", "/sys/dev", "/sys/bus", "/sys/class/block", "/sys/class/tty",
           "/sys/devices/virtual/block", "/sys/fs/ext4", "/sys/power", "/sys/kernel/slab", "/proc/acpi", "/proc/scsi",
           "/proc/asound", "/proc/driver", "/proc/fs", "/proc/bus", "/proc/irq", "/proc/pressure"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_kernel_folder_is_empty(api, box, folder):
    """E19. -L, since most of /sys is links."""
    find = f"find -L {folder} -maxdepth 3 -type f 2>/dev/null | head"
    if not subprocess.run(find, shell=True, capture_output=True).stdout:
        pytest.skip(f"{folder} has nothing on this machine either")
    done = api.exec(box, find)
    assert done["stdout"] == "", done


def test_what_programs_ask_for_is_there(api, box):
    """The other half: processors, memory and the network, as lscpu, the JVM, redis and ip read them."""
    out = api.sh(box, "cat /sys/devices/system/cpu/online; cat /sys/class/net/lo/mtu; nproc; "
                      "ls /sys/fs/cgroup /sys/block; free >/dev/null && ps >/dev/null && df >/dev/null && echo fine")
    assert re.fullmatch(r"[0-9,-]+", out.splitlines()[0])
    assert out.splitlines()[1] == "65536" and out.splitlines()[-1] == "fine"
    if os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"):
        assert "[" in api.sh(box, "cat /sys/kernel/mm/transparent_hugepage/enabled")
    for name in SHOWN - {"self", "thread-self"}:
        assert api.exec(box, f"ls /proc/{name}")["exitCode"] == 0, name


SCAN = """
import os, stat, sys
words = [w.encode() for w in open(sys.argv[1]).read().split()]  # not arguments, which are in /proc/self/cmdline
skip = {"mem", "pagemap", "clear_refs", "kcore", "kmsg", "trace_pipe"}
found = set()
def look(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            data = os.read(fd, 1 << 16)
            found.update((w, path) for w in words if w in data)
    except OSError:
        pass
    finally:
        os.close(fd)
for top in sys.argv[2:]:
    for where, folders, files in os.walk(top):
        folders[:] = [f for f in folders if not (where == "/proc" and f.isdigit())]
        for name in files:
            if name not in skip:
                look(os.path.join(where, name))
for w, path in sorted(found):
    print(w.decode(), path)
"""


def test_nothing_of_neighbours_and_the_host_is_told(api, make, shared, tmp_path):
    """Ids, folders and devices of others, looked for in every file that can be read."""
    me, other = make()["id"], make()["id"]
    disk = os.stat("/usr").st_dev  # the data of the daemon may be in memory
    device = os.path.basename(os.path.realpath(f"/sys/dev/block/{os.major(disk)}:{os.minor(disk)}"))
    words = " ".join([other, str(shared.root), f"/dev/{device}"])
    tops = ["/proc/self", "/proc", "/sys"]
    (tmp_path / "words").write_text(words)
    control = subprocess.run(["python3", "-c", SCAN, "words", "/proc/self", f"/proc/{shared.pid}", "/sys/devices/virtual/block"],
                             cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert str(shared.root) in control and f"/dev/{device}" in control, "control"
    api.write(me, "scan.py", SCAN)
    api.write(me, "words", words)
    out = api.sh(me, ["python3", "scan.py", "words", *tops], timeout=120)
    assert out == ""


def test_the_launchers_pid_is_not_in_the_names_of_cgroups(api, box, shared):
    children = read_text(f"/proc/{shared.pid}/task/{shared.pid}/children").split()
    launcher = [pid for pid in children if read_text(f"/proc/{pid}/comm") == "cay-launch\n"]
    assert len(launcher) == 1
    assert "name=cay" in api.sh(box, "cat /proc/self/cgroup"), "control"
    assert launcher[0] not in api.sh(box, "cat /proc/self/cgroup")


def test_how_full_the_hosts_disk_is_is_not_told(api, box):
    blocks = os.statvfs("/usr").f_blocks
    for path in ("/usr", "/usr/bin", "/", "/dev", "/sys"):
        assert int(api.sh(box, f"stat -f -c %b {path}")) != blocks, path
    assert subprocess.run(["stat", "-f", "-c", "%b", "/usr"], capture_output=True).stdout.strip() == b"%d" % blocks, \
        "control"
