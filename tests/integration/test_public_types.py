"""What clients with fixed types read and send: one key of another type fails their whole call. Their packages are in no
registry, so their types and their requests are written down here."""

import pytest

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


def test_who_waits_30_seconds_is_told_that_a_sandbox_is_not_ready(shared, api):
    mine = post(api, "/templates", {"name": "never", "config": {"image": "host", "ready": "echo why; exit 1"}})
    try:
        with shared.api(timeout=29) as patient:
            patient.post("/sandboxes", {"template": "never"}).failed(408, "template_not_ready", "why")
            shared.apis.remove(patient)
    finally:
        api.delete(f"/templates/{mine['id']}").ok()
