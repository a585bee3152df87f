"""What clients with fixed types read and send: one key of another type fails their whole call. Their packages are in no
registry, so their types and their requests are written down here."""

import re

import pytest

from cay_harness import wait_until

pytestmark = pytest.mark.full

TEXT, NUMBER = str, int
OPTIONAL_TEXT = (str, type(None))
SANDBOX = {"id": TEXT, "name": TEXT, "image": TEXT, "status": TEXT, "createdAt": NUMBER, "expiresAt": NUMBER}
SNAPSHOT = {"id": TEXT, "sandboxId": TEXT, "name": TEXT, "imageId": TEXT, "size": NUMBER, "createdAt": NUMBER}
TEMPLATE = {"id": TEXT, "name": TEXT, "description": TEXT, "config": dict, "builtin": bool, "createdAt": NUMBER}
VOLUME = {"id": TEXT, "name": TEXT, "dockerVolumeName": TEXT, "mountPath": OPTIONAL_TEXT, "sandboxId": OPTIONAL_TEXT,
          "size": OPTIONAL_TEXT, "createdAt": NUMBER}


def read(kind, value):
    """The value, if such a client can take it: all that is not optional is there, and each key is of its type."""
    for key, type_ in kind.items():
        got = value.get(key)
        assert isinstance(got, type_) and (type_ is bool or not isinstance(got, bool)), (key, got)
    return value


def post(api, path, body=None):
    """Every request says that it is JSON, also one without a body."""
    return api.post(path, body, type="application/json").ok()


@pytest.mark.parametrize("unnamed", [{}, {"name": None}])
def test_snapshots_restores_and_clones(api, make, unnamed):
    sandbox = make(metadata={"team": "blue"})
    path, made = f"/sandboxes/{sandbox['id']}", []
    try:
        one = read(SNAPSHOT, post(api, f"{path}/snapshots", unnamed))
        assert one["name"] == one["id"] and one["sandboxId"] == sandbox["id"]
        assert [read(SNAPSHOT, s)["id"] for s in api.get(f"{path}/snapshots").ok()["snapshots"]] == [one["id"]]
        back = read(SANDBOX, post(api, f"{path}/snapshots/restore", {"snapshotId": one["id"]}))
        assert (back["id"], back["status"]) == (sandbox["id"], "running")
        for source in (path, f"/snapshots/{one['id']}"):
            made.append(read(SANDBOX, post(api, f"{source}/clone", unnamed)))
            assert made[-1]["metadata"] == {"team": "blue"} and made[-1]["name"] == made[-1]["id"]
        assert api.delete(f"/snapshots/{one['id']}").ok() == {"deleted": one["id"]}
    finally:
        for clone in made:
            api.remove(clone["id"])


def test_lists_begin_with_the_newest(api, box):
    """No such client asks for a second page."""
    for path, key, bodies in ((f"/sandboxes/{box}/snapshots", "snapshots", [{}, {}]),
                              ("/volumes", "volumes", [{"name": "a"}, {"name": "b"}]),
                              ("/webhooks", "webhooks", [{"url": "https://a.example", "topics": ["none"]}, {"url": "https://b.example", "topics": ["none"]}])):
        made = [post(api, path, body)["id"] for body in bodies]
        listed = [one["id"] for one in api.get(path).ok()[key]]
        for id in made:
            api.delete(f"/{key}/{id}").ok()
        assert [id for id in listed if id in made] == made[::-1], path


@pytest.mark.parametrize("driver", [{}, {"driver": None}, {"driver": "local"}])
def test_volumes(api, box, driver):
    volume = read(VOLUME, post(api, "/volumes", {"name": "typed", **driver}))
    path = f"/volumes/{volume['id']}"
    try:
        attached = post(api, f"{path}/attach", {"sandboxId": box, "mountPath": "/data"})
        assert attached["attached"] is True and attached["mountPath"] == "/data"
        listed = [read(VOLUME, v) for v in api.get("/volumes").ok()["volumes"]]
        assert [v["sandboxId"] for v in listed if v["id"] == volume["id"]] == [box]
        assert post(api, f"{path}/detach")["detached"] is True
    finally:
        assert api.delete(path).ok() == {"deleted": volume["id"]}


def test_templates_and_the_pool(api, make):
    for template in api.get("/templates").ok()["templates"]:
        read(TEMPLATE, template)
    mine = read(TEMPLATE, post(api, "/templates", {"name": "typed", "config": {"image": "host"}}))
    try:
        made = read(SANDBOX, make(image="python:3.12-slim", template="typed"))
        assert made["image"] == "host"
    finally:
        assert api.delete(f"/templates/{mine['id']}").ok() == {"deleted": mine["id"]}
    pool = api.get("/pool/status").ok()
    assert type(pool["total"]) is type(pool["ready"]) is int and isinstance(pool["by_profile"], dict)


