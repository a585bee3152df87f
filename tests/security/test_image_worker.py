"""The image worker's walls, looked at from outside while a registry keeps it waiting: whoever takes over
the process that reads an archive has no network and no password, and whoever takes over the one that
talks to registries has no files; neither is root of the host."""

import errno
import os
import re
import threading

import pytest

from cay_harness import pids, read_text, wait_until
from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = [pytest.mark.core, needs_registry]

BLOBS = r"/blobs/sha256:"
SECRET = "wall-" + PASSWORD
UNPACK_CAPS = 0x1b  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID
KEEPER_CAPS = 0x200002  # DAC_OVERRIDE, SYS_ADMIN
AREA_MAX = 512 << 20  # the worker may not have more; a sanitizer's own is far larger
CERTIFICATES = "/etc/ssl/certs"


class Process:
    def __init__(self, pid):
        self.pid = pid
        self.comm = read_text(f"/proc/{pid}/comm").strip()
        self.status = dict(re.findall(r"^(\w+):\t(.*)$", read_text(f"/proc/{pid}/status"), re.M))

    @property
    def ids(self):
        return {int(i) for key in ("Uid", "Gid") for i in self.status[key].split()}

    def caps(self, kind):
        return int(self.status[f"Cap{kind}"], 16)

    def namespace(self, kind):
        return os.readlink(f"/proc/{self.pid}/ns/{kind}")

    def shares(self, *kinds):
        """Those of these namespaces that are the host's."""
        return [k for k in kinds if self.namespace(k) == os.readlink(f"/proc/self/ns/{k}")]

    def root(self, path=""):
        return f"/proc/{self.pid}/root/{path}"

    def fd(self, number):
        return f"/proc/{self.pid}/fd/{number}"

    def open_files(self):
        return {n: os.readlink(self.fd(n)) for n in os.listdir(f"/proc/{self.pid}/fd")}

    def remembers(self, words):
        """Is it anywhere in its memory?"""
        with open(f"/proc/{self.pid}/mem", "rb", 0) as memory:
            for line in read_text(f"/proc/{self.pid}/maps").splitlines():
                area, rights = line.split()[:2]
                start, end = (int(x, 16) for x in area.split("-"))
                if "r" not in rights or line.endswith(("[vvar]", "[vsyscall]")) or end - start > AREA_MAX:
                    continue
                try:
                    memory.seek(start)
                    if words in memory.read(end - start):
                        return True
                except OSError:
                    continue
        return False


def below(pid):
    return [p for p in pids() if read_text(f"/proc/{p}/stat").rpartition(")")[2].split()[1:2] == [str(pid)]]


def parts_of(daemon):
    """The worker's processes by name, once all have their walls."""
    for first in below(daemon.pid):
        if "cay-image" in read_text(f"/proc/{first}/comm"):
            found = [Process(first), *(Process(p) for p in below(first))]
            return {p.comm: p for p in found}
    return {}


@pytest.fixture
def held(images, proxy):
    """A pull with a password that waits for the middle of a layer."""
    made = Image(base_layer(), layer(text("noise", os.urandom(600_000))))
    proxy.serve_image("walls/a:1", made)
    proxy.with_tokens(password=SECRET)
    gate = proxy.gate(BLOBS + made.parts[1]["digest"][7:], after=100_000)
    replies = []
    auth = {"username": USER, "password": SECRET}
    thread = threading.Thread(target=lambda: replies.append(
        images.try_pull(proxy.ref("walls/a:1"), registry_auth=auth)))
    thread.start()
    try:
        gate.wait_reached()
        wait_until(lambda: half_made(images.daemon), what="a layer in the making")
        yield parts_of(images.daemon)
    finally:
        gate.open()
        thread.join(30)
    replies[0].ok()


def test_there_are_three_and_each_has_what_it_needs(held):
    assert set(held) == {"cay-image", "cay-unpack", "cay-fetch"}
    keeper, unpack, fetch = (held[n] for n in ("cay-image", "cay-unpack", "cay-fetch"))
    assert keeper.ids == {0}, "the control: whoever starts them is root"
    assert 0 not in unpack.ids and 0 not in fetch.ids and not unpack.ids & fetch.ids
    for p, caps in ((keeper, KEEPER_CAPS), (unpack, UNPACK_CAPS), (fetch, 0)):
        assert [p.caps(k) for k in ("Eff", "Prm", "Bnd")] == [caps] * 3, p.comm
        assert p.caps("Inh") == p.caps("Amb") == 0, p.comm
        assert p.status["NoNewPrivs"] == "1", p.comm
        assert p.status["Groups"].split() == [] or p is keeper
    assert (keeper.status["Seccomp"], unpack.status["Seccomp"], fetch.status["Seccomp"]) == ("0", "2", "2")


