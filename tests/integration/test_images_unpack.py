"""What a layer becomes on disk: the merged view of an image equals what umoci unpacks."""

import json
import os
import subprocess

import pytest

from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = [pytest.mark.core, needs_registry]

NS = 1_600_000_000_123_456_789  # a time with nanoseconds, which pax keeps


def at(ns):
    return {"mtime": ns / 1e9, "pax": {"mtime": f"{ns // 10**9}.{ns % 10**9:09d}"}}


def changed_entries():
    """Layer after layer: added, replaced, hidden, and hidden whole."""
    first = layer(
        folder("a"), text("a/kept", "kept"), text("a/hidden", "hidden"), text("a/replaced", "old"),
        folder("b"), text("b/old", "old"), folder("b/deep"), text("b/deep/old", "old"),
        folder("c"), text("c/old", "old"), folder("d"), text("d/file", "file"),
        text("becomes-dir", "file"), folder("becomes-file"), text("becomes-file/x", "x"),
        folder("becomes-link"), text("becomes-link/x", "x"), symlink("link", "a"),
        folder("again"), text("again/old", "old"))
    second = layer(
        folder("a", 0o700, uid=7, gid=8, **at(NS)), without("a/hidden"),
        text("a/replaced", "new", mode=0o600), folder("b"), opaque("b"), text("b/new", "new"),
        without("c"), folder("becomes-dir"), text("becomes-dir/y", "y"), text("becomes-file", "file"),
        symlink("becomes-link", "d"), without("link"), without("again"))
    third = layer(
        folder("c", 0o711), text("c/new", "new"), text("b/newer", "newer"), folder("again"),
        text("again/new", "new"), without("no-such-thing"), text("a/added", "added", uid=65535, gid=65535))
    return [first, second, third]


def opaque_last():
    """An opaque mark counts for the layers below, wherever in its own layer it stands."""
    return [layer(folder("o"), text("o/old", "old"), folder("p"), text("p/old", "old")),
            layer(folder("o"), text("o/new", "new"), opaque("o"), opaque("p"), folder("p"),
                  text("p/new", "new"))]


def odd_entries():
    names = ["plain", "with space", "ünï-☃", "tab\there", "new\nline", "-dash", "a" * 255, ".wha", ".whale",
             "back\\slash", "*?[x]", "..dots", "...", "%41"]
    deep = "/".join(["d" * 100] * 12)
    return [layer(
        folder("odd"), *(text(f"odd/{n}", n) for n in names),
        *(folder("/".join(deep.split("/")[:i])) for i in range(1, 13)), text(f"{deep}/end", "end"),
        folder("modes"),
        *(text(f"modes/{m:04o}", "x", mode=m) for m in (0, 0o400, 0o200, 0o111, 0o777, 0o4755, 0o2755,
                                                        0o6711, 0o1644)),
        folder("modes/none", 0), folder("modes/sticky", 0o1777), folder("modes/setgid", 0o2775),
        folder("owners"), *(text(f"owners/{u}-{g}", "x", uid=u, gid=g)
                            for u, g in ((1, 0), (1000, 1001), (65534, 65534), (65535, 65535))),
        folder("owners/dir", uid=1000, gid=1001), symlink("owners/link", "none", uid=1000, gid=1001),
        folder("times", **at(NS)), text("times/old", "x", mtime=0), text("times/ns", "x", **at(NS)),
        text("times/far", "x", mtime=4_000_000_000), text("times/before", "x", mtime=-86401), symlink("times/link", "x", **at(NS)),
        folder("links"), text("links/a", "same"), hardlink("links/b", "links/a"),
        hardlink("links/c", "links/b"), symlink("links/dangling", "../nowhere/at/all"),
        symlink("links/absolute", "/etc/passwd"), symlink("links/up", "../../../../.."),
        symlink("links/long", "x" * 4000), text("links/empty", ""), hardlink("links/empty2", "./links/empty"),
        folder("xattrs", xattrs={"user.of": "folder"}),
        text("xattrs/file", "x", xattrs={"user.one": "1", "user.two": "zwei ☃"}),
        folder("dot"), text("./dot/./file", "normal"), text("dot//slashes", "normal"))]


