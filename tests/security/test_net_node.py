"""node and npm in a sandbox with a policy; apart from the other tools because Debian's npm is half a thousand packages, which the
machine of `make check-vm` does without."""

import pytest

from cay_world import needs_network
from test_net_tools import reaches_what_is_listed

pytestmark = [pytest.mark.core, needs_network, pytest.mark.needs("program:node", "program:npm")]
FETCH = "fetch('URL').then(r => r.text()).then(t => console.log(t)).catch(e => { console.error(e); process.exit(1) })"


def test_node_fetches_what_is_listed(world, net, net_box):
    reaches_what_is_listed(world, net, net_box, ["node", "-e", FETCH])


@pytest.mark.parametrize("policy,works", [({"profiles": ["npm"]}, True), (True, True), ({"profiles": ["pypi"]}, False)],
                         ids=["profile", "public", "other"])
def test_npm_installs_what_its_policy_has(world, net, net_box, policy, works):
    id = net_box(policy, memory=1024)
    done = net.exec(id, "mkdir -p /workspace/n && cd /workspace/n && npm install --no-audit --no-fund --fetch-retries=0 cay-demo", timeout=100)
    assert (done["exitCode"] == 0) == works, done
    if works:
        assert net.sh(id, "cd /workspace/n && node -e \"console.log(require('cay-demo'))\"") == "from the registry\n"
    else:
        assert not world.web.requests
