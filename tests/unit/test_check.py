"""tools/checks: how results are read and counted, which failed case runs once more, and which tests a change touches."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback
import unittest.mock

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tools"))

from checks import results, selection, stages  # noqa: E402
from checks.results import Case  # noqa: E402


def failed(name, final=""):
    return Case("core", name, "failed", final=final)


def summary(cases, flaky=()):
    """What summarize() prints, line by line, and the status that it returns."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = results.summarize(cases, flaky)
    return said.getvalue().splitlines(), status


def read_text(text, name):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_text(text)
        return results.read("stage", path)


# ---- the second chance ----


def test_a_case_that_passes_alone_is_flaky_and_the_run_is_green():
    cases = [Case("core", "a", "passed"), failed("b")]
    flaky = results.give_second_chances(cases, {}, lambda case: True)
    lines, status = summary(cases, flaky)
    assert status == 0 and lines == ["flaky: 1 (now in tests/unsteady: commit it): b", "2 passed, 0 failed, 0 skipped"], lines


def test_a_case_that_fails_again_is_red():
    cases = [failed("a")]
    assert results.give_second_chances(cases, {}, lambda case: False) == []
    assert summary(cases) == (["failed: core: a", "0 passed, 1 failed, 0 skipped"], 1)


def test_more_than_three_flaky_cases_are_red():
    for n, status in ((3, 0), (4, 1)):
        cases = [failed(f"case{i}") for i in range(n)]
        flaky = results.give_second_chances(cases, {}, lambda case: True)
        lines, got = summary(cases, flaky)
        assert len(flaky) == n and got == status and lines[-2].startswith(f"flaky: {n} "), lines


def test_a_run_with_many_failures_repeats_none():
    ran = []
    cases = [failed(f"case{i}") for i in range(10)]
    assert results.give_second_chances(cases, {}, ran.append) == [] and ran == []


def test_a_final_failure_and_one_that_unsteady_names_do_not_run_again():
    ran = []
    cases = [failed("a", "a leak on the host"), failed("b")]
    results.give_second_chances(cases, {"b": "2026-01-02"}, ran.append)
    assert ran == [] and "2026-01-02" in cases[1].final
    lines, status = summary(cases)
    assert status == 1 and lines[0] == "failed: core: a: no second chance: a leak on the host", lines


def test_unsteady_has_dates_and_names():
    with tempfile.NamedTemporaryFile("w", suffix="unsteady") as f:
        f.write("# words\n\n2026-01-02  unit-http a_case\n")
        f.flush()
        assert results.read_unsteady(f.name) == {"unit-http a_case": "2026-01-02"}
        f.write("unit-http a_case\n")
        f.flush()
        try:
            results.read_unsteady(f.name)
        except ValueError as e:
            assert ":4:" in str(e), e
        else:
            raise AssertionError("a line without a date was taken")


def test_a_name_in_unsteady_is_of_a_case_that_exists():
    for name in ("unit-http", "unit-http pipelined_requests_are_answered_in_order", "tests/integration/test_names.py",
                 "tests/security/test_visible.py::test_a_kernel_file_says_nothing[/proc/kcore]"):
        assert selection.has_case(name), name
    for name in ("unit-nothing", "unit-http no_such" + "_case", "tests/integration/test_names.py::test_no_such", "tests/integration/test_nothing.py::test_a"):
        assert not selection.has_case(name), name


def test_a_flaky_name_is_added_to_unsteady():
    kept = stages.UNSTEADY
    with tempfile.TemporaryDirectory() as folder:
        stages.UNSTEADY = pathlib.Path(folder) / "unsteady"
        stages.UNSTEADY.write_text("# names\n2026-01-02  unit-x a\n")
        try:
            stages.note_flaky(["unit-x c", "unit-x b"])
            names = results.read_unsteady(stages.UNSTEADY)
            assert list(names) == ["unit-x a", "unit-x b", "unit-x c"] and names["unit-x b"] > "2026-01-02", names
        finally:
            stages.UNSTEADY = kept


# ---- reading ----


def test_tap_tells_a_failed_check_from_a_crash():
    cases = results.read_tap("unit", "ok 1 - a\nnot ok 2 - b\nnot ok 3 - c\n# c died of signal 11\nok 4 - d # SKIP no disk\n1..4\n", "unit-x")
    assert [(c.name, c.outcome, c.final) for c in cases] == [
        ("unit-x a", "passed", ""), ("unit-x b", "failed", ""), ("unit-x c", "failed", "a crash"), ("unit-x d", "skipped", "")], cases
    assert cases[3].why == "no disk"


def test_a_sanitizer_report_is_final():
    for report in ("==7==ERROR: AddressSanitizer: heap-use-after-free", "x.c:1:2: runtime error: signed integer overflow", "WARNING: ThreadSanitizer: data race"):
        assert results.read_tap("asan", "not ok 1 - a\n", "unit-x", report)[0].final == "a sanitizer report", report


