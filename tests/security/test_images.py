"""Hostile images, I01 to I08 and I14 of the threat model: whatever an archive or a registry says, nothing
outside the image's own layers changes, and what is refused leaves nothing behind."""

import contextlib
import copy
import gzip
import io
import json
import os
import socket
import subprocess
import tarfile
import tempfile

import pytest

from cay_harness import wait_until
from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = [pytest.mark.core, needs_registry]

SOURCES = ("pull", "import", "tar")


class Canary:
    """Files on the host that hostile images aim at."""

    def __init__(self, where):
        self.where = where
        where.mkdir()
        (where / "secret").write_text("of the host")
        (where / "secret").chmod(0o600)
        (where / "folder").mkdir()
        (where / "folder" / "kept").write_text("kept")
        self.before = look_at(where)

    def check(self):
        assert look_at(self.where) == self.before, "the host was touched"


@pytest.fixture
def canary(tmp_path):
    made = Canary(tmp_path / "canary")
    yield made
    made.check()


@pytest.fixture(scope="module")
def image_env():
    return {"CAY_MAX_IMAGE_SIZE": 300}


BELOW = layer(folder("bin"), folder("etc"), text("etc/passwd", "root:x:0:0::/:/bin/sh\n"),
              text("etc/group", "root:x:0:\n"), text("etc/mark", "of the image\n"))


def bring(images, proxy, tmp_path, source, *layers):
    """The layers as an image, by way of a registry, an OCI layout or (the last one) a plain archive."""
    if source == "tar":
        path = tmp_path / "layer.tar"
        path.write_bytes(layers[-1])
        return images.try_import(path, "hostile:1")
    image = Image(BELOW, *layers)
    if source == "import":
        return images.try_import(image.layout(tmp_path / "layout"), "hostile:1")
    return images.try_pull(proxy.serve_image("hostile/image:1", image), name="hostile:1")


@pytest.fixture
def every(images, proxy, tmp_path):
    """every(layers…) brings them in each of the ways and gives (way, reply); then all is gone again.
    With a blob, that is the last layer as it is."""
    def each(*layers, blob=None, coding="gzip", sources=SOURCES):
        for source in sources:
            where = Path(tempfile.mkdtemp(dir=tmp_path))
            if blob is None:
                yield source, bring(images, proxy, where, source, *layers)
            else:
                yield source, bring_blob(images, proxy, where, source, blob, coding)
            images.clear()
            proxy.reset()

    return each


def refused_or_contained(images, reply):
    """Typed refusals leave nothing; what is taken starts, or is refused at create."""
    if reply.status != 200:
        reply.failed((400, 413))
        assert not images.has("hostile:1")
        wait_until(lambda: not layer_names(images.daemon), what="nothing to be kept")
        return None
    created = images.api.try_create("hostile:1")
    if created.status == 200:
        images.api.get(f"/sandboxes/{created.json['id']}/processes")
        images.api.remove(created.json["id"])
    return reply.json


# ---- I01: paths ----