def twice_entries():
    """The same path more than once in one archive: the last one counts."""
    return [layer(
        folder("t"), text("t/file", "first"), text("t/file", "second"), text("t/dir", "file"),
        folder("t/dir"), text("t/dir/in", "in"), folder("t/f"), text("t/f/in", "in"),
        folder("t/l"), symlink("t/s", "file"), text("t/s", "now a file"), folder("t", 0o750),
        text("t/hard", "one"), hardlink("t/hard2", "t/hard"), text("t/hard", "two"))]


def umoci_made(layout):
    """An image that another program put together."""
    def umoci(*words):
        subprocess.run(["umoci", *map(str, words)], check=True, capture_output=True)

    tree = layout.parent / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "file").write_text("from the tree")
    (tree / "sub" / "other").write_text("other")
    os.chmod(tree / "sub", 0o2750)
    os.chown(tree / "file", 1000, 1001)
    os.symlink("file", tree / "link")
    os.link(tree / "file", tree / "sub" / "hard")
    os.setxattr(tree / "file", "user.from", b"tree")
    umoci("init", "--layout", layout)
    umoci("new", "--image", f"{layout}:1")
    umoci("insert", "--image", f"{layout}:1", tree, "/first")
    umoci("insert", "--image", f"{layout}:1", tree, "/second")
    umoci("insert", "--image", f"{layout}:1", "--whiteout", "/first/file")
    umoci("insert", "--image", f"{layout}:1", "--opaque", tree / "sub", "/second")
    umoci("config", "--image", f"{layout}:1", "--config.workingdir", "/first")


CASES = {"layers": changed_entries, "opaque": opaque_last, "odd": odd_entries, "twice": twice_entries,
         "busybox": lambda: [base_layer()], "umoci": None}

MOUNT_POINTS = {f"./{p}" for p in ("proc", "sys", "dev", "tmp", "run", "workspace", "etc", "etc/hosts",
                                   "etc/hostname", "etc/resolv.conf", "root", "home")}


def layers_of(images, name):
    """The directories of an image, topmost first, from the store's own record."""
    record = store_of(images.daemon) / "records" / f"{images.show(name)['id'].split(':')[1]}.json"
    dirs = [layer["dir"] for layer in json.loads(record.read_text())["layers"]]
    return [str(layers_dir(images.daemon) / d) for d in reversed(dirs)]


def differences(ours, theirs):
    out = []
    for path in sorted(ours.keys() | theirs.keys()):
        a, b = ours.get(path), theirs.get(path)
        if a is None or b is None:
            if not (b is None and path in MOUNT_POINTS):
                out.append(f"{path}: only {'umoci' if a is None else 'cay'} has it")
            continue
        for key in sorted(a.keys() | b.keys()):
            if path == "." and key in ("mtime", "mode"):
                continue  # no layer has an entry for the root itself
            if a.get(key) != b.get(key):
                out.append(f"{path}: {key} is {a.get(key)!r}, umoci has {b.get(key)!r}")
    return out


@pytest.mark.parametrize("case", CASES)
def test_an_unpacked_image_equals_what_umoci_unpacks(images, registry, tmp_path, case):
    layout = tmp_path / "layout"
    if CASES[case]:
        Image(*CASES[case]()).layout(layout, "1")
    else:
        umoci_made(layout)
    images.load(layout, f"same/{case}:1")
    expected = look_at(umoci_unpack(layout, "1", tmp_path / "bundle"))
    ours = look_at_merged(layers_of(images, f"same/{case}:1"), tmp_path / "merged")
    assert len(expected) > 3
    assert differences(ours, expected) == []
    subprocess.run(["skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{layout}:1",
                    f"docker://{registry.ref(f'same/{case}:1')}"], check=True, capture_output=True)
    images.pull(registry.ref(f"same/{case}:1"))
    pulled = look_at_merged(layers_of(images, registry.ref(f"same/{case}:1")), tmp_path / "merged")
    assert differences(pulled, expected) == []


