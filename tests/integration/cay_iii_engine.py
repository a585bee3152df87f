"""Scripted iii engines on loopback. For a cay that is a worker: an engine of 0.22.1 or of 0.23, which differ in what a second owner of a
function gets. It keeps every frame, loses connections where a test says so, refuses registrations and has channels. For programs that
call: with functions that a test has given it."""

import asyncio
import concurrent.futures
import contextlib
import json
import threading
import urllib.parse
import uuid

from cay_harness import SLOW
from cay_iii import PATIENCE, Refused, free_port

WORKER_CONFLICT, FUNCTION_CONFLICT = "WORKER_NAMESPACE_CONFLICT", "FUNCTION_NAMESPACE_CONFLICT"
# What clients of iii call of a sandbox worker.
FUNCTIONS = {f"sandbox::{name}" for name in ("create", "exec", "stop", "list", "run", "catalog::list")} | \
    {f"sandbox::fs::{name}" for name in ("ls", "stat", "mkdir", "write", "read", "rm", "chmod", "mv", "grep", "sed")}
OPS = "iii-worker-ops"  # the worker that an engine of 0.23 starts by itself
VERSIONS = ("0.22.1", "0.23.0")
GRACE = 5  # seconds that an engine of 0.23 keeps registrations of a worker that has not said who it is
END = object()
BREAK = object()  # its reader's connection ends without a Close


class Owner:
    """A worker, as far as the lists of the engine show it."""

    def __init__(self):
        self.id, self.meta, self.functions = str(uuid.uuid4()), None, {}
        self.gone = asyncio.Event()

    @property
    def name(self):
        return (self.meta or {}).get("name")

    @property
    def namespace(self):
        return (self.meta or {}).get("namespace") or "default"


class Resident(Owner):
    """A worker that is part of the test: it has functions, and keeps what it is asked."""

    def __init__(self, name):
        super().__init__()
        self.meta, self.asked = {"name": name, "pid": 1}, []

    async def say(self, type, **fields):
        self.asked.append(fields.get("function_id"))


class Peer(Owner):
    """A worker's connection."""

    def __init__(self, number, socket):
        super().__init__()
        self.number, self.socket = number, socket
        self.token, self.count = str(uuid.uuid4()), 0
        self.held = []  # registrations of before it has said who it is

    async def say(self, type, **fields):
        with contextlib.suppress(Exception):  # who is gone is told nothing
            await self.socket.send(json.dumps({"type": type, **fields}))

    def lose(self):
        """Without a Close: as when the machine of one side is gone."""
        self.socket.transport.abort()


class Call:
    """One that the engine has made of a function of a worker."""

    def __init__(self, id):
        self.id, self.future = id, concurrent.futures.Future()

    def message(self, timeout=PATIENCE):
        """The invocationresult as it came."""
        return self.future.result(timeout)

    def result(self, timeout=PATIENCE):
        message = self.message(timeout)
        if message.get("error") is not None:
            raise Refused(message["error"])
        return message.get("result")


class Channel:
    def __init__(self, size):
        self.key, self.items, self.taken = f"k&y={uuid.uuid4()}", asyncio.Queue(size), set()
        self.reason = None  # that its writer has closed it with


