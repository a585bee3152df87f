"""What a process inside holds: ids, capabilities, descriptors, namespaces (E04, E05, E27-E31, E46)."""

import json
import os
import re
import subprocess

import pytest

from cay_probe import Probe
from cay_harness import cgroups_of, pids, read_text, wait_until

pytestmark = pytest.mark.core

ROOT_CAPS = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7))  # CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID


def caps(info, which):
    return int(info["Cap" + which], 16)


def test_root_inside_has_seven_capabilities_and_no_more(probe):
    info = probe.inside("info")
    assert caps(probe.outside("info"), "Eff") & (1 << 21), "control: outside has CAP_SYS_ADMIN"
    for which in ("Eff", "Prm"):
        assert caps(info, which) == ROOT_CAPS, (which, hex(caps(info, which)))
    assert caps(info, "Inh") == 0 and caps(info, "Amb") == 0


def test_another_user_has_none(probe):
    info = probe.inside("info", user="1000:1000")
    assert info["uids"] == [1000] * 3 and info["gids"] == [1000] * 3
    for which in ("Eff", "Prm", "Inh", "Amb"):
        assert caps(info, which) == 0, which


def test_no_program_has_more_than_the_one_before(api, probe):
    """The bounding set of a command is full, within its own namespace: this is what holds it."""
    api.exec(probe.id, ["/workspace/probe", "setuid", "/workspace/suid"])
    for command in ("exec /workspace/probe info", "/workspace/suid info",
                    "sh -c 'sh -c \"/workspace/suid info\"'"):
        info = json.loads(api.sh(probe.id, command))
        assert caps(info, "Eff") == caps(info, "Prm") == ROOT_CAPS, command
    info = json.loads(api.sh(probe.id, ["/workspace/suid", "info"], user="1000:1000"))
    assert caps(info, "Eff") == caps(info, "Prm") == caps(info, "Inh") == caps(info, "Amb") == 0


def test_no_new_privs_and_the_filter_are_on(probe):
    info, control = probe.inside("info"), probe.outside("info")
    assert info["NoNewPrivs"] == "1" and info["Seccomp"] == "2"
    assert control["NoNewPrivs"] == "0"


def test_supplementary_groups_are_those_asked_for(probe):
    assert probe.inside("info")["groups"] in ([], [0])
    assert probe.inside("info", user="1000:1000")["groups"] in ([], [1000])


@pytest.mark.parametrize("what", ["exec", "stream", "background"])
def test_only_three_descriptors_are_there(api, probe, what):
    if what == "exec":
        info = probe.inside("info")
    elif what == "stream":
        events = api.exec_stream(probe.id, ["/workspace/probe", "info"])
        info = json.loads("".join(e["data"] for e in events if e["type"] == "stdout"))
    else:
        x = api.background(probe.id, ["/workspace/probe", "info"])
        api.background_end(x["id"])
        info = json.loads(api.background_logs(x["id"])["output"])
    assert set(info["fds"]) == {"0", "1", "2"}, info["fds"]
    for link in info["fds"].values():
        assert link == "/dev/null" or re.match(r"(pipe|socket):|/dev/pts/", link) or "log" in link, link


def test_the_entrypoint_has_only_three_descriptors(api, make):
    id = make(entrypoint=["sh", "-c", "ls -l /proc/self/fd > /tmp/fds; exec sleep 1000"])["id"]
    wait_until(lambda: "total" in api.exec(id, "cat /tmp/fds")["stdout"])
    numbers = re.findall(r" (\d+) -> (?!/proc)", api.sh(id, "cat /tmp/fds"))
    assert set(numbers) <= {"0", "1", "2"}


def test_descriptors_leaked_into_the_daemon_do_not_come_in(daemon_of, probe_path):
    """The daemon is started with fifty host folders open, an odd umask and no stdin (E05, E46)."""
    fds = [os.open("/etc", os.O_RDONLY) for _ in range(50)]
    old = os.umask(0)
    try:
        for fd in fds:
            os.set_inheritable(fd, True)
        daemon = daemon_of().start(pass_fds=fds, cwd="/proc")
    finally:
        os.umask(old)
        for fd in fds:
            os.close(fd)
    assert os.stat(daemon.data / "cay.db").st_mode & 0o077 == 0
    with daemon.api() as api:
        probe = Probe(api, api.create()["id"], probe_path)
        info = probe.inside("info")
        assert set(info["fds"]) == {"0", "1", "2"}
        assert api.sh(probe.id, "umask") == "0022\n"


def test_a_daemon_with_closed_standard_descriptors_is_fine(daemon_of, probe_path):
    daemon = daemon_of()
    real = daemon.environment()
    import shlex
    import cay_harness
    read, write = os.pipe()
    process = subprocess.Popen(
        ["sh", "-c", f"exec {shlex.quote(cay_harness.CAY)} serve --ready-fd {write} <&- >&- 2>&-"],
        env=real, pass_fds=(write,))
    os.close(write)
    daemon.process = process
    assert os.read(read, 10)
    os.close(read)
    daemon.port = int((daemon.run / "port").read_text())
    daemon.cgroup_places |= cgroups_of(daemon.pid)
    with daemon.api() as api:
        probe = Probe(api, api.create()["id"], probe_path)
        assert set(probe.inside("info")["fds"]) == {"0", "1", "2"}


