#!/usr/bin/env python3
"""The command line's adapter: a `cay` for each operation, as scripts use it."""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time

from frame import Failure, Frame, Told, pieces, tell, whole

CAY = os.environ["CAY_BIN"]
NO_DAEMON = 69

# Who was started with interrupts ignored starts its programs so, and they are cancelled by one.
signal.signal(signal.SIGINT, signal.default_int_handler)


def start(call, *words, **how):
    process = subprocess.Popen([CAY, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               **{"stdin": subprocess.DEVNULL, **how})
    call.on_cancel(lambda: process.send_signal(signal.SIGINT))
    return process


def done(call, status):
    """An interrupted `cay` ends as its command does."""
    if call.cancelled and status != 0:
        raise Failure("cancelled")


def failed(status, said):
    """A line of stderr ends with the API's word in brackets; one with a hint may follow."""
    text = said.decode(errors="replace").strip()
    found = re.search(r"\(([a-z]+(?:_[a-z0-9]+)*)\)$", text, re.M)
    if status == NO_DAEMON or "closed the connection" in text:
        return Failure("unreachable", message=text)
    if status == 2:
        return Failure("invalid", message=text)
    return Failure(found[1] if found else "unknown", message=text)


def cay(call, *words, input=None, ok=(0,), **how):
    """stdout of a command that succeeds."""
    if input is not None:
        how["stdin"] = subprocess.PIPE
    process = start(call, *words, **how)
    out, err = process.communicate(input)
    if process.returncode not in ok:
        raise failed(process.returncode, err)
    return out


def data(call, *words, **how):
    return json.loads(cay(call, *words, **how))


def flag(name, value):
    return [] if value is None else [name, str(value)]


def flags(name, values):
    return [word for key, value in (values or {}).items() for word in (name, f"{key}={value}")]


def where(anywhere):
    return ["--anywhere"] if anywhere else []


# ---- sandboxes ----


def sandbox_told(said):
    return {key: said.get(key) for key in ("id", "name", "image", "status", "metadata")}


def create(call, image=None, name=None, unique=None, timeout=None, memory=None, cpu=None, env=None, workdir=None, metadata=None,
           template=None, network=None, entrypoint=None):
    words = [*flag("--name", name), *flag("--timeout", timeout), *flag("--memory", memory), *flag("--cpu", cpu),
             *flags("--env", env), *flag("--workdir", workdir), *flags("--metadata", metadata), *flag("--template", template)]
    if network:
        words.append("--network" if network is True else f"--network={network}")
    if image or entrypoint:
        words += [image or "host", *(entrypoint or [])]
    return sandbox_told(data(call, "create", "--json", *words))


def get(call, sandbox):
    return sandbox_told(data(call, "inspect", sandbox))


def list_sandboxes(call, status=None, metadata=None):
    if metadata is not None:
        raise Failure("unsupported_op", message="list.metadata")
    return {"ids": [item["id"] for item in data(call, "ls", "--all", "--json", *flag("--status", status))]}


def turn(word, status):
    def act(call, sandbox):
        cay(call, word, sandbox)
        return {"status": status}

    return act


def renew(call, sandbox, timeout):
    said = data(call, "renew", "--json", sandbox, timeout)
    return {"expires_in": int(said["expiresAt"] / 1000 - time.time())}


def kill(call, sandbox):
    cay(call, "rm", sandbox)


def clone(call, sandbox, name=None):
    said = data(call, "fork", "--json", *flag("--name", name), sandbox)
    return sandbox_told(said[0] if isinstance(said, list) else said)


def connect(call, url=None, token=None):
    env = dict(os.environ)
    if url is not None:
        env["CAY_HOST"] = url
    if token is not None:
        env["CAY_AUTH_TOKEN"] = token
    cay(call, "ls", env=env)


# ---- commands ----


def command_words(command):
    if isinstance(command, str):
        return [command]
    return ["--", *command]


def options(cwd=None, env=None, user=None, timeout=None):
    return [*flag("--workdir", cwd), *flags("--env", env), *flag("--user", user), *flag("--timeout", timeout)]


def run(call, sandbox, command, stdin=None, bytes=False, **fields):
    """With --json it is one object; bytes are what a pipe gets."""
    if bytes:
        return stream(call, sandbox, command, stdin, **fields)
    words = ["exec", "--json", *(["-i"] if stdin else []), *options(**fields), sandbox, *command_words(command)]
    process = start(call, *words, **({"stdin": subprocess.PIPE} if stdin else {}))
    out, err = process.communicate(whole(stdin) if stdin else None)
    done(call, process.returncode)
    if not out:
        raise failed(process.returncode, err)
    said = json.loads(out)
    if process.returncode == 124 and "--timeout" in words:
        raise Failure("command_timeout", message=said["message"], stdout=tell(said["stdout"]), stderr=tell(said["stderr"]))
    return {"exit_code": said["exitCode"], "stdout": tell(said["stdout"]), "stderr": tell(said["stderr"]),
            "truncated": said["truncated"], "reason": "signal" if "signal" in said.get("message", "") else "exit"}


def stream(call, sandbox, command, stdin=None, cancel_after_bytes=None, bytes=False, **fields):
    """What a pipe gets; notes of cay's own are on stderr too, in front of which stands its name."""
    words = ["exec", *(["-i"] if stdin else []), *options(**fields), sandbox, *command_words(command)]
    process = start(call, *words, **({"stdin": subprocess.PIPE} if stdin else {}))
    if stdin:
        threading.Thread(target=feed, args=(process.stdin, stdin), daemon=True).start()
    told = {"stdout": Told(), "stderr": Told()}
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    while piece := process.stdout.read1(65536):
        told["stdout"].add(piece)
        if cancel_after_bytes and told["stdout"].size >= cancel_after_bytes:
            process.stdout.close()
            reader.join()
            process.wait()
            return {"cancelled": True}
    reader.join()
    status = process.wait()
    done(call, status)
    own = re.search(rb"(?m)^cay: .*\n\Z", errors[0])
    if own and status in (125, 126, 127, NO_DAEMON, 2, 1) and re.search(rb"\([a-z_]+\)\n\Z", own[0]):
        raise failed(status, own[0])
    told["stderr"].add(errors[0][:own.start()] if own else errors[0])
    over = status == 124 and own
    return {"exit_code": -1 if over else status, "reason": "timeout" if over else "exit", "truncated": False,
            **{name: stream.value() for name, stream in told.items()}}


def feed(pipe, stdin):
    try:
        for piece in pieces(stdin):
            pipe.write(piece)
        pipe.close()
    except OSError:
        pass  # it ended without reading all


def background(call, sandbox, command):
    return {"exec_id": data(call, "exec", "-d", "--json", sandbox, *command_words(command))["id"]}


def background_wait(call, sandbox, exec_id):
    process = start(call, "job", "wait", exec_id)
    _, err = process.communicate()
    if process.returncode in (125, NO_DAEMON):
        raise failed(process.returncode, err)
    return {"exit_code": process.returncode, "stdout": tell(cay(call, "logs", exec_id))}


# ---- files ----


def write_file(call, sandbox, path, content, anywhere=None):
    cay(call, "file", "write", *where(anywhere), "--", sandbox, path, content)


def read_file(call, sandbox, path, anywhere=None):
    return {"content": tell(cay(call, "file", "read", *where(anywhere), "--", sandbox, path))}


def upload(call, sandbox, path, bytes, mode=None, anywhere=None):
    with tempfile.NamedTemporaryFile() as local:
        for piece in pieces(bytes):
            local.write(piece)
        local.flush()
        if mode:
            os.chmod(local.name, int(mode, 8))
            cay(call, "cp", "-q", local.name, f"{sandbox}:{path}")
        else:
            cay(call, "file", "upload", *where(anywhere), "--", sandbox, local.name, path)


def download(call, sandbox, path, anywhere=None):
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, "file")
        cay(call, "cp", "-q", f"{sandbox}:{path}", local)
        told = Told()
        with open(local, "rb") as f:
            while piece := f.read(65536):
                told.add(piece)
    return {"bytes": told.value()}