class Engine:
    def __init__(self, port=None, version=VERSIONS[-1]):
        self.version, self.namespaces = version, version != "0.22.1"
        self.port = port or free_port()
        self.url = f"ws://127.0.0.1:{self.port}"
        self.frames, self.peers, self.calls, self.channels = [], [], {}, {}
        self.paths = []  # of every connection
        self.residents, self.owners = [], {}  # (namespace, id of a function): who has it
        self.reject = {}  # id of a function, or name of a worker: the code that it is refused with
        self.cut = None  # cut(peer, message): whether the connection is lost before the message is looked at
        self.changed = threading.Condition()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server = None

    # -- from the test's thread --

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.server:
            self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def start(self):
        self.do(self._start())
        return self

    def stop(self):
        """All connections end too; what it knew of workers and channels is lost, as with a real one. The port stays its own."""
        self.do(self._stop())

    def note(self, change):
        with self.changed:
            change()
            self.changed.notify_all()

    def wait(self, condition, what, timeout=PATIENCE):
        """Until condition() gives something, which is looked at whenever something has changed."""
        with self.changed:
            found = self.changed.wait_for(condition, timeout)
            assert found, f"{what} did not come; frames: {[(n, m.get('type'), m.get('id') or m.get('function_id')) for n, m in self.frames]}"
            return found

    def of(self, number):
        """The frames of one connection."""
        return [message for n, message in self.frames if n == number]

    def registered(self, number=None):
        """Waits for a worker that has told its name and has all functions; the peer."""
        def ready():
            for peer in self.peers:
                if number in (None, peer.number) and peer.meta and all(self.owner(id, peer.namespace) is peer for id in FUNCTIONS):
                    return peer
            return None

        return self.wait(ready, "a worker with all functions", 60 * SLOW)

    def connected(self, number):
        """The peer of the nth connection, once it has come."""
        return self.wait(lambda: next((p for p in self.peers if p.number == number), None), f"connection {number}", 60 * SLOW)

    def invoke(self, function_id, data=None, **fields):
        """Calls a function of a worker; who wants to know how it went asks the Call."""
        call = Call(str(uuid.uuid4()))

        async def send():
            peer = self.owner(function_id)
            assert peer, f"nobody has {function_id}"
            self.calls[call.id] = (call.future.set_result, peer)
            await peer.say("invokefunction", invocation_id=call.id, function_id=function_id, data={} if data is None else data, **fields)

        self.do(send())
        return call

    def call(self, function_id, data=None, **fields):
        return self.invoke(function_id, data, **fields).result()

    def owner(self, function_id, namespace="default"):
        return self.owners.get((namespace, function_id))

    def looks(self):
        """How often workers have asked who has the functions."""
        return sum(m.get("function_id") == "engine::functions::list" for _, m in self.frames)

    def join(self, name, functions):
        """A worker of the test connects and registers: on 0.22.1 it takes what others have. Returns it."""
        async def add():
            resident = Resident(name)
            self.residents.append(resident)
            for id in functions:
                assert self._give(resident, {"id": id}) is None, f"{id} is taken"
            return resident

        return self.do(add())

    def leave(self, resident):
        async def remove():
            self.residents.remove(resident)
            self._clear(resident)

        self.do(remove())

    def send(self, number, **message):
        """A frame as it is."""
        peer = self.connected(number)
        self.do(peer.say(message.pop("type"), **message))

    def lose(self, number):
        peer = self.connected(number)
        self.loop.call_soon_threadsafe(peer.lose)

    def channel(self, size=64):
        """(writer, reader) refs of a new channel."""
        async def make():
            return self._channel(size)

        made = self.do(make())
        return made["writer"], made["reader"]

    # -- in the loop --

    async def _start(self):
        from websockets.asyncio.server import serve
        if self.namespaces and not any(r.name == OPS for r in self.residents):
            self.residents.append(Resident(OPS))
            self._give(self.residents[-1], {"id": "worker::list"})
        self.server = await serve(self._serve, "127.0.0.1", self.port, process_request=self._look, max_size=None, compression=None,
                                  ping_interval=None, close_timeout=1)

    async def _stop(self):
        self.server.close()
        for peer in self.peers:
            peer.lose()
        for channel in self.channels.values():  # who waits for room in one that nobody reads would wait for ever
            while not channel.items.empty():
                channel.items.get_nowait()
            channel.items.put_nowait(END)
        await self.server.wait_closed()
        self.server = None
        self.channels.clear()

    async def _look(self, connection, request):
        url = urllib.parse.urlsplit(request.path)
        self.note(lambda: self.paths.append(url.path))
        if url.path in ("", "/", "/otel"):
            return None
        query = dict(urllib.parse.parse_qsl(url.query))
        channel = self.channels.get(url.path.removeprefix("/ws/channels/"))
        if channel and channel.key == query.get("key") and query.get("dir") in ("read", "write"):
            return None
        return connection.respond(404, "")

    async def _serve(self, socket):
        from websockets.exceptions import ConnectionClosed
        url = urllib.parse.urlsplit(socket.request.path)
        with contextlib.suppress(ConnectionClosed):
            if url.path == "/otel":
                await socket.wait_closed()
            elif url.path in ("", "/"):
                await self._worker(socket)
            else:
                await self._end(socket, url.path.removeprefix("/ws/channels/"), dict(urllib.parse.parse_qsl(url.query))["dir"])

    async def _end(self, socket, id, direction):
        channel = self.channels[id]
        if direction in channel.taken:
            return
        channel.taken.add(direction)
        if direction == "write":
            try:
                async for item in self._written(socket):
                    await channel.items.put(item)
                channel.reason = socket.protocol.close_rcvd.reason
            finally:
                await channel.items.put(END)
        else:
            while (item := await channel.items.get()) is not END:
                if item is BREAK:
                    socket.transport.abort()
                    return
                await socket.send(item)

    async def _written(self, socket):
        """What comes before a Close: who waits for an answer to what it has written keeps its side of the connection open."""
        from websockets.exceptions import ConnectionClosedOK
        while True:
            try:
                yield await asyncio.wait_for(socket.recv(), 0.05)
            except asyncio.TimeoutError:
                if socket.protocol.close_rcvd:
                    return
            except ConnectionClosedOK:
                return

    def _channel(self, size=64):
        id, channel = str(uuid.uuid4()), Channel(size)
        self.channels[id] = channel
        return {way: {"channel_id": id, "access_key": channel.key, "direction": direction}
                for way, direction in (("writer", "write"), ("reader", "read"))}

    async def _worker(self, socket):
        peer = Peer(len(self.peers) + 1, socket)
        self.note(lambda: self.peers.append(peer))
        try:
            await self._greet(peer)
            async for text in socket:
                if isinstance(text, bytes):  # telemetry
                    continue
                message = json.loads(text)
                self.note(lambda: self.frames.append((peer.number, message)))
                peer.count += 1
                if self.cut and self.cut(peer, message):
                    peer.lose()
                    return
                await self._take(peer, message)
        finally:
            self._clear(peer)
            for id, (give, owner) in list(self.calls.items()):
                if owner is peer:
                    del self.calls[id]
                    give({"invocation_id": id, "error": {"code": "invocation_stopped", "message": "the worker is gone"}})

    async def _greet(self, peer):
        await peer.say("workerregistered", worker_id=peer.id, reattach_token=peer.token)

    async def _take(self, peer, message):
        kind = message["type"]
        if kind in ("registerfunction", "unregisterfunction"):
            if self.namespaces and not peer.meta:
                peer.held.append(message)
                self.loop.call_later(GRACE, lambda: asyncio.ensure_future(self._release(peer)))
            else:
                await self._register(peer, message)
        elif kind == "reattach":
            self._evict(message)
        elif kind == "invocationresult":
            give, _ = self.calls.pop(message["invocation_id"], (None, None))
            if give:
                give(message)
        elif kind == "invokefunction":
            await self._invoked(peer, message)
        elif kind == "ping":
            await peer.say("pong")

    def _evict(self, message):
        for old in self.peers:
            if (old.id, old.token) == (message["previous_worker_id"], message.get("reattach_token")) and not old.gone.is_set():
                self._clear(old)
                old.lose()

    def _clear(self, owner):
        """Of one that has gone."""
        def change():
            owner.gone.set()
            for key, who in list(self.owners.items()):
                if who is owner:
                    del self.owners[key]

        self.note(change)

    def _give(self, owner, message):
        """The function becomes the owner's, or stays with the one that is returned."""
        key = (owner.namespace if self.namespaces else "default", message["id"])
        now = self.owners.get(key)
        if self.namespaces and now not in (None, owner):
            return now

        def change():
            owner.functions[message["id"]] = message
            self.owners[key] = owner

        self.note(change)
        return None

    async def _release(self, peer):
        held, peer.held = peer.held, []
        for message in held:
            await self._register(peer, message)

    async def _register(self, peer, message):
        if message["type"] == "unregisterfunction":
            self.note(lambda: (peer.functions.pop(message["id"], None), self.owners.pop((peer.namespace, message["id"]), None)))
            return
        code = self.reject.get(message["id"])
        other = None if code else self._give(peer, message)
        if code or other:
            await peer.say("registrationrejected", code=code or FUNCTION_CONFLICT, namespace=peer.namespace, function_id=message["id"],
                           owner_worker_id=other.id if other else str(uuid.uuid4()))

    async def _introduce(self, peer, data):
        """False when the name is another's: the engine hangs up."""
        code, namespace = self.reject.get(data["name"]), data.get("namespace") or "default"
        live = [p for p in [*self.peers, *self.residents] if p is not peer and p.meta and not p.gone.is_set()]
        other = next((p for p in live if (p.namespace, p.name) == (namespace, data["name"])), None) if self.namespaces else None
        if code or other:
            await peer.say("registrationrejected", code=code or WORKER_CONFLICT, namespace=namespace, worker_name=data["name"],
                           owner_worker_id=other.id if other else str(uuid.uuid4()))
            await peer.socket.close()
            return False
        self.note(lambda: setattr(peer, "meta", data))
        await self._release(peer)
        return True

    def _functions(self, prefix):
        rows = [{"function_id": id, "namespace": namespace, "worker_name": owner.name or id.split("::")[0]}
                for (namespace, id), owner in self.owners.items() if id.startswith(prefix)]
        return {"functions": [self._as_listed(row) for row in rows]}

    def _workers(self, search):
        rows = [{"name": p.name, "id": p.id, "namespace": p.namespace, "status": "connected", "function_count": len(p.functions)}
                for p in [*self.peers, *self.residents] if p.meta and p.meta.get("pid") and not p.gone.is_set() and search in p.name]
        return {"workers": [self._as_listed(row) for row in rows]}

    def _as_listed(self, row):
        return row if self.namespaces else {key: value for key, value in row.items() if key != "namespace"}

    async def _invoked(self, peer, message):
        function, data, id = message["function_id"], message.get("data"), message.get("invocation_id")
        result, error = None, None
        if function == "engine::workers::register":
            result = {"success": True}
            if not await self._introduce(peer, data):
                return
        elif function == "engine::functions::list":
            result = self._functions((data or {}).get("prefix") or "")
        elif function == "engine::workers::list":
            result = self._workers((data or {}).get("search") or "")
        elif function == "engine::channels::create":
            result = self._channel((data or {}).get("buffer_size") or 64)
        else:
            owner = self.owner(function, message.get("namespace") or "default")
            if owner:
                forwarded = str(uuid.uuid4())

                def give(answer):
                    told = {key: answer[key] for key in ("result", "error", "traceparent", "baggage") if key in answer}
                    asyncio.ensure_future(peer.say("invocationresult", invocation_id=id, function_id=function, **told))

                self.calls[forwarded] = (give if id else lambda answer: None, owner)
                if isinstance(data, dict):
                    data = {**data, "_caller_worker_id": peer.id}
                fields = {key: message[key] for key in ("traceparent", "baggage", "metadata") if key in message}
                await owner.say("invokefunction", invocation_id=forwarded, function_id=function, data=data, **fields)
                return
            error = {"code": "function_not_found", "message": f"no such function: {function}"}
        if id and (message.get("action") or {}).get("type") != "void":
            await peer.say("invocationresult", invocation_id=id, function_id=function, **({"error": error} if error else {"result": result}))


