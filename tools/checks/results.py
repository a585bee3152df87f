"""Results of test cases: read from meson's testlog.json (TAP lines inside), TAP files and JUnit XML of pytest, counted, and run once more.

A case that fails gets a second chance: it runs once more, alone. A case that passes then is *flaky*: it is counted as passed and named. A
case has no second chance when the way that it failed says that something is broken (a crash, a sanitizer report, a leak on the host), when
it counts rows, when it is a security test, or when tests/unsteady names it."""
import dataclasses
import json
import pathlib
import re
import xml.etree.ElementTree as xml

MOST_FLAKY = 3  # more than that is a failure
# What pytest.mark.counts_rows says of a pytest case: unit programs, and one case.
COUNT_ROWS = ("unit-store", "unit-documents", "unit-engine_writer", "unit-queue", "unit-webhooks", "unit-events", "unit-audited", "unit-keys",
              "unit-function_keys", "unit-engine a_lost_database_loses_no_sandbox")
MESON_GOOD = ("OK", "EXPECTEDFAIL", "SKIP")
SANITIZER = re.compile(r"\w+Sanitizer\b|: runtime error: ")


@dataclasses.dataclass
class Case:
    stage: str
    name: str  # the same in every stage: a pytest node, or PROGRAM CASE
    outcome: str  # passed, failed or skipped
    why: str = ""
    final: str = ""  # why it has no second chance; only of a failed case
    seconds: float = 0.0

    def __str__(self):
        return f"{self.stage}: {self.name}"


# ---- reading ----


def read_tap(stage, text, program="", errors=""):
    """The cases of one program's TAP output."""
    sanitizer = "a sanitizer report" if SANITIZER.search(text + errors) else ""
    died = set(re.findall(r"^# (\S+) died of signal", text, re.M))
    cases = []
    for bad, rest in re.findall(r"^(not )?ok\b *\d* *-? *(.*)$", text, re.M):
        name, skip, why = (part.strip() for part in rest.partition("# SKIP"))
        outcome = "skipped" if skip else "failed" if bad else "passed"
        final = sanitizer or ("a crash" if name in died else "it counts rows" if {program, f"{program} {name}"} & set(COUNT_ROWS) else "") if bad else ""
        cases.append(Case(stage, f"{program} {name}".strip(), outcome, why, final))
    return cases


def keeps_plan(test, cases):
    """Whether the program ran all cases of its plan."""
    plan = re.search(r"^1\.\.(\d+)$", test.get("stdout") or "", re.M)
    return bool(plan) and int(plan[1]) == len(cases)


def is_whole(test, cases):
    """Whether a program that failed ran all cases of its plan, one of them failed, and the program ended with status 0 or 1.

    meson says ERROR of each TAP program whose status is not 0, also when a case failed."""
    ended = test["result"] == "FAIL" or test["result"] == "ERROR" and test.get("returncode") == 1
    return ended and keeps_plan(test, cases) and any(case.outcome == "failed" for case in cases)


def meson_name(name):
    """The name of a program. meson puts the project and the suite in front of it."""
    return name.rpartition(" / ")[2]


def meson_results(path):
    """Program → whether it ended well, as testlog.json says; no program if there is no whole file."""
    try:
        return {meson_name(test["name"]): test["result"] in MESON_GOOD for test in map(json.loads, open(path))}
    except (OSError, ValueError):
        return {}


def read_meson(stage, path):
    cases = []
    for line in open(path):
        test = json.loads(line)
        test["name"] = meson_name(test["name"])
        found = read_tap(stage, test.get("stdout") or "", test["name"], test.get("stderr") or "")
        good = test["result"] in MESON_GOOD
        if good and not found and test["result"] == "SKIP":  # meson also says that of a TAP program that prints nothing
            found = [Case(stage, test["name"], "failed", "it ran no case", "it ran no case")]
        elif good and not found:  # it is judged by its status
            found = [Case(stage, test["name"], "passed")]
        elif good and not keeps_plan(test, found):  # it ended early, with status 0
            found.append(Case(stage, test["name"], "failed", "it did not run the cases of its plan", "it ended early"))
        elif not good and not is_whole(test, found):  # it died, or was stopped, and cases are missing
            found.append(Case(stage, test["name"], "failed", test["result"].lower(), "the whole program failed"))
        if good and SANITIZER.search((test.get("stdout") or "") + (test.get("stderr") or "")):  # of a process that a case has started
            found.append(Case(stage, test["name"], "failed", "a sanitizer report", "a sanitizer report"))
        for case in found:
            case.seconds = test.get("duration", 0) / len(found)
        cases += found
    return cases


