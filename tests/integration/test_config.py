"""What a daemon accepts from its environment, and what it refuses to start with."""

import os
import shutil
import socket

import pytest

pytestmark = pytest.mark.core



# tests/unit/test_config.c has the values that do not parse: one of them shows what comes of it.
@pytest.mark.parametrize("name, value", [
    ("CAY_MAX_SANDBOXES", "many"), ("CAY_MAX_CMD_TIMEOUT", ""), ("CAY_AUTH_TOKEN", ""), ("CAY_REST_HOST", "not an address")])
def test_a_bad_setting_is_refused_or_ignored_but_never_misread(daemon_of, name, value):
    """Refused with a text that names the variable; the contract's fallback is allowed for numbers."""
    daemon = daemon_of(env={name: value})
    ready = daemon.spawn()
    try:
        said = os.read(ready, 100)
    finally:
        os.close(ready)
    if not said:
        assert daemon.process.wait(60) not in (0, None)
        assert name in daemon.log() or value in daemon.log(), daemon.log()
        daemon.forget_process()
        return
    daemon.port = int((daemon.run / "port").read_text())
    if name == "CAY_AUTH_TOKEN":
        with daemon.api(token=None) as api:
            assert api.get("/sandboxes", headers={"Authorization": "Bearer "}).status in (200, 401, 403)
    with daemon.api(token=None) as api:
        api.get("/health").ok()
    assert name in daemon.log() or name == "CAY_AUTH_TOKEN" or value == "", daemon.log()


def test_what_is_misspelt_or_cannot_be_read_is_said_at_start(daemon_of):
    daemon = daemon_of(env={"CAY_MAX_SANDBOX": "3", "III_DEFAULT_MEMORY": "half"}).start()
    assert "there is no variable CAY_MAX_SANDBOX: did you mean CAY_MAX_SANDBOXES?" in daemon.log()
    assert "III_DEFAULT_MEMORY must be a whole number" in daemon.log()
    with daemon.api() as api:
        sandbox = api.create()
        assert sandbox["config"]["memory"] == 512, sandbox
        api.remove(sandbox["id"])


def test_a_public_address_without_a_token_is_refused(daemon_of):
    for host in ("0.0.0.0", "::"):
        status, said = daemon_of(env={"CAY_REST_HOST": host}).refused()
        assert status != 0 and "token" in said.lower()


def test_two_daemons_cannot_share_a_data_folder(own, daemon_of):
    second = daemon_of()
    second.extra["CAY_DATA"] = str(own.data)
    status, said = second.refused()
    assert status != 0
    assert str(own.pid) in said, said
    with own.api() as api:
        api.get("/health").ok()
    second.extra.pop("CAY_DATA")


def test_port_zero_is_any_port_and_is_written_down(own, daemon_of):
    other = daemon_of().start()
    assert own.port != other.port and own.port > 0 and other.port > 0


def test_a_refused_start_leaves_no_folders(daemon_of):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for env in ({"CAY_REST_PORT": taken.getsockname()[1]}, {"CAY_REST_HOST": "0.0.0.0"},
                    {"CAY_CUSTOM_IMAGES": "python=x"}, {"CAY_IMAGE_CAPS": "nonsense"},
                    {"CAY_SOCKET_GROUP": "no-such-group"}, {"III_ISOLATION_BACKEND": "firecracker"}, {"CAY_MAX_SANDBOXES": "many"},
                    {"CAY_WEBHOOK_ALLOW": "not/a/target"}, {"CAY_OTLP_ENDPOINT": "collector:4317"}):
            daemon = daemon_of(env=env)
            status, said = daemon.refused()
            assert status != 0, env
            assert not daemon.data.exists() and not daemon.run.exists(), (env, said)


def test_a_refused_start_where_there_is_data_keeps_it_and_makes_no_run_folder(daemon_of):
    daemon = daemon_of().start()
    daemon.stop()
    before = sorted(os.listdir(daemon.data))
    shutil.rmtree(daemon.run)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        daemon.extra["CAY_REST_PORT"] = str(taken.getsockname()[1])
        status, said = daemon.refused()
    assert status != 0 and "taken by another program" in said
    assert sorted(os.listdir(daemon.data)) == before and not daemon.run.exists()


def test_a_port_in_use_is_refused(daemon_of):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        status, said = daemon_of(env={"CAY_REST_PORT": s.getsockname()[1]}).refused()
    assert status != 0 and str(s) and "port" in said.lower() or "address" in said.lower()


def test_the_other_names_of_the_variables_work(daemon_of):
    daemon = daemon_of(env={"III_MAX_SANDBOXES": 1, "III_DEFAULT_MEMORY": 128,
                            "III_DEFAULT_TIMEOUT": 77}).start()
    with daemon.api() as api:
        s = api.create()
        assert s["config"]["memory"] == 128 and s["config"]["timeout"] == 77
        api.try_create().failed(429, text="III_MAX_SANDBOXES")


def test_ours_win_over_theirs(daemon_of):
    daemon = daemon_of(env={"III_DEFAULT_MEMORY": 128, "CAY_DEFAULT_MEMORY": 256}).start()
    with daemon.api() as api:
        assert api.create()["config"]["memory"] == 256


def test_the_workspace_can_be_elsewhere(daemon_of):
    daemon = daemon_of(env={"CAY_WORKSPACE_DIR": "/home/user"}).start()
    with daemon.api() as api:
        id = api.create()["id"]
        assert api.sh(id, "pwd") == "/home/user\n"
        api.write(id, "f", "x")
        assert api.sh(id, "cat /home/user/f") == "x"
        api.file(id, "read", path="/workspace/f").failed(400, "path_traversal")


def test_the_command_timeout_has_a_maximum(daemon_of):
    daemon = daemon_of(env={"CAY_MAX_CMD_TIMEOUT": 1}).start()
    with daemon.api() as api:
        id = api.create()["id"]
        api.try_exec(id, "sleep 100", timeout=60).failed(408, text="after 1000ms")


def test_two_daemons_side_by_side_do_not_meet(own, daemon_of):
    other = daemon_of().start()
    with own.api() as a, other.api() as b:
        mine, yours = a.create()["id"], b.create()["id"]
        assert a.ids() == [mine] and b.ids() == [yours]
        b.get(f"/sandboxes/{mine}").failed(404)
        own.restart()
        assert b.sh(yours, "echo on") == "on\n" and a.sh(mine, "echo on") == "on\n"


def test_bad_arguments_are_refused(daemon_of):
    daemon = daemon_of(args=["--no-such-flag"])
    status, said = daemon.refused()
    assert status != 0 and "no-such-flag" in said


def test_a_socket_path_that_was_put_there_by_somebody_is_not_followed(daemon_of, tmp_path):
    """A22: a folder or a link in its place."""
    target = tmp_path / "target"
    target.write_text("kept")
    for kind in ("folder", "link"):
        daemon = daemon_of()
        daemon.run.mkdir(mode=0o755)
        if kind == "folder":
            daemon.socket_path.mkdir()
            status, said = daemon.refused()
            assert status != 0 and "cay.sock" in said
            daemon.socket_path.rmdir()
        else:
            daemon.socket_path.symlink_to(target)
            ready = daemon.spawn()
            started = os.read(ready, 10)
            os.close(ready)
            if not started:
                assert daemon.process.wait(60) != 0
                daemon.forget_process()
                daemon.socket_path.unlink()
            else:
                daemon.port = int((daemon.run / "port").read_text())
                assert not daemon.socket_path.is_symlink()
        assert target.read_text() == "kept"