def long_path(n):
    return "/".join(["x" * 99] * (n // 100 + 1))[:n].rstrip("/")


PATHS = {
    "up": "../escaped", "up far": "../" * 40 + "{canary}/escaped", "absolute": "{canary}/escaped",
    "over": "a/../../escaped", "over far": "a/" + "../" * 40 + "{canary}/secret", "dot": "./", "dots": "..",
    "up at the end": "a/..", "4097": long_path(4097), "deep": "d/" * 1500 + "x",
}


@pytest.mark.parametrize("case", PATHS)
def test_i01_paths(images, every, canary, case):
    name = PATHS[case].format(canary=canary.where)
    for _, reply in every(layer(folder("a"), text(name, "escaped"), text("b", "after"))):
        refused_or_contained(images, reply)
        assert not (store_of(images.daemon) / "escaped").exists()
        assert not list(store_of(images.daemon).glob("*/escaped"))


@pytest.mark.parametrize("name", ["etc/pass\0wd", "", "/"], ids=["NUL", "empty", "root"])
def test_i01_names_that_are_none(images, every, canary, name):
    info, data = text("placeholder", "x")
    info.pax_headers["path"] = name
    for _, reply in every(layer((info, data))):
        refused_or_contained(images, reply)


# ---- I02: links ----


LINKS = {
    "symlink then through it": lambda c: [[symlink("d", c), text("d/secret", "changed")]],
    "symlink far up then through it": lambda c: [[symlink("d", "../" * 40 + c[1:]),
                                                  text("d/folder/kept", "changed")]],
    "across two layers": lambda c: [[symlink("d", c)], [text("d/secret", "changed")]],
    "folder over a symlink": lambda c: [[symlink("d", c), folder("d", 0o777), text("d/secret", "changed")]],
    "folder over a symlink of a layer below": lambda c: [[symlink("d", c)],
                                                          [folder("d", 0o777), text("d/new", "x")]],
    "hardlink to outside": lambda c: [[hardlink("h", f"{c}/secret"), text("h", "changed")]],
    "hardlink up": lambda c: [[hardlink("h", "../" * 40 + f"{c[1:]}/secret"), text("h", "changed")]],
    "hardlink through a symlink": lambda c: [[symlink("d", c), hardlink("h", "d/secret"),
                                              entry("h", data=b"changed", mode=0o666)]],
    "hardlink to a symlink, then over it": lambda c: [[symlink("s", f"{c}/secret"), hardlink("h", "s"),
                                                       text("h", "changed")]],
    "file over a symlink": lambda c: [[symlink("s", f"{c}/secret"), text("s", "changed")]],
    "chain of symlinks": lambda c: [[symlink("one", "two"), symlink("two", c), text("one/secret", "changed")]],
    "mode through a symlink": lambda c: [[symlink("s", f"{c}/secret"), entry("s", tarfile.DIRTYPE, mode=0o777)]],
    "symlink to the store": lambda c: [[symlink("d", "../.."), text("d/names/evil.json", "{}"),
                                        text("d/escaped", "x")]],
}


@pytest.mark.parametrize("case", LINKS)
def test_i02_links(images, every, canary, case):
    layers = LINKS[case](str(canary.where))
    before = set(os.listdir(store_of(images.daemon)))
    for sources, made in ((("pull", "import"), [layer(*entries) for entries in layers]),
                          (("tar",), [layer(*(e for entries in layers for e in entries))])):
        for _, reply in every(*made, sources=sources):
            refused_or_contained(images, reply)
            assert set(os.listdir(store_of(images.daemon))) == before
            canary.check()


# ---- I03: whiteouts ----


WHITEOUTS = {
    "of nothing": [text("etc/.wh.")], "of dot": [text("etc/.wh..")], "of the parent": [text("etc/.wh...")],
    "opaque twice": [text("etc/.wh...wh..opq")], "with a path": [text(".wh./etc", "x")],
    "as a folder": [folder("etc/.wh.passwd"), text("etc/.wh.passwd/x", "x")],
    "at the top, opaque": [text(".wh..wh..opq"), text("only", "x")],
    "of aufs": [text(".wh..wh.plnk/1.2", "x"), text(".wh..wh.aufs", "x")],
    "as a link": [symlink("etc/.wh.passwd", "{canary}"), hardlink("etc/.wh.group", "etc/mark")],
    "through a link": [symlink("d", "{canary}"), text("d/.wh.secret"), text("d/folder/.wh..wh..opq")],
    "a device": [entry("etc/passwd", tarfile.CHRTYPE, device=(0, 0))],
    "with content": [text("etc/.wh.mark", "content " * 1000)],
}


@pytest.mark.parametrize("case", WHITEOUTS)
def test_i03_whiteouts(images, every, canary, case):
    entries = []
    for info, data in WHITEOUTS[case]:
        info = copy.copy(info)
        info.linkname = info.linkname.format(canary=canary.where)
        entries.append((info, data))
    for _, reply in every(layer(*entries)):
        refused_or_contained(images, reply)
        canary.check()


def test_i03_overlay_marks_of_an_archive_are_not_taken(images, every, canary):
    marks = {"trusted.overlay.opaque": "y", "trusted.overlay.redirect": str(canary.where),
             "user.overlay.opaque": "y", "trusted.overlay.metacopy": "", "user.overlay.redirect": "/"}
    made = layer(folder("etc", xattrs=marks), text("etc/x", "x", xattrs=marks),
                 entry("etc/white", tarfile.CHRTYPE, device=(0, 0)))
    for source, reply in every(base_layer(), made):
        assert reply.status == 200, reply.body
        for name in layer_names(images.daemon):
            for top, _, files in os.walk(store_of(images.daemon) / "layers" / name):
                for path in [top, *(os.path.join(top, f) for f in files)]:
                    found = os.listxattr(path, follow_symlinks=False)
                    assert not [x for x in found if "overlay" in x], (path, found)
        if source != "tar":
            with images.box("hostile:1") as id:
                assert "passwd" in images.api.sh(id, "ls /etc"), "what is below still shows"


# ---- I04: bombs ----


def gzip_of_zeros(head, megabytes):
    """A valid stream of head and so many megabytes: each of its members is a few kilobytes."""
    member = gzip.compress(bytes(16 << 20), 9)
    return gzip.compress(head) + member * (megabytes // 16)


def big_file_header(size):
    info = tarfile.TarInfo("big")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def with_blob(image, blob, coding="gzip"):
    """Its last layer becomes this blob, digests of blob and all."""
    image.blobs.pop(image.parts[-1]["digest"])
    image.parts[-1].update(image.add(blob), mediaType=f"{OCI}.layer.v1.tar+{coding}")
    return image


def bring_blob(images, proxy, tmp_path, source, blob, coding="gzip"):
    if source == "tar":
        path = tmp_path / "bomb"
        path.write_bytes(blob)
        return images.try_import(path, "hostile:1")
    image = with_blob(Image(BELOW, layer(text("x"))), blob, coding)
    if source == "import":
        return images.try_import(image.layout(tmp_path / "layout"), "hostile:1")
    return images.try_pull(proxy.serve_image("hostile/bomb:1", image), name="hostile:1")


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_i04_bombs(images, every, coding):
    head = big_file_header(100 << 30)
    if coding == "gzip":
        blob = gzip_of_zeros(head, 2048)
    else:
        piece = subprocess.run(["zstd", "-q", "-c"], input=bytes(64 << 20), capture_output=True).stdout
        start = subprocess.run(["zstd", "-q", "-c"], input=head, capture_output=True).stdout
        blob = start + piece * 32
    assert len(blob) < 4 << 20
    before = disk_usage(images.daemon.data)
    for _, reply in every(blob=blob, coding=coding):
        reply.failed(413)
        wait_until(lambda: not layer_names(images.daemon), what="the disk to be given back")
        assert disk_usage(images.daemon.data) <= before + (1 << 20)


def test_i04_too_many_entries(images, every):
    """Entries that are left out count too, so this costs no inodes."""
    fifo = tarfile.TarInfo("f")
    fifo.type = tarfile.FIFOTYPE
    blob = gzip.compress(fifo.tobuf(tarfile.GNU_FORMAT) * 20_000, 9) * 105
    for _, reply in every(blob=blob, sources=("pull",)):  # five seconds each
        reply.failed(413)
        assert not images.has("hostile:1")


def test_i04_headers_and_windows_that_ask_for_memory(every):
    huge = tarfile.TarInfo("pax")
    huge.type, huge.size = tarfile.XHDTYPE, 8 << 30
    for _, reply in every(blob=gzip_of_zeros(huge.tobuf(tarfile.GNU_FORMAT), 512)):
        reply.failed((400, 413))
    # A zstd frame with a window of 2 GiB (descriptor 0xa8) and one raw, last block.
    content = layer(text("x", "x"))[:100_000]
    frame = b"\x28\xb5\x2f\xfd\x00\xa8" + (len(content) << 3 | 1).to_bytes(3, "little") + content
    for source, reply in every(blob=frame, coding="zstd"):
        if source != "tar":  # its diff id is another one in any case
            reply.failed((400, 413))


def test_i04_an_archive_in_an_archive_stays_one(every):
    inner = gzip.compress(gzip.compress(layer(text("x", "x"))))
    for source, reply in every(blob=inner):
        if source != "tar":
            reply.failed((400, 413))


# ---- I05: what gives rights ----


def test_i05_devices_and_capabilities(images, every):
    caps = bytes.fromhex("0100000200040000000000000000000000000000").decode("latin-1")
    root = [folder("bin"), text("bin/sh", "x", mode=0o4755, xattrs={"security.capability": caps}),
            entry("disk", tarfile.BLKTYPE, mode=0o666, device=(8, 0)),
            entry("null", tarfile.CHRTYPE, mode=0o666, device=(1, 3)), entry("pipe", tarfile.FIFOTYPE)]
    for _, reply in every(layer(*root)):
        assert reply.status == 200, reply.body
        seen = 0
        for name in layer_names(images.daemon):
            top = store_of(images.daemon) / "layers" / name
            assert not [n for n in ("disk", "null", "pipe") if os.path.lexists(top / n)]
            if (top / "bin" / "sh").is_file() and not (top / "bin" / "sh").is_symlink():
                assert os.listxattr(top / "bin" / "sh") == []
                seen += 1
        assert seen == 1


@pytest.mark.parametrize("uid", [4_294_967_295, 4_294_967_296, 2_000_000_000])
def test_i05_owners_out_of_range(images, every, uid):
    for _, reply in every(layer(text("x", "x", uid=uid))):
        reply.failed(400)
        assert not images.has("hostile:1")


def test_i05_the_stores_folder_is_roots_alone(images):
    """Setuid programs in it are of no use to other users of the host."""
    for path in (store_of(images.daemon), store_of(images.daemon) / "layers"):
        assert os.stat(path).st_mode & 0o077 == 0, path


# ---- I06: documents ----


def deep(n):
    return b"[" * n + b"]" * n


def documents():
    good = Image(layer(folder("bin")))
    many = dict(good.document, layers=good.parts * 1000)
    nested = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [good.descriptor()]})
    conf = good.document["config"]
    yield "not JSON", b"hello", MANIFEST
    yield "empty", b"", MANIFEST
    yield "deep", deep(100_000), MANIFEST
    yield "deep inside", b'{"schemaVersion":2,"x":' + deep(50_000) + b"}", MANIFEST
    yield "1,000 layers", json.dumps(many).encode(), MANIFEST
    yield "huge", b'{"schemaVersion":2,"x":"' + b"y" * (5 << 20) + b'"}', MANIFEST
    yield "an index that says manifest", nested.encode(), MANIFEST
    yield "a manifest that says index", good.manifest, INDEX
    yield "a web page", b"<html>log in first</html>", "text/html"
    yield "version 1", b'{"schemaVersion":1,"name":"x","fsLayers":[]}', \
        f"{DOCKER}.distribution.manifest.v1+prettyjws"
    yield "no layers, not even a list", json.dumps({**good.document, "layers": 5}).encode(), MANIFEST
    yield "a negative size", json.dumps(
        {**good.document, "layers": [{**good.parts[0], "size": -1}]}).encode(), MANIFEST
    yield "a size that is no number", json.dumps(
        {**good.document, "layers": [{**good.parts[0], "size": "1"}]}).encode(), MANIFEST
    for digest in ("sha256:../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "a" * 32, "", "sha256:"):
        yield f"digest {digest[:20]}", json.dumps(
            {**good.document, "layers": [{**good.parts[0], "digest": digest}]}).encode(), MANIFEST
    yield "the configuration as a layer", json.dumps(
        {**good.document, "layers": [{**good.parts[0], **{k: conf[k] for k in ("digest", "size")}}]}).encode(), \
        MANIFEST
    yield "a layer as the configuration", json.dumps(
        {**good.document, "config": {**conf, **{k: good.parts[0][k] for k in ("digest", "size")}}}).encode(), \
        MANIFEST
    yield "a layer twice", json.dumps({**good.document, "layers": good.parts * 2}).encode(), MANIFEST
    yield "a layer of an unknown kind", json.dumps(
        {**good.document, "layers": [{**good.parts[0], "mediaType": "application/x-evil"}]}).encode(), MANIFEST


@pytest.mark.parametrize("what, data, kind", list(documents()), ids=lambda v: v if isinstance(v, str) else "")
def test_i06_documents(images, proxy, what, data, kind):
    good = Image(layer(folder("bin")))
    proxy.serve_image("hostile/doc:1", good)
    proxy.serve("/v2/hostile/doc/manifests/1", data, kind)
    said = images.try_pull(proxy.ref("hostile/doc:1")).failed((400, 404, 413, 502, 503))
    assert said["code"] != "internal" and len(said["error"]) < 500
    assert images.names() == ["host"]
    wait_until(lambda: not layer_names(images.daemon), what="nothing to be cached")


@pytest.mark.parametrize("config", [
    b"[]", b"{}", deep(100_000), b'{"rootfs":{"type":"layers","diff_ids":[]}}',
    b'{"rootfs":{"type":"layers","diff_ids":["sha256:' + b"0" * 64 + b'"]}}',
    b'{"rootfs":{"type":"layers","diff_ids":["sha256:../../x"]}}'],
    ids=["array", "nothing", "deep", "no layers", "other layers", "bad digest"])
def test_i06_configurations(images, proxy, tmp_path, config):
    image = Image(layer(folder("bin")))
    image.document["config"].update(image.add(config))
    images.try_pull(proxy.serve_image("hostile/conf:1", image), name="hostile:1").failed((400, 413))
    images.try_import(image.layout(tmp_path / "layout"), "hostile:1").failed((400, 413))
    wait_until(lambda: not layer_names(images.daemon), what="nothing to be cached")


def test_i06_an_index_that_leads_to_itself(images, proxy):
    """A real one cannot, as digests are what they are; a server can say so, or nest without end."""
    image = Image(layer(folder("bin")))
    proxy.serve_image("hostile/cycle:1", image)
    below = image.descriptor(platform={"os": "linux", "architecture": "amd64"})
    for i in range(100):
        data = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [below]}).encode()
        proxy.serve(f"/v2/hostile/cycle/manifests/{sha256(data)}", data, INDEX)
        below = {"mediaType": INDEX, "digest": sha256(data), "size": len(data),
                 "platform": {"os": "linux", "architecture": "amd64"}}
    proxy.serve("/v2/hostile/cycle/manifests/1", data, INDEX)
    images.try_pull(proxy.ref("hostile/cycle:1")).failed(400)
    assert len(proxy.asked("/manifests/")) < 20
    proxy.reset()
    entry_ = {"mediaType": INDEX, "digest": "sha256:" + "1" * 64, "size": 10,
              "platform": {"os": "linux", "architecture": "amd64"}}
    data = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry_]}).encode()
    proxy.on("/manifests/", body(data, INDEX))
    images.try_pull(proxy.ref("hostile/cycle:1")).failed((400, 502, 503))
    assert len(proxy.asked("/manifests/")) < 20


