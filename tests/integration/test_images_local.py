"""Images without a registry: import, export, tag, rm, prune, commit, and what they take of the disk."""

import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from cay_harness import busybox_root, cay, wait_until
from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = [pytest.mark.core, needs_registry]

CONFIG = {"Env": ["PATH=/bin", "COLOR=blue"], "WorkingDir": "/home/app", "User": "app",
          "Cmd": ["/bin/echo", "hello"], "Labels": {"made.by": "tests"}, "ExposedPorts": {"80/tcp": {}},
          "StopSignal": "SIGINT"}


def sample(**how):
    return Image(base_layer(), layer(text("two", "second\n"), without("etc/mark"), folder("s", 0o2755),
                                     hardlink("two-too", "two"), symlink("to", "two"),
                                     text("s/own", "x", uid=1000, gid=1001, mode=0o4755,
                                          xattrs={"user.k": "v"})), config=CONFIG, **how)


def tar_of(path, to, mode="w"):
    with tarfile.open(to, mode) as tar:
        tar.add(path, arcname=".")
    return to


# ---- import ----


@pytest.mark.parametrize("form", ["dir", "tar", "tar.gz", "tar.xz", "tar.bz2", "tar.zst"])
def test_a_root_directory_and_a_tar_of_one(images, tmp_path, form):
    root = busybox_root(tmp_path / "root")
    path = root
    if form == "tar.zst":
        path = tmp_path / "root.tar.zst"
        subprocess.run(["zstd", "-q", tar_of(root, tmp_path / "root.tar"), "-o", path], check=True)
    elif form != "dir":
        path = tar_of(root, tmp_path / f"root.{form}", "w" + (f":{form[4:]}" if "." in form else ""))
    done = cay(images.daemon, "image", "import", path, "local/root:1", check=True)
    assert images.show("local/root:1")["id"].encode()[:19] in done.stdout
    with images.box("local/root:1") as id:
        assert images.api.sh(id, "cat /etc/mark") == "of the image\n"


@pytest.mark.parametrize("form", ["docker-archive", "oci dir", "oci tar", "oci-archive"])
def test_docker_save_and_oci_layouts(images, tmp_path, form):
    made = sample()
    layout = made.layout(tmp_path / "layout", "team/app:1")
    path = layout
    if form == "oci tar":
        path = tar_of(layout, tmp_path / "layout.tar")
    elif form != "oci dir":
        path = tmp_path / "archive.tar"
        subprocess.run(["skopeo", "copy", "-q", f"oci:{layout}:team/app:1", f"{form}:{path}:team/app:1"],
                       check=True, capture_output=True)
    got = images.load(path)
    assert got["name"] == "team/app:1"
    assert got["workdir"] == "/home/app" and got["user"] == "app" and "COLOR=blue" in got["env"]
    if form != "docker-archive":  # that one writes the configuration anew
        assert got["id"] == made.id
    with images.box("team/app:1") as id:
        assert images.api.sh(id, "cat /two; pwd; id -un; echo $COLOR; test ! -e /etc/mark") == \
            "second\n/home/app\napp\nblue\n"
    assert images.load(path, "other:2")["name"] == "other:2"
    assert len(layer_names(images.daemon)) == 2


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_saved_image_may_name_its_parts_as_it_likes(images, tmp_path, mode):
    """Not every tool calls them by digests; the list comes last, as some write it."""
    made = sample()
    parts = {"layer.tar": made.layers[0], "second.tar": made.layers[1],
             made.id: json.dumps(made.config).encode(),
             "manifest.json": json.dumps([{"Config": made.id, "RepoTags": ["odd/names:1"],
                                           "Layers": ["layer.tar", "second.tar"]}]).encode()}
    with tarfile.open(tmp_path / "saved", mode) as tar:
        for name, data in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    got = images.load(tmp_path / "saved")
    assert (got["name"], got["id"]) == ("odd/names:1", made.id)
    with images.box("odd/names:1") as id:
        assert images.api.sh(id, "cat /two") == "second\n"


