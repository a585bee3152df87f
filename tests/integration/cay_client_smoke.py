"""Drives a daemon through the client that was generated: PROGRAM FOLDER URL, in its own venv."""

import sys
import time

sys.path.insert(0, sys.argv[1])

from cay_client import Client, models  # noqa: E402
from cay_client.api.cmd import (cmd_background, cmd_background_logs, cmd_background_status,  # noqa: E402
                                cmd_run)
from cay_client.api.env import env_get, env_set  # noqa: E402
from cay_client.api.fs import fs_info, fs_list, fs_read, fs_write  # noqa: E402
from cay_client.api.metrics import metrics_health, metrics_sandbox  # noqa: E402
from cay_client.api.pool import pool_status  # noqa: E402
from cay_client.api.sandbox import (sandbox_clone, sandbox_create, sandbox_diff, sandbox_fork, sandbox_get,  # noqa: E402
                                    sandbox_kill, sandbox_list, sandbox_start, sandbox_stop)
from cay_client.api.snapshot import (snapshot_clone, snapshot_create, snapshot_delete, snapshot_list,  # noqa: E402
                                     snapshot_restore)
from cay_client.api.template import template_create, template_delete, template_list  # noqa: E402
from cay_client.api.volume import (volume_attach, volume_create, volume_delete, volume_detach,  # noqa: E402
                                   volume_list, volume_read)


def must(value, kind):
    assert isinstance(value, kind), f"{kind} was expected: {value}"
    return value


def commands(client, id):
    done = must(cmd_run.sync(id, client=client, body=models.CmdRunBody(command="echo hello; exit 3")),
                models.ExecResult)
    assert (done.exit_code, done.stdout) == (3, "hello\n"), done
    assert done.reason is models.ExecResultReason.EXIT and done.duration > 0, done
    argv = cmd_run.sync(id, client=client, body=models.CmdRunBody(command=["printf", "%s", "a b"]))
    assert must(argv, models.ExecResult).stdout == "a b"


def files(client, id):
    body = models.FsWriteBody(path="a.txt", content="text\n")
    assert must(fs_write.sync(id, client=client, body=body), models.Success).success
    assert fs_read.sync(id, client=client, body=models.FsReadBody(path="a.txt")) == "text\n"
    listed = fs_list.sync(id, client=client, body=models.FsListBody())
    assert [must(f, models.FileInfo).name for f in listed] == ["a.txt"]
    one = fs_info.sync(id, client=client, body=models.FsInfoBody(path="a.txt"))
    assert must(one, models.FileMeta).size == 5
    many = fs_info.sync(id, client=client, body=models.FsInfoBody(paths=["a.txt"]))
    assert [must(f, models.FileMeta).is_directory for f in many] == [False]
    missing = fs_read.sync(id, client=client, body=models.FsReadBody(path="no.txt"))
    assert must(missing, models.Error).code == "file_not_found"


def environment(client, id):
    body = models.EnvSetBody(vars_=models.EnvSetBodyVars.from_dict({"COLOUR": "blue"}))
    assert must(env_set.sync(id, client=client, body=body), models.EnvSet).set_ == ["COLOUR"]
    got = must(env_get.sync(id, client=client, body=models.EnvGetBody(key="COLOUR")), models.EnvValue)
    assert got.value == "blue"
    none = must(env_get.sync(id, client=client, body=models.EnvGetBody(key="NONE")), models.EnvValue)
    assert none.value is None and not none.exists


def background(client, id):
    body = models.CmdBackgroundBody(command="echo started; exit 5")
    exec_id = must(cmd_background.sync(id, client=client, body=body), models.BackgroundExec).id
    while True:
        status = must(cmd_background_status.sync(exec_id, client=client), models.BackgroundExec)
        if not status.running:
            break
        time.sleep(0.01)
    assert status.exit_code == 5
    logs = must(cmd_background_logs.sync(exec_id, client=client), models.ExecLogs)
    assert logs.output == "started\n" and logs.cursor == 8