def test_a_sandbox_sees_the_merged_view(images, tmp_path):
    first, second, third = changed_entries()
    images.load(Image(base_layer(), first, second, third).layout(tmp_path / "layout"), "merged:1")
    with images.box("merged:1") as id:
        seen = images.api.sh(id, "cd / && find a b c d again becomes-* | sort && cat a/replaced && "
                                 "readlink becomes-link && stat -c '%a %u %g' a a/added")
    assert seen.split("\n")[:-1] == [
        "a", "a/added", "a/kept", "a/replaced", "again", "again/new", "b", "b/new", "b/newer",
        "becomes-dir", "becomes-dir/y", "becomes-file", "becomes-link", "c", "c/new", "d", "d/file",
        "newd", "700 7 8", "644 65535 65535"]


def test_whiteouts_below_do_not_show_in_a_sandbox(images, tmp_path):
    """Neither the marks of the archive nor those of the overlay are files that anybody sees."""
    images.load(Image(base_layer(), *changed_entries()).layout(tmp_path / "layout"), "marks:1")
    with images.box("marks:1") as id:
        assert images.api.sh(id, "cd / && find a b c d again -name '.wh*' -o -type c") == ""
        images.api.sh(id, "echo x >/a/hidden && rm -r /b && mkdir /b && touch /b/old && rm /b/old")
        assert images.api.sh(id, "ls /b; cat /a/hidden") == "x\n"


def test_a_folder_that_a_layer_only_passes_through_keeps_its_looks(images, tmp_path):
    """A layer with home/app/x and no entry for home/app must not make that folder root's."""
    made = Image(base_layer(), layer(text("home/app/x", "x", uid=1000, gid=1001)))
    images.load(made.layout(tmp_path / "layout"), "passes:1")
    with images.box("passes:1") as id:
        assert images.api.sh(id, "stat -c '%a %u %g' /home/app") == "750 1000 1001\n"


def test_a_link_to_a_file_of_a_layer_below(images, tmp_path):
    """Its content is not in the archive: the layers below have it."""
    made = Image(base_layer(), layer(hardlink("etc/mark2", "etc/mark")))
    images.load(made.layout(tmp_path / "layout"), "across:1")
    with images.box("across:1") as id:
        assert images.api.sh(id, "cat /etc/mark2") == "of the image\n"


def test_rights_are_not_taken_from_an_archive(images, tmp_path):
    """File capabilities give rights; overlay marks change what layers below mean."""
    caps = bytes.fromhex("0100000200040000000000000000000000000000").decode("latin-1")
    made = Image(base_layer(), layer(
        folder("x", xattrs={"trusted.overlay.opaque": "y", "user.overlay.opaque": "y"}),
        text("x/cap", "x", xattrs={"security.capability": caps, "user.kept": "1"}),
        text("x/meta", "x", xattrs={"trusted.overlay.redirect": "/etc", "trusted.other": "1"})))
    images.load(made.layout(tmp_path / "layout"), "rights:1")
    top = layers_of(images, "rights:1")[0]
    for name in ("x", "x/cap", "x/meta"):
        kept = os.listxattr(f"{top}/{name}", follow_symlinks=False)
        assert [k for k in kept if not k.startswith("user.") or "overlay" in k] == [], name
    assert os.getxattr(f"{top}/x/cap", "user.kept") == b"1"


def test_devices_are_left_out_and_an_id_out_of_range_is_refused(images, tmp_path):
    import tarfile
    made = Image(base_layer(), layer(
        folder("n"), entry("n/null", tarfile.CHRTYPE, mode=0o666, device=(1, 3)),
        entry("n/disk", tarfile.BLKTYPE, device=(8, 0)), entry("n/pipe", tarfile.FIFOTYPE),
        entry("n/white", tarfile.CHRTYPE, device=(0, 0)), text("n/file", "x")))
    images.load(made.layout(tmp_path / "layout"), "nodes:1")
    with images.box("nodes:1") as id:
        assert images.api.sh(id, "ls /n") == "file\n"
    bad = Image(base_layer(), layer(text("x", "x", uid=4_294_967_295)))
    images.try_import(bad.layout(tmp_path / "bad"), "bad:1").failed(400)
    assert not images.has("bad:1")
