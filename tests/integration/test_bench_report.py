"""The arithmetic of `make bench`: percentiles, ratios, bars and the tables, from made-up samples."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import report  # noqa: E402

pytestmark = pytest.mark.full


def rows_of(**columns):
    """{column: {key: [numbers]}} as rows of bench.json, by name."""
    return {row["name"]: row for row in report.results(columns, {})}


def verdicts(**columns):
    """{claim: passed}"""
    return {claim: passed for claim, _, passed in report.bars(list(rows_of(**columns).values()))}


def test_percentiles_are_values_that_were_measured():
    values = list(range(100, 0, -1))
    assert report.percentile(values, 50) == 51
    assert report.percentile(values, 99) == 100
    assert report.percentile(values, 1) == 2
    assert report.percentile([7], 99) == 7


def test_the_bad_end_of_a_rate_is_the_low_one():
    rows = rows_of(cay={"create": [1, 2, 3], "lives_8": [100, 200, 300]})
    assert rows["create"]["cay"] == {"p50": 2, "p99": 3, "n": 3}
    assert rows["lives, 8 clients"]["cay"] == {"p50": 200, "p99": 100, "n": 3}


def test_a_ratio_says_how_much_worse():
    rows = rows_of(cay={"create": [300], "lives_1": [100], "cpu_create": [3]},
                   floor={"create": [100], "lives_1": [300], "cpu_create": [0]})
    assert report.ratio(rows["create"], "cay", "floor") == 3
    assert report.ratio(rows["lives, 1 client"], "cay", "floor") == 3
    assert report.ratio(rows["create"], "docker", "cay") is None
    assert report.ratio(rows["CPU per create"], "cay", "floor") is None


def test_the_bars_of_the_floor():
    for key, limit in report.FLOOR_BARS.items():
        claim = f"{report.NAMES[key]}: at most {limit}× the floor"
        assert verdicts(cay={key: [limit * 100]}, floor={key: [100]})[claim] is True
        assert verdicts(cay={key: [limit * 100 + 1]}, floor={key: [100]})[claim] is False
        assert verdicts(cay={key: [1]})[claim] is None


def test_the_bars_of_whole_lives():
    good = {"lives_8": [260], "cpu_life_8": [6.5], "create_lives_8": [20000], "cycles_first": [100],
            "cycles_last": [90], "gets": [60000]}
    claims = [claim for claim, passed in verdicts(cay=good).items() if passed is not None]
    assert len(claims) == 5
    assert all(verdicts(cay=good)[claim] for claim in claims)
    bad = {"lives_8": [259], "cpu_life_8": [6.6], "create_lives_8": [20001], "cycles_first": [100],
           "cycles_last": [89], "gets": [59999]}
    assert not any(verdicts(cay=bad)[claim] for claim in claims)


def test_a_figure_that_cannot_be_is_no_pass():
    """Memory that came free elsewhere during the run, a rate that fell to nothing."""
    for samples in ({"memory": [-3]}, {"rss": [0]}, {"cpu_life_8": [0]}, {"cycles_first": [9], "cycles_last": [0]}):
        assert [passed for passed in verdicts(cay=samples).values() if passed is not None] == [False], samples


def test_what_is_not_there_is_named():
    rows = report.results({"cay": {"create": [1]}}, {"docker": "it is not installed"})
    assert rows[0]["docker"] == {"unavailable": "it is not installed"}
    assert "docker: not measured, it is not installed" in report.text(rows)


def test_the_readme_has_some_of_the_rows():
    samples = {"cay": {key: [1.0] for key, _, _ in report.ROWS}}
    rows = report.results(samples, {})
    assert len(report.markdown(rows, whole=True).splitlines()) == len(report.ROWS) + 2
    assert len(report.markdown(rows).splitlines()) == len(report.CHOSEN) + 2
    assert len({row["name"] for row in rows}) == len(report.ROWS)


def test_a_page_gets_the_new_table_and_keeps_the_rest():
    rows = report.results({"cay": {"create": [1000.0]}}, {})
    page = "above\n<!-- bench -->\nold\n<!-- /bench -->\nbelow\n"
    new = report.put_table(page, "bench", rows, True)
    assert new == f"above\n<!-- bench -->\n{report.markdown(rows, True)}\n<!-- /bench -->\nbelow\n"
    assert report.put_table(new, "bench", rows, True) == new
    with pytest.raises(ValueError):
        report.put_table(page, "bench all", rows, True)
