"""Every client of cay does the same: the cases of sdk/conformance with each adapter, against live daemons."""

import pytest

import cay_conformance
from cay_conformance import ADAPTERS, BUILT, Conformance, kinds_of, load, page
from cay_harness import REPO, lacking, must_have
from cay_ledger import settled_ledger, wait_for_ledger
from cay_world import needs_network

pytestmark = pytest.mark.full

PAIRS = [(name, key) for name in ADAPTERS for key in load()]
NETWORK = needs_network.args  # what a machine must have for sandboxes with networks
PAGE = REPO / "docs" / "conformance.md"


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """In place of that of all tests: it is looked at once, when all cases have run."""


@pytest.fixture(scope="module")
def ran(request):
    """All that are selected run at once; each test then looks at one."""
    chosen = [item.callspec.params for item in request.session.items
              if item.module is request.module and "key" in getattr(item, "fixturenames", ())]
    pairs = [(params["name"], params["key"]) for params in chosen]
    wants = any(kinds_of(load()[key]) == "online" for _, key in pairs)
    online = request.getfixturevalue("online") if wants and not any(map(lacking, NETWORK)) else None
    all = Conformance(pairs, online=online)
    all.build()
    before = settled_ledger()
    try:
        all.start()
        all.work()
    finally:
        all.end()
    wait_for_ledger(before)
    all.forget()
    return all


@pytest.mark.parametrize("name, key", PAIRS, ids=[f"{name}-{key}" for name, key in PAIRS])
def test_case(ran, name, key):
    why = ADAPTERS[name].missing()
    if why:
        pytest.skip(why)
    if (name, key) not in ran.runs:
        must_have(*NETWORK)
    outcome, why = ran.runs[name, key].outcome
    assert outcome in ("same", "not offered"), why


def test_adapters_end_with_their_input(ran):
    assert not ran.bad_ends


def test_what_is_said_to_lack_is_lacking(ran):
    assert not ran.stale


def test_nothing_is_left(ran):
    """Sandboxes that no case has told of."""
    assert not ran.strangers


def test_the_page_is_current(ran):
    """docs/conformance.md, as far as was looked at; the whole page is left in build-check."""
    outcomes = {pair: run.outcome for pair, run in ran.runs.items()}
    BUILT.mkdir(exist_ok=True)
    (BUILT / "conformance.md").write_text(page(outcomes))
    committed = cay_conformance.read_page(PAGE.read_text())
    found = cay_conformance.read_page(page(outcomes))
    wrong = {pair: told for pair, told in found.items() if committed.get(pair) != told}
    assert not wrong, f"cp {BUILT.relative_to(REPO)}/conformance.md docs/"
    assert {key for _, key in committed} == set(load())
