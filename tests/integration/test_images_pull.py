"""Images from a registry: every form that they come in, every way that a transfer goes wrong."""

import json
import os
import re
import signal
import subprocess
import threading

import pytest

from cay_harness import CAY, cay, wait_until
from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = [pytest.mark.core, needs_registry]

BLOBS = r"/blobs/sha256:"


@pytest.fixture(scope="module")
def docker_config(tmp_path_factory):
    """A folder with a config.json that tests write, and with credential helpers on the PATH."""
    where = tmp_path_factory.mktemp("docker")
    (where / "config.json").write_text("{}")
    (where / "bin").mkdir()
    yield where


@pytest.fixture(scope="module")
def image_env(docker_config, locked, secure, certificates, elsewhere_server):
    return {"CAY_DOCKER_CONFIG": docker_config / "config.json",
            "CAY_INSECURE_REGISTRIES": f"{locked.host},{elsewhere_server.host}",
            "CAY_REGISTRY_CA": certificates["ca"],
            "PATH": f"{docker_config / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture
def no_credentials(docker_config):
    yield docker_config
    (docker_config / "config.json").write_text("{}")


@pytest.fixture(scope="module")
def two_layers():
    """A base that others share, and a layer of its own that is large enough to be cut in two."""
    return Image(base_layer(), layer(text("two", "second\n"), text("noise", os.urandom(700_000)),
                                     without("etc/mark")))


@pytest.fixture(scope="module")
def pushed(registry, two_layers):
    registry.push("t/two:1", two_layers)
    registry.push("t/one:1", Image(base_layer()))
    return two_layers


def big_blob(image):
    return image.parts[-1]["digest"]


def said(events):
    return [e["event"] for e in events]


def nothing_kept(images):
    assert images.names() == ["host"]
    wait_until(lambda: not layer_names(images.daemon), what="no layers")


# ---- forms ----


@pytest.mark.parametrize("coding, docker", [("gzip", False), ("zstd", False), (None, False),
                                            ("gzip", True), (None, True)])
def test_every_form_of_an_image_runs(images, registry, coding, docker):
    made = Image(base_layer(), layer(text("two", "second\n"), without("etc/mark")), coding=coding,
                 docker=docker)
    ref = registry.push(f"forms/{coding or 'plain'}:{'docker' if docker else 'oci'}", made)
    got = images.pull(ref)
    assert (got["name"], got["id"], got["digest"]) == (ref, made.id, made.digest)
    assert got["size"] > 1_000_000 and ref in images.names()
    with images.box(ref) as id:
        assert images.api.sh(id, "cat /two; id -u; test ! -e /etc/mark") == "second\n0\n"
    assert len(layer_names(images.daemon)) == 2


@pytest.mark.parametrize("how", [["--format", "v2s2"], ["--dest-compress-format", "zstd"]])
def test_what_skopeo_pushed_runs(images, registry, tmp_path, two_layers, how):
    layout = two_layers.layout(tmp_path / "layout", "1")
    name = f"skopeo/{how[1]}:1"
    subprocess.run(["skopeo", "copy", "-q", "--dest-tls-verify=false", *how, f"oci:{layout}:1",
                    f"docker://{registry.ref(name)}"], check=True, capture_output=True)
    images.pull(registry.ref(name))
    with images.box(registry.ref(name)) as id:
        assert images.api.sh(id, "cat /two") == "second\n"


def test_an_index_gives_this_machines_platform_or_the_one_asked_for(images, registry):
    here = Image(base_layer(), layer(text("arch", "amd64")))
    there = Image(layer(folder("bin"), text("arch", "arm64")), platform="arm64")
    ref = registry.push_index("t/multi:1", amd64=here, arm64=there)
    assert images.pull(ref)["id"] == here.id
    other = images.pull(ref, platform="linux/arm64", name="other:1")
    assert other["id"] == there.id and other["name"] == "other:1"
    assert other["platform"].startswith("linux/arm64")
    failed = images.try_pull(ref, platform="linux/s390x").failed((400, 404))
    assert "s390x" in failed["error"] and "amd64" in failed["error"]


def test_a_digest_names_exactly_one_image(images, registry, pushed):
    ref = registry.ref(f"t/two@{pushed.digest}")
    assert images.pull(ref)["id"] == pushed.id
    with images.box(ref) as id:
        assert images.api.sh(id, "cat /two") == "second\n"
    other = registry.ref("t/two@sha256:" + "0" * 64)
    images.try_pull(other).failed(404, "image_not_found")


def test_an_image_is_found_by_its_id_and_by_its_name(images, registry, pushed):
    ref = registry.ref("t/two:1")
    images.pull(ref, name="short:1")
    for name in ("short:1", "docker.io/library/short:1", pushed.id, pushed.id[7:7 + 12]):
        assert images.show(name)["id"] == pushed.id, name
    assert not images.has(ref)


def test_what_is_not_there_is_said_so(images, registry):
    for name in ("t/none:1", "t/one:none"):
        failed = images.try_pull(registry.ref(name)).failed(404, "image_not_found")
        assert name in failed["error"]
    for bad in ("", "UPPER", "a b", "x:" + "y" * 200, "../x", "http://x/y", "a@sha256:12"):
        images.try_pull(bad).failed(400)
    nothing_kept(images)


# ---- sharing ----


def test_images_share_layers_and_a_second_pull_loads_nothing(images, proxy, pushed):
    images.pull(proxy.ref("t/one:1"))
    shared = set(layer_names(images.daemon))
    assert len(proxy.asked(BLOBS + pushed.parts[0]["digest"][7:])) == 1
    proxy.seen.clear()
    images.pull(proxy.ref("t/two:1"))
    assert not proxy.asked(BLOBS + pushed.parts[0]["digest"][7:]), "it was here already"
    assert len(proxy.asked(BLOBS + big_blob(pushed)[7:])) == 1
    assert shared < layer_names(images.daemon) and len(layer_names(images.daemon)) == 2
    proxy.seen.clear()
    again = images.pull(proxy.ref("t/two:1"))
    assert again["id"] == pushed.id
    assert not any(proxy.asked(part["digest"]) for part in pushed.parts)


def test_a_layer_stays_while_an_image_needs_it(images, registry, pushed):
    for name in ("t/one:1", "t/two:1"):
        images.pull(registry.ref(name))
    images.remove(registry.ref("t/two:1"))
    wait_until(lambda: len(layer_names(images.daemon)) == 1, what="its own layer to go")
    with images.box(registry.ref("t/one:1")) as id:
        assert images.api.sh(id, "cat /etc/mark") == "of the image\n"


def test_a_name_that_moves_leaves_running_sandboxes_alone(images, registry):
    ref = registry.push("t/moves:1", Image(base_layer(), layer(text("v", "one\n"))))
    images.pull(ref)
    with images.box(ref) as old:
        registry.push("t/moves:1", Image(base_layer(), layer(text("v", "two\n"))))
        images.pull(ref)
        assert images.api.sh(old, "cat /v") == "one\n"
        with images.box(ref) as new:
            assert images.api.sh(new, "cat /v") == "two\n"
        assert len(layer_names(images.daemon)) == 3
    wait_until(lambda: len(layer_names(images.daemon)) == 2, what="the old layer to go")


# ---- create pulls ----


def in_threads(n, function):
    results = [None] * n

    def one(i):
        try:
            results[i] = function(i)
        except BaseException as e:
            results[i] = e

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    return threads, results


def test_parallel_creates_of_a_missing_image_are_one_pull(images, proxy, pushed):
    gate = proxy.gate(BLOBS + big_blob(pushed)[7:], after=1000)
    ref = proxy.ref("t/two:1")
    threads, results = in_threads(4, lambda i: images.api.again().create(ref))
    gate.wait_reached()
    gate.open()
    for t in threads:
        t.join(60)
    assert all(isinstance(r, dict) for r in results), results
    for part in pushed.parts:
        assert len(proxy.asked(part["digest"])) == 1, proxy.seen
    for r in results:
        assert images.api.sh(r["id"], "cat /two") == "second\n"
        images.api.remove(r["id"])


def test_a_unique_name_is_taken_while_its_image_comes_and_free_when_nobody_waits(images, proxy, pushed):
    body = {"image": proxy.ref("t/two:1"), "name": "coming", "unique": True}
    gate = proxy.gate(BLOBS + big_blob(pushed)[7:], after=1000)
    stream = images.api.events("POST", "/sandboxes", body)
    next(stream)
    gate.wait_reached()
    images.api.try_create(name="coming", unique=True).failed(409, "name_taken", "being made")
    images.api.get("/sandboxes/coming").failed(404)
    stream.close()

    def taken():
        reply = images.api.try_create(name="coming", unique=True)
        return reply.json if reply.status == 200 else reply.failed(409, "name_taken") and None

    images.api.remove(wait_until(taken, what="the name to be free")["id"])
    assert gate.left.wait(60), "the transfer goes on"


def test_create_pulls_what_is_missing_and_only_that(images, proxy, pushed):
    ref = proxy.ref("t/two:1")
    with images.box(ref) as id:
        assert images.api.sh(id, "cat /two") == "second\n"
    proxy.seen.clear()
    with images.box(ref):
        assert not proxy.seen, "it is here"


def test_a_policy_of_never_and_of_always(images, proxy, registry, pushed):
    ref = proxy.ref("t/policy:1")
    registry.push("t/policy:1", Image(base_layer(), layer(text("v", "one\n"))))
    images.api.try_create(ref, pull="never").failed(404, "image_not_found")
    assert not proxy.seen
    with images.box(ref, pull="missing") as id:
        assert images.api.sh(id, "cat /v") == "one\n"
    registry.push("t/policy:1", Image(base_layer(), layer(text("v", "two\n"))))
    with images.box(ref, pull="never") as id:
        assert images.api.sh(id, "cat /v") == "one\n"
    with images.box(ref, pull="always") as id:
        assert images.api.sh(id, "cat /v") == "two\n"
    images.api.try_create(ref, pull="sometimes").failed(400)


def test_the_daemons_policy_is_the_default(daemon_of, registry, pushed):
    daemon = daemon_of(env={"CAY_PULL_POLICY": "never", "CAY_INSECURE_REGISTRIES": registry.host}).start()
    with daemon.unix_api() as api:
        api.try_create(registry.ref("t/one:1")).failed(404, "image_not_found")
    code, log = daemon_of(env={"CAY_PULL_POLICY": "perhaps"}).refused()
    assert code != 0 and "CAY_PULL_POLICY" in log


def test_a_create_that_cannot_pull_says_why(images, proxy):
    proxy.on("/manifests/", status(404))
    failed = images.api.try_create(proxy.ref("t/gone:1")).failed(404, "image_not_found")
    assert "t/gone:1" in failed["error"]
    assert not images.api.ids()


# ---- progress ----


def test_a_pull_tells_what_it_does(images, proxy, pushed):
    gate = proxy.gate(BLOBS + big_blob(pushed)[7:], after=300_000)
    events, seen = [], threading.Event()

    def watch():
        for event in images.api.events("POST", "/images/pull", {"reference": proxy.ref("t/two:1")}):
            events.append(event)
            if event["event"] == "layer" and 0 < event["downloaded"] < event["total"]:
                seen.set()

    thread = threading.Thread(target=watch)
    thread.start()
    gate.wait_reached()
    assert seen.wait(60), f"no word of the part that came: {events}"
    gate.open()
    thread.join(30)
    kinds = said(events)
    assert kinds[0] == "resolving" and kinds[-1] == "done" and "error" not in kinds
    resolved = events[kinds.index("resolved")]
    assert resolved["digest"] == pushed.digest and resolved["layers"] == 2
    assert resolved["bytes"] == sum(p["size"] for p in pushed.parts)
    layers = [e for e in events if e["event"] == "layer"]
    for i, part in enumerate(pushed.parts):
        mine = [e for e in layers if e["index"] == i]
        assert mine and mine[-1]["state"] == "done" and mine[-1]["total"] == part["size"]
        assert mine[-1]["downloaded"] == part["size"]
        grown = [e["downloaded"] for e in mine]
        assert grown == sorted(grown)
    assert kinds.index("storing") > kinds.index("layer") > kinds.index("resolved")
    assert events[-1]["image"]["id"] == pushed.id
    again = images.pull_events(proxy.ref("t/two:1"))
    assert {e["state"] for e in again if e["event"] == "layer"} == {"present"}


def test_a_pull_that_fails_ends_its_events_with_the_error(images, proxy):
    proxy.on("/manifests/", status(404))
    events = images.pull_events(proxy.ref("t/none:1"))
    assert events[-1]["event"] == "error" and events[-1]["code"] == "image_not_found"
    assert "t/none:1" in events[-1]["error"]


def test_a_create_that_waits_for_a_pull_says_so(images, proxy, pushed):
    events = list(images.api.events("POST", "/sandboxes", {"image": proxy.ref("t/two:1")}))
    kinds = said(events)
    assert "resolved" in kinds and "layer" in kinds and kinds[-1] == "sandbox"
    sandbox = events[-1].get("sandbox", events[-1])
    assert sandbox["status"] == "running"
    images.api.remove(sandbox["id"])
    events = list(images.api.events("POST", "/sandboxes", {"image": proxy.ref("t/two:1")}))
    assert said(events) == ["sandbox"], "nothing to wait for"
    images.api.remove(events[-1].get("sandbox", events[-1])["id"])


def test_the_cli_pulls_quietly_in_a_pipe(images, registry, pushed):
    ref = registry.ref("t/two:1")
    done = cay(images.daemon, "image", "pull", ref)
    assert done.returncode == 0, done
    out = done.stdout + done.stderr
    assert b"\r" not in out and b"\x1b" not in out and len(out.splitlines()) < 12, out
    assert pushed.id[7:19].encode() in done.stdout
    done = cay(images.daemon, "image", "pull", registry.ref("t/none:9"))
    assert done.returncode == 1 and done.stdout == b"" and b"t/none:9" in done.stderr


def test_the_cli_draws_bars_on_a_terminal(images, proxy, pushed):
    """On a terminal it draws over its own lines; what is left at the end is the outcome."""
    import pty
    main, side = pty.openpty()
    try:
        process = subprocess.Popen(
            [CAY, "image", "pull", proxy.ref("t/two:1")],
            stdin=side, stdout=side, stderr=side,
            env={**images.daemon.environment(), "TERM": "xterm"}, start_new_session=True)
        os.close(side)
        side = -1
        out = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            out += piece
        assert process.wait(30) == 0, out
        assert b"\x1b[K" in out and b"/s" in out and pushed.id[7:19].encode() in out, out
    finally:
        os.close(main)
        if side >= 0:
            os.close(side)


def test_ctrl_c_ends_a_pull_and_nothing_of_it_stays(images, proxy, pushed):
    gate = proxy.gate(BLOBS + big_blob(pushed)[7:], after=1000)
    process = subprocess.Popen([CAY, "image", "pull", proxy.ref("t/two:1")], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=images.daemon.environment())
    gate.wait_reached()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and out == b""
    assert gate.left.wait(60), "the transfer goes on"
    wait_until(lambda: not half_made(images.daemon), what="no half layers")
    assert images.names() == ["host"]


def test_the_cli_takes_a_password_from_stdin(images, locked, pushed):
    words = ("image", "pull", "--username", USER, "--password-stdin", "--name", "mine:1", locked.ref("t/one:1"))
    done = cay(images.daemon, *words, input=PASSWORD.encode() + b"\n")
    assert done.returncode == 0 and images.has("mine:1"), done
    assert cay(images.daemon, *words, input=b"wrong\n").returncode == 1


# ---- transfers that go wrong ----


def test_a_broken_download_goes_on_where_it_stopped(images, proxy, pushed):
    blob = BLOBS + big_blob(pushed)[7:]
    proxy.on(blob, cut(200_000), times=1)
    proxy.on(blob, cut(100_000), times=1)
    images.pull(proxy.ref("t/two:1"))
    ranges = [s.headers.get("Range") for s in proxy.asked(blob)]
    assert ranges == [None, "bytes=200000-", "bytes=300000-"]
    with images.box(proxy.ref("t/two:1")) as id:
        assert images.api.sh(id, "cat /two") == "second\n"


def test_a_server_that_ignores_ranges_is_read_from_the_start(images, proxy, pushed):
    blob = BLOBS + big_blob(pushed)[7:]
    proxy.on(blob, cut(200_000), times=1)
    proxy.on(blob, without_range, times=1)
    images.pull(proxy.ref("t/two:1"))
    assert [s.headers.get("Range") for s in proxy.asked(blob)] == [None, "bytes=200000-"]
    with images.box(proxy.ref("t/two:1")) as id:
        assert images.api.sh(id, "wc -c </noise") == "700000\n"


def test_a_download_that_never_ends_well_is_given_up(images, proxy, pushed):
    proxy.on(BLOBS + big_blob(pushed)[7:], cut(0))
    images.try_pull(proxy.ref("t/two:1")).failed(503, "image_pull_failed")
    nothing_kept(images)


def test_a_wrong_digest_is_refused(images, proxy, pushed):
    for part, what in ((big_blob(pushed), "layer"), (pushed.id, "config"), ("manifests", "manifest")):
        proxy.reset()
        name = "t/two:1" if what != "manifest" else f"t/two@{pushed.digest}"
        proxy.on(part, changed(flipped))
        failed = images.try_pull(proxy.ref(name)).failed((400, 502, 503))
        assert "digest" in failed["error"], (what, failed)
        nothing_kept(images)


@pytest.mark.parametrize("change", [lambda b: b + b"\0" * 1000, lambda b: b[:-1000]],
                         ids=["longer", "shorter"])
def test_a_blob_of_another_size_than_promised_is_refused(images, proxy, pushed, change):
    proxy.on(BLOBS + big_blob(pushed)[7:], changed(change))
    images.try_pull(proxy.ref("t/two:1")).failed((400, 502, 503))
    nothing_kept(images)


@pytest.mark.parametrize("by", [-1000, 1000, 1 << 60], ids=["smaller", "larger", "huge"])
def test_a_manifest_that_lies_about_a_size_is_refused(images, proxy, pushed, by):
    liar = Image(*pushed.layers)
    liar.document["layers"][1]["size"] += by
    ref = proxy.serve_image("t/liar:1", liar)
    images.try_pull(ref).failed((400, 413, 502, 503))
    nothing_kept(images)


@pytest.mark.parametrize("code", [429, 503, 500])
def test_a_registry_that_is_busy_is_asked_again(images, proxy, pushed, code):
    rule = proxy.on("/manifests/", status(code, Retry_After="0"), times=1)
    blob = proxy.on(BLOBS + big_blob(pushed)[7:], status(code), times=1)
    images.pull(proxy.ref("t/two:1"))
    assert rule.hits == blob.hits == 1


def test_a_client_that_goes_away_ends_its_pull(images, proxy, pushed):
    gate = proxy.gate(BLOBS + big_blob(pushed)[7:], after=1000)
    stream = images.api.events("POST", "/images/pull", {"reference": proxy.ref("t/two:1")})
    next(stream)
    gate.wait_reached()
    stream.close()
    assert gate.left.wait(60), "the transfer goes on"
    wait_until(lambda: not half_made(images.daemon), what="no half layers")
    assert images.names() == ["host"]


def test_one_of_two_waiting_clients_may_leave(images, proxy, pushed):
    gate = proxy.gate(BLOBS + big_blob(pushed)[7:], after=1000)
    body = {"reference": proxy.ref("t/two:1")}
    first = images.api.events("POST", "/images/pull", body)
    next(first)
    gate.wait_reached()
    threads, results = in_threads(1, lambda i: list(images.api.again().events("POST", "/images/pull", body)))
    second = images.api.events("POST", "/images/pull", body)
    next(second)
    second.close()
    gate.open()
    assert said(list(first))[-1] == "done"
    threads[0].join(30)
    assert said(results[0])[-1] == "done", results


# ---- where to, and with what ----


def test_blobs_may_come_from_another_host_which_gets_no_credentials(images, proxy, elsewhere, pushed):
    token = proxy.with_tokens()
    for part in pushed.parts:
        elsewhere.serve(f"/cdn/{part['digest']}", pushed.blobs[part["digest"]])
        proxy.on(BLOBS + part["digest"][7:], redirect(f"{elsewhere.url}/cdn/{part['digest']}"))
    images.pull(proxy.ref("t/two:1"), registry_auth={"username": USER, "password": PASSWORD})
    assert len(elsewhere.asked("/cdn/")) == 2
    for request in elsewhere.seen:
        assert "Authorization" not in request.headers
        assert PASSWORD not in str(request.headers) and token["value"] not in str(request.headers)


def test_a_redirect_does_not_lead_to_plain_http_where_it_is_not_allowed(images, proxy, pushed):
    other = Proxy(address="127.0.0.3")
    try:
        blob = big_blob(pushed)
        other.serve("/cdn", pushed.blobs[blob])
        proxy.on(BLOBS + blob[7:], redirect(f"{other.url}/cdn"))
        images.try_pull(proxy.ref("t/two:1")).failed((400, 403, 502, 503))
        assert not other.seen
    finally:
        other.stop()
    nothing_kept(images)


def test_a_redirect_in_circles_ends(images, proxy, pushed):
    rule = proxy.on(BLOBS, redirect(lambda path: f"{proxy.url}{path}"))
    images.try_pull(proxy.ref("t/two:1")).failed((400, 502, 503))
    assert rule.hits < 200


def test_plain_http_needs_to_be_allowed(images, registry, pushed):
    other = Proxy(registry, address="127.0.0.3")
    try:
        images.try_pull(other.ref("t/one:1")).failed(503, "image_pull_failed")
        assert not other.seen, "nothing went out in the clear"
        images.pull(other.ref("t/one:1"), insecure=True)
        assert other.seen
    finally:
        other.stop()


def test_tls_with_an_authority_of_ones_own(images, daemon_of, secure, pushed):
    images.pull(secure.ref("t/two:1"))
    with images.box(secure.ref("t/two:1")) as id:
        assert images.api.sh(id, "cat /two") == "second\n"
    with daemon_of().start().unix_api() as api:
        failed = api.post("/images/pull", {"reference": secure.ref("t/two:1")}).failed(503)
        assert "certificate" in failed["error"].lower() and "CAY_REGISTRY_CA" in failed["error"]


def test_credentials_of_the_request(images, locked, pushed):
    ref = locked.ref("t/one:1")
    failed = images.try_pull(ref).failed(403, "registry_denied")
    assert "registry_auth" in failed["error"] or "credential" in failed["error"]
    images.try_pull(ref, registry_auth={"username": USER, "password": "wrong"}).failed(
        403, "registry_denied")
    nothing_kept(images)
    images.pull(ref, registry_auth={"username": USER, "password": PASSWORD})
    images.try_pull(ref, registry_auth={"username": USER}).failed(400)
    images.try_pull(ref, registry_auth="x").failed(400)


def test_credentials_of_a_create(images, locked, pushed):
    ref = locked.ref("t/one:1")
    images.api.try_create(ref).failed(403, "registry_denied")
    with images.box(ref, registry_auth={"username": USER, "password": PASSWORD}) as id:
        assert images.api.sh(id, "cat /etc/mark") == "of the image\n"


def test_credentials_of_the_docker_configuration(images, locked, pushed, no_credentials):
    auth = basic().split()[1]
    (no_credentials / "config.json").write_text(json.dumps({"auths": {locked.host: {"auth": auth}}}))
    images.pull(locked.ref("t/one:1"))
    images.remove(locked.ref("t/one:1"))
    (no_credentials / "config.json").write_text(
        json.dumps({"auths": {"another.example": {"auth": auth}}}))
    images.try_pull(locked.ref("t/one:1")).failed(403, "registry_denied")


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
def test_credentials_of_a_helper(images, locked, pushed, no_credentials, key):
    name = f"cay-test-{os.getpid()}"
    helper = Path("/usr/local/bin") / f"docker-credential-{name}"  # the only kind of place that counts
    helper.write_text("#!/bin/sh\n[ \"$1\" = get ] || exit 1\nread -r server\n"
                      f"echo \"$server\" >{no_credentials}/asked\n"
                      f"echo '{{\"ServerURL\":\"x\",\"Username\":\"{USER}\",\"Secret\":\"{PASSWORD}\"}}'\n")
    helper.chmod(0o755)
    config = {key: {locked.host: name} if key == "credHelpers" else name, "auths": {locked.host: {}}}
    (no_credentials / "config.json").write_text(json.dumps(config))
    try:
        images.pull(locked.ref("t/one:1"))
    finally:
        helper.unlink()
    assert locked.host in (no_credentials / "asked").read_text()


def test_a_helper_that_is_not_roots_alone_is_not_run(images, locked, pushed, no_credentials):
    """On the daemon's PATH, but in a folder of somebody's."""
    helper = no_credentials / "bin" / "docker-credential-cay-evil"
    helper.write_text(f"#!/bin/sh\ntouch {no_credentials}/ran\n")
    helper.chmod(0o755)
    for name in ("cay-evil", f"../../..{no_credentials}/bin/docker-credential-cay-evil", "x y", ""):
        (no_credentials / "config.json").write_text(json.dumps({"credHelpers": {locked.host: name}}))
        images.try_pull(locked.ref("t/one:1")).failed((400, 403))
    assert not (no_credentials / "ran").exists()


def test_tokens(images, proxy, pushed):
    proxy.with_tokens()
    images.pull(proxy.ref("t/two:1"), registry_auth={"username": USER, "password": PASSWORD})
    assert len(proxy.asked("^/token")) <= 2, "a token is used again"
    asked = proxy.asked("^/token")[0].path
    assert "service=cay" in asked and re.search(r"scope=repository(:|%3A)t(/|%2F)two(:|%3A)pull", asked)
    images.remove(proxy.ref("t/two:1"))
    images.try_pull(proxy.ref("t/two:1"), registry_auth={"username": USER, "password": "no"}).failed(
        403, "registry_denied")


def test_a_mirror_is_asked_first_and_then_the_host(daemon_of, registry, proxy, pushed):
    registry.push("library/tiny:1", Image(base_layer()))
    daemon = daemon_of(env={
        "CAY_REGISTRY_MIRRORS": f"docker.io={proxy.url},{registry.host}={proxy.url}",
        "CAY_INSECURE_REGISTRIES": f"{registry.host},{proxy.host}"}).start()
    mine = Images(daemon)
    assert mine.pull("tiny:1")["name"] == "tiny:1"
    assert proxy.asked("/v2/library/tiny/manifests/1")
    proxy.reset()
    proxy.on("/", status(404))
    mine.pull(registry.ref("t/two:1"), registry_auth={"username": USER, "password": PASSWORD})
    assert proxy.seen and not any("Authorization" in s.headers for s in proxy.seen)
    mine.clear()


def test_images_that_share_layers_come_and_go_at_the_same_time(images, registry, pushed):
    """Collections run beside workers that found layers here: none is lost, and none stays."""
    wrong = []

    def come_and_go(name, mark):
        with images.daemon.again_quiet() as api:
            for _ in range(8):
                reply = api.post("/images/pull", {"reference": registry.ref(name)})
                if reply.status != 200:
                    wrong.append((name, reply.body))
                    return
                created = api.post("/sandboxes", {"image": registry.ref(name)})
                if created.status not in (200, 201):
                    wrong.append((name, created.body))
                    return
                id = created.json["id"]
                if api.sh(id, "cat /two 2>/dev/null || echo first").strip() != mark:
                    wrong.append((name, "another image"))
                api.delete(f"/sandboxes/{id}")
                api.delete(images.path(registry.ref(name)))

    threads = [threading.Thread(target=come_and_go, args=pair)
               for pair in (("t/one:1", "first"), ("t/two:1", "second"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


DAMAGE = {
    "a byte of a layer": (lambda image: BLOBS + big_blob(image)[7:], changed(flipped)),
    "a layer that is something else": (lambda image: BLOBS + big_blob(image)[7:],
                                       changed(lambda body: os.urandom(len(body)))),
    "the configuration": (lambda image: BLOBS + image.id[7:], changed(flipped)),
    "the manifest": (lambda image: "/manifests/1$", changed(flipped)),
    "a page in place of the manifest": (lambda image: "/manifests/1$", body(b"<html></html>", "text/html")),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_mirror_whose_data_is_damaged_is_gone_on_without(daemon_of, registry, proxy, pushed, what):
    where, act = DAMAGE[what]
    mine = Images(daemon_of(env={
        "CAY_REGISTRY_MIRRORS": f"{registry.host}={proxy.url}",
        "CAY_INSECURE_REGISTRIES": f"{registry.host},{proxy.host}"}).start())
    damaged = proxy.on(where(pushed), act)
    ref = registry.ref("t/two:1")
    mine.pull(ref)
    assert damaged.hits >= 1
    with mine.box(ref) as id:
        assert mine.api.sh(id, "cat /two") == "second\n"
    mine.clear()


def test_damage_that_only_mirrors_have_is_told(daemon_of, proxy):
    image = Image(base_layer(), layer(text("x", os.urandom(100_000))))
    proxy.serve_image("only/here:1", image)
    proxy.on(BLOBS + image.parts[-1]["digest"][7:], changed(flipped))
    mine = Images(daemon_of(env={
        "CAY_REGISTRY_MIRRORS": f"127.0.0.1:1={proxy.url}",
        "CAY_INSECURE_REGISTRIES": f"127.0.0.1:1,{proxy.host}"}).start())
    assert "changed on the way" in mine.try_pull("127.0.0.1:1/only/here:1").failed(503)["error"]
    nothing_kept(mine)


def test_credentials_are_in_no_log_and_in_no_file(images, proxy, pushed):
    token = proxy.with_tokens()
    images.pull(proxy.ref("t/two:1"), registry_auth={"username": USER, "password": PASSWORD})
    with images.box(proxy.ref("t/two:1"), pull="always",
                    registry_auth={"username": USER, "password": PASSWORD}):
        pass
    secrets = [PASSWORD, token["value"], basic().split()[1]]
    where = [images.daemon.log_path, store_of(images.daemon), *images.daemon.data.glob("cay.db*")]
    done = subprocess.run(["grep", "-rlaF", *(w for s in secrets for w in ("-e", s)), *map(str, where)],
                          capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout, done.stdout


def test_a_size_limit_holds(daemon_of, registry, pushed):
    daemon = daemon_of(env={"CAY_MAX_IMAGE_SIZE": 2, "CAY_INSECURE_REGISTRIES": registry.host}).start()
    mine = Images(daemon)
    failed = mine.try_pull(registry.ref("t/two:1")).failed(413)
    assert "CAY_MAX_IMAGE_SIZE" in failed["error"]
    nothing_kept(mine)
