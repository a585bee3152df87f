"""The package: installed, used and removed where nothing of cay has been."""

import os
import subprocess

import pytest

from cay_fresh import Fresh, suite_of_this_machine
from cay_harness import REPO

pytestmark = pytest.mark.skipif("CAY_TEST_SANITIZER" in os.environ, reason="the package is a release build")


@pytest.fixture
def fresh(tmp_path):
    fresh = Fresh(tmp_path / "root", suite_of_this_machine())
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
                 "/usr/share/bash-completion/completions/cay", "/usr/share/zsh/site-functions/_cay"):
        assert path in files, path
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
