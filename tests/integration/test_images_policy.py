"""Which images may be used, by which names, and with how much."""

import json

import pytest

from cay_harness import cay
from cay_iii import free_port
from cay_registry import *  # noqa: F401,F403 (fixtures too)
from test_iii_cli_daemon import Iii

pytestmark = [pytest.mark.core, needs_registry]


@pytest.fixture(scope="module")
def hub(registry):
    """What Docker Hub is to these daemons, through a mirror."""
    registry.push("library/python:3.12-slim", Image(base_layer(), layer(text("which", "preset\n"))))
    registry.push("library/node:22-slim", Image(base_layer(), layer(text("which", "node\n"))))
    registry.push("library/other:1", Image(base_layer(), layer(text("which", "other\n"))))
    registry.push("team/app:1", Image(base_layer(), layer(text("which", "team\n"))))
    return registry


@pytest.fixture
def served(daemon_of, hub):
    """served(CAY_…=…): a daemon with that policy."""
    def start(**env):
        daemon = daemon_of(env={"CAY_REGISTRY_MIRRORS": f"docker.io=http://{hub.host}",
                                "CAY_INSECURE_REGISTRIES": hub.host, **env}).start()
        return Images(daemon)

    return start


def which(images, name, **fields):
    with images.box(name, **fields) as id:
        return images.api.sh(id, "cat /which").strip()


def test_the_allow_list(served, hub):
    mine = served(CAY_ALLOWED_IMAGES=f"python:*,{hub.host}/team/*,host")
    assert which(mine, "python:3.12-slim") == "preset"
    assert which(mine, hub.ref("team/app:1")) == "team"
    with mine.box("host"):
        pass
    for name in ("other:1", "node:22-slim", "team/app:1", hub.ref("library/other:1"),
                 "python.example/x:1", "evil.example/python:1", "x/python:1"):
        said = mine.api.try_create(name).failed(403, "image_not_allowed")
        assert f"Image not allowed: {name}" in said["error"]
        assert mine.try_pull(name).failed(403, "image_not_allowed")
    assert "other:1" not in mine.names()


def test_a_name_from_an_archive_does_not_get_around_the_list(served, hub, tmp_path):
    mine = served(CAY_ALLOWED_IMAGES="good:*,host")
    layout = Image(base_layer()).layout(tmp_path / "layout", "bad:1")
    reply = mine.try_import(layout)
    if reply.status == 200:
        mine.api.try_create("bad:1").failed(403, "image_not_allowed")
        id = reply.json["id"]
        mine.api.try_create(id).failed((400, 403, 404))
        mine.api.try_create(id[7:19]).failed((400, 403, 404))


def test_presets_and_own_names(served, hub):
    mine = served(CAY_CUSTOM_IMAGES=f"tools={hub.ref('team/app:1')},alias=other:1")
    assert which(mine, "python") == "preset" and which(mine, "node") == "node"
    assert which(mine, "tools") == "team" and which(mine, "alias") == "other"
    listed = mine.api.get("/images/catalog").ok()["images"]
    assert [(i["name"], i["kind"]) for i in listed][:2] == [("python", "preset"), ("node", "preset")]
    own = {i["name"]: i["reference"] for i in listed if i["kind"] == "custom"}
    assert set(own) == {"tools", "alias"} and own["tools"].endswith("team/app:1")
    out = cay(mine.daemon, "image", "catalog", check=True).stdout
    assert b"python" in out and b"tools" in out


def test_names_of_a_file_may_have_any_characters(served, hub, tmp_path):
    """As the keys of custom_images may, which are no names of images anywhere else."""
    names, port = ["My_Image:v1", "registry.example/x", "a=b,c;d", "größe", "../$x", "go"], free_port()
    (tmp_path / "config.yaml").write_text(json.dumps({
        "image_allowlist": names, "custom_images": {name: hub.ref("team/app:1") for name in [*names, "unlisted"]},
        "per_image_caps": {"a=b,c;d": {"max_cpus": 1, "max_memory_mb": 64}}}))
    mine = served(CAY_CONFIG=tmp_path / "config.yaml", CAY_WS_PORT=port)
    for name in names:
        assert which(mine, name) == "team", name
    for name in ("unlisted", "python", "*", hub.ref("team/app:1")):
        mine.api.try_create(name).failed(403, "image_not_allowed")
    mine.api.try_create("a=b,c;d", memory=128).failed(403, "image_cap_exceeded")
    iii = Iii(port)
    made = json.loads(iii("trigger", "sandbox::create", "image=My_Image:v1")[0])
    assert made["image"] == "My_Image:v1"
    assert iii("sandbox", "exec", made["sandbox_id"], "--", "cat", "/which")[0] == b"team\n"
    iii("sandbox", "stop", made["sandbox_id"])
    mine.pull("My_Image:v1")


def test_an_image_whose_name_gets_another_meaning_is_shown_whole(served, hub):
    mine = served()
    mine.pull("other:1")
    mine.daemon.extra["CAY_CUSTOM_IMAGES"] = f"other:1={hub.ref('team/app:1')}"
    mine.daemon.restart()
    assert "docker.io/library/other:1" in mine.names()
    assert which(mine, "other:1") == "team" and which(mine, "docker.io/library/other:1") == "other"


