"""The leak check: what the daemons of this process have on the host, counted before and after each test.

One look takes a few milliseconds, because it reads only what carries the name of a daemon of ours: mounts, cgroups, loop devices, id
ranges, files, and the processes that descend from this one or are in those cgroups."""

import collections
import contextlib
import glob
import os
import re
import signal
import time

from cay_harness import ID, SLOW, Daemon, Leak, read_link, read_text, wait_until

VOLUME = re.compile(r"vol_[0-9a-f]{24}")
KERNEL_OBJECT = re.compile(r"(socket|pipe|anon_inode|memfd):\S*")
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")


def normal(text):
    """Without ids, so that a pool that was filled again counts as equal."""
    return KERNEL_OBJECT.sub(r"\1", VOLUME.sub("vol_*", ID.sub("sbx_*", text)))


def names_in(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def cgroup_mounts():
    lines = (line.split() for line in open("/proc/self/mounts"))
    return [words[1] for words in lines if words[2] in ("cgroup", "cgroup2")]


CGROUP_MOUNTS = cgroup_mounts()


def cgroup_parents(daemon):
    """The folders, one per hierarchy, that hold all cgroups of a daemon."""
    name = daemon.cgroup_name()
    paths = (f"{mount}/{place}/{name}".replace("//", "/") for mount in CGROUP_MOUNTS for place in daemon.cgroup_places)
    return [path for path in paths if os.path.isdir(path)]


def cgroups_below(folder):
    try:
        with os.scandir(folder) as entries:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in below:
        yield path
        yield from cgroups_below(path)


class Ledger:
    """A count of each kind of thing."""

    def __init__(self):
        self.roots = tuple(str(daemon.root) for daemon in Daemon.everyone)
        parents = {path: daemon for daemon in Daemon.everyone for path in cgroup_parents(daemon)}
        groups = [*parents, *(path for parent in parents for path in cgroups_below(parent))]
        self.items = {
            "mounts": self.mounts(),
            "cgroups": self.cgroups(parents, groups),
            "loops": self.loops(),
            "ids": self.id_ranges(),
            "folders": self.folders(),
            "images": self.images(),
            "documents": self.documents(),
            "crossroads": collections.Counter(what for daemon in Daemon.everyone for what in daemon.crossroads()),
            **self.processes(groups),
            "daemon fds": self.daemon_fds(),
        }

    def ours(self, path):
        """Other daemons may run on this machine."""
        return path.startswith(self.roots)

    def mounts(self):
        lines = (line.split(" ", 5)[4] for line in open("/proc/self/mountinfo"))
        return collections.Counter(normal(path) for path in lines if self.ours(path))

    @staticmethod
    def cgroups(parents, groups):
        """Without the empty ones that a running daemon keeps for boxes to come."""
        keepers = {path for path, daemon in parents.items() if daemon.running()}
        return collections.Counter(normal(path) for path in groups
                                   if not (os.path.basename(path).startswith("spare.") and os.path.dirname(path) in keepers))

    def loops(self):
        files = (read_text(f"/sys/block/{name}/loop/backing_file").strip()
                 for name in names_in("/sys/block") if name.startswith("loop"))
        return collections.Counter(normal(path) for path in files if self.ours(path) and "/scratch/spares/" not in path)

    def id_ranges(self):
        """One link per range in use, to the folder of its daemon."""
        return collections.Counter("range" for name in names_in("/run/cay.ids")
                                   if not name.startswith(".") and self.ours(read_link(f"/run/cay.ids/{name}")))

    @staticmethod
    def folders():
        out = collections.Counter()
        for daemon in Daemon.everyone:
            for top in (str(daemon.data), str(daemon.run)):
                for where in (top, f"{top}/sandboxes", f"{top}/scratch", f"{top}/images"):
                    out.update(normal(f"{where}/{name}") for name in names_in(where)
                               if not name.startswith(("cay.db-", "template-")))
        return out

    @staticmethod
    def images():
        """Names, records and layers, and those that are half made or set aside; the layer of `host` is no image."""
        return collections.Counter(f"{daemon.data}/images/{part}/" + re.sub("^tmp_.*", "tmp_*", name)
                                   for daemon in Daemon.everyone for part in ("names", "records", "layers", "base")
                                   for name in names_in(f"{daemon.data}/images/{part}"))

    @staticmethod
    def documents():
        """Files of snapshots, volumes, templates, builds and networks, whole or half written."""
        return collections.Counter(normal(f"{top}/{name}") for daemon in Daemon.everyone
                                   for part in ("snapshots", "volumes", "templates", "builds", "pool", "networks", "netlog")
                                   for top, _, names in os.walk(f"{daemon.data}/{part}") for name in names)

    def processes(self, groups):
        """Descendants of this process, and processes in a cgroup of a daemon."""
        stats = {int(name): read_text(f"/proc/{name}/stat") for name in names_in("/proc") if name.isdigit()}
        children = collections.defaultdict(list)
        for pid, stat in stats.items():
            if stat:
                children[int(stat[stat.rindex(")") + 4:].split(" ", 1)[0])].append(pid)
        # cgroup.procs does not list zombies, so the children of its processes count too.
        new = [os.getpid(), *(int(pid) for path in groups for pid in read_text(f"{path}/cgroup.procs").split())]
        found = set()
        while new:
            pid = new.pop()
            if pid not in found:
                found.add(pid)
                new += children[pid]
        found.remove(os.getpid())
        live, dead, spaces = collections.Counter(), collections.Counter(), set()
        for pid in found:
            stat = stats.get(pid)
            if not stat:  # it ended, or began, during this look
                continue
            end = stat.rindex(")")
            name = stat[stat.index("(") + 1:end]
            if stat[end + 2] == "Z":
                dead[name] += 1
                continue
            live[name] += 1
            spaces.update((kind, read_link(f"/proc/{pid}/ns/{kind}")) for kind in NAMESPACES)
        own = collections.Counter(kind for kind, link in spaces if link not in ("", HOST_NAMESPACES[kind]))
        return {"processes": live, "zombies": dead, "namespaces": own}

    @staticmethod
    def daemon_fds():
        out = collections.Counter()
        for daemon in Daemon.everyone:
            if daemon.running():
                names = [normal(os.path.basename(link)) for link in fd_links(daemon.pid)]
                # The audit log is open a second time while it is synced.
                out.update(name for i, name in enumerate(names) if not name.startswith("audit-") or name not in names[:i])
                out[""] -= len(daemon.spares())  # each is held by its root
        return out

    def __eq__(self, other):
        return isinstance(other, Ledger) and self.items == other.items

    def compared_with(self, before):
        lines = []
        for kind in self.items:
            a, b = before.items[kind], self.items[kind]
            if a != b:
                for word, difference in (("more", b - a), ("fewer", a - b)):
                    lines += [f"{kind}: {n} {word}: {thing}" for thing, n in difference.items()]
        return "\n".join(lines)


HOST_NAMESPACES = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in NAMESPACES}