def test_an_archive_of_two_images_wants_to_be_told_which(images, tmp_path):
    layout = tmp_path / "layout"
    sample().layout(layout, "one:1")
    other = Image(base_layer())
    for digest, data in {**other.blobs, other.digest: other.manifest}.items():
        (layout / "blobs" / "sha256" / digest[7:]).write_bytes(data)
    index = json.loads((layout / "index.json").read_text())
    index["manifests"].append(other.descriptor(
        annotations={"org.opencontainers.image.ref.name": "two:2"}))
    (layout / "index.json").write_text(json.dumps(index))
    failed = images.try_import(layout).failed(400)
    assert "one:1" in failed["error"] and "two:2" in failed["error"]
    assert images.load(layout, "two:2")["id"] == other.id


def test_a_layout_of_containerd_says_the_whole_name_beside_the_tag(images, tmp_path):
    """As `docker buildx` and `ctr` write it; a name that is given counts more."""
    layout = sample().layout(tmp_path / "layout", "1.0")
    images.try_import(layout).failed(400, "name_missing", "a tag alone is no name")
    index = json.loads((layout / "index.json").read_text())
    index["manifests"][0]["annotations"]["io.containerd.image.name"] = "docker.io/team/app:1.0"
    (layout / "index.json").write_text(json.dumps(index))
    assert images.load(layout)["name"] == "team/app:1.0"
    assert images.load(layout, "mine:2")["name"] == "mine:2"


def test_an_archive_without_a_name_wants_one(images, tmp_path):
    layout = Image(base_layer()).layout(tmp_path / "layout", None)
    images.try_import(layout).failed(400)
    images.load(layout, "named:1")
    root = busybox_root(tmp_path / "root")
    images.try_import(root).failed(400)


def test_what_is_no_image_is_refused_and_leaves_nothing(images, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "noise").write_bytes(os.urandom(100_000))
    (tmp_path / "cut.tar.gz").write_bytes(tar_of(busybox_root(tmp_path / "r"), tmp_path / "whole.tar.gz",
                                                 "w:gz").read_bytes()[:200_000])
    torn = sample().layout(tmp_path / "torn")
    next(p for p in (torn / "blobs" / "sha256").iterdir() if p.stat().st_size > 100_000).unlink()
    for name in ("empty", "noise", "cut.tar.gz", "torn", "none"):
        images.try_import(tmp_path / name, "bad:1").failed((400, 404, 413), text="")
        assert not images.has("bad:1")
    wait_until(lambda: not half_made(images.daemon) and not layer_names(images.daemon), what="nothing")


def test_a_changed_blob_of_a_layout_is_refused(images, tmp_path):
    made = sample()
    layout = made.layout(tmp_path / "layout")
    blob = layout / "blobs" / "sha256" / made.parts[1]["digest"][7:]
    blob.write_bytes(made.blobs[sample().parts[0]["digest"]])
    images.try_import(layout, "bad:1").failed(400, "digest_mismatch")


def test_import_tells_what_it_does(images, tmp_path):
    layout = sample().layout(tmp_path / "layout")
    events = list(images.api.events("POST", "/images/import", {"path": str(layout), "name": "x:1"}))
    assert events[-1]["event"] == "done" and events[-1]["image"]["name"] == "x:1"


# ---- export ----