@pytest.mark.parametrize("case", ["manifest.json", "index.json", "blob link", "layer path"])
def test_i06_archives_that_lead_outside(images, canary, tmp_path, case):
    """docker save archives and layouts name files: none of them is looked for outside."""
    image = Image(layer(folder("bin")))
    path = tmp_path / "archive.tar"
    if case == "manifest.json":
        path.write_bytes(layer(text("manifest.json", json.dumps(
            [{"Config": f"{canary.where}/secret", "RepoTags": ["x:1"], "Layers": ["../../secret"]}]))))
    elif case == "layer path":
        config = json.dumps(image.config)
        manifest = [{"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["l/secret"]}]
        path.write_bytes(layer(text("c.json", config), symlink("l", str(canary.where)),
                               text("manifest.json", json.dumps(manifest))))
    else:
        path = image.layout(tmp_path / "layout")
        blob = path / "blobs" / "sha256" / image.id[7:]
        if case == "blob link":
            blob.unlink()
            blob.symlink_to(canary.where / "secret")
        else:
            (path / "index.json").unlink()
            (path / "index.json").symlink_to(canary.where / "secret")
    reply = images.try_import(path, "hostile:1")
    assert b"of the host" not in reply.body
    if reply.status != 200:  # else it was taken for a plain root, links and all
        reply.failed((400, 404))
    found = subprocess.run(["grep", "-rl", "of the host", str(store_of(images.daemon))], capture_output=True)
    assert found.returncode == 1, found.stdout


# ---- I07: where requests and credentials go ----


@pytest.fixture
def link_local():
    """A server at an address that no pull may reach, and which this test itself can."""
    address = "169.254.77.7"
    subprocess.run(["ip", "address", "replace", f"{address}/32", "dev", "lo"], check=True)  # a run that was killed left it
    server = None
    try:
        server = Proxy(address=address)
        with contextlib.closing(socket.create_connection((address, int(server.host.split(":")[1])), 60)):
            pass  # the control: it can be reached
        yield server
    finally:
        if server:
            server.stop()
        subprocess.run(["ip", "address", "del", f"{address}/32", "dev", "lo"], check=True)


def test_i07_link_local_addresses_are_not_reached(images, proxy, link_local):
    image = Image(BELOW, layer(text("x", os.urandom(1000))))
    ref = proxy.serve_image("hostile/meta:1", image)
    blob = image.parts[1]["digest"]
    link_local.serve("/latest", image.blobs[blob])
    proxy.on(blob, redirect(f"{link_local.url}/latest"))
    images.try_pull(ref).failed((400, 403, 502, 503))
    images.try_pull(f"{link_local.host}/x/y:1", insecure=True).failed((400, 403, 502, 503))
    proxy.reset()
    proxy.with_tokens(realm=f"{link_local.url}/token")
    images.try_pull(ref, registry_auth={"username": USER, "password": PASSWORD}).failed((400, 403, 502, 503))
    assert not link_local.seen


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1:1/x",
                                 "http://127.0.0.1:1/", "//169.254.169.254/x", "http://[fe80::1]/x"])