def list_files(call, sandbox, path=None, anywhere=None):
    said = data(call, "file", "ls", "--json", *where(anywhere), "--", sandbox, *([path] if path else []))
    return {"names": [entry["name"] for entry in said]}


def remove_file(call, sandbox, path, anywhere=None):
    cay(call, "file", "rm", *where(anywhere), "--", sandbox, path)


def remove_dir(call, sandbox, path, anywhere=None):
    cay(call, "file", "rm", "-r", *where(anywhere), "--", sandbox, path)


# ---- environment, processes, code ----


def env_set(call, sandbox, vars):
    cay(call, "env", "set", sandbox, *(f"{key}={value}" for key, value in vars.items()))


def env_get(call, sandbox, key):
    process = start(call, "env", "get", sandbox, key)
    out, err = process.communicate()
    if process.returncode == 1 and b"has no variable" in err:
        return {"exists": False, "value": None}
    if process.returncode != 0:
        raise failed(process.returncode, err)
    return {"exists": True, "value": out.decode().removesuffix("\n")}


def env_list(call, sandbox):
    return {"vars": data(call, "env", "list", "--json", sandbox)}


def env_delete(call, sandbox, key):
    cay(call, "env", "unset", sandbox, key)


def process_list(call, sandbox):
    return {"processes": [{"pid": p["pid"], "command": p["command"]} for p in data(call, "ps", "--json", sandbox)]}