class Failure(Exception):
    """What a function answers with when it fails: as the handler of a sandbox, or with any code."""

    def __init__(self, code, message, envelope=True):
        body = {"type": "validation", "code": code, "message": message, "docs_url": "", "retryable": False,
                "fix": None, "fix_note": None}
        self.error = {"code": "invocation_failed", "message": "handler error: " + json.dumps(body)} if envelope \
            else {"code": code, "message": message}


class Functions(Engine):
    """An engine that has the test's own functions, each of which gets the data of a call. It says things to who calls that are not for it."""

    def __init__(self, token=None):
        super().__init__()
        self.token, self.functions, self.has_channels = token, {}, True
        self.asked = []  # (function, data, message), in order

    def named(self, function):
        return [data for name, data, _ in self.asked if name == function]

    def read_channel(self, ref):
        """All bytes of one that a client writes to, and why it was closed."""
        channel, data = self.channels[ref["channel_id"]], b""
        while (item := self.do(channel.items.get())) is not END:
            data += item
        return data, channel.reason

    def write_channel(self, pieces):
        """A ref for a client that reads; pieces are bytes, or a text that tells of trouble."""
        _, reader = self.channel(16)
        items = self.channels[reader["channel_id"]].items

        async def feed():
            for piece in [*pieces, END]:
                await items.put(piece)

        asyncio.run_coroutine_threadsafe(feed(), self.loop)
        return reader

    def feed(self, ref, *pieces):
        """Writes to the channel that a client reads, as the function does that holds its other end; END ends it. A client that has left gets nothing."""
        for piece in pieces:
            if channel := self.channels.get(ref["channel_id"]):
                self.do(channel.items.put(piece))

    async def _look(self, connection, request):
        if request.path == "/" and self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return connection.respond(401, "")
        return await super()._look(connection, request)

    async def _greet(self, peer):
        await super()._greet(peer)
        await peer.say("ping")
        await peer.socket.send("not JSON at all")

    async def _invoked(self, peer, message):
        self.asked.append((message["function_id"], message["data"], message))
        if message["function_id"] == "engine::channels::create" and self.has_channels:
            await super()._invoked(peer, message)
        else:
            threading.Thread(target=self._run, args=(peer, message), daemon=True).start()

    def _run(self, peer, message):
        answer = {"function_id": message["function_id"]}
        try:
            function = self.functions.get(message["function_id"])
            if function is None:
                raise Failure("function_not_found", "no such function", envelope=False)
            answer["result"] = function(message["data"])
        except Failure as failure:
            answer["error"] = failure.error
        except ConnectionError:  # it is meant to go away
            self.loop.call_soon_threadsafe(peer.lose)
            return
        work = self._answer(peer, message["invocation_id"], answer)
        try:
            asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the test is over
            work.close()

    async def _answer(self, peer, id, answer):
        await peer.say("invocationresult", **{**answer, "invocation_id": str(uuid.uuid4()), "result": "another's"})
        await peer.say("invocationresult", invocation_id=id, **answer)