def test_i07_redirects_to_odd_places(images, proxy, url):
    image = Image(BELOW, layer(text("x", os.urandom(1000))))
    ref = proxy.serve_image("hostile/odd:1", image)
    proxy.on(image.parts[1]["digest"], redirect(url))
    said = images.try_pull(ref).failed((400, 403, 502, 503))
    assert "root:" not in said["error"]


def test_i07_credentials_do_not_follow_a_realm_into_the_clear(images, proxy, elsewhere):
    image = Image(BELOW)
    ref = proxy.serve_image("hostile/realm:1", image)
    proxy.with_tokens(realm=f"{elsewhere.url}/token")
    elsewhere.on("/token", body(b'{"token":"x"}', "application/json"))
    images.try_pull(ref, registry_auth={"username": USER, "password": PASSWORD}).failed((400, 403, 502, 503))
    assert not any("Authorization" in s.headers for s in elsewhere.seen)
    assert not any(PASSWORD in s.path for s in elsewhere.seen)


def test_i07_a_token_service_elsewhere_gets_a_login_only_by_the_operators_word(daemon_of, proxy, elsewhere):
    image = Image(BELOW)
    ref = proxy.serve_image("hostile/realm:1", image)
    login = {"username": USER, "password": PASSWORD}
    hosts = {"CAY_INSECURE_REGISTRIES": f"{proxy.host},{elsewhere.host}"}
    elsewhere.on("/token", lambda h, _: h.reply(
        200, json.dumps({"token": proxy.token["value"]}).encode(), "application/json"))
    proxy.with_tokens(realm=f"{elsewhere.url}/token")
    mine = Images(daemon_of(env=hosts).start())
    said = mine.try_pull(ref, registry_auth=login).failed(403, "registry_denied")
    assert f"CAY_REGISTRY_REALMS must have {proxy.host}=127.0.0.2" in said["error"]
    assert not elsewhere.seen
    allowed = Images(daemon_of(env={**hosts, "CAY_REGISTRY_REALMS": f"{proxy.host}=127.0.0.2"}).start())
    allowed.pull(ref, registry_auth=login)
    assert elsewhere.asked("^/token")[0].headers["Authorization"] == basic()
    allowed.clear()


