"""Stands between clients and a daemon, and holds uploads in their middle until it is opened."""

import contextlib
import re
import socket
import threading

UPLOAD = re.compile(rb"^POST (\S*/files/upload\S*) HTTP/1\.[01]\r\n")
HELD_AFTER = 1 << 20  # bytes of it that the daemon has by then


def socket_for(address):
    return socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX)


class Gate:
    """Where it is, and where the daemon is: each (host, port) or a path."""

    def __init__(self, ours, theirs):
        self.theirs = theirs
        self.is_open, self.changed, self.held = False, threading.Condition(), []
        self.listener = socket_for(ours)
        self.listener.bind(ours)
        self.listener.listen(512)
        self.address = self.listener.getsockname()
        self.sockets = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        daemon = socket_for(self.theirs)
        try:
            daemon.connect(self.theirs)
        except OSError:
            client.close()
            daemon.close()
            return
        with self.changed:
            self.sockets |= {client, daemon}
        back = threading.Thread(target=self.pump, args=(daemon, client, None), daemon=True)
        back.start()
        self.pump(client, daemon, self.hold)
        back.join()
        with self.changed:
            self.sockets -= {client, daemon}
        client.close()
        daemon.close()

    @staticmethod
    def pump(source, target, look):
        """Until the source ends; that it has is passed on, and that the target is gone too."""
        state = {}
        try:
            while piece := source.recv(65536):
                if look:
                    look(piece, state)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def hold(self, piece, state):
        found = UPLOAD.match(piece)
        if found:
            state.update(path=found[1].decode(), passed=0)
        if "path" not in state:
            return
        state["passed"] += len(piece)
        if state["passed"] > HELD_AFTER:
            with self.changed:
                if not self.is_open:
                    self.held.append(state["path"])
                    self.changed.notify_all()
                self.changed.wait_for(lambda: self.is_open)
            state.clear()

    def wait_held(self, word, timeout):
        """Until an upload is held whose address has a word in it."""
        with self.changed:
            return self.changed.wait_for(lambda: any(word in path for path in self.held), timeout)

    def open(self):
        with self.changed:
            self.is_open = True
            self.changed.notify_all()

    def close(self):
        self.open()
        for end in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.listener.close()
