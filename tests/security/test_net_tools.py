"""The tools that people use, in a sandbox with a policy: each reaches what is listed and nothing else."""

import hashlib
import json

import pytest

from cay_netprobe import rules
from cay_world import needs_network

pytestmark = [pytest.mark.core, needs_network]
PYTHON = "/usr/bin/python3"


def pip(net, id, *more):
    return net.exec(id, [PYTHON, "-m", "pip", "install", "-q", "--no-cache-dir", "--retries", "0", "--target", "/workspace/p", *more,
                         "caydemo"], timeout=100)


@pytest.mark.parametrize("policy", [{"profiles": ["pypi"]}, True, rules("pypi.org", "files.pythonhosted.org")],
                         ids=["profile", "public", "list"])
def test_pip_installs(world, net, net_box, policy):
    id = net_box(policy)
    done = pip(net, id)
    assert done["exitCode"] == 0, done
    said = net.sh(id, [PYTHON, "-c", "import sys; sys.path.insert(0, '/workspace/p'); import caydemo; print(caydemo.WORD)"])
    assert said == "from the index\n"
    assert {r.sni for r in world.web.requests} == {"pypi.org", "files.pythonhosted.org"}


def test_pip_without_its_index_fails_at_once(world, net, net_box):
    done = pip(net, net_box({"profiles": ["npm"]}))
    assert done["exitCode"] != 0 and not done.get("timedOut"), done
    assert not world.web.requests and not world.dns.asked("pypi.org")


def test_pip_with_half_of_what_it_needs_gets_no_package(world, net, net_box):
    done = pip(net, net_box(rules("pypi.org")))
    assert done["exitCode"] != 0, done
    assert {r.sni for r in world.web.requests} <= {"pypi.org"}


@pytest.mark.parametrize("policy,works", [({"profiles": ["github"]}, True), (rules("allowed.test"), False)], ids=["profile", "other"])
def test_git_clones_what_its_policy_has(world, net, net_box, policy, works):
    id = net_box(policy)
    done = net.exec(id, ["git", "clone", "-q", "https://github.com/cay/demo.git", "/workspace/demo"], timeout=60)
    assert (done["exitCode"] == 0) == works, done
    if works:
        assert net.sh(id, "cat /workspace/demo/README") == "from the git server\n"


CLIENTS = {
    "curl": ["curl", "-sS", "--max-time", "10", "URL"],
    "requests": [PYTHON, "-c", "import requests, sys; print(requests.get('URL', timeout=30).text)"],
    "urllib": [PYTHON, "-c", "import urllib.request; print(urllib.request.urlopen('URL', timeout=30).read().decode())"],
}


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_reach_what_is_listed(world, net, net_box, client):
    reaches_what_is_listed(world, net, net_box, CLIENTS[client])


def reaches_what_is_listed(world, net, net_box, client):
    id = net_box(rules("allowed.test", "*.allowed.test"), memory=1024)

    def ask(url):
        return net.exec(id, [word.replace("URL", url) for word in client], timeout=60)

    for url in ("https://allowed.test/a?b=c", "http://www.allowed.test/", "https://deep.www.allowed.test/"):
        done = ask(url)
        assert done["exitCode"] == 0, done
        told = json.loads(done["stdout"])
        assert told["host"] in url and told["client"] == "45.10.0.2", told
    for url in ("https://evil.test/", "https://66.66.66.66/", "http://66.66.66.66/", "http://169.254.169.254/latest/"):
        done = ask(url)
        assert done["exitCode"] != 0 or "polic" in done["stdout"].lower(), done
    assert {r.host.split(".", 1)[-1] for r in world.web.requests} <= {"test", "allowed.test", "www.allowed.test"}
    assert not [r for r in world.web.requests if "allowed" not in r.host]


def test_big_bodies_pass_whole_both_ways(world, net, net_box):
    """Through the inspection, where a relay moves them."""
    data = bytes(range(256)) * 65536  # 16 MiB
    got = {}

    def site(request):
        got["digest"] = hashlib.sha256(request.body).hexdigest()
        return 200, "application/octet-stream", data

    world.web.sites["allowed.test"] = site
    id = net_box(rules("allowed.test"))
    net.sh(id, [PYTHON, "-c", "open('/workspace/big', 'wb').write(bytes(range(256)) * 65536)"])
    for scheme in ("https", "http"):
        got.clear()
        said = net.sh(id, f"curl -sS --max-time 60 --data-binary @/workspace/big -H 'Expect:' {scheme}://allowed.test/ | sha256sum", timeout=100)
        assert said.split()[0] == hashlib.sha256(data).hexdigest() == got["digest"]
