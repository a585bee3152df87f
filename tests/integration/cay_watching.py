"""A caller of files/watch: its changes, read by a thread as they come."""

import contextlib
import queue
import socket
import threading

from cay_harness import SLOW, read_events


class Watching:
    def __init__(self, api, id, wait=True, **fields):
        self.api = api.again()
        self.changes = queue.Queue()
        self.response = self.api.start("POST", f"/sandboxes/{id}/files/watch", fields)
        assert self.response.status == 200, self.response.read()
        self.socket = self.api.connection.sock
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        if wait:
            assert self.next()["type"] == "ready"

    def run(self):
        try:
            for change in read_events(self.response):
                self.changes.put(change)
        except Exception as e:
            self.changes.put({"type": "broken", "why": repr(e)})
        self.changes.put(None)

    def next(self, timeout=60):
        """The next change; None at the end."""
        return self.changes.get(timeout=timeout * SLOW)

    def until(self, wanted, timeout=60):
        """All changes up to the first that is wanted: a type and a path, or a question."""
        ask = wanted if callable(wanted) else lambda c: (c["type"], c.get("path")) == wanted
        seen = []
        while True:
            change = self.next(timeout)
            assert change is not None, f"it ended: {seen[-3:]}"
            seen.append(change)
            if ask(change):
                return seen

    def close(self):
        """The thread that reads holds the connection too, so it is shut and not only closed."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.api.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def words(changes):
    """Types and paths, below the workspace."""
    return [(c["type"], c["path"].removeprefix("/workspace/")) for c in changes]