def test_i07_a_redirected_manifest_gets_no_credentials(daemon_of, proxy, elsewhere):
    image = Image(BELOW)
    proxy.serve_image("hostile/there:1", image)
    elsewhere.serve_image("hostile/there:1", image)
    token = proxy.with_tokens()
    proxy.on("/manifests/", redirect(lambda path: f"{elsewhere.url}{path}"))
    mine = Images(daemon_of(env={"CAY_INSECURE_REGISTRIES": f"{proxy.host},{elsewhere.host}"}).start())
    mine.pull(proxy.ref("hostile/there:1"), registry_auth={"username": USER, "password": PASSWORD})
    assert elsewhere.asked("/manifests/"), "the redirect was not followed"
    assert any(token["value"] in str(request.headers) for request in proxy.seen)
    for request in elsewhere.seen:
        assert token["value"] not in str(request.headers) and "Authorization" not in request.headers
    mine.clear()


# ---- I08: the image's own programs ----


def test_i08_nothing_of_an_image_runs_on_the_host(images, registry, tmp_path):
    """Helpers and libraries that host code might pick up by name; each would leave a mark."""
    mark = tmp_path / "marks"
    mark.mkdir(mode=0o777)
    script = f"#!/bin/sh\ntouch {mark}/$(basename $0)\n"
    names = ("xz", "unxz", "gzip", "unpigz", "zstd", "tar", "bzip2", "mount", "mke2fs", "cay-image",
             "docker-credential-evil", "getent", "useradd", "true")
    entries = [folder("usr/sbin"), folder("sbin"), folder("lib"), folder("usr/local"), folder("usr/local/bin")]
    for where in ("bin", "usr/bin", "usr/local/bin", "sbin"):
        entries += [text(f"{where}/{n}", script, mode=0o4755) for n in names if (where, n) != ("bin", "true")]
    entries += [text("lib/libnss_files.so.2", "not a library"), text("lib/libnss_evil.so.2", "not one"),
                text("etc/nsswitch.conf", "passwd: evil\ngroup: evil\n"),
                text("etc/ld.so.preload", "/lib/libnss_evil.so.2\n"),
                folder("root/.docker"), text("root/.docker/config.json", '{"credsStore":"evil"}')]
    image = Image(base_layer(), layer(*entries), config={"User": "app", "Env": ["PATH=/usr/local/bin:/bin"]})
    control = tmp_path / "control"
    control.write_text(script)
    control.chmod(0o755)
    subprocess.run([control], check=True)
    assert os.listdir(mark) == ["control"], "the control leaves one"
    os.unlink(mark / "control")
    ref = registry.push("hostile/helpers:1", image)
    images.pull(ref)
    with images.box(ref) as id:
        assert images.api.exec(id, "id -u")["exitCode"] is not None
        images.api.file(id, "write", path="/tmp/x", content="x")
        images.api.file(id, "download", path="/etc")
        images.api.post(f"/sandboxes/{id}/commit", {"name": "hostile:2"})
    images.export(ref, tmp_path / "out.tar")
    assert os.listdir(mark) == []


