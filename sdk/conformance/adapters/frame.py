"""What adapters in Python share: lines in, lines out, a thread for each operation, and data as the protocol writes it."""

import base64
import hashlib
import json
import sys
import threading

LIMIT = 65536  # longer data is told by its digest


class Failure(Exception):
    """An operation that failed, as the protocol tells it."""

    def __init__(self, code, status=None, message="", **more):
        super().__init__(message or code)
        self.error = {"code": code, "message": message, **more}
        if status is not None:
            self.error["status"] = status


class Call:
    """An operation under way; who can be interrupted leaves a function for that."""

    def __init__(self):
        self.lock = threading.Lock()
        self.cancelled = False
        self.interrupts = []

    def on_cancel(self, interrupt):
        with self.lock:
            self.interrupts.append(interrupt)
            now = self.cancelled
        if now:
            interrupt()

    def cancel(self):
        with self.lock:
            self.cancelled = True
            interrupts = list(self.interrupts)
        for interrupt in interrupts:
            interrupt()


class Frame:
    """Serves a table of operations: name to function(call, **args), which returns the result or raises Failure."""

    def __init__(self, operations):
        self.operations = operations
        self.pending = {}
        self.out = threading.Lock()

    def serve(self):
        threads = []
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] == "cancel":
                call = self.pending.get(request["args"]["id"])
                if call:
                    call.cancel()
                self.say({"id": request["id"], "ok": {}})
                continue
            call = self.pending[request["id"]] = Call()
            thread = threading.Thread(target=self.run, args=(call, request), daemon=True)
            threads.append(thread)
            thread.start()

    def run(self, call, request):
        answer = {"id": request["id"]}
        try:
            operation = self.operations.get(request["op"])
            if operation is None:
                raise Failure("unsupported_op", message=request["op"])
            answer["ok"] = operation(call, **request.get("args", {})) or {}
        except Failure as failure:
            answer["error"] = failure.error
        except TypeError as error:
            answer["error"] = {"code": "bad_args", "message": str(error)}
        except Exception as error:  # the driver is to hear of it, whatever it is
            answer["error"] = {"code": "adapter_failed", "message": f"{type(error).__name__}: {error}"}
        if call.cancelled and "error" in answer:
            answer["error"] = {"code": "cancelled", "message": "the caller cancelled it"}
        del self.pending[request["id"]]
        self.say(answer)

    def say(self, answer):
        with self.out:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def pieces(data):
    """Data of a request, piece by piece."""
    if "base64" in data:
        yield base64.b64decode(data["base64"], validate=True)
        return
    number, left = data["pattern"], data["size"]
    block = bytes((i * 31 + (i >> 8) * 17 + number) & 255 for i in range(65536))
    while left > 0:
        yield block[:left]
        left -= len(block)


def size_of(data):
    return data["size"] if "pattern" in data else len(base64.b64decode(data["base64"]))


def whole(data):
    return b"".join(pieces(data))


class Told:
    """Data of a result, which comes in pieces."""

    def __init__(self):
        self.digest, self.size, self.head = hashlib.sha256(), 0, b""

    def add(self, piece):
        self.digest.update(piece)
        self.size += len(piece)
        if self.size <= LIMIT:
            self.head += piece
        return self

    def value(self):
        if self.size > LIMIT:
            return {"size": self.size, "sha256": self.digest.hexdigest()}
        try:
            return self.head.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(self.head).decode()}


def tell(data):
    """Text or bytes as the protocol has them."""
    return Told().add(data.encode(errors="surrogatepass") if isinstance(data, str) else data).value()