def read_junit(stage, path):
    """One case per test, though pytest writes a test that fails and then leaves something behind twice."""
    cases = {}
    for node in xml.parse(path).iter("testcase"):
        said = {p.get("name"): p.get("value") for p in node.iter("property")}
        place = node.get("classname", "").replace(".", "/") + ".py::" if node.get("classname") else ""
        name = said.get("nodeid") or f"{place}{node.get('name', '')}"
        skip, bad = node.find("skipped"), node.find("failure")
        bad = node.find("error") if bad is None else bad
        case = Case(stage, name, "passed", seconds=float(node.get("time") or 0))
        if bad is not None:
            case.outcome, case.why = "failed", (bad.get("message") or "").split("\n")[0]
            case.final = said.get("no second chance", "") if "nodeid" in said else "a crash of the test process"
        elif not node.get("name"):
            case.outcome, case.why, case.final = "failed", "a case without a name", "pytest was interrupted"
        elif skip is not None:
            case.outcome, case.why = "skipped", (skip.get("message") or "").split("\n")[0]
        before = cases.get(name)
        if before and before.outcome == "failed":
            before.final = before.final or case.final
        else:
            cases[name] = case
    return list(cases.values())


def read(stage, path):
    """The cases of a result file. A file that is missing or cut is a failure: its stage did not finish."""
    path = str(path)
    try:
        if path.endswith(".xml"):
            return read_junit(stage, path)
        if path.endswith(".json"):
            return read_meson(stage, path)
        return read_tap(stage, open(path).read())
    except (OSError, ValueError, xml.ParseError) as e:
        return [Case(stage, "no whole result", "failed", str(e), "the stage did not finish")]


# ---- the second chance ----


def read_unsteady(path):
    """The names in tests/unsteady: each was flaky once, and has no second chance until it is mended and its line removed."""
    names = {}
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\d{4}-\d\d-\d\d)  (\S.*)", line)
        if not match:
            raise ValueError(f"{path}:{number}: a line is a date, two blanks and the name of a case: {line!r}")
        names[match[2]] = match[1]
    return names


def give_second_chances(cases, unsteady, run_again):
    """Runs failed cases once more, each alone. Returns those that passed then; they are counted as passed.

    No case runs again when so many failed that the run is red anyway."""
    for case in cases:
        if case.outcome == "failed" and not case.final and case.name in unsteady:
            case.final = f"tests/unsteady names it since {unsteady[case.name]}"
    again = [case for case in cases if case.outcome == "failed" and not case.final]
    if len(again) > 3 * MOST_FLAKY:
        return []
    flaky = [case for case in again if run_again(case)]
    if len(flaky) <= MOST_FLAKY:
        for case in flaky:
            case.outcome = "passed"
    return flaky


# ---- the summary ----


def summarize(cases, flaky=()):
    """Prints what failed and what was skipped, by name; the last line is `N passed, N failed, N skipped`. Returns the exit status."""
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        count[case.outcome] += 1
        if case.outcome != "passed":
            reasons = [case.why, f"no second chance: {case.final}" if case.final else ""]
            print(f"{case.outcome}: {case}{''.join(f': {reason}' for reason in reasons if reason)}")
    if flaky:
        what = "now in tests/unsteady: commit it" if len(flaky) <= MOST_FLAKY else f"more than {MOST_FLAKY}, so they count as failed"
        print(f"flaky: {len(flaky)} ({what}): {', '.join(case.name for case in flaky)}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return 1 if count["failed"] or not count["passed"] else 0
