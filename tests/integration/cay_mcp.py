"""A client of the Model Context Protocol that hides nothing: messages as they are, over HTTP and on the stdin of `cay mcp`."""

import contextlib
import http.client
import itertools
import json
import os
import queue
import subprocess
import threading

from cay_harness import CAY, SLOW, UnixConnection

ACCEPT = "application/json, text/event-stream"
VERSION = "2025-11-25"
WITHOUT_SESSIONS = "2026-07-28"


def request(id, method, /, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def opening(version=VERSION):
    return request(0, "initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "test", "version": "1"})


def events(response):
    """The messages of a stream, as they come."""
    while line := response.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status, self.body = status, body


class Mcp:
    """A session over HTTP; each request has a connection of its own, so that several can wait."""

    def __init__(self, daemon, token=None, query="", version=VERSION, unix=False):
        self.daemon, self.token, self.query, self.unix = daemon, token, query, unix
        self.ids, self.session, self.version = itertools.count(1), None, None
        headers, messages = self.post(opening(version))
        self.session, self.opened = headers["Mcp-Session-Id"], messages[-1]["result"]
        self.version = self.opened["protocolVersion"]
        self.post(notification("notifications/initialized"))

    def headers(self):
        said = {"Content-Type": "application/json", "Accept": ACCEPT}
        if self.session:
            said.update({"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.version})
        if self.token:
            said["Authorization"] = f"Bearer {self.token}"
        return said

    def send(self, method, message=None, **headers):
        """The connection and the answer, unread."""
        if self.unix:
            connection = UnixConnection(str(self.daemon.socket_path), 30 * SLOW)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=30 * SLOW)
        body = None if message is None else json.dumps(message)
        connection.request(method, "/mcp" + self.query, body, {**self.headers(), **headers})
        return connection, connection.getresponse()

    def post(self, message, **headers):
        connection, response = self.send("POST", message, **headers)
        with contextlib.closing(connection):
            if response.status >= 300:
                raise Refused(response.status, json.loads(response.read()))
            if response.headers["Content-Type"] == "text/event-stream":
                return response.headers, list(events(response))
            text = response.read()
            return response.headers, [json.loads(text)] if text else []

    def ask(self, method, /, **params):
        """The answer, and what came ahead of it."""
        _, messages = self.post(request(next(self.ids), method, **params))
        return messages[-1], messages[:-1]

    def result(self, method, /, **params):
        return self.ask(method, **params)[0]["result"]

    def tool(self, name, /, **arguments):
        return self.result("tools/call", name=name, arguments=arguments)

    def text(self, name, /, **arguments):
        said = self.tool(name, **arguments)
        assert not said["isError"], said
        return said["content"][0]["text"]


class Bridge:
    """`cay mcp` as a client starts it: what it writes is read by a thread."""

    def __init__(self, daemon=None, *args, env=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
        if daemon:
            kept["CAY_HOST"] = f"unix:{daemon.socket_path}"
        self.process = subprocess.Popen([CAY, "mcp", *args], env={**kept, **(env or {})}, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=lambda: [self.lines.put(json.loads(line)) for line in self.process.stdout])
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30 * SLOW)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def say(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self):
        return self.lines.get(timeout=30 * SLOW)

    def ask(self, message):
        self.say(message)
        return self.hear()

    def begin(self, version=VERSION):
        opened = self.ask(opening(version))
        self.say(notification("notifications/initialized"))
        return opened["result"]

    def tool(self, id, name, /, **arguments):
        return self.ask(request(id, "tools/call", name=name, arguments=arguments))
