"""The gateway's worker as a sandbox meets it: DNS and inspected connections. The test is its warden, its name
servers and the servers it dials, in a network namespace of its own that has no way out."""
import array, json, os, socket, ssl, struct, subprocess, sys, threading, time, unittest

GATEWAY, BOX, STRANGER = "10.241.0.1", "10.241.0.2", "10.241.0.99"
GOOD, OTHER, NAMESERVER, DEAD = "11.1.1.1", "11.2.2.2", "11.9.9.53", "11.9.9.54"
INSPECT, WEB, TLS, TALKER = 9000, 80, 443, 2222
PATIENCE = 60  # seconds that a test waits for an event before it fails

POLICY = {"default": "deny", "rules": [
    {"action": "allow", "destination": "good.test", "protocol": "tcp", "port": "80,443,2222,8080"},
    {"action": "deny", "destination": "bad.wild.test"},
    {"action": "allow", "destination": "*.wild.test", "protocol": "tcp", "port": "80,443"},
], "dns": {"queryTimeout": 2000}}


def sh(*args, **kw):
    subprocess.run(args, check=True, **kw)


def make_world():
    sh("ip", "link", "set", "lo", "up")
    for a in (GATEWAY, BOX, STRANGER, GOOD, OTHER, NAMESERVER, DEAD):
        sh("ip", "address", "add", a + "/32", "dev", "lo")
    sh("nft", "-f", "-", input=f"""table ip t {{
        chain out {{
            type nat hook output priority -100;
            ip saddr {{ {BOX}, {STRANGER} }} ip daddr 11.0.0.0/8 meta l4proto tcp dnat to {GATEWAY}:{INSPECT}
        }}
    }}""".encode())


# ---- DNS, by hand: what is under test must not check itself ----

def name_bytes(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".") if p) + b"\0"


def question(name, kind=1, ident=0x1234, flags=0x0100, extra=b"", counts=(1, 0, 0, 0)):
    return struct.pack(">HHHHHH", ident, flags, *counts) + name_bytes(name) + struct.pack(">HH", kind, 1) + extra


def record(name, kind, data, ttl=300):
    return name_bytes(name) + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def skip_name(m, at):
    while m[at]:
        if m[at] >= 0xC0:
            return at + 2
        at += m[at] + 1
    return at + 1


def read_name(m, at):
    labels = []
    while m[at]:
        if m[at] >= 0xC0:
            at = (m[at] & 0x3F) << 8 | m[at + 1]
            continue
        labels.append(m[at + 1:at + 1 + m[at]].decode())
        at += m[at] + 1
    return ".".join(labels)


class Answer:
    def __init__(self, m):
        self.id, self.flags, qd, an, ns, ar = struct.unpack(">HHHHHH", m[:12])
        self.rcode, self.tc, self.counts = self.flags & 15, bool(self.flags & 0x200), (qd, an, ns, ar)
        at = 12
        for _ in range(qd):
            self.question = read_name(m, at)
            at = skip_name(m, at) + 4
        self.records = []
        for _ in range(an):
            name = read_name(m, at)
            at = skip_name(m, at)
            kind, _, ttl, n = struct.unpack(">HHIH", m[at:at + 10])
            at += 10
            data = m[at:at + n]
            self.records.append((name, kind, socket.inet_ntoa(data) if kind == 1 else
                                 read_name(m, at) if kind == 5 else data, ttl))
            at += n
        self.addresses = [d for _, k, d, _ in self.records if k == 1]


