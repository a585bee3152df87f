"""Whoever meets a limit is told what moves it: the operator's variable, or what to do where there is none."""

import json
import subprocess

import pytest

from cay_harness import CAY, FILL_PROCESSES, wait_until

pytestmark = pytest.mark.core


def too_many(api, own):
    api.create()
    return api.try_create()


def too_many_stopped(api, own):
    api.post(f"/sandboxes/{api.create()['id']}/stop").ok()
    return api.try_create()


def too_often(api, own):
    with own.api() as tcp:
        return next(reply for reply in iter(lambda: tcp.get("/info"), None) if reply.status != 200)


def too_long(api, own):
    return api.try_exec(api.create()["id"], "sleep 1000")


def too_many_processes(api, own):
    id = api.create(pids=16)["id"]
    x = api.background(id, ["python3", "-c", FILL_PROCESSES])
    wait_until(lambda: "full" in api.background_logs(x["id"])["output"])
    # Supervisors wait for commands, so some of these find one.
    return next(reply for reply in (api.try_exec(id, "true") for _ in range(50)) if reply.status != 200)


def too_much_of_an_image(api, own):
    return api.try_create(memory=256)


def too_large_a_disk(api, own):
    return api.try_create()


def full_disk(api, own):
    id = api.create(disk=64)["id"]
    api.exec(id, "head -c 200000000 /dev/zero > big", timeout=60)
    return api.file(id, "write", path="more", content="x" * 500_000)


def too_large_an_image(api, own):
    root = own.root / "image"
    root.mkdir()
    (root / "data").write_bytes(b"x" * (2 << 20))
    with own.unix_api() as local:
        return local.post("/images/import", {"path": str(root), "name": "large:1"})


def too_large_a_body(api, own):
    return api.post(f"/sandboxes/{api.create()['id']}/env", {"vars": {"A": "x" * (2 << 20)}})


def too_large_a_file(api, own):
    id = api.create()["id"]
    api.sh(id, "truncate -s 17M large")
    return api.file(id, "read", path="large")


def too_many_snapshots(api, own):
    id = api.create()["id"]
    api.post(f"/sandboxes/{id}/snapshots", {}).ok()
    return api.post(f"/sandboxes/{id}/snapshots", {})


def too_many_volumes(api, own):
    api.post("/volumes", {"name": "a", "sizeMb": 16}).ok()
    return api.post("/volumes", {"name": "b", "sizeMb": 16})


def too_many_templates(api, own):
    api.post("/templates", {"name": "a", "config": {"image": "host"}}).ok()
    return api.post("/templates", {"name": "b", "config": {"image": "host"}})


def too_many_networks(api, own):
    api.post("/networks", {"name": "a"}).ok()
    return api.post("/networks", {"name": "b"})


def too_many_tokens(api, own):
    api.post("/tokens", {"scopes": ["read"]}).ok()
    return api.post("/tokens", {"scopes": ["read"]})


def too_many_webhooks(api, own):
    api.post("/webhooks", {"url": "https://hooks.example.com/", "topics": ["never"]}).ok()
    return api.post("/webhooks", {"url": "https://hooks.example.com/"})


def too_many_ports(api, own):
    id = api.create()["id"]
    replies = (api.post(f"/sandboxes/{id}/ports", {"containerPort": n, "hostPort": 0}) for n in range(1, 200))
    return next(reply for reply in replies if reply.status != 200)


def too_many_jobs(api, own):
    id = api.create()["id"]
    api.post(f"/sandboxes/{id}/exec/queue", {"command": "true", "delay": 60}).ok()
    return api.post(f"/sandboxes/{id}/exec/queue", {"command": "true"})


# Settings of one daemon on which no limit stands in the way of another.
TOGETHER = {"CAY_MAX_IMAGE_SIZE": 1, "CAY_MAX_SNAPSHOTS": 1, "CAY_MAX_VOLUMES": 1, "CAY_MAX_TEMPLATES": 1, "CAY_MAX_NETWORKS": 1,
            "CAY_MAX_TOKENS": 1, "CAY_MAX_WEBHOOKS": 1, "CAY_QUEUE_SANDBOX_MAX": 1}