def test_an_export_is_what_others_read_and_comes_back_the_same(images, tmp_path):
    made = sample()
    images.load(made.layout(tmp_path / "layout"), "out:1")
    path = tmp_path / "out.tar"
    done = cay(images.daemon, "image", "export", "out:1", path)
    assert done.returncode == 0, done
    shown = subprocess.run(["skopeo", "inspect", "--config", f"oci-archive:{path}"], check=True,
                           capture_output=True)
    config = json.loads(shown.stdout)["config"]
    for key, value in CONFIG.items():
        assert (set(value) <= set(config[key])) if key == "Env" else config[key] == value, key
    subprocess.run(["skopeo", "copy", "-q", f"oci-archive:{path}", f"oci:{tmp_path}/copy:1"], check=True,
                   capture_output=True)
    theirs = look_at(umoci_unpack(tmp_path / "copy", "1", tmp_path / "theirs"))
    ours = look_at(umoci_unpack(tmp_path / "layout", "latest", tmp_path / "ours"))
    for path_, item in ours.items():
        if path_ != ".":
            assert theirs.get(path_) == item, path_
    assert theirs.keys() - ours.keys() <= {f"./{p}" for p in ("run", "workspace", "etc/hosts", "etc/hostname",
                                                              "etc/resolv.conf")}
    docker = subprocess.run(["skopeo", "inspect", f"docker-archive:{path}"], capture_output=True)
    assert docker.returncode == 0, docker.stderr
    images.remove("out:1")
    assert images.load(path, "back:1")["user"] == "app"
    with images.box("back:1") as id:
        assert images.api.sh(id, "cat /two; stat -c '%a %u' /s/own; test ! -e /etc/mark") == \
            "second\n4755 1000\n"


def test_an_export_to_a_pipe_and_over_http(images, tmp_path):
    images.load(sample().layout(tmp_path / "layout"), "out:1")
    piped = cay(images.daemon, "image", "export", "out:1", check=True).stdout
    (tmp_path / "piped.tar").write_bytes(piped)
    images.export("out:1", tmp_path / "http.tar")
    for name in ("piped.tar", "http.tar"):
        with tarfile.open(tmp_path / name) as tar:
            assert {"oci-layout", "index.json", "manifest.json"} <= {m.name for m in tar}
    failed = cay(images.daemon, "image", "export", "host")
    assert failed.returncode == 1 and b"host" in failed.stderr
    assert cay(images.daemon, "image", "export", "none:1").returncode == 1


# ---- names ----


def test_tag_ls_inspect_rm(images, tmp_path):
    images.load(sample().layout(tmp_path / "layout"), "first:1")
    cay(images.daemon, "image", "tag", "first:1", "team/second", check=True)
    assert images.show("team/second")["id"] == images.show("first:1")["id"]
    listed = json.loads(cay(images.daemon, "image", "ls", "--json", check=True).stdout)
    assert {"host", "first:1", "team/second"} <= {i["name"] for i in listed}
    shown = json.loads(cay(images.daemon, "image", "inspect", "first:1", check=True).stdout)
    shown = shown[0] if isinstance(shown, list) else shown
    assert shown["labels"] == CONFIG["Labels"] and shown["user"] == "app" and shown["layers"] == 2
    cay(images.daemon, "image", "rm", "first:1", check=True)
    assert not images.has("first:1")
    with images.box("team/second") as id:
        assert images.api.sh(id, "cat /two") == "second\n"
    for old, new in (("none:1", "x"), ("host", "UPPER"), ("team/second", "")):
        assert cay(images.daemon, "image", "tag", old, new).returncode != 0, (old, new)
    assert cay(images.daemon, "image", "rm", "host").returncode != 0


def test_an_image_in_use_is_not_removed(images, tmp_path):
    images.load(sample().layout(tmp_path / "layout"), "used:1")
    images.tag("used:1", "other:1").ok()
    with images.box("used:1") as id:
        images.try_remove("other:1").ok()  # only a name of it
        failed = images.try_remove("used:1").failed(409)
        assert "sandbox" in failed["error"]
        images.api.sh(id, "cat /two")
    images.remove("used:1")
    wait_until(lambda: not layer_names(images.daemon), what="the layers to go")


# ---- prune ----


def several(images, tmp_path, n=4):
    """Images with a common base and half a megabyte each of their own, oldest first."""
    names = []
    for i in range(n):
        names.append(f"p/{i}:1")
        images.load(Image(base_layer(), layer(text("noise", os.urandom(500_000)))).layout(
            tmp_path / str(i)), names[-1])
    return names


