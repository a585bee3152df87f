#!/usr/bin/env python3
"""The adapter of nobody: plain HTTP, a connection for each request. What it cannot do, no client has to."""

import base64
import http.client
import json
import os
import secrets
import socket
import struct
import threading
import time
import urllib.parse

from frame import Failure, Frame, Told, pieces, size_of, tell

PATIENCE = 60  # seconds that a daemon may be away


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)


class Client:
    def __init__(self, url, token, prefix="/sandbox"):
        self.url, self.token, self.prefix = url, token, prefix

    def connection(self, timeout=120):
        if self.url.startswith("unix:"):
            return UnixConnection(self.url[5:], timeout)
        where = urllib.parse.urlsplit(self.url)
        return http.client.HTTPConnection(where.hostname, where.port, timeout=timeout)

    def send(self, call, method, path, body=None, headers=None):
        """The response, whose body is unread; the connection is closed with it. A refusal is a Failure."""
        send = dict(headers or {})
        if self.token:
            send["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            send.setdefault("Content-Type", "application/json")
        connection = self.connection()
        try:
            connection.connect()
            call.on_cancel(lambda: shut(connection))
            connection.request(method, self.prefix + path, body, send)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Failure("unreachable", message=str(error)) from error
        response.owner = connection
        if response.status not in (101, 200, 202):
            with connection:
                raise self.refusal(response.status, json.loads(response.read()))
        return response

    @staticmethod
    def refusal(status, said):
        more = {key: said[key] for key in ("stdout", "stderr") if key in said}
        return Failure(said["code"], status, said["error"], **more)

    def call(self, call, method, path, body=None, headers=None):
        response = self.send(call, method, path, body, headers)
        with response.owner:
            try:
                return json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise Failure("unreachable", message=str(error)) from error


# http.client's connections are no context managers
http.client.HTTPConnection.__enter__ = lambda self: self
http.client.HTTPConnection.__exit__ = lambda self, *_: self.close()


def shut(connection):
    sock = connection.sock
    if sock:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


CLIENT = Client(os.environ["CAY_URL"], os.environ.get("CAY_AUTH_TOKEN"))


def quoted(text):
    return urllib.parse.quote(str(text), safe="")


def query(**fields):
    given = {key: value for key, value in fields.items() if value is not None}
    for key, value in given.items():
        if isinstance(value, bool):
            given[key] = "true" if value else "false"
        elif isinstance(value, dict):
            given[key] = json.dumps(value)
    return "?" + urllib.parse.urlencode(given) if given else ""


def given(**fields):
    return {key: value for key, value in fields.items() if value is not None}


def box(sandbox, rest=""):
    return f"/sandboxes/{quoted(sandbox)}{rest}"


# ---- sandboxes ----


def sandbox_told(said):
    return {key: said.get(key) for key in ("id", "name", "image", "status", "metadata")}


def once():
    """A request with it can be sent again."""
    return {"Idempotency-Key": secrets.token_hex(16)}


def create(call, image=None, template=None, **fields):
    allowed = {"name", "unique", "timeout", "memory", "cpu", "env", "workdir", "metadata", "network", "entrypoint"}
    if not fields.keys() <= allowed:
        raise Failure("bad_args", message=str(fields.keys() - allowed))
    if image is None and template is None:
        image = "host"
    body = given(image=image, template=template, **fields)
    return sandbox_told(CLIENT.call(call, "POST", "/sandboxes", body, once()))


def get(call, sandbox):
    return sandbox_told(CLIENT.call(call, "GET", box(sandbox)))


def list_sandboxes(call, metadata=None, status=None, client=None):
    ids, cursor = [], None
    while True:
        page = (client or CLIENT).call(call, "GET", "/sandboxes" + query(
            metadata=metadata, status=status, pageSize=200, cursor=cursor))
        ids += [item["id"] for item in page["items"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            return {"ids": ids}


def turn(word):
    def act(call, sandbox):
        return {"status": CLIENT.call(call, "POST", box(sandbox, "/" + word))["status"]}

    return act


def renew(call, sandbox, timeout):
    said = CLIENT.call(call, "POST", box(sandbox, "/renew"), {"expiresAt": int((time.time() + timeout) * 1000)})
    return {"expires_in": int(said["expiresAt"] / 1000 - time.time())}


def kill(call, sandbox):
    CLIENT.call(call, "DELETE", box(sandbox))


def clone(call, sandbox, name=None):
    return sandbox_told(CLIENT.call(call, "POST", box(sandbox, "/clone"), given(name=name), once()))


def connect(call, url=None, token=None):
    client = Client(url or CLIENT.url, CLIENT.token if token is None else token)
    list_sandboxes(call, client=client)


# ---- commands ----


def come_back(call, ask, deadline=None):
    """Asks until somebody answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except Failure as failure:
            if failure.error["code"] != "unreachable" or call.cancelled or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def command_body(command, cwd=None, env=None, user=None, timeout=None):
    return given(command=command, cwd=cwd, env=env, user=user, timeout=timeout,
                 execId="ex_" + secrets.token_hex(12))


def exec_told(said):
    return {"exit_code": said["exitCode"], "stdout": tell(said["stdout"]), "stderr": tell(said["stderr"]),
            "truncated": said["truncated"], "reason": said["reason"]}


def run(call, sandbox, stdin=None, bytes=False, **fields):
    if stdin is not None or bytes:
        return attach(call, sandbox, stdin, **fields)
    body = command_body(**fields)
    try:
        return exec_told(CLIENT.call(call, "POST", box(sandbox, "/exec"), body))
    except Failure as failure:
        if failure.error["code"] != "unreachable" or call.cancelled:
            raise
    return await_command(call, sandbox, body)


def await_command(call, sandbox, body):
    """A command whose caller lost the daemon."""
    where = box(sandbox, "/exec/" + body["execId"])
    out, err, cursor = "", "", 0
    while True:
        try:
            state = come_back(call, lambda: CLIENT.call(call, "GET", f"{where}?cursor={cursor}"))
        except Failure as failure:
            if failure.error["code"] != "exec_not_found" or cursor:
                raise
            return exec_told(come_back(call, lambda: CLIENT.call(call, "POST", box(sandbox, "/exec"), body)))
        out, err, cursor = out + state["stdout"], err + state["stderr"], state["cursor"]
        if not state["running"] and not state["more"]:
            return exec_told({**state, "stdout": out, "stderr": err})
        time.sleep(0.05)


def frames(reader):
    while True:
        head = reader.read(8)
        if len(head) < 8:
            raise Failure("unreachable", message="the stream was cut")
        size, kind = struct.unpack("<IBxxx", head)
        yield kind, reader.read(size)


def attach(call, sandbox, stdin=None, **fields):
    """Frames have bytes. It does not come back: nobody knows how much of the input arrived."""
    body = {**command_body(**fields), "stdin": stdin is not None}
    response = CLIENT.send(call, "POST", box(sandbox, "/exec/attach"), body,
                           {"Connection": "Upgrade", "Upgrade": "cay-exec"})
    streams = {4: Told(), 5: Told()}
    with response.owner as connection:
        reader = response.fp
        if stdin is not None:
            threading.Thread(target=feed, args=(connection.sock or response.fp.raw._sock, stdin), daemon=True).start()
        for kind, payload in frames(reader):
            if kind in streams:
                streams[kind].add(payload)
            elif kind == 2:
                raise Failure("exec_failed", message=payload.decode(errors="replace"))
            elif kind == 6:
                how, code, _, lost_out, lost_err = struct.unpack("<IIQQQ", payload[:32])
                how &= 0xffff
                if how == 2:
                    raise Failure("command_timeout", 408, "", stdout=streams[4].value(), stderr=streams[5].value())
                return {"exit_code": code + 128 if how == 1 else code, "stdout": streams[4].value(),
                        "stderr": streams[5].value(), "truncated": bool(lost_out or lost_err),
                        "reason": {0: "exit", 1: "signal"}.get(how, str(how))}


def feed(sock, stdin):
    try:
        for piece in pieces(stdin):
            sock.sendall(struct.pack("<IBxxx", len(piece), 10) + piece)
        sock.sendall(struct.pack("<IBxxx", 0, 10))
    except OSError:
        pass  # it ended without reading all


def events(response):
    """Events of a stream; one that is cut is unreachable."""
    try:
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    except (OSError, http.client.HTTPException) as error:
        raise Failure("unreachable", message=str(error)) from error
    raise Failure("unreachable", message="the stream was cut")


def stream(call, sandbox, stdin=None, bytes=False, cancel_after_bytes=None, **fields):
    if stdin is not None or bytes:
        return attach(call, sandbox, stdin, **fields)
    body = command_body(**fields)
    told, cursor = {"stdout": Told(), "stderr": Told()}, None

    def ask():
        if cursor is not None:
            where = box(sandbox, f"/exec/{body['execId']}/stream?cursor={cursor}")
            return CLIENT.send(call, "GET", where)
        return CLIENT.send(call, "POST", box(sandbox, "/exec/stream"), body)

    response = ask()
    while True:
        try:
            with response.owner:
                for event in events(response):
                    cursor = event.get("cursor", cursor)
                    if event["type"] in told:
                        told[event["type"]].add(event["data"].encode())
                        if cancel_after_bytes and told["stdout"].size >= cancel_after_bytes:
                            return {"cancelled": True}
                    elif event["type"] == "error":
                        raise Failure(event["code"], message=event["data"])
                    elif event["type"] == "exit":
                        return {"exit_code": int(event["data"]), "reason": event["reason"],
                                **{name: stream.value() for name, stream in told.items()}}
        except Failure as failure:
            if failure.error["code"] != "unreachable" or call.cancelled:
                raise
            cursor = cursor or 0
            response = come_back(call, ask)


def background(call, sandbox, command):
    said = CLIENT.call(call, "POST", box(sandbox, "/exec/background"), {"command": command}, once())
    return {"exec_id": said["id"]}


def background_wait(call, sandbox, exec_id):
    where = f"/exec/background/{exec_id}"
    while True:
        state = CLIENT.call(call, "GET", where + "/status")
        if not state["running"]:
            break
        time.sleep(0.05)
    output, cursor = "", 0
    while True:
        logs = CLIENT.call(call, "GET", f"{where}/logs?cursor={cursor}")
        output += logs["output"]
        if logs["cursor"] == cursor:
            return {"exit_code": state["exitCode"], "stdout": tell(output)}
        cursor = logs["cursor"]


# ---- files ----


def file(call, sandbox, what, **fields):
    return CLIENT.call(call, "POST", box(sandbox, "/files/" + what), given(**fields))


def write_file(call, sandbox, path, content, anywhere=None):
    file(call, sandbox, "write", path=path, content=content, anywhere=anywhere)


def read_file(call, sandbox, path, anywhere=None):
    return {"content": tell(file(call, sandbox, "read", path=path, anywhere=anywhere))}


def upload(call, sandbox, path, bytes, mode=None, anywhere=None):
    CLIENT.call(call, "POST", box(sandbox, "/files/upload") + query(path=path, mode=mode, anywhere=anywhere),
                pieces(bytes), {"Content-Type": "application/octet-stream", "Content-Length": str(size_of(bytes))})


def download(call, sandbox, path, anywhere=None):
    response = CLIENT.send(call, "POST", box(sandbox, "/files/download"), given(path=path, anywhere=anywhere),
                           {"Accept": "application/octet-stream"})
    told = Told()
    with response.owner:
        try:
            while piece := response.read(65536):
                told.add(piece)
        except (OSError, http.client.HTTPException) as error:
            raise Failure("unreachable", message=str(error)) from error
    if response.length:  # which http.client does not mind when it is read piece by piece
        raise Failure("unreachable", message="the file was cut")
    return {"bytes": told.value()}


def list_files(call, sandbox, path=None, anywhere=None):
    return {"names": [entry["name"] for entry in file(call, sandbox, "list", path=path, anywhere=anywhere)]}


def stat(call, sandbox, path, anywhere=None):
    meta = file(call, sandbox, "info", path=path, anywhere=anywhere)
    if isinstance(meta, list):
        meta = meta[0]
    kind = "link" if meta["isSymlink"] else "directory" if meta["isDirectory"] else "file"
    return {"kind": kind, "size": meta["size"], "permissions": meta["permissions"]}


def mkdir(call, sandbox, path, anywhere=None):
    file(call, sandbox, "mkdir", path=path, anywhere=anywhere)


def remove_file(call, sandbox, path, anywhere=None):
    file(call, sandbox, "delete", path=path, anywhere=anywhere)


def remove_dir(call, sandbox, path, anywhere=None):
    file(call, sandbox, "rmdir", path=path, anywhere=anywhere)


def move_file(call, sandbox, to, anywhere=None, **source):
    file(call, sandbox, "move", moves=[{"from": source["from"], "to": to}], anywhere=anywhere)


def chmod(call, sandbox, path, mode):
    file(call, sandbox, "chmod", path=path, mode=mode)


def search(call, sandbox, pattern, dir=None):
    return {"paths": file(call, sandbox, "search", pattern=pattern, dir=dir)}


# ---- environment, processes, code ----


def env_set(call, sandbox, vars):
    CLIENT.call(call, "POST", box(sandbox, "/env"), {"vars": vars})


def env_get(call, sandbox, key):
    said = CLIENT.call(call, "POST", box(sandbox, "/env/get"), {"key": key})
    return {"exists": said["exists"], "value": said.get("value")}


def env_list(call, sandbox):
    return {"vars": CLIENT.call(call, "GET", box(sandbox, "/env"))["vars"]}


def env_delete(call, sandbox, key):
    CLIENT.call(call, "POST", box(sandbox, "/env/delete"), {"key": key})


def process_list(call, sandbox):
    said = CLIENT.call(call, "GET", box(sandbox, "/processes"))
    return {"processes": [{"pid": p["pid"], "command": p["command"]} for p in said["processes"]]}


def process_kill(call, sandbox, pid, signal=None):
    CLIENT.call(call, "POST", box(sandbox, "/processes/kill"), given(pid=pid, signal=signal))


def run_code(call, sandbox, code, language=None, context=None):
    said = CLIENT.call(call, "POST", box(sandbox, "/interpret/execute"),
                       given(code=code, language=language, contextId=context))
    return {"output": tell(said["output"]), "error": said["error"]}


def context_create(call, sandbox, language=None):
    said = CLIENT.call(call, "POST", box(sandbox, "/interpret/contexts"), given(language=language))
    return {"id": said["id"]}


def context_delete(call, sandbox, context):
    CLIENT.call(call, "DELETE", box(sandbox, f"/interpret/contexts/{context}"))


# ---- git ----


def git_clone(call, sandbox, url, path=None, branch=None, depth=None):
    body = given(url=url, path=path, branch=branch, depth=depth)
    return {"exit_code": CLIENT.call(call, "POST", box(sandbox, "/git/clone"), body)["exitCode"]}


def git_status(call, sandbox, path=None):
    said = CLIENT.call(call, "GET", box(sandbox, "/git/status") + query(path=path))
    files = [{"path": f["path"], "status": f["status"]} for f in said["files"]]
    return {"branch": said["branch"], "clean": said["clean"], "files": files}


def git_commit(call, sandbox, message, path=None, all=None):
    body = given(message=message, path=path, all=all)
    return {"exit_code": CLIENT.call(call, "POST", box(sandbox, "/git/commit"), body)["exitCode"]}


def git_log(call, sandbox, path=None, count=None):
    said = CLIENT.call(call, "GET", box(sandbox, "/git/log") + query(path=path, count=count))
    return {"messages": [entry["message"] for entry in said["entries"]]}


def git_diff(call, sandbox, path=None, staged=None):
    return {"diff": tell(CLIENT.call(call, "GET", box(sandbox, "/git/diff") + query(path=path, staged=staged))["diff"])}


# ---- snapshots, queue, ports ----


def snapshot(call, sandbox, name=None):
    return {"id": CLIENT.call(call, "POST", box(sandbox, "/snapshots"), given(name=name), once())["id"]}


def list_snapshots(call, sandbox):
    return {"ids": [s["id"] for s in CLIENT.call(call, "GET", box(sandbox, "/snapshots"))["snapshots"]]}


def restore(call, sandbox, snapshot):
    said = CLIENT.call(call, "POST", box(sandbox, "/snapshots/restore"), {"snapshotId": snapshot})
    return {"status": said["status"]}


def delete_snapshot(call, snapshot):
    CLIENT.call(call, "DELETE", f"/snapshots/{quoted(snapshot)}")


def queue_submit(call, sandbox, command, max_retries=None, timeout=None):
    body = given(command=command, maxRetries=max_retries, timeout=timeout)
    said = CLIENT.call(call, "POST", box(sandbox, "/exec/queue"), body, once())
    return {"id": said["id"], "status": said["status"]}


def queue_status(call, job):
    said = CLIENT.call(call, "GET", f"/queue/{quoted(job)}/status")
    result = said.get("result")
    more = result and {"exit_code": result["exitCode"], "stdout": tell(result["stdout"]), "stderr": tell(result["stderr"])}
    return {"status": said["status"], **(more or {})}


def queue_cancel(call, job):
    CLIENT.call(call, "POST", f"/queue/{quoted(job)}/cancel")


def port_expose(call, sandbox, port, host_port=None):
    said = CLIENT.call(call, "POST", box(sandbox, "/ports"), given(containerPort=port, hostPort=host_port), once())
    return {"port": said["containerPort"], "host_port": said["hostPort"]}


def port_list(call, sandbox):
    return {"ports": [p["containerPort"] for p in CLIENT.call(call, "GET", box(sandbox, "/ports"))["ports"]]}


def port_unexpose(call, sandbox, port):
    CLIENT.call(call, "DELETE", box(sandbox, f"/ports?containerPort={port}"))


# ---- volumes, networks, events ----


def volume_create(call, name, size_mb=None):
    said = CLIENT.call(call, "POST", "/volumes", given(name=name, sizeMb=size_mb), once())
    return {"id": said["id"], "name": said["name"]}


def volume_list(call):
    return {"ids": [v["id"] for v in CLIENT.call(call, "GET", "/volumes")["volumes"]]}


def volume_attach(call, volume, sandbox, path):
    CLIENT.call(call, "POST", f"/volumes/{quoted(volume)}/attach", {"sandboxId": sandbox, "mountPath": path}, once())


def volume_detach(call, volume, sandbox=None):
    CLIENT.call(call, "POST", f"/volumes/{quoted(volume)}/detach", given(sandboxId=sandbox))


def volume_delete(call, volume):
    CLIENT.call(call, "DELETE", f"/volumes/{quoted(volume)}")


def network_create(call, name):
    said = CLIENT.call(call, "POST", "/networks", {"name": name}, once())
    return {"id": said["id"], "name": said["name"]}


def network_list(call):
    return {"ids": [n["id"] for n in CLIENT.call(call, "GET", "/networks")["networks"]]}


def network_connect(call, network, sandbox):
    CLIENT.call(call, "POST", f"/networks/{quoted(network)}/connect", {"sandboxId": sandbox}, once())


def network_disconnect(call, network, sandbox):
    CLIENT.call(call, "POST", f"/networks/{quoted(network)}/disconnect", {"sandboxId": sandbox})


def network_delete(call, network):
    CLIENT.call(call, "DELETE", f"/networks/{quoted(network)}")


def event_publish(call, topic, sandbox, data=None):
    body = given(topic=topic, sandboxId=sandbox, data=data)
    return {"id": CLIENT.call(call, "POST", "/events/publish", body, once())["id"]}


def event_history(call, sandbox=None, topic=None):
    said = CLIENT.call(call, "GET", "/events/history" + query(sandboxId=sandbox, topic=topic))
    return {"topics": [event["topic"] for event in said["events"]]}


def alert_set(call, sandbox, metric, threshold, action=None):
    body = given(metric=metric, threshold=threshold, action=action)
    return {"id": CLIENT.call(call, "POST", box(sandbox, "/alerts"), body, once())["id"]}


def alert_list(call, sandbox):
    return {"ids": [a["id"] for a in CLIENT.call(call, "GET", box(sandbox, "/alerts"))["alerts"]]}


def alert_delete(call, alert):
    CLIENT.call(call, "DELETE", f"/alerts/{quoted(alert)}")


def metrics(call, sandbox):
    said = CLIENT.call(call, "GET", box(sandbox, "/metrics"))
    return {"memory_limit_mb": said["memoryLimitMb"], "pids": said["pids"]}


def template_list(call):
    return {"names": [t["name"] for t in CLIENT.call(call, "GET", "/templates")["templates"]]}


def logs(call, sandbox, tail=None):
    response = CLIENT.send(call, "GET", box(sandbox, "/stream/logs") + query(tail=tail, follow=False))
    lines = []
    with response.owner:
        for event in events(response):
            if event["type"] == "end":
                return {"lines": lines}
            lines.append(event["data"])


# ---- terminals ----


def message(kind, payload):
    """A frame of a WebSocket as clients send them, shorter than 126 bytes."""
    mask = secrets.token_bytes(4)
    return bytes([0x80 | kind, 0x80 | len(payload)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


def messages(reader):
    while True:
        kind, size = reader.read(2)
        size &= 0x7f
        if size == 126:
            size = int.from_bytes(reader.read(2), "big")
        elif size == 127:
            size = int.from_bytes(reader.read(8), "big")
        yield kind & 15, reader.read(size)


def terminal(call, sandbox, input, until, cols=None, rows=None):
    session = CLIENT.call(call, "POST", box(sandbox, "/terminal"), given(cols=cols, rows=rows), once())["sessionId"]
    where = box(sandbox, f"/terminal/{session}")
    response = CLIENT.send(call, "GET", where + "/ws", headers={
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode()})
    shown = b""
    with response.owner as connection:
        (connection.sock or response.fp.raw._sock).sendall(message(2, input.encode()))
        for kind, payload in messages(response.fp):
            shown += payload if kind == 2 else b""
            if until.encode() in shown:
                break
            if kind == 8:
                raise Failure("unreachable", message="the terminal was closed")
    CLIENT.call(call, "DELETE", where)
    return {"seen": True}


OPERATIONS = {
    "create": create, "get": get, "list": list_sandboxes, "renew": renew, "kill": kill, "clone": clone, "connect": connect,
    **{word: turn(word) for word in ("pause", "resume", "stop", "start")},
    "exec": run, "exec_stream": stream, "background": background, "background_wait": background_wait,
    "write_file": write_file, "read_file": read_file, "upload": upload, "download": download, "list_files": list_files,
    "stat": stat, "mkdir": mkdir, "remove_file": remove_file, "remove_dir": remove_dir, "move_file": move_file,
    "chmod": chmod, "search": search,
    "env_set": env_set, "env_get": env_get, "env_list": env_list, "env_delete": env_delete,
    "process_list": process_list, "process_kill": process_kill,
    "run_code": run_code, "context_create": context_create, "context_delete": context_delete,
    "git_clone": git_clone, "git_status": git_status, "git_commit": git_commit, "git_log": git_log, "git_diff": git_diff,
    "snapshot": snapshot, "list_snapshots": list_snapshots, "restore": restore, "delete_snapshot": delete_snapshot,
    "queue_submit": queue_submit, "queue_status": queue_status, "queue_cancel": queue_cancel,
    "port_expose": port_expose, "port_list": port_list, "port_unexpose": port_unexpose,
    "volume_create": volume_create, "volume_list": volume_list, "volume_attach": volume_attach,
    "volume_detach": volume_detach, "volume_delete": volume_delete,
    "network_create": network_create, "network_list": network_list, "network_connect": network_connect,
    "network_disconnect": network_disconnect, "network_delete": network_delete,
    "event_publish": event_publish, "events": event_history,
    "alert_set": alert_set, "alert_list": alert_list, "alert_delete": alert_delete,
    "metrics": metrics, "template_list": template_list, "logs": logs, "terminal": terminal,
}

if __name__ == "__main__":
    Frame(OPERATIONS).serve()
