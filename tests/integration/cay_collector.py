"""A collector of traces: takes OTLP over HTTP as JSON, and keeps what it was sent."""

import base64
import http.server
import json
import threading


class Collector:
    def __init__(self):
        self.requests, self.refuse = [], []  # (path, headers, body); statuses for the next requests
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.lock:
                    status = outer.refuse.pop(0) if outer.refuse else 200
                    outer.requests.append((self.path, dict(self.headers), body, status))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def messages(self, status=200):
        with self.lock:
            return [json.loads(body) for _, _, body, s in self.requests if s == status]

    def spans(self, **fields):
        """Those that it has taken and that have these fields."""
        found = [span for m in self.messages() for r in m["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]
        return [s for s in found if all(s.get(k) == v for k, v in fields.items())]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def as_protobuf_json(message):
    """OTLP has ids in hex; protobuf's own JSON has bytes in base64."""
    for resource in message["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    return message
