"""Who gets webhooks in tests: an HTTP(S) server on loopback that keeps what it was sent and answers as it is told."""

import hashlib
import hmac
import http.server
import json
import os
import signal
import ssl
import threading

from cay_harness import SLOW, read_text, wait_until


class Message:
    def __init__(self, handler):
        self.path = handler.path
        self.headers = dict(handler.headers)
        self.body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.event = json.loads(self.body)

    @property
    def topic(self):
        return self.event["topic"]

    @property
    def delivery(self):
        return self.headers["X-Cay-Delivery"]

    @property
    def attempt(self):
        return int(self.headers["X-Cay-Attempt"])

    def is_signed_with(self, secret):
        text = self.headers["X-Cay-Timestamp"].encode() + b"." + self.body
        mine = "sha256=" + hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
        return hmac.compare_digest(mine, self.headers["X-Cay-Signature"])


class Receiver:
    """`answer` gets each message and gives a status, None to say nothing until the test is over, or bytes to say."""

    def __init__(self, answer=lambda message: 204, tls=None):
        self.answer, self.messages = answer, []
        self.arrived, self.over = threading.Condition(), threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                message = Message(self)
                with receiver.arrived:
                    receiver.messages.append(message)
                    receiver.arrived.notify_all()
                said = receiver.answer(message)
                if said is None:
                    receiver.over.wait()
                    self.close_connection = True
                elif isinstance(said, bytes):
                    self.wfile.write(said)
                    self.close_connection = True
                else:
                    self.send_response(said)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):  # who hangs up, or does not trust us
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls["cert"], tls["key"])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.scheme = "https" if tls else "http"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path="/hook", host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.server.server_port}{path}"

    def topics(self, path=None):
        with self.arrived:
            return [m.topic for m in self.messages if path in (None, m.path)]

    def wait(self, condition, timeout=60, what="messages"):
        with self.arrived:
            if not self.arrived.wait_for(lambda: condition(self.messages), timeout * SLOW):
                raise AssertionError(f"{what}: {[(m.path, m.topic, m.attempt) for m in self.messages]}")
            return list(self.messages)

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def courier_pid(daemon):
    """Of the process that brings what a daemon sends; None while there is none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        text = read_text(f"/proc/{pid}/stat")
        if "(cay-courier)" in text and int(text.rpartition(")")[2].split()[1]) == daemon.pid:
            return int(pid)
    return None


def end_courier(daemon):
    pid = courier_pid(daemon)
    if pid:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: courier_pid(daemon) != pid)