def test_a_program_that_counts_rows_has_no_second_chance():
    assert results.read_tap("unit", "not ok 1 - a\n", "unit-store")[0].final == "it counts rows"
    cases = read_text(json.dumps({"name": "cay:unit / unit-store", "stdout": "not ok 1 - a\n1..1\n", "result": "FAIL"}) + "\n", "testlog.json")
    assert (cases[0].name, cases[0].final) == ("unit-store a", "it counts rows"), cases


def test_a_program_that_dies_before_it_names_a_case_is_a_failure():
    cases = read_text(json.dumps({"name": "unit-x", "stdout": "ok 1 - a\n", "result": "TIMEOUT"}) + "\n", "testlog.json")
    assert [(c.name, c.outcome) for c in cases] == [("unit-x a", "passed"), ("unit-x", "failed")] and cases[1].final, cases


@contextlib.contextmanager
def programs(**scripts):
    """A stage whose programs are these shell scripts, in a build folder of their own that meson made."""
    with tempfile.TemporaryDirectory() as folder:
        lines = ["project('try')"]
        for name, script in scripts.items():
            path = pathlib.Path(folder) / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            lines.append(f"test('unit-{name}', find_program('{path}'), protocol: 'tap', suite: 'unit')")
        (pathlib.Path(folder) / "meson.build").write_text("\n".join(lines) + "\n")
        subprocess.run(["/usr/bin/meson", "setup", f"{folder}/build", folder], check=True, stdout=subprocess.DEVNULL)
        stages.OUT.mkdir(parents=True, exist_ok=True)
        yield stages.Programs("try", f"{folder}/build", "--suite", "unit")


def test_a_failed_case_of_a_program_runs_again_and_a_program_that_dies_does_not():
    again = "[ $# = 0 ] && echo 'not ok 1 - b' && echo 1..1 && exit 1; echo 'ok 1 - b'; echo 1..1"
    with programs(fails=again, dies="echo 'not ok 1 - b'; echo 1..1; kill -9 $$", cut="echo 'not ok 1 - b'; echo 1..2; exit 1",
                  lies="echo 'ok 1 - b'; echo 1..1; exit 1") as stage:
        cases = stage.meson(*stage.words)
        assert {case.name: case.final for case in cases if case.outcome == "failed"} == {
            "unit-fails b": "", "unit-dies b": "", "unit-dies": "the whole program failed", "unit-cut b": "", "unit-cut": "the whole program failed",
            "unit-lies": "the whole program failed"}, cases
        assert stage.again("unit-fails b") and not stage.again("unit-dies b")


def test_a_program_that_ends_early_with_status_0_is_a_failure():
    with programs(early="echo 'ok 1 - a'", silent="", short="echo 'ok 1 - a'; echo 1..1") as stage:
        cases = stage.meson(*stage.words)
    assert {(case.name, case.outcome) for case in cases} == {
        ("unit-early a", "passed"), ("unit-early", "failed"), ("unit-silent", "failed"), ("unit-short a", "passed")}, cases


def test_a_meson_that_does_not_finish_is_a_failure():
    def killed(*argv, **how):
        """As if meson was killed after its first program."""
        if "--list" in argv:
            return subprocess.CompletedProcess(argv, 0, "unit-first\nunit-second\n")
        log = pathlib.Path(stage.folder, "meson-logs/testlog.json")
        log.write_text(json.dumps({"name": "unit-first", "stdout": "not ok 1 - a\n1..1\n", "result": "ERROR", "returncode": 1}) + "\n")
        return subprocess.CompletedProcess(argv, status)

    run = stages.run
    with programs() as stage:
        stages.run = killed
        try:
            for status in (-9, 1):
                finals = [case.final for case in stage.meson(*stage.words)]
                assert finals == ["", "the stage did not finish"], (status, finals)
        finally:
            stages.run = run


def junit(*nodes):
    return read_text(f"<testsuites><testsuite>{''.join(nodes)}</testsuite></testsuites>", "x.xml")


FAILED = ('<testcase classname="tests.integration.test_x" name="test_a"><properties><property name="nodeid" value="tests/integration/test_x.py::test_a"/>'
          '{more}</properties><failure message="assert 1 == 2&#10;more"/></testcase>')


def test_a_failure_of_pytest_has_its_node_and_may_run_again():
    case, = junit(FAILED.format(more=""))
    assert (case.name, case.outcome, case.why, case.final) == ("tests/integration/test_x.py::test_a", "failed", "assert 1 == 2", ""), case


def test_a_reason_that_pytest_gives_is_final():
    case, = junit(FAILED.format(more='<property name="no second chance" value="a leak on the host"/>'))
    assert case.final == "a leak on the host"


def test_a_case_that_fails_and_then_leaks_counts_once_and_is_final():
    leak = FAILED.format(more='<property name="no second chance" value="a leak on the host"/>').replace("failure", "error")
    case, = junit(FAILED.format(more=""), leak)
    assert case.final == "a leak on the host"


def test_a_crash_of_the_test_process_is_final():
    case, = junit('<testcase classname="tests.integration.test_x" name="test_a"><failure message="worker \'gw0\' crashed"/></testcase>')
    assert case.final == "a crash of the test process"