def test_presets_cannot_be_shadowed(served, daemon_of, hub, tmp_path):
    for wrong in ("python=x:1", "node=x:1", "=x:1", "a", "a=UPPER", "a=x:1,a=y:1", "A\tb=x:1", "{}x"):
        code, log = daemon_of(env={"CAY_CUSTOM_IMAGES": wrong}).refused()
        assert code != 0 and "CAY_CUSTOM_IMAGES" in log, wrong
    mine = served()
    layout = Image(base_layer(), layer(text("which", "shadow\n"))).layout(tmp_path / "layout")
    for name in ("python", "host"):
        mine.try_import(layout, name).failed(403, "image_reserved")
    mine.load(layout, "mine:1")
    mine.tag("mine:1", "node").failed(403, "image_reserved")
    assert which(mine, "python") == "preset"


def test_an_archive_that_is_called_like_a_preset_is_taken_and_says_so(served, tmp_path):
    """As `docker save python:3.12-slim` and our own export have it. A short name itself is not given away."""
    mine = served()
    own = Image(base_layer(), layer(text("which", "archive\n")))
    got = mine.load(own.layout(tmp_path / "layout", "docker.io/library/python:3.12-slim"))
    assert got["name"] == "python:3.12-slim" and len(got["warnings"]) == 1
    assert '"python" stands for' in got["warnings"][0] and "python:3.12-slim" in got["warnings"][0]
    assert which(mine, "python") == "archive"
    assert "warnings" not in mine.load(tmp_path / "layout", "python:3.12-slim")
    mine.try_import(own.layout(tmp_path / "short", "python:latest")).failed(403, "image_reserved")
    cay(mine.daemon, "image", "rm", "python:3.12-slim", check=True)
    done = cay(mine.daemon, "image", "import", tmp_path / "layout", check=True)
    assert b'"python" stands for' in done.stderr


def test_an_image_of_a_documented_name_serves_the_preset(served, hub, tmp_path):
    """Made by hand and called python:3.12-slim, it is what `python` means, without a registry."""
    mine = served(CAY_PULL_POLICY="never")
    layout = Image(base_layer(), layer(text("which", "made here\n"))).layout(tmp_path / "layout")
    mine.load(layout, "python:3.12-slim")
    for name in ("python:3.12-slim", "python", "docker.io/library/python:3.12-slim"):
        assert which(mine, name) == "made here", name


def test_caps(served, daemon_of, hub):
    mine = served(CAY_IMAGE_CAPS=f"python:cpu=0.5,memory=128;{hub.host}/team/*:memory=256")
    sandbox = mine.api.create("python")
    assert (sandbox["config"]["cpu"], sandbox["config"]["memory"]) == (0.5, 128)
    mine.api.remove(sandbox["id"])
    for fields in ({"cpu": 1}, {"memory": 129}, {"cpu": 0.5, "memory": 512}):
        said = mine.api.try_create("python", **fields).failed(403, "image_cap_exceeded")
        assert "at most" in said["error"]
    with mine.box("python", cpu=0.5, memory=100):
        pass
    mine.api.try_create(hub.ref("team/app:1"), memory=300).failed(403, "image_cap_exceeded")
    with mine.box("other:1", memory=512):
        pass
    nothing = served(CAY_IMAGE_CAPS="python:cpu=0")
    said = nothing.api.try_create("python").failed(403, "image_cap_exceeded")
    assert "CAY_IMAGE_CAPS" in said["error"]
    for wrong in ("python", "python:cpu=x", "python:disk=1", ":cpu=1", "python:cpu=0.1"):
        code, log = daemon_of(env={"CAY_IMAGE_CAPS": wrong}).refused()
        assert code != 0 and "CAY_IMAGE_CAPS" in log, wrong


def load_local(images, tmp_path, *names):
    """Local images with a file /which that holds their name: {name: id}."""
    return {name: images.load(Image(base_layer(), layer(text("which", name + "\n"))).layout(tmp_path / name),
                              name)["id"] for name in names}


@pytest.mark.parametrize("strict", (True, False))
def test_an_id_is_not_judged_by_a_custom_name_that_means_another_image(served, tmp_path, strict):
    mine = served()
    ids = load_local(mine, tmp_path, "img-a", "img-c")
    mine.daemon.extra.update(CAY_CUSTOM_IMAGES=json.dumps({"img-a": "img-c"}),
                             CAY_ALLOWED_IMAGES=json.dumps(["img-a"]),
                             CAY_IMAGE_STRICT="true" if strict else "false")
    mine.daemon.restart()
    assert which(mine, "img-a") == "img-c"
    id = ids["img-a"]
    for name in ("img-a:latest", id, id[:20], id[7:19], id[7:]):
        mine.api.try_create(name).failed(403, "image_not_allowed")
        mine.api.post("/templates", {"name": "t", "config": {"image": name}}).failed(403, "image_not_allowed")
        mine.api.post("/pool/profiles", {"image": name, "size": 1}).failed(403, "image_not_allowed")