def fd_links(pid):
    return [link for link in (read_link(f"/proc/{pid}/fd/{name}") for name in names_in(f"/proc/{pid}/fd")) if link]


def wait_for_ledger(before, timeout=60):
    """Removal may be asynchronous; the state that it ends in may not differ from the one before."""
    deadline = time.monotonic() + timeout * SLOW
    pause = 0.005
    while True:
        now = Ledger()
        if now == before:
            return
        if time.monotonic() > deadline:
            raise Leak("left on the host:\n" + now.compared_with(before))
        time.sleep(pause)
        pause = min(pause * 2, 0.3)


def settled_ledger(timeout=60):
    """The ledger once two looks in a row agree: pools are full again, and links of removed sandboxes are gone."""
    deadline = time.monotonic() + timeout * SLOW
    last = Ledger()
    while True:
        time.sleep(0.1)
        now = Ledger()
        at = now.items["crossroads"]
        if now == last and at["link"] == at["element of policy4"]:  # links go first
            return now
        if time.monotonic() > deadline:
            raise AssertionError(f"the host did not settle within {timeout} s: {at}\n{now.compared_with(last)}")
        last = now


def take_away(daemon):
    """Removes what a dead daemon left, after the leak was reported, so that it costs no other test."""
    procs = glob.glob(f"/sys/fs/cgroup/**/{daemon.cgroup_name()}/**/cgroup.procs", recursive=True)
    for path in procs:
        for pid in read_text(path).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    folders = {os.path.dirname(p) for p in procs}
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not any(read_text(p) for p in procs), 5)
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    for path in glob.glob("/run/cay.ids/*"):
        if str(daemon.root) in read_link(path):
            os.unlink(path)
