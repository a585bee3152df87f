import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from cay_fixtures import *  # noqa: E402,F401,F403
from cay_harness import must_have  # noqa: E402
from cay_probe import Probe  # noqa: E402


@pytest.fixture(scope="session")
def probe_path(tmp_path_factory):
    """The probe, built static so that it runs in any root."""
    must_have("program:musl-gcc")
    path = tmp_path_factory.mktemp("probe") / "probe"
    subprocess.run(["musl-gcc", "-D_GNU_SOURCE", "-static", "-O1", "-o", path, HERE / "probe.c"],
                   check=True)
    return path


@pytest.fixture
def probe(api, box, probe_path):
    return Probe(api, box, probe_path)