def test_caps_by_id_are_those_of_the_image_and_not_of_a_custom_name(served, tmp_path):
    mine = served()
    ids = load_local(mine, tmp_path, "img-a", "img-c")
    mine.daemon.extra.update(CAY_CUSTOM_IMAGES="img-a=img-c",
                             CAY_IMAGE_CAPS=json.dumps({"img-a:latest": {"memory": 128}}))
    mine.daemon.restart()
    for name in ("img-a:latest", ids["img-a"], ids["img-a"][7:19]):
        mine.api.try_create(name, memory=129).failed(403, "image_cap_exceeded")
    with mine.box(ids["img-c"], memory=256):
        pass


def test_a_cap_holds_for_changes_and_clones_of_a_sandbox_that_was_made_by_id(served, tmp_path):
    mine = served(CAY_IMAGE_CAPS=json.dumps({"img-c": {"cpu": 0.5, "memory": 128}}))
    api, id = mine.api, load_local(mine, tmp_path, "img-c")["img-c"]
    for name in ("img-c", id, id[7:19]):
        with mine.box(name) as box:
            for fields in ({"memory": 1024, "cpu": 2}, {"memory": 129}, {"cpu": 0.6}):
                api.call("PATCH", f"/sandboxes/{box}", fields).failed(403, "image_cap_exceeded")
            api.call("PATCH", f"/sandboxes/{box}", {"memory": 100}).ok()
            clone = api.post(f"/sandboxes/{box}/clone", {}).ok()
            assert clone["config"]["memory"] == 100 and clone["config"]["cpu"] == 0.5
            api.remove(clone["id"])


def test_a_cap_that_came_later_holds_for_clones_by_id(served, tmp_path):
    mine = served()
    api, id = mine.api, load_local(mine, tmp_path, "img-c")["img-c"]
    boxes = [api.create(name, memory=512)["id"] for name in ("img-c", id)]
    mine.daemon.extra["CAY_IMAGE_CAPS"] = json.dumps({"img-c": {"memory": 128}})
    mine.daemon.restart()
    for box in boxes:
        api.post(f"/sandboxes/{box}/clone", {}).failed(403, "image_cap_exceeded")


def test_an_image_that_lost_its_name_is_not_without_caps(served, tmp_path):
    mine = served(CAY_IMAGE_CAPS=json.dumps({"img-c": {"memory": 128}}))
    api, id = mine.api, load_local(mine, tmp_path, "img-c")["img-c"]
    box = api.create(id)["id"]
    mine.load(Image(base_layer(), layer(text("which", "newer\n"))).layout(tmp_path / "newer"), "img-c")
    assert mine.show("img-c")["id"] != id
    api.call("PATCH", f"/sandboxes/{box}", {"memory": 129}).failed(403, "image_cap_exceeded")
    api.try_create(id, memory=129).failed(403, "image_cap_exceeded")
    assert api.create(id)["config"]["memory"] == 128
    api.call("PATCH", f"/sandboxes/{box}", {"memory": 100}).ok()
    api.post(f"/sandboxes/{box}/clone", {}).ok()


def test_without_auto_install_only_an_operator_brings_images(served, hub):
    mine = served(CAY_AUTO_INSTALL="false")
    said = mine.api.try_create("other:1").failed(404, "image_not_installed")
    assert "pull" in said["error"]
    mine.api.try_create("other:1", pull="always").failed((403, 404), "image_not_installed")
    mine.pull("other:1")
    assert which(mine, "other:1") == "other"


def test_the_strict_rule(served, hub):
    mine = served(CAY_IMAGE_STRICT="true", CAY_ALLOWED_IMAGES="python,tools",
                  CAY_CUSTOM_IMAGES=f"tools={hub.ref('team/app:1')},unlisted=other:1")
    assert which(mine, "python") == "preset" and which(mine, "tools") == "team"
    for name in ("node", "unlisted", "other:1", "python:3.12-slim", hub.ref("team/app:1")):
        mine.api.try_create(name).failed(403, "image_not_allowed")
    none = served(CAY_IMAGE_STRICT="true", CAY_ALLOWED_IMAGES="")
    none.api.try_create("python").failed(403, "image_not_allowed")


def test_pulling_and_removing_want_rights(daemon_of, hub):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "secret-of-the-tests",
                            "CAY_INSECURE_REGISTRIES": hub.host}).start()
    with daemon.api(token="wrong") as api:
        for method, path, body in (("POST", "/images/pull", {"reference": hub.ref("team/app:1")}),
                                   ("POST", "/images/prune", {}), ("DELETE", "/images/x", None),
                                   ("POST", "/images/x/tag", {"name": "y"}), ("GET", "/images", None),
                                   ("GET", "/images/x/export", None)):
            api.call(method, path, body).failed(403, "invalid_token")
    with daemon.api() as api:
        api.post("/images/pull", {"reference": hub.ref("team/app:1")}).ok()
        api.post("/images/import", {"path": "/etc", "name": "x:1"}).failed(403, "local_only")
        api.delete(Images.path(hub.ref("team/app:1"))).ok()