def test_all_give_way_to_calls(held):
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    for process in held.values():
        assert os.getpriority(os.PRIO_PROCESS, int(process.pid)) >= min(mine + 1, 19), process.comm  # nobody has less than 19


def test_who_unpacks_has_no_network_and_sees_nobody(held):
    unpack = held["cay-unpack"]
    assert held["cay-image"].shares("user", "net", "pid") == ["user", "net", "pid"], "the control"
    assert unpack.shares("user", "mnt", "net", "pid", "ipc", "uts", "cgroup") == []
    names = [line.split(":")[0].strip() for line in read_text(f"/proc/{unpack.pid}/net/dev").splitlines()[2:]]
    assert names == ["lo"]
    assert unpack.status["NSpid"].split()[-1] == "1"


def test_who_unpacks_reaches_its_own_folder_only(held, images):
    unpack = held["cay-unpack"]
    assert os.listdir(unpack.root()) == []
    assert len(read_text(f"/proc/{unpack.pid}/mountinfo").splitlines()) == 1
    assert os.path.samefile(unpack.fd(3), layers_dir(images.daemon)), "the control"
    for number in (3, 5):  # the layers, and its folder
        assert os.path.samefile(f"{unpack.fd(number)}/..", unpack.fd(number)), "nothing is above"
    with pytest.raises(OSError) as refused:
        os.mkdir(f"{unpack.fd(3)}/mine")
    assert refused.value.errno == errno.EROFS
    assert not os.statvfs(unpack.fd(5)).f_flag & os.ST_RDONLY, "the control"


def test_who_unpacks_never_heard_of_a_password(held):
    assert held["cay-fetch"].remembers(SECRET.encode()), "the control"
    assert not held["cay-unpack"].remembers(SECRET.encode())
    assert read_text(f"/proc/{held['cay-unpack'].pid}/environ").strip("\0") == ""


def test_who_fetches_sees_certificates_and_names_only(held):
    fetch = held["cay-fetch"]
    assert fetch.shares("mnt", "pid", "ipc", "uts") == []
    assert fetch.shares("net") == ["net"], "the control"
    assert set(os.listdir(fetch.root())) <= {"etc", "usr"}
    assert set(os.listdir(fetch.root("etc"))) <= {"ssl", "resolv.conf", "hosts", "nsswitch.conf", "host.conf",
                                                  "gai.conf"}
    if os.path.isdir(CERTIFICATES):
        assert os.listdir(fetch.root(CERTIFICATES)) == os.listdir(CERTIFICATES)
        assert os.listdir(fetch.root("etc/ssl")) == ["certs"]
    for mount in read_text(f"/proc/{fetch.pid}/mountinfo").splitlines():
        assert mount.split()[5].startswith("ro,"), mount
    kinds = {path.split(":")[0] for path in fetch.open_files().values()}
    assert kinds <= {"socket", "pipe", "anon_inode"}, "no file, no folder"


def test_both_end_with_the_one_that_keeps_them(images, proxy):
    made = Image(base_layer(), layer(text("noise", os.urandom(600_000))))
    proxy.serve_image("walls/b:1", made)
    gate = proxy.gate(BLOBS + made.parts[1]["digest"][7:], after=100_000)
    replies = []
    thread = threading.Thread(target=lambda: replies.append(images.try_pull(proxy.ref("walls/b:1"))))
    thread.start()
    gate.wait_reached()
    wait_until(lambda: half_made(images.daemon), what="a layer in the making")
    parts = parts_of(images.daemon)
    os.kill(int(parts["cay-fetch"].pid), 9)
    thread.join(30)
    assert replies[0].failed(500)["code"] == "image_worker_died"
    gate.open()
    for p in parts.values():
        wait_until(lambda: read_text(f"/proc/{p.pid}/comm").strip() != p.comm, what=f"{p.comm} to end")
    wait_until(lambda: not half_made(images.daemon), what="nothing half-made")
