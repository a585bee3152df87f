"""Dockerfiles that are small and ask for much."""

import pytest

from cay_harness import rss_kib
from cay_order import comes_before

pytestmark = pytest.mark.core

LONG = "ARG a=" + "x" * 100_000 + "\n"


@pytest.mark.parametrize("steps, status, code", [
    (LONG + "ENV " + " ".join(f"v{i}=$a" for i in range(3000)), 413, "too_large"),
    (LONG + "LABEL " + " ".join(f"v{i}=$a" for i in range(3000)), 413, "too_large"),
    (LONG + "COPY --from=host " + "$a " * 3000 + "/x", 413, "too_large"),
    (LONG + "WORKDIR $a\n" * 90, 400, "bad_dockerfile"),
    (LONG + "ENV v=$a\n" + "".join(f"FROM s{i} AS s{i + 1}\n" for i in range(200)), 413, "too_large"),
    ("ENV " + " ".join(f"{i:x}=" for i in range(38_000)), 413, "too_large"),
], ids=["env", "label", "copy", "workdir", "stages", "variables"])
def test_what_variables_stand_for_does_not_fill_memory(shared, steps, status, code):
    """Nor keep the daemon at work: the refusal comes before a thousand other calls are answered."""
    with shared.api(timeout=60) as api, shared.api() as other:
        before = rss_kib(shared.pid)
        body = {"name": "bomb", "dockerfile": "FROM host AS s0\n" + steps + "\n"}
        comes_before(lambda: api.post("/templates/build", body), lambda: other.get("/health").ok(), 1000).failed(status, code)
        assert rss_kib(shared.pid) - before < 64 << 10
        api.get("/templates/bomb").failed(404)