class Nameserver:
    """Answers with what `zone` says: name -> function of (message, over_tcp) or list of records."""

    def __init__(self, address):
        self.asked, self.zone = [], {}
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, 53))
        self.tcp = socket.create_server((address, 53))
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def answer(self, m, tcp):
        end = skip_name(m, 12)
        name, kind = read_name(m, 12), struct.unpack(">H", m[end:end + 2])[0]
        self.asked.append((name, kind, tcp))
        made = self.zone.get(name.lower())
        if callable(made):
            return made(m, tcp)
        q = m[12:end + 4]
        if made is None:
            return m[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0) + q
        return m[:2] + struct.pack(">HHHHH", 0x8180, 1, len(made), 0, 0) + q + b"".join(made)

    def serve_udp(self):
        while True:
            m, who = self.udp.recvfrom(4096)
            for a in many(self.answer(m, False)):
                self.udp.sendto(a, who)

    def serve_tcp(self):
        while True:
            c, _ = self.tcp.accept()
            m = c.recv(4096)
            for a in many(self.answer(m[2:], True)):
                c.sendall(struct.pack(">H", len(a)) + a)
            c.close()


def many(a):
    return a if isinstance(a, list) else [] if a is None else [a]


class Warden:
    def __init__(self, rig):
        self.sock, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((GATEWAY, 53))
        tcp = socket.create_server((GATEWAY, 53))
        inspect = socket.create_server((GATEWAY, INSPECT), backlog=512)
        fds = [s.fileno() for s in (end, udp, tcp, inspect)]
        self.worker = subprocess.Popen([rig] + [str(f) for f in fds], pass_fds=fds)
        for s in (end, udp, tcp, inspect):
            s.close()
        self.pins, self.dials, self.denied, self.refuse_pins, self.held = [], [], [], False, None
        self.news = threading.Condition()
        threading.Thread(target=self.serve, daemon=True).start()

    def tell(self, message, fd=None):
        data = json.dumps(message).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else []
        self.sock.sendmsg([data], rights)

    def box(self, policy=POLICY, peers=None, id="sb_1", address=BOX):
        self.tell({"box": {"id": id, "address": address, "address6": None, "policy": policy, "peers": peers or {}}})

    def serve(self):
        while True:
            data = self.sock.recv(1 << 18)
            if not data:
                return
            m = json.loads(data)
            with self.news:
                self.one(m)
                self.news.notify_all()

    def one(self, m):
        if "denied" in m:
            self.denied.append(m["denied"])
        elif "pin" in m:
            self.pins.append(m["pin"])
            self.tell({"answer": m["ask"], "errno": 5 if self.refuse_pins else 0})
        elif "dial" in m:
            self.dials.append((m["dial"]["address"], m["dial"]["port"]))
            self.connect(m["ask"], socket.SOCK_STREAM, m["dial"]["address"], m["dial"]["port"])
        elif "dns" in m:
            kind = socket.SOCK_STREAM if m["dns"]["tcp"] else socket.SOCK_DGRAM
            self.connect(m["ask"], kind, m["dns"]["server"], m["dns"]["port"])

    def connect(self, ask, kind, address, port):
        s = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK)
        r = s.connect_ex((address, port))
        if r in (0, 115):
            self.tell({"answer": ask, "errno": 0}, s.fileno())
        else:
            self.tell({"answer": ask, "errno": r})
        s.close()

    def wait(self, what, seconds=PATIENCE):
        with self.news:
            assert self.news.wait_for(what, seconds), "nothing came"


