"""A stand-in for an engine of iii: it takes calls over WebSocket, answers those that a test has given it, and has channels."""

import base64
import hashlib
import json
import queue
import re
import socket
import struct
import threading
import urllib.parse
import uuid

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Failure(Exception):
    """What a function answers with when it fails: as the handler of a sandbox, or with any code."""

    def __init__(self, code, message, envelope=True):
        body = {"type": "validation", "code": code, "message": message, "docs_url": "", "retryable": False,
                "fix": None, "fix_note": None}
        self.error = {"code": "invocation_failed", "message": "handler error: " + json.dumps(body)} if envelope \
            else {"code": code, "message": message}


class Socket:
    def __init__(self, connection, rest):
        self.connection, self.rest, self.lock = connection, rest, threading.Lock()

    def take(self, n):
        while len(self.rest) < n:
            got = self.connection.recv(65536)
            if not got:
                raise ConnectionError("gone")
            self.rest += got
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def send(self, kind, data=b""):
        data = data.encode() if isinstance(data, str) else data
        size = len(data)
        head = bytes([0x80 | kind])
        head += bytes([size]) if size < 126 else struct.pack("!BH", 126, size) if size < 65536 else \
            struct.pack("!BQ", 127, size)
        with self.lock:
            self.connection.sendall(head + data)

    def receive(self):
        """The next message: (kind, bytes), or None when the client has closed."""
        while True:
            first, second = self.take(2)
            assert second & 0x80, "a client's frame is not masked"
            size = second & 0x7F
            size = struct.unpack("!H", self.take(2))[0] if size == 126 else struct.unpack("!Q", self.take(8))[0] \
                if size == 127 else size
            mask = self.take(4)
            data = self.take(size)
            data = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")).to_bytes(size, "big")
            kind = first & 0x0F
            if kind == PING:
                self.send(PONG, data)
            elif kind == CLOSE:
                self.close_reason = data[2:].decode()
                self.send(CLOSE, data[:2])
                return None
            elif kind in (TEXT, BINARY, 0):
                assert first & 0x80, "in one piece"
                return kind, data


class Engine:
    def __init__(self, token=None):
        self.token = token
        self.functions = {"engine::channels::create": self.create_channel}
        self.calls = []  # (function, data, message), in order
        self.channels = {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection:
                self.handshake(connection)
        except (ConnectionError, OSError):
            pass

    def handshake(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            got = connection.recv(65536)
            if not got:
                return
            data += got
        head, _, rest = data.partition(b"\r\n\r\n")
        head = head.decode()
        path = head.split(" ")[1]
        headers = {k.lower(): v for k, v in re.findall(r"\r\n([^:]+): *([^\r]*)", head)}
        url = urllib.parse.urlsplit(path)
        channel = re.fullmatch(r"/ws/channels/(.+)", url.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if path != "/" and not (channel and channel[1] in self.channels and query["key"] == self.channels[channel[1]]["key"]):
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        if path == "/" and self.token and headers.get("authorization") != "Bearer " + self.token:
            connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            return
        accept = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + GUID).encode()).digest()).decode()
        connection.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())
        ws = Socket(connection, rest)
        if channel:
            self.serve_channel(ws, self.channels[channel[1]], query["dir"])
        else:
            self.serve_worker(ws)

    def serve_worker(self, ws):
        ws.send(TEXT, json.dumps({"type": "workerregistered", "worker_id": str(uuid.uuid4()), "reattach_token": "t"}))
        ws.send(TEXT, json.dumps({"type": "ping"}))
        ws.send(TEXT, "not JSON at all")
        while (got := ws.receive()) is not None:
            message = json.loads(got[1])
            if message["type"] == "invokefunction":
                threading.Thread(target=self.invoke, args=(ws, message), daemon=True).start()

    def invoke(self, ws, message):
        answer = {"type": "invocationresult", "invocation_id": message["invocation_id"], "function_id": message["function_id"]}
        self.calls.append((message["function_id"], message["data"], message))
        try:
            function = self.functions.get(message["function_id"])
            if function is None:
                raise Failure("function_not_found", "no such function", envelope=False)
            answer["result"] = function(message["data"])
        except Failure as failure:
            answer["error"] = failure.error
        except ConnectionError:  # it is meant to go away
            ws.connection.shutdown(socket.SHUT_RDWR)
            return
        try:
            # Answers of others come in between.
            ws.send(TEXT, json.dumps({**answer, "invocation_id": str(uuid.uuid4()), "result": "another's"}))
            ws.send(TEXT, json.dumps(answer))
        except OSError:
            pass

    def named(self, function):
        return [data for name, data, _ in self.calls if name == function]

    # ---- channels ----

    def create_channel(self, _data=None):
        id, key = str(uuid.uuid4()), "k&y=" + uuid.uuid4().hex
        self.channels[id] = {"key": key, "items": queue.Queue(16), "reason": None}
        ref = {"channel_id": id, "access_key": key}
        return {"writer": {**ref, "direction": "write"}, "reader": {**ref, "direction": "read"}}

    def serve_channel(self, ws, channel, direction):
        if direction == "write":
            try:
                while (got := ws.receive()) is not None:
                    channel["items"].put(got)
                channel["reason"] = ws.close_reason
            finally:
                channel["items"].put(None)
            return
        while (item := channel["items"].get()) is not None:
            ws.send(*item)
        ws.send(CLOSE, struct.pack("!H", 1000))
        try:
            while ws.receive() is not None:
                pass
        except ConnectionError:
            pass

    def read_channel(self, ref):
        """All bytes of one that a client writes to, and why it was closed."""
        channel, data = self.channels[ref["channel_id"]], b""
        while (item := channel["items"].get(timeout=20)) is not None:
            data += item[1]
        return data, channel["reason"]

    def write_channel(self, pieces):
        """A ref for a client that reads; pieces are bytes, or a text that tells of trouble."""
        made = self.create_channel()
        items = self.channels[made["reader"]["channel_id"]]["items"]

        def feed():
            for piece in pieces:
                items.put((TEXT if isinstance(piece, str) else BINARY, piece))
            items.put(None)
        threading.Thread(target=feed, daemon=True).start()
        return made["reader"]