def process_kill(call, sandbox, pid, signal=None):
    cay(call, "kill", *flag("--signal", signal), sandbox, pid)


def run_code(call, sandbox, code, language=None, context=None):
    process = start(call, "code", "--json", *flag("--language", language), *flag("--context", context), "-c", code, sandbox)
    out, err = process.communicate()
    if not out:
        raise failed(process.returncode, err)
    said = json.loads(out)
    return {"output": tell(said["output"]), "error": said["error"]}


def context_create(call, sandbox, language=None):
    return {"id": data(call, "context", "create", "--json", *flag("--language", language), sandbox)["id"]}


def context_delete(call, sandbox, context):
    cay(call, "context", "rm", sandbox, context)


# ---- snapshots, queue, ports ----


def snapshot(call, sandbox, name=None):
    return {"id": data(call, "snapshot", "create", "--json", sandbox, *([name] if name else []))["id"]}


def list_snapshots(call, sandbox):
    return {"ids": [s["id"] for s in data(call, "snapshot", "ls", "--json", sandbox)]}


def restore(call, sandbox, snapshot):
    cay(call, "snapshot", "restore", sandbox, snapshot)
    return {"status": data(call, "inspect", sandbox)["status"]}


def delete_snapshot(call, snapshot):
    cay(call, "snapshot", "rm", snapshot)


def queue_submit(call, sandbox, command, max_retries=None, timeout=None):
    said = data(call, "queue", "submit", "--json", *flag("--retries", max_retries), *flag("--timeout", timeout), sandbox,
                *command_words(command))
    return {"id": said["id"], "status": said["status"]}


def queue_status(call, job):
    said = data(call, "queue", "status", "--json", job)
    result = said.get("result")
    more = result and {"exit_code": result["exitCode"], "stdout": tell(result["stdout"]), "stderr": tell(result["stderr"])}
    return {"status": said["status"], **(more or {})}


def queue_cancel(call, job):
    cay(call, "queue", "cancel", job)


def port_expose(call, sandbox, port, host_port=None):
    said = data(call, "port", "add", "--json", sandbox, f"{host_port or port}:{port}" if host_port != 0 else port)
    return {"port": said["containerPort"], "host_port": said["hostPort"]}


def port_list(call, sandbox):
    return {"ports": [p["containerPort"] for p in data(call, "port", "ls", "--json", sandbox)]}


def port_unexpose(call, sandbox, port):
    cay(call, "port", "rm", sandbox, port)


# ---- volumes, networks, events ----


def volume_create(call, name, size_mb=None):
    said = data(call, "volume", "create", "--json", *flag("--size", size_mb), name)
    return {"id": said["id"], "name": said["name"]}


def volume_list(call):
    return {"ids": [v["id"] for v in data(call, "volume", "ls", "--json")]}


def volume_attach(call, volume, sandbox, path):
    cay(call, "volume", "attach", volume, sandbox, path)


def volume_detach(call, volume, sandbox=None):
    cay(call, "volume", "detach", volume, *([sandbox] if sandbox else []))