# ---- I14: archives that were written here, and changed before they come back ----


def rewritten(source, to, change):
    """The archive with each entry as change(name, data) gives it: data, a TarInfo, or None to leave it out."""
    with tarfile.open(source) as old, tarfile.open(to, "w") as new:
        for member in old:
            data = old.extractfile(member).read()
            made = change(member.name, data)
            if isinstance(made, tarfile.TarInfo):
                new.addfile(made)
            elif made is not None:
                member.size = len(made)
                new.addfile(member, io.BytesIO(made))
    return to


def link_to(target):
    def change(name):
        made = tarfile.TarInfo(name)
        made.type, made.linkname = tarfile.SYMTYPE, target
        return made
    return change


def is_layer(name, data):
    return name.startswith("blobs/") and data[257:262] == b"ustar"


def is_config(name, data):
    return name.startswith("blobs/") and b'"rootfs"' in data


def without_saved(change):
    """As an OCI layout alone: what `docker save` would have beside it is left out."""
    return lambda name, data: None if name == "manifest.json" else change(name, data)


def as_json(data, **changes):
    return json.dumps({**json.loads(data), **changes}).encode()


TAMPERED = {
    "a byte of a layer": lambda c: lambda n, d: flipped(d) if is_layer(n, d) else d,
    "a layer for another": lambda c: lambda n, d: layer(text("etc/evil", "x")) if is_layer(n, d) else d,
    "a layer left out": lambda c: lambda n, d: None if is_layer(n, d) else d,
    "the configuration": lambda c: without_saved(
        lambda n, d: as_json(d, config={"User": "evil"}) if is_config(n, d) else d),
    "a layer that is a link out": lambda c: lambda n, d: link_to(f"{c}/secret")(n) if is_layer(n, d) else d,
    "a configuration that is a link out": lambda c: lambda n, d: link_to(f"{c}/secret")(n) if is_config(n, d) else d,
    "an index that is a link out": lambda c: without_saved(
        lambda n, d: link_to(f"{c}/secret")(n) if n == "index.json" else d),
    "a newer layout": lambda c: without_saved(
        lambda n, d: b'{"imageLayoutVersion":"2.0.0"}' if n == "oci-layout" else d),
    "a newer index": lambda c: without_saved(
        lambda n, d: as_json(d, schemaVersion=3) if n == "index.json" else d),
}


