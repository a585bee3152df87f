"""Network namespaces that a test makes: without names, held by descriptors, gone with the process that made them."""

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import threading
import time

from cay_harness import wait_until

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class Space:
    """One network namespace. No cable leads out of it but those that plug() lays."""

    def __init__(self, name):
        self.name = name
        self.fd = self._thread(self._make)
        self.run("ip", "link", "set", "lo", "up")

    @classmethod
    def of(cls, pid):
        """That of a process, to look at it or to do there what the process may not."""
        space = cls.__new__(cls)
        space.name, space.fd = f"that of {pid}", os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return space

    @classmethod
    def at(cls, path):
        """That of a file that it is pinned to."""
        space = cls.__new__(cls)
        space.name, space.fd = f"that at {path}", os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return space

    @staticmethod
    def _make():
        check(libc.unshare(CLONE_NEWNET))
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    @staticmethod
    def _thread(function):
        """Runs it in a thread of its own: a namespace belongs to a thread, and ends with it."""
        out = {}

        def body():
            try:
                out["value"] = function()
            except BaseException as e:
                out["error"] = e

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if "error" in out:
            raise out["error"]
        return out["value"]

    def call(self, function, *args, **how):
        """The result of function(…), called inside. Sockets that it makes stay inside wherever they are used."""

        def body():
            check(libc.setns(self.fd, CLONE_NEWNET))
            return function(*args, **how)

        return self._thread(body)

    @property
    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @property
    def inode(self):
        return os.fstat(self.fd).st_ino

    def argv(self, *args):
        """A command that runs inside; it keeps its pid."""
        return ["nsenter", f"--net={self.path}", "--", *map(str, args)]

    def run(self, *args, input=None, check=True):
        done = subprocess.run(self.argv(*args), input=input, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name}: {' '.join(map(str, args))}: {done.stderr}")
        return done.stdout

    def nft(self, text):
        return self.run("nft", "-f", "-", input=text)

    def sysctl(self, key, value=None):
        path = "/proc/sys/net/" + key.replace(".", "/")

        def body():
            with open(path, "r+" if value is not None else "r") as f:
                if value is None:
                    return f.read().strip()
                f.write(str(value))

        return self.call(body)

    def links(self):
        return sorted(line.split(":")[1].strip().split("@")[0] for line in self.run("ip", "-o", "link").splitlines())

    def pids(self):
        """Of every process inside."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{pid}/ns/net").st_ino == self.inode:
                    found.append(int(pid))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def routes(family, table):
    """The names of the links that the routes of a table lead to, in the namespace of the calling thread."""
    names = dict(socket.if_nameindex())
    found = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as s:
        # struct nlmsghdr: RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP; struct rtmsg.
        s.send(struct.pack("=IHHII", 28, 26, 0x301, 1, 0) + struct.pack("=BBBBBBBBI", family, 0, 0, 0, table, 0, 0, 0, 0))
        while True:
            data = s.recv(1 << 20)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind in (2, 3):  # NLMSG_ERROR, NLMSG_DONE
                    return found
                attributes = data[28:length]
                about = {}
                while attributes:
                    size, type = struct.unpack_from("=HH", attributes)
                    about[type] = attributes[4:size]
                    attributes = attributes[size + 3 & ~3:]
                if struct.unpack("=I", about.get(15, struct.pack("=I", data[20])))[0] == table and 4 in about:  # RTA_TABLE, RTA_OIF
                    found.append(names.get(struct.unpack("=I", about[4])[0], ""))
                data = data[length + 3 & ~3:]


def nft_list(what):
    """What `nft -j list` answers in the namespace of the calling thread, without a process; [] if there is no such thing."""
    nft = ctypes.CDLL("libnftables.so.1")
    for name in ("nft_ctx_new", "nft_ctx_get_output_buffer"):
        getattr(nft, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(nft.nft_ctx_new(0))
    try:
        nft.nft_ctx_buffer_output(context)
        nft.nft_ctx_buffer_error(context)
        nft.nft_ctx_output_set_flags(context, 1 << 4)  # NFT_CTX_OUTPUT_JSON
        if nft.nft_run_cmd_from_buffer(context, f"list {what}".encode()) != 0:
            return []
        return json.loads(ctypes.string_at(nft.nft_ctx_get_output_buffer(context)))["nftables"]
    finally:
        nft.nft_ctx_free(context)


@contextlib.contextmanager
def owned_table(name):
    """The table of nftables is an empty one of this process in the namespace of the calling thread: the kernel refuses every change of it
    by another process. It goes at the end."""
    nft = ctypes.CDLL("libnftables.so.1")
    nft.nft_ctx_new.restype = ctypes.c_void_p
    context = ctypes.c_void_p(nft.nft_ctx_new(0))
    try:
        nft.nft_ctx_buffer_error(context)
        command = f"add table {name}\ndelete table {name}\nadd table {name} {{ flags owner; }}"
        assert nft.nft_run_cmd_from_buffer(context, command.encode()) == 0
        yield
    finally:
        nft.nft_ctx_free(context)


def plug(one, name, other, name_there):
    """A cable between two; it has no end in the machine's own namespace at any time."""
    one.run("ip", "link", "add", "dev", name, "type", "veth", "peer", "name", name_there,
            "netns", f"/proc/{os.getpid()}/fd/{other.fd}")
    one.run("ip", "link", "set", name, "up")
    other.run("ip", "link", "set", name_there, "up")


