"""Attacks by using too much (R01-R09, R12); R01, R02, R04-R06 are in integration/test_limits.py."""


import pytest

from cay_harness import RSS_SLACK_KIB, SLOW, rss_kib, wait_until

pytestmark = [pytest.mark.core, pytest.mark.alone]


def test_huge_inputs_to_the_agent_are_bounded(api, box):
    """R03."""
    big = "x" * 3_000_000
    for reply in (api.try_exec(box, "true", env={"BIG": big}),
                  api.try_exec(box, ["true", big]),
                  api.try_exec(box, "true", env={f"K{i}": "v" for i in range(20_000)}),
                  api.post(f"/sandboxes/{box}/env", {"vars": {f"K{i}": "v" * 100 for i in range(50_000)}})):
        assert reply.status in (400, 413), reply.body[:200]
    assert api.sh(box, "echo alive") == "alive\n"


def test_a_folder_of_very_many_files_is_listed_or_refused(api, make):
    id = make(disk=512)["id"]
    api.sh(id, ["python3", "-c", "import os\nos.mkdir('many')\n"
                                 "for i in range(30000): os.close(os.open(f'many/{i:05}', 64, 0o644))"],
           timeout=60)
    reply = api.file(id, "list", path="many")
    if reply.status == 200:
        assert len(reply.json) == 30_000
    else:
        reply.failed((400, 413))
    reply = api.file(id, "search", pattern="*")
    assert reply.status in (200, 400, 413)
    assert api.sh(id, "echo alive") == "alive\n"


def test_a_flood_of_output_with_a_slow_reader_stays_out_of_memory(api, box, shared):
    """R07: back-pressure; the exit code is not lost."""
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream",
                        {"command": "yes | head -c 30000000; exit 3"}, timeout=60)
    next(stream)
    before = rss_kib(shared.pid)
    with api.again() as other:
        for _ in range(20):
            other.exec(box, "true")
    assert rss_kib(shared.pid) - before < 4096 + RSS_SLACK_KIB
    last = None
    for last in stream:
        pass
    assert (last["type"], last["data"]) == ("exit", "3")


def test_a_flood_that_nobody_reads_costs_nothing_and_ends(api, box, shared):
    before = rss_kib(shared.pid)
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": "yes"})
    next(stream)
    with api.again() as other:
        for _ in range(20):
            other.get("/health").ok()
    assert rss_kib(shared.pid) - before < 8192 + RSS_SLACK_KIB
    stream.close()
    wait_until(lambda: not [p for p in api.processes(box) if p["command"] == "yes"])


def test_one_endless_line_and_nuls_stream_without_stalling(api, box):
    """R08."""
    total = 0
    for event in api.events("POST", f"/sandboxes/{box}/exec/stream",
                            {"command": "head -c 5000000 /dev/zero"}, timeout=60):
        if event["type"] == "stdout":
            total += len(event["data"])
    assert total == 5_000_000 and event["data"] == "0"


def test_a_background_flood_is_capped_by_the_disk(api, make):
    id = make(disk=64)["id"]
    x = api.background(id, "yes | head -c 150000000; echo end; exit 4")
    end = api.background_end(x["id"], 60)
    assert end["exitCode"] in (4, 141, 153, 1)
    assert api.sh(id, "echo alive") == "alive\n"


def test_short_processes_are_reaped(api, box):
    """R09: orphans by the thousand; none is left as a zombie."""
    api.sh(box, ["python3", "-c", """
import os
for _ in range(1500):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
"""], timeout=60)
    wait_until(lambda: api.sh(box, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z ' || true") == "0\n")


def test_a_deep_tree_can_be_listed_searched_and_removed(api, make):
    """R12: deeper than any stack; names of 255 bytes; a loop of links."""
    id = make(disk=512)["id"]
    api.sh(id, ["python3", "-c", f"""
import os
os.mkdir("deep"); os.chdir("deep")
for i in range({int(20000 / SLOW)}):
    os.mkdir("d"); os.chdir("d")
open("f", "w").close()
"""], timeout=60)
    api.sh(id, "mkdir long; touch long/$(printf 'n%.0s' $(seq 255)); ln -s . long/loop; "
               "ln -s a long/b; ln -s b long/a")
    assert api.file(id, "list", path="deep").status == 200
    assert api.file(id, "search", pattern="f", dir="deep").status in (200, 400, 413)
    names = [f["name"] for f in api.file(id, "list", path="long").ok()]
    assert "n" * 255 in names
    assert api.file(id, "rmdir", paths=["deep", "long"]).status in (200, 400, 413)
    assert api.sh(id, "echo alive") == "alive\n"


def test_others_do_not_notice_an_attack(api, make):
    """R01, R07 and R04 at once in three sandboxes; a fourth still answers."""
    victims = [make(disk=64)["id"] for _ in range(3)]
    api.background(victims[0], "b() { b | b & }; b; sleep 1000")
    api.background(victims[1], "yes > /dev/null")
    api.background(victims[2], "while :; do head -c 100000000 /dev/zero > /tmp/x; done")
    calm = make()["id"]
    for _ in range(15):
        assert api.sh(calm, "echo x") == "x\n"
