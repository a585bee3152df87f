"""The package: installed, used and removed where nothing of cay has been."""

import os
import subprocess

import pytest

from cay_fresh import Fresh, archive  # noqa: F401
from cay_harness import REPO

pytestmark = [pytest.mark.full, pytest.mark.skipif("CAY_TEST_SANITIZER" in os.environ, reason="the package is a release build")]


@pytest.fixture
def fresh(archive, tmp_path):  # noqa: F811
    fresh = Fresh(tmp_path / "root", archive)
    yield fresh
    fresh.remove()


@pytest.fixture
def package(fresh):
    """Made once, in build-deb."""
    made = subprocess.run([str(REPO / "tools" / "deb")], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return REPO / made.stdout.strip()


def test_the_package_is_installed_used_and_removed(fresh, package):
    (fresh.root / "cay.deb").write_bytes(package.read_bytes())
    fresh.run("apt-get install -y -q --no-install-recommends /cay.deb")
    files = fresh.run("dpkg -L cay").split()
    for path in ("/usr/bin/cay", "/etc/default/cay", "/usr/lib/systemd/system/cay.service",
                 "/usr/lib/systemd/system/cay-sandboxes.service", "/usr/share/man/man1/cay.1.gz",
                 "/usr/share/bash-completion/completions/cay", "/usr/share/zsh/site-functions/_cay",
                 "/usr/include/cay.h", "/usr/share/man/man3/libcay.3.gz"):
        assert path in files, path
    library = next(path for path in files if path.endswith("/libcay.so.0"))
    assert "libcay.so.0 " in fresh.run("/sbin/ldconfig -p"), "who starts a program with it finds it"
    assert library.replace("libcay.so.0", "pkgconfig/libcay.pc") in files
    assert "/etc/default/cay" in fresh.run("dpkg-query -W -f '${Conffiles}' cay")
    assert fresh.run("getent group cay").startswith("cay:x:")
    assert "ExecStart=/usr/bin/cay serve" in (fresh.root / "usr/lib/systemd/system/cay.service").read_text()

    # A command in a sandbox of its own daemon, and one of a daemon that serves with the sample configuration.
    assert fresh.run("cay run -- sh -c 'echo $((6 * 7)); id -u'") == "42\n0\n"
    out = fresh.run("""
        sed -i 's/^#CAY_NO_TCP=.*/CAY_NO_TCP=true/' /etc/default/cay
        . /etc/default/cay
        export CAY_NO_TCP
        cay serve --detach --stop-sandboxes 2>/dev/null
        stat -c '%G %a' /run/cay/cay.sock
        useradd alice; usermod -aG cay alice
        id=$(setpriv --reuid alice --regid alice --init-groups cay create host)
        setpriv --reuid alice --regid alice --init-groups cay exec "$id" 'echo hello of a member'
        setpriv --reuid nobody --regid nogroup --clear-groups cay ls && exit 1
        for p in /proc/[0-9]*; do
            if [ "$(readlink $p/exe)" = /usr/bin/cay ]; then kill "${p#/proc/}"; fi
        done
        while [ -S /run/cay/cay.sock ]; do sleep 0.05; done
    """)
    assert out.splitlines()[:2] == ["cay 660", "hello of a member"], out

    fresh.run("apt-get remove -y -q cay")
    assert not (fresh.root / "usr/bin/cay").exists()
    assert (fresh.root / "etc/default/cay").exists() and (fresh.root / "var/lib/cay").exists(), "kept until a purge"
    fresh.run("apt-get purge -y -q cay")
    left = fresh.run("find / -xdev -name '*cay*' -not -path '/proc/*' -not -path '/run/*' -not -name cay.deb")
    assert left == "", left


# A service manager that knows two things of the unit, each a file of the folder that it is in.
SYSTEMCTL = """#!/bin/sh
cd "${0%/*}"
echo "$*" >>asked
case "$*" in
is-active*) [ -e active ] ;;
is-enabled*) [ -e enabled ] ;;
enable*--now*) touch enabled active ;;
disable*--now*) rm -f enabled active ;;
start*|restart*) touch active; [ ! -e broken ] || { rm active; exit 1; } ;;
stop*) rm -f active ;;
reload*) [ ! -e broken ] ;;
esac
"""


@pytest.fixture
def manager(tmp_path):
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "getent").write_text("#!/bin/sh\n")
    for name in ("systemctl", "getent"):
        (tmp_path / name).chmod(0o755)
    return tmp_path


def script(manager, name, *args):
    """Runs one of the package's scripts where systemd seems to be; what it says."""
    enter = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec sh \"$@\""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", enter, "sh", REPO / "packaging" / "deb" / name, *args],
                          env={"PATH": f"{manager}:/usr/sbin:/usr/bin:/sbin:/bin"}, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stderr


def state(manager):
    return {name for name in ("enabled", "active") if (manager / name).exists()}


def test_a_package_that_is_installed_again_starts_what_the_removal_stopped(manager):
    script(manager, "postinst", "configure", "")
    assert state(manager) == {"enabled", "active"}
    script(manager, "prerm", "remove")
    script(manager, "postrm", "remove")
    assert "active" not in state(manager)
    script(manager, "postinst", "configure", "0.1.0")  # dpkg remembers the version until a purge
    assert state(manager) == {"enabled", "active"}
    script(manager, "prerm", "remove")
    script(manager, "postinst", "abort-remove")
    assert state(manager) == {"enabled", "active"}


def test_an_upgrade_leaves_a_daemon_that_is_disabled_alone(manager):
    script(manager, "prerm", "upgrade", "0.2.0")
    script(manager, "postinst", "configure", "0.1.0")
    assert state(manager) == set()


def test_an_upgrade_that_cannot_start_leaves_the_old_daemon(manager):
    script(manager, "postinst", "configure", "")
    (manager / "broken").touch()
    assert "the old one goes on" in script(manager, "postinst", "configure", "0.1.0")
    assert state(manager) == {"enabled", "active"}