def suite(text):
    """The cases of a stage that runs one pytest file with this text, without the fixtures of cay."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "test_x.py"
        path.write_text(text)
        stages.OUT.mkdir(parents=True, exist_ok=True)
        one = stages.Suite("try", [], at_once=1)
        one.stdout = subprocess.DEVNULL
        return one.pytest(pathlib.Path(folder) / "try.xml", ["--rootdir", folder, str(path)], {"PYTEST_ADDOPTS": ""})


def test_an_interrupted_pytest_is_a_failure():
    cases = suite("def test_a(): pass\ndef test_b(): raise KeyboardInterrupt\ndef test_c(): assert False\n")
    assert any(case.outcome == "failed" and case.final for case in cases), cases


def test_a_pytest_that_fails_without_a_failed_case_is_a_failure():
    cases = suite("import atexit, os\ndef test_a(): atexit.register(os._exit, 1)\n")
    assert [(case.outcome, case.final) for case in cases] == [("passed", ""), ("failed", "the stage did not finish")], cases


def test_a_process_that_outlives_pytest_is_a_leak():
    case = "import subprocess\ndef test_a(): subprocess.run(['sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 &'])\n"
    with unittest.mock.patch("checks.stages.END_SECONDS", 0):
        cases = suite(case)
    assert [(case.outcome, case.final, case.why) for case in cases if case.outcome == "failed"] == [
        ("failed", "a leak on the host", "sleep 1000")], cases


def test_a_file_without_cases_is_a_failure():
    assert [case.outcome for case in suite("x = 1\n")] == ["failed"]


def test_each_stage_has_its_build_in_front():
    assert stages.with_builds(["static", "unit", "asan"]) == ["build", "static", "unit", "build-asan", "asan"]
    assert stages.with_builds(["build", "core"]) == ["build", "core"]
    assert set(stages.NEEDS) | set(stages.NEEDS.values()) | {"tidy", "fuzz"} == set(stages.stages())


def test_a_missing_or_cut_file_is_a_failure():
    for case in (results.read("core", "/nowhere/x.xml")[0], read_text("<testsuites><tests", "x.xml")[0]):
        assert case.outcome == "failed" and case.final, case


def test_no_result_at_all_is_red():
    assert summary([]) == (["0 passed, 0 failed, 0 skipped"], 1)


# ---- what pytest would leave out ----


def test_a_case_that_pytest_would_leave_out_is_named():
    found = []
    text = """import pytest
pytestmark = [pytest.mark.core,
              pytest.mark.alone]  # not pytest.mark.full
def test_a(): pass
def test_a(): pass
async def test_b(): pass
def test_c(): yield
@pytest.mark.xfail
def test_d(): pass
@pytest.mark.alone
def test_e():
    def inner(): yield
"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "test_x.py"
        path.write_text(text)
        assert selection.marks(path) == ["core", "alone"]
        with unittest.mock.patch("checks.selection.test_files", return_value={str(path): []}):
            found = [line.removeprefix(f"{path}:").partition(":")[0] for line in selection.bad_cases()]
    assert found == ["5", "6", "7", "9", "11"], found


# ---- what a change touches ----


def test_a_changed_test_touches_itself_and_a_helper_those_that_import_it():
    assert selection.touched(["tests/integration/test_names.py", "tests/unit/test_http.c"]) == (["unit-http", "tests/integration/test_names.py"], [])
    assert "tests/integration/test_forward.py" in selection.touched(["tests/integration/test_ports.py"])[0]  # which imports it
    names, unknown = selection.touched(["tests/integration/cay_mcp.py"])
    assert "tests/integration/test_mcp.py" in names and "tests/integration/test_names.py" not in names and not unknown, names
    for helper in (selection.REPO / "tests" / "integration").glob("cay_*.py"):
        assert selection.touched([f"tests/integration/{helper.name}"])[0], helper


def test_a_changed_folder_touches_its_row_of_the_map():
    names, unknown = selection.touched(["src/mcp/tools.c"])
    assert "unit-mcp" in names and "tests/integration/test_mcp.py" in names and "unit-http" not in names and not unknown, names
    assert selection.touched(["src/base/str.c"])[0] == selection.all_tests()


def test_a_row_without_a_unit_test_that_includes_its_header_is_a_mistake():
    rows, read_map = selection.read_map(), selection.read_map
    assert selection.bad_map() == []
    rows["src/store"].remove("unit-queue")
    selection.read_map = lambda: rows
    try:
        assert selection.bad_map() == ["tests/map: src/store: unit-queue is missing, since test_queue.c includes a header of src/store"]
    finally:
        selection.read_map = read_map


def test_a_file_that_no_row_knows_touches_everything():
    assert selection.touched(["meson.build"]) == (selection.all_tests(), ["meson.build"])
    assert selection.touched(["bench/README.md", "LICENSE"])[1] == []
    assert selection.touched(["HACKING.md"]) == (["tests/integration/test_docs.py"], [])


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    bad = 0
    for i, (name, test) in enumerate(tests, 1):
        try:
            test()
            print(f"ok {i} - {name}")
        except BaseException:
            traceback.print_exc()
            print(f"not ok {i} - {name}")
            bad += 1
    print(f"1..{len(tests)}")
    return bad > 0


sys.exit(main())
