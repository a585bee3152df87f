"""What an image says about its sandboxes is what they get."""

import json

import pytest

from cay_harness import cay, wait_until
from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = [pytest.mark.core, needs_registry]


@pytest.fixture
def image(images, tmp_path):
    """image(Env=[…], …) makes one with that configuration and returns its name."""
    made = []

    def make(*layers, **config):
        name = f"conf/{len(made)}:1"
        made.append(name)
        images.load(Image(base_layer(), *layers, config=config).layout(tmp_path / str(len(made))), name)
        return name

    return make


def test_env(images, image):
    name = image(Env=["PATH=/usr/bin:/bin:/opt/bin", "A=1", "B=with space=and equals", "EMPTY="])
    with images.box(name) as id:
        out = images.api.sh(id, "env")
        assert {"A=1", "B=with space=and equals", "EMPTY=", "PATH=/usr/bin:/bin:/opt/bin"} <= \
            set(out.splitlines())
    with images.box(name, env={"A": "2"}) as id:
        assert images.api.sh(id, "echo $A-$B") == "2-with space=and equals\n"
    with images.box(image()) as id:
        assert "/bin" in images.api.sh(id, "echo $PATH")


def test_workdir(images, image):
    name = image(WorkingDir="/home/app")
    with images.box(name) as id:
        assert images.api.sh(id, "pwd") == "/home/app\n"
    with images.box(name, workdir="/etc") as id:
        assert images.api.sh(id, "pwd") == "/etc\n"
    with images.box(image(WorkingDir="/made/for/it")) as id:
        assert images.api.sh(id, "pwd") == "/made/for/it\n", "it is made, as with others"


@pytest.mark.parametrize("user, who", [
    ("app", "1000:1001"), ("1000", "1000:1001"), ("1000:0", "1000:0"), ("app:staff", "1000:1001"),
    ("4321", "4321:0"), ("4321:77", "4321:77"), ("root", "0:0"), ("", "0:0")])
def test_user(images, image, user, who):
    with images.box(image(User=user)) as id:
        assert images.api.sh(id, "echo $(id -u):$(id -g)") == f"{who}\n"


def test_a_user_that_the_image_does_not_know_is_said_so(images, image):
    name = image(User="nobody-here")
    reply = images.api.try_create(name)
    if reply.status == 200:  # found out when something runs
        id = reply.json["id"]
        failed = images.api.try_exec(id, "true")
        images.api.remove(id)
        said = failed.failed((400, 404, 409)) if failed.status != 200 else failed.json
        assert "nobody-here" in json.dumps(said)
    else:
        assert "nobody-here" in reply.failed((400, 404, 409))["error"]


def run(images, *words, **how):
    return cay(images.daemon, "run", *words, **how)


def test_run_without_a_command_runs_what_the_image_says(images, image):
    done = run(images, image(Cmd=["/bin/echo", "from cmd"]))
    assert (done.returncode, done.stdout) == (0, b"from cmd\n"), done
    both = image(Entrypoint=["/bin/echo", "entry"], Cmd=["default", "words"])
    assert run(images, both).stdout == b"entry default words\n"
    done = run(images, both, "--", "echo", "other")
    assert done.stdout == b"other\n", "a command is run as it is"
    assert run(images, image(Entrypoint=["/bin/sh", "-c", "exit 7"])).returncode == 7
    assert run(images, image(Cmd=["/bin/sh", "-c", "echo $0-$A; pwd; id -u"], Env=["A=b", "PATH=/bin"],
                             WorkingDir="/etc", User="app")).stdout == b"/bin/sh-b\n/etc\n1000\n"


def test_run_of_an_image_that_says_nothing_asks_for_a_command(images, image):
    done = run(images, image())
    assert done.returncode in (2, 125) and b"command" in done.stderr, done


def test_entrypoint_of_the_contract(images, image):
    """A create with an entrypoint runs it as the sandbox's main process."""
    name = image(Cmd=["/bin/sh", "-c", "echo image >/tmp/ran"])
    with images.box(name, entrypoint=["/bin/sh", "-c", "echo asked >/tmp/ran; sleep 1000"]) as id:
        assert wait_until(lambda: images.api.exec(id, "cat /tmp/ran")["stdout"]) == "asked\n"


def test_labels_ports_and_signal_are_shown(images, image):
    name = image(Labels={"a": "b", "org.opencontainers.image.title": "ünï"}, StopSignal="SIGINT",
                 ExposedPorts={"80/tcp": {}, "53/udp": {}}, Entrypoint=["/bin/echo"], Cmd=["x"])
    shown = images.show(name)
    assert shown["labels"] == {"a": "b", "org.opencontainers.image.title": "ünï"}
    assert sorted(shown["ports"]) == ["53/udp", "80/tcp"]
    assert shown["stopSignal"] == "SIGINT"
    assert (shown["entrypoint"], shown["cmd"]) == (["/bin/echo"], ["x"])
    assert shown["createdAt"] == 1704164645000, "when it was built"


@pytest.mark.parametrize("config", [
    {"Env": ["no equals"]}, {"Env": ["=x"]}, {"Env": "A=b"}, {"Env": ["A=\0"]}, {"User": 5},
    {"User": "a\nb"}, {"WorkingDir": "relative/../.."}, {"Cmd": "echo"}, {"Labels": ["x"]},
    {"Labels": {"x": 1}}, {"ExposedPorts": {"x": {}}}, {"StopSignal": "SIGWHAT"}, {"Entrypoint": [1]}],
    ids=str)
def test_a_configuration_that_makes_no_sense(images, tmp_path, config):
    """It is refused, or what makes no sense is left out; either way nothing breaks."""
    layout = Image(base_layer(), config=config).layout(tmp_path / "layout")
    reply = images.try_import(layout, "odd:1")
    if reply.status == 200:
        with images.box("odd:1") as id:
            assert images.api.sh(id, "echo fine", user="0", workdir="/") == "fine\n"
    else:
        reply.failed(400)
        assert not images.has("odd:1")