def test_prune_takes_what_is_unused_and_nothing_in_use(images, tmp_path):
    names = several(images, tmp_path)
    with images.box(names[1]) as id:
        dry = images.prune(dryRun=True).ok()
        assert sorted(i["name"] for i in dry["removed"]) == sorted(set(names) - {names[1]})
        assert set(names) <= set(images.names()), "it was only asked"
        done = images.prune().ok()
        assert sorted(i["name"] for i in done["removed"]) == sorted(set(names) - {names[1]})
        assert 1_000_000 < done["bytes"] < 3_000_000, "what only they had"
        assert set(images.names()) == {"host", names[1]}
        wait_until(lambda: len(layer_names(images.daemon)) == 2, what="their layers to go")
        assert images.api.sh(id, "wc -c </noise") == "500000\n"
    done = cay(images.daemon, "image", "prune", "--yes", check=True)
    assert images.names() == ["host"], done
    assert images.prune().ok()["removed"] == []


def test_prune_by_age(images, tmp_path):
    names = several(images, tmp_path, 2)
    assert images.prune(unusedFor=3600).ok()["removed"] == []
    assert set(names) <= set(images.names())
    images.prune(unusedFor=-1).failed(400)


def test_prune_by_budget_takes_the_least_recently_used_first(images, tmp_path):
    names = several(images, tmp_path)
    total = sum(os.path.getsize(p) for p in [shutil.which("busybox")]) + 4 * 500_000
    with images.box(names[0]):
        done = images.prune(keepMb=3).ok()
    gone = [i["name"] for i in done["removed"]]
    assert names[0] not in gone and names[3] not in gone, gone
    assert gone and gone == names[1:1 + len(gone)], "oldest first, and not more than needed"
    assert total - 500_000 * len(gone) <= 3 << 20 or len(gone) == 3


def test_a_budget_of_the_daemon_holds_by_itself(daemon_of, tmp_path):
    daemon = daemon_of(env={"CAY_IMAGE_BUDGET": 3}).start()
    mine = Images(daemon)
    names = several(mine, tmp_path, 5)

    def small_enough():
        return sum(1 for n in mine.names() if n in names) <= 3 and mine.has(names[-1])

    wait_until(small_enough, 60, "the oldest to go")
    mine.clear()


# ---- commit ----


def test_a_sandbox_becomes_an_image(images, tmp_path):
    images.load(sample().layout(tmp_path / "layout"), "base:1")
    with images.box("base:1") as id:
        images.api.sh(id, "rm /two /bin/touch && echo new >/new && mkdir -m 0750 /d && echo x >/d/x && "
                          "ln /new /d/hard && rm -r /home && mkdir /home && cd /new/.. && "
                          "ln -s /new /link", user="root")
        done = cay(images.daemon, "image", "commit", id, "made:1")
        assert done.returncode == 0, done
        assert images.api.sh(id, "cat /new", user="root", cwd="/") == "new\n", "it runs on"
    got = images.show("made:1")
    assert got["user"] == "app" and "COLOR=blue" in got["env"]
    images.remove("base:1")
    with images.box("made:1", workdir="/") as id:
        out = images.api.sh(id, "cat /new /d/hard; ls /home; test ! -e /two; test ! -e /bin/touch; "
                                "readlink /link; stat -c '%a %u' /d; stat -c %h /new", user="root")
        assert out == "new\nnew\n/new\n750 0\n2\n"