# How it is met, with which settings, the status, the code, and what the text has in it.
MET = [
    (too_many, {"CAY_MAX_SANDBOXES": 1}, 429, "sandbox_limit", "CAY_MAX_SANDBOXES"),
    (too_many_stopped, {"CAY_MAX_STOPPED": 1}, 429, "stopped_limit", "CAY_MAX_STOPPED"),
    (too_often, {"CAY_RATE_LIMIT_ENABLED": "true", "CAY_RATE_TOKEN_RPM": 1, "CAY_RATE_TOKEN_BURST": 2}, 429,
     "rate_limited", "1 requests a minute, 2 at once (CAY_RATE_TOKEN_RPM, CAY_RATE_TOKEN_BURST)"),
    (too_long, {"CAY_MAX_CMD_TIMEOUT": 1}, 408, "command_timeout", "CAY_MAX_CMD_TIMEOUT"),
    (too_many_processes, TOGETHER, 429, "process_limit", "CAY_MAX_PIDS; CAY_TOTAL_PIDS"),
    (too_much_of_an_image, {"CAY_IMAGE_CAPS": "host:memory=128"}, 403, "image_cap_exceeded", "CAY_IMAGE_CAPS"),
    (too_large_a_disk, {"CAY_DISK_RESERVE": 1 << 30}, 503, "no_space", "CAY_DISK_RESERVE"),
    (full_disk, TOGETHER, 429, "no_space", "CAY_DEFAULT_DISK"),
    (too_large_an_image, TOGETHER, 413, "image_too_large", "CAY_MAX_IMAGE_SIZE"),
    (too_large_a_body, TOGETHER, 413, "too_large", "application/octet-stream"),
    (too_large_a_file, TOGETHER, 413, "file_too_large", "application/octet-stream"),
    (too_many_snapshots, TOGETHER, 429, "snapshot_limit", "CAY_MAX_SNAPSHOTS"),
    (too_many_volumes, TOGETHER, 429, "volume_limit", "CAY_MAX_VOLUMES"),
    (too_many_templates, TOGETHER, 429, "template_limit", "CAY_MAX_TEMPLATES"),
    (too_many_networks, TOGETHER, 429, "network_limit", "CAY_MAX_NETWORKS"),
    (too_many_tokens, TOGETHER, 429, "token_limit", "CAY_MAX_TOKENS"),
    (too_many_webhooks, TOGETHER, 429, "webhook_limit", "CAY_MAX_WEBHOOKS"),
    (too_many_ports, TOGETHER, 429, "port_limit", "remove some"),
    (too_many_jobs, TOGETHER, 429, "queue_full", "CAY_QUEUE_SANDBOX_MAX"),
    (too_many_jobs, {"CAY_QUEUE_MAX": 1}, 429, "queue_full", "CAY_QUEUE_MAX"),
]

# Met in test_limits.py, which fills the machine's share.
MET_ELSEWHERE = {"machine_full": "CAY_TOTAL_MEMORY or CAY_TOTAL_PIDS"}

# Limits of the program itself: no variable moves them, and the text says what to do instead.
FIXED = {
    "busy": "comes again", "limit": "uses exec with detach", "sandbox_busy": "comes again",
    "too_many_streams": "closes some", "image_limit": "prunes", "pull_limit": "comes again",
    "too_many_layers": "flattens the image", "bad_config": "has a damaged image", "bad_image": "has a damaged image",
    "mount_limit": "mounts less", "pool_limit": "removes a profile", "context_limit": "removes some", "too_many_steps": "joins steps",
    "context_too_large": "ignores files", "answer_too_large": "asks the port itself, which streams",
    "alert_limit": "deletes an alert",
    "watch_limit": "begins further down, or ends some",
    "courier_busy": "comes again",
    "network_full": "has a larger CAY_NET_POOL", "event_too_large": "puts less into an event",
}

# Not limits, but trouble: 503.
TROUBLE = {"unavailable", "no_capacity", "launcher_lost", "agent_lost", "agent_timeout", "cancelled", "digest_mismatch",
           "image_pull_failed", "gateway_down", "gateway_failed", "port_closed", "bad_answer"}


ALONE = [row for row in MET if row[1] is not TOGETHER]


@pytest.mark.parametrize("meet, env, status, code, says", ALONE, ids=[row[0].__name__ for row in ALONE])
def test_a_limit_says_what_moves_it(daemon_of, meet, env, status, code, says):
    own = daemon_of(env=env).start()
    with own.unix_api() as api:
        meet(api, own).failed(status, code, says)


def test_limits_of_one_daemon_say_what_moves_them(daemon_of):
    own = daemon_of(env=TOGETHER).start()
    with own.unix_api() as api:
        for meet, env, status, code, says in MET:
            if env is TOGETHER:
                meet(api, own).failed(status, code, says)


def test_no_limit_is_left_out_here():
    """Every code of an answer that says "too much" or "too many" is in one of the tables above."""
    said = subprocess.run([CAY, "serve", "--openapi"], capture_output=True, check=True).stdout
    codes = {e["code"] for e in json.loads(said)["x-errors"] if {413, 429, 503} & set(e["statuses"])}
    assert codes - {row[3] for row in MET} - set(MET_ELSEWHERE) - set(FIXED) - TROUBLE == set()