def serve(address, port, talk, wrap=None):
    listener = socket.create_server((address, port), backlog=512)

    def one(c):
        try:
            if wrap:
                c = wrap.wrap_socket(c, server_side=True)
            talk(c)
        except OSError:
            pass
        finally:
            c.close()

    def loop():
        while True:
            c, _ = listener.accept()
            threading.Thread(target=one, args=(c,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
    return listener


seen = []  # heads that reached a server


def web(c):
    data = b""
    while True:
        got = c.recv(65536)
        if not got:
            return
        data += got
        while b"\r\n\r\n" in data:
            head, data = data.split(b"\r\n\r\n", 1)
            seen.append(head.decode())
            if b"Content-Length: " in head:
                length = int(head.split(b"Content-Length: ")[1].split(b"\r")[0])
                while len(data) < length:
                    data += c.recv(65536)
                data = data[length:]
            if b"Upgrade: websocket" in head:
                if b"/no" not in head:
                    c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
                    while got := c.recv(65536):
                        c.sendall(got.upper())
                    return
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def talker(c):
    c.sendall(b"SSH-2.0-test\r\n")
    total = 0
    while got := c.recv(1 << 16):
        total += len(got)
    c.sendall(b"got %d" % total)


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_world()
        cls.ns = Nameserver(NAMESERVER)
        cls.warden = Warden(os.environ["CAY_WORKER_RIG"])
        cls.warden.tell({"world": {"nameservers": [NAMESERVER], "gateway": GATEWAY, "gateway6": None, "host": []}})
        folder = os.environ["CAY_WORKER_TMP"]
        sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
           "-subj", "/CN=good.test", "-keyout", folder + "/key", "-out", folder + "/cert", stderr=subprocess.DEVNULL)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder + "/cert", folder + "/key")
        for a in (GOOD, OTHER):
            serve(a, WEB, web)
            serve(a, TLS, web, tls)
            serve(a, TALKER, talker)

    def setUp(self):
        w = self.warden
        w.tell({"gone": "sb_1"})
        w.refuse_pins = False
        for l in (w.pins, w.dials, w.denied, seen, self.ns.asked):
            l.clear()
        self.ns.zone = {"good.test": [record("good.test", 1, socket.inet_aton(GOOD))],
                        "a.wild.test": [record("a.wild.test", 1, socket.inet_aton(OTHER))],
                        "bad.wild.test": [record("bad.wild.test", 1, socket.inet_aton(OTHER))]}
        w.box()

    def tearDown(self):
        self.assertIsNone(self.warden.worker.poll(), "the worker has ended")

    # ---- helpers ----

    def udp(self, message, source=BOX, seconds=PATIENCE):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((source, 0))
        s.settimeout(seconds)
        s.sendto(message, (GATEWAY, 53))
        try:
            return Answer(s.recv(65536))
        finally:
            s.close()

    def ask(self, name, kind=1, **kw):
        return self.udp(question(name, kind, **kw))

    def tcp(self, *messages):
        s = socket.create_connection((GATEWAY, 53), timeout=PATIENCE, source_address=(BOX, 0))
        s.sendall(b"".join(struct.pack(">H", len(m)) + m for m in messages))
        f = s.makefile("rb")
        got = [Answer(f.read(struct.unpack(">H", f.read(2))[0])) for _ in messages]
        s.close()
        return got

    def connect(self, address=GOOD, port=WEB, source=BOX):
        s = socket.create_connection((address, port), timeout=PATIENCE, source_address=(source, 0))
        self.addCleanup(s.close)
        return s

    def http(self, s, host, path="/", more=""):
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())

    def assert_reset(self, address=GOOD, port=WEB, source=BOX):
        """Connects, and is cut off: the kernel may say so before the connect is over."""
        try:
            self.assertEqual(self.read_all(self.connect(address, port, source)), b"<RST>")
        except ConnectionResetError:
            pass

    def denied(self, **want):
        """The first refusal like that: those of the case before may still be coming."""
        self.warden.wait(lambda: [d for d in self.warden.denied if want.items() <= d.items()])
        return next(d for d in self.warden.denied if want.items() <= d.items())

    def read_all(self, s):
        data = b""
        try:
            while got := s.recv(65536):
                data += got
        except ConnectionResetError:
            data += b"<RST>"
        return data

    def handshake(self, name, address=GOOD, port=TLS):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.check_hostname = False
        c.verify_mode = ssl.CERT_NONE
        s = c.wrap_socket(self.connect(address, port), server_hostname=name)
        self.addCleanup(s.close)
        return s

    # ---- DNS ----

    def test_an_allowed_name_is_pinned_and_then_told(self):
        a = self.ask("GooD.test")
        self.assertEqual((a.rcode, a.addresses, a.question, a.id), (0, [GOOD], "GooD.test", 0x1234))
        self.assertEqual(self.warden.pins[0]["name"], "good.test")
        self.assertEqual(self.warden.pins[0]["addresses"], [GOOD])
        self.assertGreaterEqual(self.warden.pins[0]["ttl"], 300)
        self.assertEqual(a.counts, (1, 1, 0, 0))

    def test_a_ttl_of_zero_is_pinned_for_a_minute_at_least(self):
        self.ns.zone["good.test"] = [record("good.test", 1, socket.inet_aton(GOOD), ttl=0)]
        a = self.ask("good.test")
        self.assertEqual(a.records[0][3], 0)
        self.assertGreaterEqual(self.warden.pins[0]["ttl"], 60)

    def test_a_name_that_is_not_listed_is_not_asked_for(self):
        self.assertEqual(self.ask("secret.evil.test").rcode, 3)
        self.assertEqual(self.ns.asked, [])
        self.denied(name="secret.evil.test", protocol="dns")

    def test_what_a_deny_rule_names_is_not_asked_for(self):
        self.assertEqual(self.ask("bad.wild.test").rcode, 3)
        self.assertEqual(self.ask("a.wild.test").addresses, [OTHER])

    def test_a_private_answer_is_no_answer(self):
        for bad in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"):
            self.ns.zone["good.test"] = [record("good.test", 1, socket.inet_aton(GOOD)),
                                         record("good.test", 1, socket.inet_aton(bad), ttl=0)]
            a = self.ask("good.test")
            self.assertEqual((a.rcode, a.records), (3, []), bad)
        self.assertEqual(self.warden.pins, [])
        self.assertIn("rebinding", self.denied(name="good.test", protocol="dns")["why"])

    def test_a_private_address_behind_a_cname_is_no_answer(self):
        self.ns.zone["good.test"] = [record("good.test", 5, name_bytes("x.cdn.test")),
                                     record("x.cdn.test", 1, socket.inet_aton("192.168.1.1"))]
        self.assertEqual(self.ask("good.test").rcode, 3)

    def test_cnames_lead_to_pins_of_the_name_that_was_asked(self):
        self.ns.zone["good.test"] = [record("b.cdn.test", 1, socket.inet_aton(GOOD)),
                                     record("good.test", 5, name_bytes("a.cdn.test")),
                                     record("a.cdn.test", 5, name_bytes("b.cdn.test")),
                                     record("unasked.test", 1, socket.inet_aton(OTHER))]
        a = self.ask("good.test")
        self.assertEqual([r[:3] for r in a.records], [("good.test", 5, "a.cdn.test"), ("a.cdn.test", 5, "b.cdn.test"),
                                                      ("b.cdn.test", 1, GOOD)])
        self.assertEqual([p["name"] for p in self.warden.pins], ["good.test"])
        self.assertEqual(self.warden.pins[0]["addresses"], [GOOD])

    def test_a_guessed_answer_is_waited_past(self):
        good = [record("good.test", 1, socket.inet_aton(GOOD))]

        def guesses(m, tcp):
            end = skip_name(m, 12) + 4
            body = struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
            wrong = record("good.test", 1, socket.inet_aton(OTHER))
            other = question("evil.test")[12:]
            return [bytes([m[0] ^ 1, m[1]]) + body + m[12:end] + wrong, m[:2] + body + other + wrong,
                    m[:2] + b"\x01\x00" + body[2:] + m[12:end] + wrong, b"\0" * 5, m[:2] + body + m[12:end] + good[0]]
        self.ns.zone["good.test"] = guesses
        self.assertEqual(self.ask("good.test").addresses, [GOOD])

    def test_a_ring_of_cnames_ends(self):
        self.ns.zone["good.test"] = [record("good.test", 5, name_bytes("a.test")),
                                     record("a.test", 5, name_bytes("good.test"))]
        self.assertEqual(self.ask("good.test").rcode, 2)

    def test_a_truncated_answer_is_asked_for_over_tcp(self):
        def big(m, tcp):
            q = m[12:skip_name(m, 12) + 4]
            if not tcp:
                return m[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + q
            made = [record("good.test", 1, bytes([11, 7, 7, i])) for i in range(80)]
            return m[:2] + struct.pack(">HHHHH", 0x8180, 1, len(made), 0, 0) + q + b"".join(made)
        self.ns.zone["good.test"] = big
        a = self.ask("good.test")
        self.assertTrue(a.tc)  # to a client that takes 512 bytes
        a = self.tcp(question("good.test"))[0]
        self.assertEqual(len(a.addresses), 64)
        self.assertEqual(sorted(a.addresses), sorted(self.warden.pins[-1]["addresses"]))

    def test_the_next_name_server_is_asked_when_one_fails(self):
        for first in (DEAD + "#5999", None):
            servers = [first, NAMESERVER] if first else [NAMESERVER, NAMESERVER]
            if not first:
                replies = [lambda m: m[:2] + struct.pack(">HHHHH", 0x8182, 1, 0, 0, 0) + m[12:]]
                good = [record("good.test", 1, socket.inet_aton(GOOD))]

                def once(m, tcp):
                    end = skip_name(m, 12) + 4
                    if replies:
                        replies.pop()
                        return m[:2] + struct.pack(">HHHHH", 0x8182, 1, 0, 0, 0) + m[12:end]
                    return m[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + m[12:end] + good[0]
                self.ns.zone["good.test"] = once
            self.warden.tell({"world": {"nameservers": servers, "gateway": GATEWAY, "gateway6": None, "host": []}})
            self.assertEqual(self.ask("good.test").addresses, [GOOD])
        self.warden.tell({"world": {"nameservers": [NAMESERVER], "gateway": GATEWAY, "gateway6": None, "host": []}})

    def test_a_silent_name_server_is_given_up(self):
        self.ns.zone["good.test"] = lambda m, tcp: None
        self.assertEqual(self.ask("good.test").rcode, 2)

    def test_an_answer_without_its_pin_is_not_told(self):
        self.warden.refuse_pins = True
        self.assertEqual(self.ask("good.test").rcode, 2)

    def test_records_that_could_lead_past_the_pins_are_empty(self):
        for kind in (65, 64, 28, 255):  # HTTPS, SVCB, AAAA without IPv6, ANY
            a = self.ask("good.test", kind)
            self.assertEqual((a.rcode, a.records), (0, []), kind)
        self.assertEqual(self.ns.asked, [])

    def test_text_records_of_allowed_names_are_told(self):
        self.ns.zone["good.test"] = [record("good.test", 16, b"\x05hello")]
        self.assertEqual(self.ask("good.test", 16).records[0][2], b"\x05hello")
        self.assertEqual(self.ask("evil.test", 16).rcode, 3)

    def test_edns_is_answered_with_edns(self):
        opt = b"\0" + struct.pack(">HHIH", 41, 4096, 0, 0)
        a = self.udp(question("good.test", extra=opt, counts=(1, 0, 0, 1)))
        self.assertEqual(a.counts, (1, 1, 0, 1))

    def test_names_of_peers_and_our_own_are_answered_here(self):
        self.warden.box(peers={"db": ["10.241.0.7"], "db.net1": ["10.241.0.7"]})
        self.assertEqual(self.ask("DB").addresses, ["10.241.0.7"])
        self.assertEqual(self.ask("db.net1").addresses, ["10.241.0.7"])
        self.assertEqual(self.ask("gateway.cay.internal").addresses, [GATEWAY])
        self.assertEqual(self.ask("host.cay.internal").rcode, 3)
        self.assertEqual(self.ask("x.cay.internal").rcode, 3)
        self.warden.box(policy={"default": "deny", "rules": [{"action": "allow", "destination": "host"}]})
        self.assertEqual(self.ask("host.cay.internal").addresses, [GATEWAY])
        self.warden.box(policy=False, peers={"db": ["10.241.0.7"]})
        self.assertEqual(self.ask("db").addresses, ["10.241.0.7"])
        self.assertEqual(self.ask("good.test").rcode, 3)
        self.assertEqual(self.ns.asked, [])

    def test_nonsense_gets_the_answer_it_deserves(self):
        self.assertEqual(self.udp(question("good.test", flags=0x2900)).rcode, 4)
        self.assertEqual(self.udp(question("good.test", counts=(2, 0, 0, 0))).rcode, 1)
        self.assertEqual(self.udp(question("good.test")[:-2]).rcode, 1)
        self.assertEqual(self.udp(question("a")[:12] + b"\xc0\x0c\0\1\0\1").rcode, 1)  # points to itself
        self.assertEqual(self.udp(question("a")[:12] + b"\x09good.test\0\0\1\0\1").rcode, 3)  # one label with a dot

    def test_an_answer_and_a_stranger_get_no_answer(self):
        box, stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for s, a in ((box, BOX), (stranger, STRANGER)):
            self.addCleanup(s.close)
            s.bind((a, 0))
            s.settimeout(PATIENCE)
        stranger.sendto(question("evil.test", ident=1), (GATEWAY, 53))
        box.sendto(question("evil.test", flags=0x8100, ident=2), (GATEWAY, 53))
        box.sendto(question("evil.test", ident=3), (GATEWAY, 53))
        self.assertEqual(Answer(box.recv(4096)).id, 3)  # they are read in their order
        with self.assertRaises(BlockingIOError):
            stranger.setblocking(False)
            stranger.recv(4096)

    def test_several_questions_of_one_connection(self):
        got = self.tcp(question("good.test", ident=1), question("evil.test", ident=2), question("good.test", ident=3))
        self.assertEqual([(a.id, a.rcode) for a in got], [(1, 0), (2, 3), (3, 0)])

    def test_a_crowd_of_questions_is_answered(self):
        held = threading.Event()

        def slow(m, tcp):
            held.wait(PATIENCE)
            end = skip_name(m, 12) + 4
            return m[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + m[12:end] + \
                record("good.test", 1, socket.inet_aton(GOOD))
        self.ns.zone["good.test"] = slow
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((BOX, 0))
        s.settimeout(PATIENCE)
        for i in range(140):
            s.sendto(question("good.test", ident=i), (GATEWAY, 53))
        full = [Answer(s.recv(4096)).rcode for _ in range(12)]  # more than 128 at once
        self.assertEqual(full, [2] * 12)
        held.set()
        self.assertEqual(set(Answer(s.recv(4096)).rcode for _ in range(128)) - {0, 2}, set())
        s.close()

    # ---- connections ----

    def test_http_with_the_pinned_name_goes_through(self):
        self.ask("good.test")
        s = self.connect()
        self.http(s, "good.test")
        self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))
        self.assertEqual(self.warden.dials, [(GOOD, WEB)])

    def test_an_address_that_was_not_resolved_is_reset(self):
        self.assert_reset()
        self.denied(address=GOOD, port=WEB, protocol="tcp")
        self.assertEqual(self.warden.dials, [])

    def test_a_stranger_is_reset(self):
        self.ask("good.test")
        self.assert_reset(source=STRANGER)

    def test_another_host_gets_a_page_that_says_why(self):
        self.ask("good.test")
        for head in ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
                     "GET http://good.test/ HTTP/1.1\r\nHost: evil.test:80\r\n\r\n"):
            s = self.connect()
            s.sendall(head.encode())
            page = self.read_all(s).decode()
            self.assertTrue(page.startswith("HTTP/1.1 403 "), page)
            self.assertIn("evil.test", page)
            self.assertIn("cay net explain sb_1 evil.test", page)
        self.assertEqual(seen, [])
        self.denied(name="evil.test", protocol="http", address=GOOD, port=WEB)

    def test_requests_with_two_readings_do_not_pass(self):
        self.ask("good.test")
        for head in ("GET / HTTP/1.1\nHost: good.test\n\n", "\r\nGET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: good.test\r\n Host: evil.test\r\n\r\n",
                     "POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
                     "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
                     "CONNECT evil.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     "GET\t/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "GET /\r\n", "\x01\x02"):
            s = self.connect()
            s.sendall(head.encode())
            page = self.read_all(s)
            self.assertTrue(page.startswith(b"HTTP/1.1 400 "), (head, page))
        self.assertEqual(seen, [])

    def test_each_request_of_a_connection_is_looked_at(self):
        self.ask("good.test")
        s = self.connect()
        self.http(s, "good.test")
        self.assertIn(b"200", s.recv(100))
        s.sendall(b"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 40\r\n\r\n" +
                  b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\nabcde")
        self.assertIn(b"200", s.recv(100))
        s.close()
        seen.clear()
        for second in ("Host: evil.test", "Host: good.test\r\nHost: evil.test"):
            s = self.connect()
            s.sendall((f"GET /1 HTTP/1.1\r\nHost: good.test\r\n\r\nGET /2 HTTP/1.1\r\n{second}\r\n\r\n").encode())
            self.assertTrue(self.read_all(s).startswith((b"<RST>", b"HTTP/1.1 403", b"HTTP/1.1 400", b"HTTP/1.1 200")))
        self.assertEqual([h for h in seen if "evil" in h or "/2" in h], [])

    def test_chunks_end_where_they_end(self):
        self.ask("good.test")
        s = self.connect()
        s.sendall(b"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                  b"4\r\nwiki\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        self.read_all(s)
        self.assertEqual([h for h in seen if "evil" in h], [])

    def test_a_websocket_goes_on_when_the_server_agrees(self):
        self.ask("good.test")
        s = self.connect()
        self.http(s, "good.test", more="Upgrade: websocket\r\nConnection: Upgrade\r\n")
        self.assertIn(b"101", s.recv(200))
        s.sendall(b"\x81\x05hello")
        self.assertEqual(s.recv(100), b"\x81\x05HELLO")

    def test_an_upgrade_that_was_not_agreed_to_opens_nothing(self):
        self.ask("good.test")
        s = self.connect()
        self.http(s, "good.test", path="/no", more="Upgrade: websocket\r\nConnection: Upgrade\r\n")
        self.assertIn(b"200", s.recv(200))
        self.http(s, "evil.test", path="/second")
        self.assertEqual(self.read_all(s), b"<RST>")
        self.assertEqual([h for h in seen if "evil" in h], [])

    def test_tls_with_the_pinned_name_goes_through(self):
        self.ask("good.test")
        s = self.handshake("good.test")
        self.http(s, "good.test")
        self.assertIn(b"200", s.recv(100))

    def test_tls_with_another_name_gets_an_alert(self):
        self.ask("good.test")
        with self.assertRaisesRegex(ssl.SSLError, "ACCESS_DENIED|access denied"):
            self.handshake("evil.test")
        self.denied(protocol="tls", name="evil.test")

    def test_who_says_no_name_is_allowed_by_address_or_not_at_all(self):
        self.ask("good.test")
        with self.assertRaisesRegex(ssl.SSLError, "ACCESS_DENIED|access denied"):
            self.handshake(None)
        s = self.connect()
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        self.assertIn(b"403 Forbidden", self.read_all(s))
        self.assertEqual(seen, [])
        rules = [{"action": "deny", "destination": "bad.test"}, {"action": "allow", "destination": GOOD}]
        self.warden.box(policy={"default": "deny", "rules": rules})
        self.handshake(None)

    def test_an_allowed_name_at_an_address_of_another_is_refused(self):
        self.ask("a.wild.test")
        with self.assertRaisesRegex(ssl.SSLError, "ACCESS_DENIED|access denied"):
            self.handshake("good.test", OTHER)

    def test_a_hello_in_pieces_is_put_together(self):
        self.ask("good.test")
        raw, c = self.connect(GOOD, TLS), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        to, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        o = c.wrap_bio(to, back, server_hostname="good.test")
        with self.assertRaises(ssl.SSLWantReadError):
            o.do_handshake()
        hello = back.read()[5:]
        for i in range(0, len(hello), 7):
            part = hello[i:i + 7]
            raw.sendall(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part)
        self.assertEqual(raw.recv(1), b"\x16")  # the server's

    def test_a_hello_that_never_ends_does_not_reach_the_server(self):
        self.ask("good.test")
        s = self.connect(GOOD, TLS)
        try:
            for _ in range(5):
                s.sendall(b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + b"x" * (0x4000 - 4))
        except OSError:
            pass
        self.assertIn(self.read_all(s)[:2], (b"\x15\x03", b"<R"))

    def test_servers_that_speak_first_are_heard(self):
        self.ask("good.test")
        s = self.connect(GOOD, TALKER)
        self.assertEqual(s.recv(100), b"SSH-2.0-test\r\n")
        s.sendall(b"SSH-2.0-client\r\n" + b"x" * 3_000_000)
        s.shutdown(socket.SHUT_WR)
        self.assertEqual(self.read_all(s), b"got 3000016")

    def test_what_cannot_be_reached_says_so(self):
        self.ask("good.test")
        try:
            s = self.connect(GOOD, 8080)
            self.http(s, "good.test")
            self.assertRegex(self.read_all(s), b"HTTP/1.1 502 |<RST>")
        except (ConnectionResetError, BrokenPipeError):
            pass  # before it could say what it wants

    def test_a_tighter_policy_cuts_what_is_open(self):
        self.ask("good.test")
        s, t = self.connect(GOOD, TALKER), self.handshake("good.test")
        s.recv(100)
        self.warden.box()  # the same again: nothing happens
        s.sendall(b"still here")
        self.http(t, "good.test")
        self.assertIn(b"200", t.recv(100))
        self.warden.box(policy={"default": "deny", "rules": []})
        self.assertEqual(self.read_all(s), b"<RST>")
        with self.assertRaises(OSError):
            t.recv(1)
            raise OSError

    def test_a_box_that_goes_loses_its_connections(self):
        self.ask("good.test")
        s = self.connect(GOOD, TALKER)
        s.recv(100)
        self.warden.tell({"gone": "sb_1"})
        self.assertEqual(self.read_all(s), b"<RST>")

    def test_pins_of_a_worker_before_count(self):
        self.warden.tell({"pin": {"box": "sb_1", "name": "good.test", "addresses": [GOOD], "ttl": 60}})
        s = self.connect()
        self.http(s, "good.test")
        self.assertIn(b"200", s.recv(100))

    def test_too_many_connections_are_reset(self):
        self.warden.box(policy={**POLICY, "maxConnections": 3})
        self.ask("good.test")
        held = [self.connect(GOOD, TALKER) for _ in range(3)]
        for s in held:
            s.recv(100)
        self.assert_reset(GOOD, TALKER)


if __name__ == "__main__":
    if os.environ.get("CAY_WORKER_TMP") is None:
        if os.geteuid() != 0:
            print("needs root, for a network namespace", file=sys.stderr)
            sys.exit(77)
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "CAY_WORKER_TMP": folder}
            sys.exit(subprocess.run(["unshare", "--net", sys.executable, "-B"] + sys.argv, env=env).returncode)
    unittest.main(verbosity=0)