def command_map(api, id, kind):
    """The id map of a command, as the host sees it."""
    api.background(id, ["sleep", "1000"])
    sleeper = wait_until(lambda: next((pid for pid in pids() if id in read_text(f"/proc/{pid}/cgroup")
                                       and read_text(f"/proc/{pid}/comm") == "sleep\n"), None), what="the command")
    return [int(n) for n in read_text(f"/proc/{sleeper}/{kind}_map").split()]


def test_every_namespace_is_its_own(probe):
    inside, outside = probe.inside("info")["namespaces"], probe.outside("info")["namespaces"]
    for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
        assert inside[kind] != outside[kind], kind


def test_two_sandboxes_share_no_namespace_and_no_ids(api, make, probe_path):
    """E42: the same uid inside is another one outside."""
    a, b = (Probe(api, make()["id"], probe_path) for _ in range(2))
    x, y = a.inside("info")["namespaces"], b.inside("info")["namespaces"]
    for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
        assert x[kind] != y[kind], kind
    for box in (a, b):
        for kind in ("uid", "gid"):
            assert api.sh(box.id, f"cat /proc/self/{kind}_map").split() == ["0", "0", "65536"]
    map_a, map_b = (command_map(api, box.id, "uid") for box in (a, b))
    assert map_a[0] == map_b[0] == 0 and map_a[2] == map_b[2] == 65536
    assert abs(map_a[1] - map_b[1]) >= 65536 and map_a[1] >= 0x70000000
    assert command_map(api, a.id, "gid") == map_a


def test_setuid_programs_stay_who_they_were(api, probe):
    """E27; the control is the mode of the file: the bit is really there."""
    api.exec(probe.id, ["/workspace/probe", "setuid", "/workspace/suid"])
    assert api.sh(probe.id, "stat -c %a,%u suid") == "6755,0\n"
    info = json.loads(api.sh(probe.id, ["/workspace/suid", "info"], user="1000:1000"))
    assert info["uids"] == [1000] * 3 and info["gids"] == [1000] * 3
    assert caps(info, "Eff") == 0


@pytest.mark.parametrize("user", ["-1", "4294967295", "1000:", ":0", " 0", "root\n", "x" * 60,
                                  "0:0:0", "0x0", "1e3", "65536", "0:65536", "nobody-such", "0 0",
                                  "1000:-1", "../root", "+0"])
def test_odd_users_are_refused_or_exactly_that_user(api, probe, user):
    """E30."""
    reply = api.try_exec(probe.id, ["/workspace/probe", "info"], user=user)
    reply.failed(400)


def test_good_users_are_those(api, probe):
    for user, uid, gid in (("0:0", 0, 0), ("root", 0, 0), ("1000", 1000, None), ("5:7", 5, 7)):
        info = json.loads(api.sh(probe.id, ["/workspace/probe", "info"], user=user))
        assert info["uids"] == [uid] * 3
        if gid is not None:
            assert info["gids"] == [gid] * 3


def test_a_long_user_is_refused(api, box):
    assert api.try_exec(box, "true", user="r" * 1_000_000).status in (400, 413)


def test_a_passwd_that_lies_or_is_huge_gives_the_intended_user_or_an_error(api, box):
    api.sh(box, "id -u; mv /etc/passwd /etc/p0; ln -s /proc/1/environ /etc/passwd")
    assert api.try_exec(box, "id -u", user="root").status in (200, 400)
    assert api.try_exec(box, "true", user="daemon").status == 400
    api.sh(box, "rm /etc/passwd; mkfifo /etc/passwd")
    reply = api.try_exec(box, "true", user="daemon")
    assert reply.status >= 400
    api.sh(box, "rm /etc/passwd; (cat /etc/p0; head -c 30000000 /dev/zero | tr '\\0' x) > /etc/passwd")
    assert api.try_exec(box, "true", user="unknown-one").status == 400
    api.sh(box, "printf 'evil:x:4294967296:0::/:/bin/sh\\nneg:x:-1:0::/:/bin/sh\\n' > /etc/passwd")
    for name in ("evil", "neg"):
        assert api.try_exec(box, "id -u", user=name).status == 400


def test_the_agent_cannot_be_looked_into(api, box):
    """E31: pid 1 is the agent; root inside may neither read nor trace it."""
    for name in ("mem", "maps", "environ", "root", "cwd", "exe", "fd"):
        done = api.exec(box, f"cat /proc/1/{name} 2>&1 || ls -l /proc/1/{name} 2>&1; "
                             f"readlink /proc/1/{name}")
        assert "ermission denied" in done["stdout"] or "not permitted" in done["stdout"], (name, done)
    out = api.sh(box, ["python3", "-c", """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
r = libc.ptrace(16, 1, 0, 0)
print(r, ctypes.get_errno())
r = libc.ptrace(0x4206, 1, 0, 0)
print(r, ctypes.get_errno())
"""])
    for line in out.splitlines():
        assert line in ("-1 1", "-1 13"), out