# ---- captures ----


class Packet:
    """What is known of one: link, addresses, protocol, ports where it has some, and all bytes from the IP header on."""

    def __init__(self, link, kind, data):
        self.link, self.kind, self.data, self.time = link, kind, data, time.monotonic()
        self.source = self.to = self.protocol = self.port = self.source_port = None
        if kind == 0x0800 and len(data) >= 20:
            self.source, self.to = socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20])
            self.protocol, rest = data[9], data[(data[0] & 15) * 4:]
        elif kind == 0x86DD and len(data) >= 40:
            self.source = socket.inet_ntop(socket.AF_INET6, data[8:24])
            self.to = socket.inet_ntop(socket.AF_INET6, data[24:40])
            self.protocol, rest = data[6], data[40:]
        else:
            return
        if self.protocol in (6, 17) and len(rest) >= 4:
            self.source_port, self.port = struct.unpack("!HH", rest[:4])

    def __repr__(self):
        return f"<{self.link} {self.kind:#x} {self.source}:{self.source_port} → {self.to}:{self.port} protocol {self.protocol}>"


class Capture:
    """Every packet that arrives at a namespace's links or leaves by them, from now on."""

    def __init__(self, space, incoming_only=False):
        self.space, self.incoming_only = space, incoming_only
        self.packets, self.marks = [], set()
        self.socket = space.call(socket.socket, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: none is lost
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while True:
            try:
                data, (link, kind, direction, _, _) = self.socket.recvfrom(65536)
            except OSError:
                return
            if data.startswith(b"mark "):
                self.marks.add(data)
                if data == b"mark end":
                    return
                continue
            if link == "lo" or (self.incoming_only and direction == 4):
                continue
            self.packets.append(Packet(link, kind, data))

    def _send_mark(self, text):
        with self.space.call(socket.socket, socket.AF_PACKET, socket.SOCK_DGRAM, 0) as s:
            s.sendto(text, ("lo", 0x88B5, 0, 0, b"\0" * 6))

    def settle(self):
        """Everything that came before now has been read."""
        mark = b"mark " + os.urandom(8).hex().encode()
        self._send_mark(mark)
        wait_until(lambda: mark in self.marks, 30, what="the mark in the capture")  # behind all that came before
        return self.packets

    def seen(self, **want):
        """Packets so far with these attributes."""
        return [p for p in list(self.settle()) if all(getattr(p, k) == v for k, v in want.items())]

    def stop(self):
        if self.thread.is_alive():
            self._send_mark(b"mark end")
            self.thread.join(60)
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