def test_commit_changes_what_it_is_told_to(images, tmp_path):
    images.load(sample().layout(tmp_path / "layout"), "base:1")
    with images.box("base:1") as id:
        got = images.api.post(f"/sandboxes/{id}/commit", {
            "name": "told:1", "cmd": ["/bin/cat", "/two"], "workdir": "/", "user": "root",
            "env": {"A": "b"}, "labels": {"x": "y"}}).ok()
        assert got["name"] == "told:1" and got["labels"]["x"] == "y"
        images.api.post(f"/sandboxes/{id}/commit", {"name": "UPPER"}).failed(400)
        images.api.post(f"/sandboxes/{id}/commit", {"name": "host"}).failed((400, 403, 409))
    images.api.post("/sandboxes/sbx_" + "0" * 24 + "/commit", {"name": "x:1"}).failed(404)
    with images.box("told:1") as id:
        assert images.api.sh(id, "pwd; id -u; echo $A-$COLOR") == "/\n0\nb-blue\n"


def test_a_commit_of_a_commit_and_of_host(images):
    with images.box("host") as id:
        images.api.sh(id, "echo 1 >/workspace/one")
        images.api.post(f"/sandboxes/{id}/commit", {"name": "h:1"}).ok()
    with images.box("h:1") as id:
        images.api.sh(id, "cat /workspace/one && echo 2 >/workspace/two && rm /workspace/one")
        images.api.post(f"/sandboxes/{id}/commit", {"name": "h:2"}).ok()
    with images.box("h:2") as id:
        assert images.api.sh(id, "ls /workspace") == "two\n"
    assert cay(images.daemon, "image", "export", "h:2").returncode == 1


def test_a_committed_image_goes_out_and_comes_back(images, tmp_path):
    images.load(sample().layout(tmp_path / "layout"), "base:1")
    with images.box("base:1") as id:
        images.api.sh(id, "rm /two; echo new >/new; rm -r /s; mkdir /s; echo y >/s/y; "
                          "touch -d @-86401 /new", user="root")
        images.api.post(f"/sandboxes/{id}/commit", {"name": "made:1"}).ok()
    path = images.export("made:1", tmp_path / "made.tar")
    images.load(path, "back:1")
    with images.box("back:1") as id:
        assert images.api.sh(id, "cat /new; ls /s; stat -c %Y /new; test ! -e /two") == "new\ny\n-86401\n"


# ---- the disk ----


def test_a_second_sandbox_adds_no_disk_beyond_its_changes(images, tmp_path):
    images.load(Image(base_layer(), layer(text("noise", os.urandom(8_000_000)))).layout(tmp_path / "l"),
                "big:1")
    with images.box("big:1") as first:
        images.api.sh(first, "cat /noise >/dev/null")
        before = disk_usage(images.daemon.data)
        with images.box("big:1") as second:
            images.api.sh(second, "cat /noise >/dev/null; sync")
            grown = disk_usage(images.daemon.data) - before
            assert grown < 1_000_000, f"{grown} bytes for nothing"
            images.api.sh(second, "dd if=/dev/zero of=/own bs=1000000 count=2; sync")
    assert images.show("big:1")["size"] >= 8_000_000


def test_a_file_that_an_archive_would_take_for_a_whiteout_is_not_exported(images, tmp_path):
    images.load(Image(base_layer()).layout(tmp_path / "layout"), "base:1")
    with images.box("base:1") as id:
        images.api.sh(id, "mkdir /d && echo 1 >/d/.wh.etc && echo 2 >/d/kept")
        images.api.post(f"/sandboxes/{id}/commit", {"name": "odd:1"}).ok()
        images.api.sh(id, "rm /d/.wh.etc")
        images.api.post(f"/sandboxes/{id}/commit", {"name": "plain:1"}).ok()
    with images.box("odd:1") as id:
        assert images.api.sh(id, "cat /d/.wh.etc /d/kept") == "1\n2\n"
    said = images.api.get(images.path("odd:1") + "/export").failed(501, "whiteout_name")
    assert "d/.wh.etc" in said["error"]
    images.load(images.export("plain:1", tmp_path / "plain.tar"), "again:1")
    with images.box("again:1") as id:
        assert images.api.sh(id, "ls -A /d") == "kept\n"