def snapshots(client, id):
    taken = must(snapshot_create.sync(id, client=client, body=models.SnapshotCreateBody(name="one")), models.Snapshot)
    assert must(cmd_run.sync(id, client=client, body=models.CmdRunBody(command="echo later >/root/b")), models.ExecResult)
    changed = must(sandbox_diff.sync(id, client=client, snapshot_id=taken.id), models.Diff)
    assert [(c.kind, c.path) for c in changed.changes] == [(models.ChangeKind.A, "/root/b")], changed
    body = models.SnapshotRestoreBody(snapshot_id=taken.id)
    assert must(snapshot_restore.sync(id, client=client, body=body), models.Sandbox).id == id
    made = [must(snapshot_clone.sync(taken.id, client=client, body=models.SnapshotCloneBody()), models.Sandbox),
            must(sandbox_clone.sync(id, client=client, body=models.SandboxCloneBody()), models.Sandbox)]
    made += must(sandbox_fork.sync(id, client=client, body=models.SandboxForkBody(count=2)), models.Fork).sandboxes
    for one in made:
        assert must(sandbox_kill.sync(one.id, client=client), models.Success).success
    assert [s.id for s in must(snapshot_list.sync(id, client=client), models.SnapshotList).snapshots] == [taken.id]
    assert must(snapshot_delete.sync(taken.id, client=client), models.SnapshotDeleted).deleted == taken.id
    assert must(sandbox_stop.sync(id, client=client), models.Sandbox).status is models.SandboxStatus.STOPPED
    assert must(sandbox_start.sync(id, client=client), models.Sandbox).status is models.SandboxStatus.RUNNING


def volumes(client, id):
    made = must(volume_create.sync(client=client, body=models.VolumeCreateBody(name="gen", size_mb=32)), models.Volume)
    assert made.size_bytes == 32 << 20
    body = models.VolumeAttachBody(sandbox_id=id, mount_path="/data")
    assert must(volume_attach.sync(made.id, client=client, body=body), models.VolumeAttached).attached
    must(cmd_run.sync(id, client=client, body=models.CmdRunBody(command="echo kept >/data/a")), models.ExecResult)
    assert made.id in [v.id for v in must(volume_list.sync(client=client), models.VolumeList).volumes]
    used = must(volume_delete.sync(made.id, client=client), models.Error)
    assert used.code == "volume_in_use"
    must(volume_detach.sync(made.id, client=client, body=models.VolumeDetachBody()), models.VolumeDetached)
    assert volume_read.sync(made.id, client=client, body=models.VolumeReadBody(path="/a")) == "kept\n"
    assert must(volume_delete.sync(made.id, client=client), models.VolumeDeleted).deleted == made.id


def templates(client):
    config = models.TemplateConfig(image="host", setup=["echo made >/root/made", ["touch", "/root/too"]], ready="true")
    body = models.TemplateCreateBody(name="generated", config=config)
    made = must(template_create.sync(client=client, body=body), models.Template)
    assert made.config.setup == config.setup and not made.build.cached
    assert made.id in [t.id for t in must(template_list.sync(client=client), models.TemplateList).templates]
    body = models.SandboxCreateBody(template="generated")
    sandbox = must(sandbox_create.sync(client=client, body=body), models.Sandbox)
    done = cmd_run.sync(sandbox.id, client=client, body=models.CmdRunBody(command="cat /root/made"))
    assert must(done, models.ExecResult).stdout == "made\n"
    assert must(sandbox_kill.sync(sandbox.id, client=client), models.Success).success
    assert must(template_delete.sync(made.id, client=client), models.TemplateDeleted).deleted == made.id
    assert must(pool_status.sync(client=client), models.PoolStatus).total >= 0


def main():
    with Client(base_url=sys.argv[2], raise_on_unexpected_status=True) as client:
        assert must(metrics_health.sync(client=client), models.Health).status == "healthy"
        body = models.SandboxCreateBody(image="host", name="generated")
        sandbox = must(sandbox_create.sync(client=client, body=body), models.Sandbox)
        assert sandbox.name == "generated" and sandbox.status is models.SandboxStatus.RUNNING
        commands(client, sandbox.id)
        files(client, sandbox.id)
        environment(client, sandbox.id)
        background(client, sandbox.id)
        snapshots(client, sandbox.id)
        volumes(client, sandbox.id)
        templates(client)
        listed = must(sandbox_list.sync(client=client, page_size=200), models.SandboxList)
        assert sandbox.id in [s.id for s in listed.items]
        used = must(metrics_sandbox.sync(sandbox.id, client=client), models.Metrics)
        assert used.sandbox_id == sandbox.id and used.memory_limit_mb > 0
        assert must(sandbox_kill.sync(sandbox.id, client=client), models.Success).success
        gone = must(sandbox_get.sync(sandbox.id, client=client), models.Error)
        assert gone.code == "sandbox_removed"
    print("ok")


main()