def test_who_waits_30_seconds_is_told_that_a_sandbox_is_not_ready(api):
    """The time is that of the document: the daemon has one constant for both."""
    fields = api.get("//openapi.json").ok()["components"]["schemas"]["TemplateConfig"]["properties"]
    assert int(re.search(r"(\d+) when absent", fields["readyTimeout"]["description"])[1]) < 30
    mine = post(api, "/templates", {"name": "never", "config": {"image": "host", "ready": "echo why; exit 1", "readyTimeout": 1}})
    try:
        api.post("/sandboxes", {"template": "never"}).failed(408, "template_not_ready", "why")
    finally:
        api.delete(f"/templates/{mine['id']}").ok()


BACKGROUND = {"id": TEXT, "sandboxId": TEXT, "command": TEXT, "pid": (int, type(None)), "running": bool, "exitCode": (int, type(None)),
              "startedAt": NUMBER, "finishedAt": (int, type(None))}
FILE_META = {"path": TEXT, "size": NUMBER, "permissions": TEXT, "owner": TEXT, "group": TEXT, "isDirectory": bool, "isSymlink": bool,
             "modifiedAt": NUMBER}
WORKER = {"workerId": TEXT, "hostname": TEXT, "activeSandboxes": NUMBER, "maxSandboxes": NUMBER, "cpuPercent": (int, float),
          "lastHeartbeat": NUMBER}


def test_commands_in_the_background(api, box):
    path = f"/sandboxes/{box}/exec"
    begun = read(BACKGROUND, post(api, f"{path}/background", {"command": "echo said; exec sleep 1000"}))
    assert begun["running"] is True and begun["command"] == "echo said; exec sleep 1000"
    logs = wait_until(lambda: (said := api.get(f"/exec/background/{begun['id']}/logs?cursor=0").ok())["output"] and said)
    assert logs == {"output": "said\n", "cursor": 5}
    assert post(api, f"{path}/interrupt", {"pid": begun["pid"]})["success"] is True
    ended = wait_until(lambda: not (now := api.get(f"/exec/background/{begun['id']}/status").ok())["running"] and now)
    assert read(BACKGROUND, ended)["finishedAt"] >= begun["startedAt"] and ended["exitCode"] == 130
    assert post(api, f"{path}/interrupt", {"pid": None})["success"] is True


def test_what_files_are_and_where(api, box):
    of = lambda what, **body: post(api, f"/sandboxes/{box}/files/{what}", body)
    done = {"success": True}
    assert of("mkdir", paths=["a/b", "c"]) == of("mkdir", path="d") == done
    assert of("write", path="a/b/f", content="four") == of("chmod", path="a/b/f", mode="640") == done
    assert of("move", moves=[{"from": "a/b/f", "to": "c/g"}, {"from": "c/g", "to": "d/h"}]) == done
    one, = of("info", paths=["/workspace/d/h"])
    assert read(FILE_META, one) == of("info", path="/workspace/d/h")
    assert (one["size"], one["permissions"], one["isDirectory"]) == (4, "-rw-r-----", False)
    assert of("rmdir", paths=["a", "d"]) == done
    assert [f["name"] for f in of("list")] == ["c"]


def test_the_node(api, make):
    worker = read(WORKER, post(api, "/admin/workers/heartbeat"))
    workers = api.get("/admin/workers").ok()
    assert [read(WORKER, w)["workerId"] for w in workers["workers"]] == [worker["workerId"]]
    assert (workers["alive"], workers["dead"]) == (1, 0)
    assert api.get("/admin/workers/select").ok() == {"workerId": worker["workerId"]}
    assert read(dict.fromkeys(("reaped", "reassigned", "expired"), NUMBER), post(api, "/admin/workers/reap"))
    assert read({"migrated": NUMBER}, post(api, "/admin/workers/migrate")) and read({"swept": NUMBER}, post(api, "/admin/sweep"))
    assert api.get("/health").ok()["status"] == "healthy"
    read(dict.fromkeys(("activeSandboxes", "totalCreated", "totalKilled", "totalExpired", "uptimeSeconds"), NUMBER), api.get("/metrics").ok())
    sandbox = make()
    until = sandbox["createdAt"] + 7200_000
    assert read(SANDBOX, post(api, f"/sandboxes/{sandbox['id']}/renew", {"expiresAt": until}))["expiresAt"] == until
