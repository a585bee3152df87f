#!/usr/bin/env python3
"""The adapter of the Model Context Protocol: the daemon's tools over streamable HTTP, as a client of a model calls them."""

import base64
import itertools
import json
import os
import re
import threading

from frame import Call, Failure, Frame, tell, whole
from raw import Client, given, sandbox_told

REVISION = "2025-06-18"


class Endpoint(Client):
    """One session, which is begun anew when the daemon does not know it any more, as the protocol asks for."""

    def __init__(self, url, token):
        super().__init__(url, token, prefix="/mcp")
        self.lock, self.session = threading.Lock(), None
        self.numbers = itertools.count(1)

    @staticmethod
    def refusal(status, said):
        error = said.get("error")
        if isinstance(error, dict):  # JSON-RPC's
            return Failure("no_session" if status == 404 else "rpc", status, error["message"])
        return Client.refusal(status, said)

    def post(self, call, message, session=None):
        headers = {"Accept": "application/json, text/event-stream"}
        if session:
            headers.update({"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION})
        response = self.send(call, "POST", "", message, headers)
        with response.owner:
            return response.headers, answer_in(response, message.get("id"))

    def begin(self):
        """The session, begun if there is none."""
        with self.lock:
            if not self.session:
                about = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "conformance", "version": "1"}}
                headers, _ = self.post(Call(), self.request("initialize", about))
                self.session = headers["Mcp-Session-Id"]
                self.post(Call(), {"jsonrpc": "2.0", "method": "notifications/initialized"}, self.session)
            return self.session

    def request(self, method, params):
        return {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}

    def ask(self, call, method, params):
        session = self.begin()
        message = self.request(method, params)
        call.on_cancel(lambda: self.tell_cancelled(message["id"], session))
        try:
            return self.post(call, message, session)[1]
        except Failure as failure:
            if failure.error["code"] != "no_session":
                raise
        with self.lock:
            if self.session == session:
                self.session = None
        return self.post(call, message, self.begin())[1]

    def tell_cancelled(self, number, session):
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        self.post(Call(), message, session)


def answer_in(response, number):
    """The answer, which is the body or an event of it."""
    if number is None:
        response.read()
        return None
    try:
        if response.headers["Content-Type"].startswith("application/json"):
            messages = [json.loads(response.read())]
        else:
            messages = (json.loads(line[6:]) for line in response if line.startswith(b"data: "))
        for message in messages:
            if message.get("id") == number:
                if "error" in message:
                    raise Failure("rpc", message=message["error"]["message"])
                return message["result"]
    except (OSError, ValueError) as error:
        raise Failure("unreachable", message=str(error)) from error
    raise Failure("unreachable", message="the stream was cut")


ENDPOINT = Endpoint(os.environ["CAY_URL"], os.environ.get("CAY_AUTH_TOKEN"))


def tool(call, name, /, **arguments):
    """The structured answer of a tool, which is what the same call gives over REST."""
    result = ENDPOINT.ask(call, "tools/call", {"name": name, "arguments": given(**arguments)})
    refused = result.get("_meta", {}).get("dev.cay/error")
    if refused:
        text = result["content"][0]["text"]
        body = json.loads(re.search(r"\d{3} (\{.*)", text, re.S)[1])
        raise Client.refusal(refused["status"], {**body, "code": refused["code"]})
    return result["structuredContent"]


# ---- sandboxes ----


def create(call, image=None, template=None, **fields):
    if image is None and template is None:
        image = "host"
    return sandbox_told(tool(call, "sandbox_create", image=image, template=template, **fields))