@pytest.fixture
def exported(images, tmp_path):
    """What was made of a sandbox here, as an archive; the store is empty again."""
    images.load(Image(BELOW).layout(tmp_path / "layout"), "made:1")
    images.export("made:1", tmp_path / "made.tar")
    images.clear()
    return tmp_path / "made.tar"


def nothing_in_the_store(images):
    assert images.names() == ["host"]
    for part in ("layers", "records", "names"):
        wait_until(lambda: not os.listdir(store_of(images.daemon) / part), what=f"no {part}")


def test_i14_the_archive_itself_comes_back(images, exported):
    images.load(exported)
    assert images.names() == ["host", "made:1"]


@pytest.mark.parametrize("what", TAMPERED)
def test_i14_a_tampered_archive_has_no_effect(images, exported, canary, tmp_path, what):
    path = rewritten(exported, tmp_path / "bad.tar", TAMPERED[what](str(canary.where)))
    reply = images.try_import(path)
    reply.failed(400)
    assert b"of the host" not in reply.body
    nothing_in_the_store(images)


@pytest.mark.parametrize("docker", [False, True])
def test_i14_an_archive_for_another_machine_has_no_effect(images, tmp_path, docker):
    image = Image(BELOW, platform="s390x")
    path = image.layout(tmp_path / "layout")
    if docker:
        path = tmp_path / "saved.tar"
        path.write_bytes(layer(
            text("c.json", json.dumps(image.config)), text("l.tar", BELOW),
            text("manifest.json", json.dumps([{"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["l.tar"]}]))))
    images.try_import(path, "other:1").failed(404, "no_platform")
    nothing_in_the_store(images)