def volume_delete(call, volume):
    cay(call, "volume", "rm", volume)


def network_create(call, name):
    said = data(call, "network", "create", "--json", name)
    return {"id": said["id"], "name": said["name"]}


def network_list(call):
    return {"ids": [n["id"] for n in data(call, "network", "ls", "--json")]}


def network_connect(call, network, sandbox):
    cay(call, "network", "connect", network, sandbox)


def network_disconnect(call, network, sandbox):
    cay(call, "network", "disconnect", network, sandbox)


def network_delete(call, network):
    cay(call, "network", "rm", network)


def event_history(call, sandbox=None, topic=None):
    lines = cay(call, "events", "--json", *flag("--sandbox", sandbox), *flag("--topic", topic)).splitlines()
    return {"topics": [json.loads(line)["topic"] for line in reversed(lines)]}


def alert_set(call, sandbox, metric, threshold, action=None):
    return {"id": data(call, "alert", "set", "--json", *flag("--action", action), sandbox, metric, threshold)["id"]}


def alert_list(call, sandbox):
    return {"ids": [a["id"] for a in data(call, "alert", "ls", "--json", sandbox)]}


def alert_delete(call, alert):
    cay(call, "alert", "rm", alert)


def metrics(call, sandbox):
    said = data(call, "stats", "--no-stream", "--json", sandbox)[0]
    return {"memory_limit_mb": said["memoryLimitMb"], "pids": said["pids"]}


def template_list(call):
    return {"names": [t["name"] for t in data(call, "template", "ls", "--json")]}


def logs(call, sandbox, tail=None):
    lines = cay(call, "logs", "--json", *flag("--tail", tail), sandbox).splitlines()
    return {"lines": [json.loads(line)["data"] for line in lines]}


def terminal(call, sandbox, input, until, cols=80, rows=24):
    """`cay shell` wants a terminal, which is ours."""
    here, there = os.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    process = subprocess.Popen([CAY, "shell", "--shell", "sh", sandbox], stdin=there, stdout=there, stderr=there, start_new_session=True)
    os.close(there)
    shown, typed = b"", False
    try:
        while until.encode() not in shown:
            piece = os.read(here, 65536)  # fails when the shell has ended
            shown += piece
            if not typed and shown.endswith((b"# ", b"$ ")):
                os.write(here, input.encode())
                typed = True
        os.write(here, b"exit\n")
    except OSError as error:
        raise Failure("unknown", message=shown.decode(errors="replace")) from error
    finally:
        process.wait()
        os.close(here)
    return {"seen": True}


OPERATIONS = {
    "create": create, "get": get, "list": list_sandboxes, "renew": renew, "kill": kill, "clone": clone, "connect": connect,
    "pause": turn("pause", "paused"), "resume": turn("resume", "running"), "stop": turn("stop", "stopped"), "start": turn("start", "running"),
    "exec": run, "exec_stream": stream, "background": background, "background_wait": background_wait,
    "write_file": write_file, "read_file": read_file, "upload": upload, "download": download, "list_files": list_files,
    "remove_file": remove_file, "remove_dir": remove_dir,
    "env_set": env_set, "env_get": env_get, "env_list": env_list, "env_delete": env_delete,
    "process_list": process_list, "process_kill": process_kill,
    "run_code": run_code, "context_create": context_create, "context_delete": context_delete,
    "snapshot": snapshot, "list_snapshots": list_snapshots, "restore": restore, "delete_snapshot": delete_snapshot,
    "queue_submit": queue_submit, "queue_status": queue_status, "queue_cancel": queue_cancel,
    "port_expose": port_expose, "port_list": port_list, "port_unexpose": port_unexpose,
    "volume_create": volume_create, "volume_list": volume_list, "volume_attach": volume_attach,
    "volume_detach": volume_detach, "volume_delete": volume_delete,
    "network_create": network_create, "network_list": network_list, "network_connect": network_connect,
    "network_disconnect": network_disconnect, "network_delete": network_delete, "events": event_history,
    "alert_set": alert_set, "alert_list": alert_list, "alert_delete": alert_delete,
    "metrics": metrics, "template_list": template_list, "logs": logs, "terminal": terminal,
}

if __name__ == "__main__":
    Frame(OPERATIONS).serve()
