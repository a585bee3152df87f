"""About as many sandboxes as there are id ranges for: lists stay short, whatever is asked for (A18)."""

import contextlib

import pytest

from cay_harness import rss_kib

pytestmark = [pytest.mark.full, pytest.mark.counts_rows]

MANY = 4_000


def multiply(daemon, id):
    """Rows like that one, of sandboxes that ended with an earlier boot and have no disk any more."""
    with contextlib.closing(daemon.database()) as db:
        names = [row[1] for row in db.execute("pragma table_info(sandbox)")]
        row = dict(zip(names, db.execute("select * from sandbox where id = ?", (id,)).fetchone()))
        row.update(state="stopped", reason="reboot", boot_id="another", pid=0, pid_start=0)
        db.executemany(
            f"insert into sandbox ({', '.join(row)}) values ({', '.join('?' * len(row))})",
            [tuple({**row, "id": f"sbx_{n:024x}", "slot": 5000 + n}.values()) for n in range(MANY)])
        db.commit()


@pytest.mark.parametrize("query", ["page=1;drop table sandbox", "pageSize=1 or 1=1", "status=' or 1=1 --"])
def test_a_query_is_no_sql(api, box, query):
    before = api.ids()
    reply = api.get("/sandboxes?" + query.replace(" ", "+"))
    assert reply.status == 400 or reply.ok()["items"] == []
    assert api.ids() == before


def test_a_list_of_very_many_comes_in_pages(daemon_of):
    daemon = daemon_of(env={"CAY_MAX_SANDBOXES": MANY, "CAY_POOL": 0, "CAY_TTL_SWEEP": 3600}).start()
    with daemon.api() as api:
        id = api.create()["id"]
        daemon.stop()
        multiply(daemon, id)
        daemon.start()
        seen, before = set(), rss_kib(daemon.pid)
        for page in range(1, MANY // 200 + 2):
            reply = api.get(f"/sandboxes?page={page}&pageSize=100000").ok()
            assert reply["total"] == MANY + 1 and len(reply["items"]) <= 200
            seen.update(s["id"] for s in reply["items"])
        assert len(seen) == MANY + 1 and id in seen
        assert rss_kib(daemon.pid) - before < 32 * 1024
        api.try_create().failed(429, "stopped_limit")
        assert api.sh(id, "echo here") == "here\n"