def list_sandboxes(call, metadata=None, status=None):
    ids, cursor = [], None
    while True:
        page = tool(call, "sandbox_list", metadata=metadata, status=status, pageSize=50, cursor=cursor)
        ids += [item["id"] for item in page["items"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            return {"ids": ids}


def kill(call, sandbox):
    tool(call, "sandbox_kill", sandboxId=sandbox)


def clone(call, sandbox, name=None):
    return sandbox_told(tool(call, "sandbox_clone", sandboxId=sandbox, name=name))


def connect(call, url=None, token=None):
    endpoint = Endpoint(url or ENDPOINT.url, ENDPOINT.token if token is None else token)
    endpoint.ask(call, "tools/list", {})


# ---- commands, files ----


def run(call, sandbox, command, stdin=None, bytes=False, cwd=None, env=None, user=None, timeout=None):
    if bytes:
        raise Failure("unsupported_op", message="exec.bytes")
    said = tool(call, "sandbox_exec", sandboxId=sandbox, command=command, cwd=cwd, env=env, user=user, timeout=timeout,
                stdin=stdin and base64.b64encode(whole(stdin)).decode(), stdinEncoding=stdin and "base64")
    return {"exit_code": said["exitCode"], "stdout": tell(said["stdout"]), "stderr": tell(said["stderr"]),
            "truncated": said["truncated"], "reason": said["reason"]}


def write_file(call, sandbox, path, content, anywhere=None):
    tool(call, "sandbox_write_file", sandboxId=sandbox, path=path, content=content, anywhere=anywhere)


def read_file(call, sandbox, path, anywhere=None):
    return {"content": tell(tool(call, "sandbox_read_file", sandboxId=sandbox, path=path, anywhere=anywhere)["content"])}


def list_files(call, sandbox, path=None, anywhere=None):
    said = tool(call, "sandbox_list_files", sandboxId=sandbox, path=path, anywhere=anywhere)
    return {"names": [entry["name"] for entry in said["items"]]}


# ---- environment, processes, code, git ----


def env_set(call, sandbox, vars):
    tool(call, "sandbox_env_set", sandboxId=sandbox, vars=vars)


def env_get(call, sandbox, key):
    said = tool(call, "sandbox_env_get", sandboxId=sandbox, key=key)
    return {"exists": said["exists"], "value": said.get("value")}


def env_list(call, sandbox):
    return {"vars": tool(call, "sandbox_env_list", sandboxId=sandbox)["vars"]}


def process_list(call, sandbox):
    said = tool(call, "sandbox_process_list", sandboxId=sandbox)
    return {"processes": [{"pid": p["pid"], "command": p["command"]} for p in said["processes"]]}


def process_kill(call, sandbox, pid, signal=None):
    tool(call, "sandbox_process_kill", sandboxId=sandbox, pid=pid, signal=signal)


def run_code(call, sandbox, code, language=None, context=None):
    said = tool(call, "sandbox_run_code", sandboxId=sandbox, code=code, language=language, contextId=context)
    return {"output": tell(said["output"]), "error": said["error"]}


def git_clone(call, sandbox, url, path=None, branch=None, depth=None):
    return {"exit_code": tool(call, "sandbox_git_clone", sandboxId=sandbox, url=url, path=path, branch=branch, depth=depth)["exitCode"]}


def git_status(call, sandbox, path=None):
    said = tool(call, "sandbox_git_status", sandboxId=sandbox, path=path)
    files = [{"path": f["path"], "status": f["status"]} for f in said["files"]]
    return {"branch": said["branch"], "clean": said["clean"], "files": files}


def git_commit(call, sandbox, message, path=None, all=None):
    return {"exit_code": tool(call, "sandbox_git_commit", sandboxId=sandbox, message=message, path=path, all=all)["exitCode"]}


def git_diff(call, sandbox, path=None, staged=None):
    return {"diff": tell(tool(call, "sandbox_git_diff", sandboxId=sandbox, path=path, staged=staged)["diff"])}


# ---- the rest ----


def snapshot(call, sandbox, name=None):
    return {"id": tool(call, "sandbox_snapshot_create", sandboxId=sandbox, name=name)["id"]}


def list_snapshots(call, sandbox):
    return {"ids": [s["id"] for s in tool(call, "sandbox_snapshot_list", sandboxId=sandbox)["snapshots"]]}


def restore(call, sandbox, snapshot):
    return {"status": tool(call, "sandbox_snapshot_restore", sandboxId=sandbox, snapshotId=snapshot)["status"]}


def queue_submit(call, sandbox, command, max_retries=None, timeout=None):
    said = tool(call, "sandbox_exec_queue", sandboxId=sandbox, command=command, maxRetries=max_retries, timeout=timeout)
    return {"id": said["id"], "status": said["status"]}


def queue_status(call, job):
    said = tool(call, "sandbox_queue_status", jobId=job)
    result = said.get("result")
    more = result and {"exit_code": result["exitCode"], "stdout": tell(result["stdout"]), "stderr": tell(result["stderr"])}
    return {"status": said["status"], **(more or {})}


def port_expose(call, sandbox, port, host_port=None):
    said = tool(call, "sandbox_port_expose", sandboxId=sandbox, containerPort=port, hostPort=host_port)
    return {"port": said["containerPort"], "host_port": said["hostPort"]}


def port_list(call, sandbox):
    return {"ports": [p["containerPort"] for p in tool(call, "sandbox_port_list", sandboxId=sandbox)["ports"]]}


def volume_create(call, name, size_mb=None):
    said = tool(call, "sandbox_volume_create", name=name, sizeMb=size_mb)
    return {"id": said["id"], "name": said["name"]}


def volume_attach(call, volume, sandbox, path):
    tool(call, "sandbox_volume_attach", volumeId=volume, sandboxId=sandbox, mountPath=path)


def network_create(call, name):
    said = tool(call, "sandbox_network_create", name=name)
    return {"id": said["id"], "name": said["name"]}


def network_connect(call, network, sandbox):
    tool(call, "sandbox_network_connect", networkId=network, sandboxId=sandbox)


def event_publish(call, topic, sandbox, data=None):
    return {"id": tool(call, "sandbox_events_publish", topic=topic, sandboxId=sandbox, data=data)["id"]}


def event_history(call, sandbox=None, topic=None):
    said = tool(call, "sandbox_events_history", sandboxId=sandbox, topic=topic)
    return {"topics": [event["topic"] for event in said["events"]]}


def alert_set(call, sandbox, metric, threshold, action=None):
    return {"id": tool(call, "sandbox_set_alert", sandboxId=sandbox, metric=metric, threshold=threshold, action=action)["id"]}


def metrics(call, sandbox):
    said = tool(call, "sandbox_metrics", sandboxId=sandbox)
    return {"memory_limit_mb": said["memoryLimitMb"], "pids": said["pids"]}


def template_list(call):
    return {"names": [t["name"] for t in tool(call, "sandbox_template_list")["templates"]]}


def logs(call, sandbox, tail=None):
    said = tool(call, "sandbox_stream_logs", sandboxId=sandbox, tail=tail)
    return {"lines": [line["data"] for line in said["lines"] if line["type"] != "end"]}


OPERATIONS = {
    "create": create, "list": list_sandboxes, "kill": kill, "clone": clone, "connect": connect,
    "exec": run, "write_file": write_file, "read_file": read_file, "list_files": list_files,
    "env_set": env_set, "env_get": env_get, "env_list": env_list, "process_list": process_list, "process_kill": process_kill,
    "run_code": run_code, "git_clone": git_clone, "git_status": git_status, "git_commit": git_commit, "git_diff": git_diff,
    "snapshot": snapshot, "list_snapshots": list_snapshots, "restore": restore,
    "queue_submit": queue_submit, "queue_status": queue_status, "port_expose": port_expose, "port_list": port_list,
    "volume_create": volume_create, "volume_attach": volume_attach,
    "network_create": network_create, "network_connect": network_connect,
    "event_publish": event_publish, "events": event_history, "alert_set": alert_set,
    "metrics": metrics, "template_list": template_list, "logs": logs,
}

if __name__ == "__main__":
    Frame(OPERATIONS).serve()