def test_ptrace_among_one_s_own_works(api, box):
    """The control of the test above, and what debuggers need."""
    out = api.sh(box, ["python3", "-c", """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    signal.pause()
print(libc.ptrace(16, pid, 0, 0))
os.kill(pid, 9)
"""])
    assert out == "0\n"


def test_a_command_that_wants_to_be_traced_by_its_parent_goes_on(api, box):
    """Its parent is the supervisor, which must not take a stop for the end."""
    said = api.exec(box, ["python3", "-c", """
import ctypes, os, signal
print(ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True)
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
os.kill(os.getpid(), signal.SIGUSR1)
os.execvp("sh", ["sh", "-c", "echo on; exit 3"])
"""])
    assert (said["stdout"], said["exitCode"], said["reason"]) == ("0\nheard\non\n", 3, "exit"), said


def test_no_two_processes_can_wait_for_each_other_s_end(api, box):
    """A killed process waits for the tracer that wants to hear of its end. Of two that trace each other
    nothing could ever be removed, so only what is below the tracer is traced like that."""
    out = api.sh(box, ["python3", "-c", """
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, SETOPTIONS, OLDSETOPTIONS, INTERRUPT, EXIT = 0x4206, 0x4200, 21, 0x4207, 0x40
def trace(what, pid, options):
    return 0 if libc.ptrace(what, pid, 0, options) == 0 else ctypes.get_errno()
def sleeper():
    pid = os.fork()
    if pid == 0:
        while True: signal.pause()
    return pid
mine, above, beside = sleeper(), os.getpid(), sleeper()
print("below", trace(SEIZE, mine, EXIT), flush=True)
pid = os.fork()
if pid == 0:
    for name, other in ("above", above), ("beside", beside):
        print(name, trace(SEIZE, other, EXIT), trace(SEIZE, other, 0), flush=True)
    libc.ptrace(INTERRUPT, beside, 0, 0)
    os.waitpid(beside, 0x40000000)
    print("later", trace(SETOPTIONS, beside, EXIT), trace(OLDSETOPTIONS, beside, EXIT), trace(SETOPTIONS, beside, 1), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
os.kill(beside, 9)
os.kill(mine, 9)
"""])
    assert out.split("\n")[:-1] == ["below 0", "above 1 0", "beside 1 0", "later 1 1 0"], out


def test_a_tracer_that_follows_what_it_starts_works(api, box):
    """As strace does it: with the end of each process, also of those that are started later."""
    out = api.sh(box, ["python3", "-c", """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    if os.fork() == 0:
        os._exit(3)
    os.wait()
    os._exit(4)
os.waitpid(pid, os.WUNTRACED)
assert libc.ptrace(0x4206, pid, 0, 0x40 | 0x2) == 0, ctypes.get_errno()  # TRACEEXIT, TRACEFORK
os.kill(pid, signal.SIGCONT)
ends = []
while True:
    try: who, status = os.waitpid(-1, 0x40000000)
    except ChildProcessError: break
    if os.WIFEXITED(status): ends.append(os.WEXITSTATUS(status))
    elif status >> 16 == 6: ends.append("exit"); libc.ptrace(7, who, 0, 0)
    else: libc.ptrace(7, who, 0, 0 if status >> 16 else os.WSTOPSIG(status) % 128)
print(ends)
"""], timeout=60)
    assert sorted(map(str, eval(out))) == ["3", "4", "exit", "exit"], out


def test_the_agent_s_program_cannot_be_overwritten(api, box, shared):
    """E01: through /proc/1/exe, and through a script that names /proc/self/exe."""
    import hashlib
    from cay_harness import CAY
    before = hashlib.sha256(open(CAY, "rb").read()).hexdigest()
    done = api.exec(box, "echo junk > /proc/1/exe; printf '#!/proc/self/exe\\n' > s; chmod +x s; ./s; "
                         "for i in 1 2 3; do for p in /proc/[0-9]*/exe; do "
                         "python3 -c 'import os,sys; os.open(sys.argv[1], os.O_WRONLY)' $p; done; done",
                    timeout=60)
    assert "ermission denied" in done["stderr"] or "ead-only" in done["stderr"]
    assert api.sh(box, "echo alive") == "alive\n"
    assert hashlib.sha256(open(CAY, "rb").read()).hexdigest() == before


def test_killing_everything_leaves_the_agent(api, box, make):
    """E37."""
    other = make()["id"]
    x = api.background(other, "exec sleep 1000")
    done = api.exec(box, ["python3", "-c", "import os; os.kill(-1, 9)"])
    assert (done["exitCode"], done["reason"]) == (0, "exit"), "it may kill all but what holds it"
    assert api.sh(box, "echo alive") == "alive\n"
    assert api.background_status(x["id"])["running"]


def test_host_processes_cannot_be_signalled(api, box):
    """E38: by number they do not exist."""
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        done = api.exec(box, f"kill -9 {sleeper.pid}; kill -9 {os.getpid()}")
        assert "No such process" in done["stderr"]
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()
