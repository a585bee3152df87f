"""The stages of tools/check: each builds or runs something, and returns the cases that it found."""
import contextlib
import datetime
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import results, selection

REPO = selection.REPO
OUT = REPO / "build-check" / "results"
UNIT_AT_ONCE = 8  # unit programs mostly wait, for each other's events and for the disk
FILES_AT_ONCE = 4
LONGEST = 3000  # seconds of a stage of pytest, times CAY_TEST_SLOW: a call that never returns fails
END_SECONDS = 30  # for what pytest has started, after its end
MEMORY_FREE = 4 << 30  # in /dev/shm, and twice that in the machine, for the files of the core suite; it uses less than 1 GiB
UNSTEADY = REPO / "tests" / "unsteady"
# These take longest, so they begin first and none is left alone at the end.
FIRST = [f"tests/integration/test_{name}.py" for name in (
    "package", "sdk_rust", "state_faults", "conformance", "faults", "images_make", "docs", "mcp_clients", "sdk_typescript", "schemathesis")]

CLANG = " ".join([*(["ccache"] if shutil.which("ccache") else []), "clang-14"])
ASAN = {"CAY_TEST_SANITIZER": "address", "CAY_TEST_SLOW": "4", "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16:exitcode=99",
        "UBSAN_OPTIONS": "exitcode=99"}  # 1 is what a command line of ours ends with after an error
# A worker that ends with _exit does not report its races in its status.
TSAN = {"CAY_TEST_SANITIZER": "thread", "CAY_TEST_SLOW": "4", "TSAN_OPTIONS": "halt_on_error=1"}

TIDY = ("-*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-bugprone-narrowing-conversions,"
        "-bugprone-implicit-widening-of-multiplication-result,-bugprone-assignment-in-if-condition,"
        "clang-analyzer-*,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling")


def run(*argv, env=None, **how):
    """The finished command, with the environment of the tests."""
    return subprocess.run([str(word) for word in argv], cwd=REPO, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, **how)


def step(stage, name, *argv, env=None):
    """One command as a case. Its output is kept in a log, and its end is shown when the command fails."""
    log = OUT / f"{name}.log"
    with open(log, "wb") as f:
        status = run(*argv, env=env, stdout=f, stderr=subprocess.STDOUT).returncode
    if status != 0:
        print("\n".join(log.read_text(errors="replace").splitlines()[-60:]))
    return results.Case(stage, name, "failed" if status else "passed", f"see {log.relative_to(REPO)}" if status else "", "a build or a static check")


def lines_case(stage, name, lines):
    """A static check as a case: it fails when it has something to say."""
    for line in lines:
        print(line)
    return results.Case(stage, name, "failed" if lines else "passed", final="a static check")


# ---- builds ----


def compiled(stage, folder, *options, env=None):
    cases = []
    if not (REPO / folder / "build.ninja").exists():
        cases.append(step(stage, f"{stage}-setup", "meson", "setup", folder, "--wrap-mode=nodownload", *options, env=env))
    return [*cases, step(stage, f"{stage}-compile", "ninja", "-C", folder, "--quiet", env=env)]


def build():
    return compiled("build", "build-check", "--werror")


def build_asan():
    return compiled("asan", "build-asan", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                    "-Dc_args=-fno-sanitize-recover=all", env={"CC": CLANG})


def build_tsan():
    return compiled("tsan", "build-tsan", "-Db_sanitize=thread", "-Db_lundef=false")


def fixed_layout():
    """Words in front of a program for gcc 12's thread sanitizer, which does not know the address layout of kernels that randomize more."""
    try:
        return ["setarch", "-R"] if int(pathlib.Path("/proc/sys/vm/mmap_rnd_bits").read_text()) > 28 else []
    except OSError:
        return []


def no_words():
    return []


def unfinished(stage, what, status):
    return results.Case(stage, f"{what} did not finish", "failed", f"exit status {status}", "the stage did not finish")


# ---- unit programs ----


class Programs:
    """A stage of unit programs, in one build folder."""

    def __init__(self, stage, folder, *words, slow=1, env=None, before=no_words):
        self.stage, self.folder, self.words, self.slow, self.env, self.before = stage, folder, words, slow, env, before

    def meson(self, *words, log="testlog"):
        """Runs `meson test` and returns the cases. Its logs stay in the folder's meson-logs."""
        path = REPO / self.folder / "meson-logs" / f"{log}.json"
        path.unlink(missing_ok=True)
        test = [*self.before(), "meson", "test", "-C", self.folder, "--no-rebuild"]
        listed = run(*test, "--list", *words, capture_output=True, text=True).stdout.splitlines()
        with open(OUT / f"{self.stage}-{log}.log", "wb") as f:
            done = run(*test, "--print-errorlogs", "--logbase", log, "--num-processes", UNIT_AT_ONCE, "--timeout-multiplier", self.slow, *words,
                       env=self.env, stdout=f, stderr=subprocess.STDOUT)
        cases = results.read(self.stage, path)
        ended = results.meson_results(path)
        # meson's status is the number of programs that did not end well.
        if done.returncode != sum(not good for good in ended.values()) or {results.meson_name(line) for line in listed} != set(ended):
            cases.append(unfinished(self.stage, "meson", done.returncode))
        return cases

    def missing(self):
        """A case for each program that stands in tests/unit or tests/fuzz and that meson does not know."""
        listed = run(*self.before(), "meson", "test", "-C", self.folder, "--no-rebuild", "--list", capture_output=True, text=True).stdout.splitlines()
        return [results.Case(self.stage, name, "failed", "meson.build does not make it", "meson.build does not make it")
                for name in selection.unit_programs() if name not in {results.meson_name(line) for line in listed}]

    def run(self, only=None):
        """All programs, or those of them that `only` names."""
        cases = self.meson(*self.words, *(name for name in only or () if name.startswith(("unit-", "fuzz-"))))
        if any(case.outcome == "failed" for case in cases):
            print((OUT / f"{self.stage}-testlog.log").read_text(errors="replace")[-6000:])
        return cases + (self.missing() if only is None else [])

    def again(self, name):
        """Whether a case passes, alone."""
        program, _, case = name.partition(" ")
        cases = self.meson(program, *(["--test-args", case] if case else []), log="again")
        return bool(cases) and all(c.outcome == "passed" for c in cases)


# ---- pytest ----


@contextlib.contextmanager
def folder_in_memory():
    """A new folder on a tmpfs for the data of daemons, which start, write and end hundreds of times: on a disk most of that time is fsync.
    None where there is no tmpfs with room."""
    shm = pathlib.Path("/dev/shm")
    for old in shm.glob("cay-check-*"):  # of a run that was killed
        if not pathlib.Path("/proc", old.name.split("-")[2]).exists() and not mounts_below(old):
            shutil.rmtree(old, ignore_errors=True)
    if not shm.is_mount() or shutil.disk_usage(shm).free < MEMORY_FREE or memory_available() < 2 * MEMORY_FREE:
        yield None
        return
    folder = tempfile.mkdtemp(prefix=f"cay-check-{os.getpid()}-", dir=shm)
    os.chmod(folder, 0o755)
    try:
        yield folder if holds_layers(folder) else None
    finally:
        if left := mounts_below(folder):
            print(f"these are still mounted, so {folder} stays: {' '.join(left)}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def memory_available():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"^MemAvailable: *(\d+) kB", text, re.M)[1]) << 10


def holds_layers(folder):
    """Images need extended attributes of users, which a tmpfs has since Linux 6.6, and idmapped mounts, since 6.3."""
    try:
        os.setxattr(folder, "user.cay", b"")
        return True
    except OSError:
        return False


def mounts_below(folder):
    return [path for path in (line.split()[4] for line in open("/proc/self/mountinfo")) if path.startswith(f"{folder}/")]


def inheritors(mark):
    """The processes with this in their environment: pid → command line."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes().split(b"\0"):
                found[int(path.parent.name)] = path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def end_inheritors(mark):
    """Waits for the end of what a run of pytest has started, a program that made itself a daemon for instance. Returns the command lines
    of those that did not end in time, and kills them."""
    until = time.monotonic() + END_SECONDS
    while (left := inheritors(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return sorted(left.values())


class Suite:
    """A stage of pytest files against real daemons."""

    stdout = None  # the terminal

    def __init__(self, stage, files, binary="build-check/cay", at_once=FILES_AT_ONCE, env=None, before=no_words, seed=None, in_memory=False):
        self.stage, self.binary, self.at_once, self.before, self.seed = stage, binary, at_once, before, seed
        self.in_memory = in_memory
        self.files = files
        self.env = {"CAY_BIN": str(REPO / binary), **(env or {}),
                    "PYTEST_ADDOPTS": "",  # options of the user could leave out cases
                    # Each worker would compile every file for itself, some 5 s of CPU.
                    "PYTHONPYCACHEPREFIX": str(REPO / "build-check/pycache"), "PYTHONDONTWRITEBYTECODE": ""}
        if seed is not None:
            self.env["CAY_TEST_SHUFFLE"] = str(seed)

    def in_order(self):
        """The long files first, or all of them shuffled."""
        files = sorted(self.files, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), -(REPO / name).stat().st_size))
        if self.seed is not None:
            random.Random(self.seed).shuffle(files)
        return files

    def pytest(self, path, words, env=None):
        path.unlink(missing_ok=True)
        with folder_in_memory() if self.in_memory else contextlib.nullcontext() as folder:
            longest = LONGEST * float({**os.environ, **self.env}.get("CAY_TEST_SLOW", 1))
            mark = f"CHECK_RUN={os.getpid()}-{time.monotonic_ns()}"
            more = {"CAY_TEST_FOLDER": folder} if folder else {}
            try:
                status = run(*self.before(), "/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers",
                             "-o", "empty_parameter_set_mark=fail_at_collect", f"--junitxml={path}", *words,
                             env={**self.env, **more, **dict([mark.split("=")]), **(env or {})}, timeout=longest, stdout=self.stdout).returncode
            except subprocess.TimeoutExpired:
                status = f"none after {longest} s"
            left = end_inheritors(mark)
        cases = results.read(self.stage, path)
        if status != int(any(case.outcome == "failed" for case in cases)):  # 0 = all passed, 1 = some failed
            cases.append(unfinished(self.stage, "pytest", status))
        if left:
            cases.append(results.Case(self.stage, "no process is left", "failed", "; ".join(left), "a leak on the host"))
        return cases

    def run(self, only=None):
        """All files, or those of them that `only` names."""
        self.files = [name for name in self.files if only is None or name in only]
        if not self.files:
            return []
        beside = ["-n", self.at_once, "--dist", "loadfile"] if self.at_once > 1 else []
        cases = self.pytest(OUT / f"{self.stage}.xml", [*beside, *self.in_order()])
        ran = {case.name.split("::")[0] for case in cases}
        return cases + [results.Case(self.stage, name, "failed", "it has no case", "it has no case") for name in self.files if name not in ran]

    def again(self, name):
        """Whether a case passes, alone."""
        cases = self.pytest(OUT / "again.xml", [name], {"CAY_TEST_SHUFFLE": ""})
        return bool(cases) and all(case.outcome == "passed" for case in cases)


def files_of(tier=None, alone=False):
    return [name for name, marks in selection.test_files().items() if (tier is None or tier in marks) and alone == ("alone" in marks)]


# ---- static checks ----


def tracked(*patterns):
    done = run("git", "ls-files", "-co", "--exclude-standard", *patterns, stdout=subprocess.PIPE, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (REPO / name).is_file()]


def unformatted():
    done = run("clang-format-14", "--dry-run", "--Werror", *tracked("*.[ch]"), capture_output=True, text=True)
    found = [f"{name}: run make format" for name in sorted(set(re.findall(r"^([^ :]*):\d", done.stderr, re.M)))]
    return found or ([f"clang-format-14: {done.stderr}"] if done.returncode != 0 else [])


# Roots of the crate: rustfmt finds the other files of src through lib.rs. Always Debian's rustfmt, as versions differ.
RUST = ["sdk/rust/src/lib.rs", "sdk/rust/examples/*.rs", "sdk/rust/tests/*.rs"]


def scripts():
    def is_shell(name):
        with open(REPO / name, "rb") as f:
            return re.match(rb"#!.*\b(sh|bash)\b", f.readline())

    return [name for name in tracked() if is_shell(name)]


def stale_api_docs():
    spec = run("build-check/cay", "serve", "--openapi", capture_output=True).stdout
    made = subprocess.run(["tools/api-docs"], cwd=REPO, input=spec, capture_output=True).stdout
    return [] if made == (REPO / "docs/api.md").read_bytes() else ["docs/api.md: run build/cay serve --openapi | tools/api-docs >docs/api.md"]


def note_flaky(names):
    """Adds names of flaky cases with today's date to tests/unsteady, for the next commit."""
    with open(UNSTEADY, "a") as f:
        f.writelines(f"{datetime.date.today()}  {name}\n" for name in sorted(names))


def bad_unsteady():
    """One line per mistake in tests/unsteady."""
    try:
        names = results.read_unsteady(UNSTEADY)
    except ValueError as e:
        return [str(e)]
    return [f"{where}: no test is called {name}" for where, listed in (("tests/unsteady", names), ("tools/checks/results.py", results.COUNT_ROWS))
            for name in listed if not selection.has_case(name)]


def static():
    cases = [step("static", "every-folder-uses-only-what-it-may", "tools/check-layers"),
             lines_case("static", "clang-format-agrees", unformatted()),
             step("static", "rustfmt-agrees", "rustfmt", "--check", *tracked(*RUST)),
             step("static", "shellcheck-agrees", "shellcheck", *scripts()),
             lines_case("static", "each-test-file-is-in-one-tier", selection.bad_tiers()),
             lines_case("static", "every-test-file-is-run", selection.unused_tests()),
             lines_case("static", "every-case-is-run", selection.bad_cases()),
             lines_case("static", "the-map-of-tests-is-whole", selection.bad_map()),
             lines_case("static", "the-unsteady-cases-exist", bad_unsteady())]
    if (REPO / "build-check/cay").exists():
        cases.append(lines_case("static", "the-api-reference-is-current", stale_api_docs()))
    return cases


def tidy():
    """clang-tidy, one file per call: version 14 reports false va_list errors when it is given several."""
    cases = compiled("tidy", "build-check", "--werror")
    for path in sorted((REPO / "src").rglob("*.c")):
        name = str(path.relative_to(REPO))
        if name != "src/base/err.c":
            cases.append(step("tidy", "tidy-" + name.replace("/", "-"), "clang-tidy-14", "--quiet", "-p", "build-check", "--extra-arg=-include",
                              f"--extra-arg={REPO}/tools/tidy.h", "--warnings-as-errors=*", f"--checks={TIDY}", name))
    return cases


def fuzz():
    cases = compiled("fuzz", "build-fuzz", "-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                     "-Dc_args=-fsanitize=fuzzer-no-link", env={"CC": CLANG})
    targets = [t for t in sorted((REPO / "build-fuzz/tests/fuzz").glob("libfuzzer_*")) if t.is_file() and os.access(t, os.X_OK)]
    for target in targets:
        name = target.name.partition("_")[2]
        corpus = REPO / "build-fuzz/corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        cases.append(step("fuzz", f"fuzz-{name}", target, f"-max_total_time={os.environ.get('FUZZ_SECONDS', '60')}",
                          f"-artifact_prefix=build-fuzz/{name}-", corpus, f"tests/fuzz/corpus/{name}"))
    return cases + ([] if targets else [lines_case("fuzz", "there-are-targets", ["no fuzz target was built"])])


class Soak(Suite):
    """The same tests with many more rounds: kills of the daemon under load (F04), and sandboxes that come and go (F24)."""

    def __init__(self):
        super().__init__("soak", [], env={"CAY_KILLS": os.environ.get("CAY_KILLS", "100"), "CAY_CHURN": os.environ.get("CAY_CHURN", "1000")})

    def run(self, only=None):
        return self.pytest(OUT / "soak.xml", ["tests/integration/test_recovery.py::test_kill_9_at_any_moment_leaves_whole_sandboxes_or_none",
                                              "tests/integration/test_churn.py::test_create_exec_kill_leaves_nothing"])


# What a stage runs was built by another one.
NEEDS = {"unit": "build", "static": "build", "core": "build", "full": "build", "core-alone": "build", "full-alone": "build", "soak": "build",
         "asan": "build-asan", "integration-asan": "build-asan", "integration-asan-alone": "build-asan",
         "tsan": "build-tsan", "integration-tsan": "build-tsan", "integration-tsan-alone": "build-tsan"}


def with_builds(names):
    """The names, each build in front of the first stage that needs it."""
    found = []
    for name in names:
        found += [need for need in [NEEDS.get(name)] if need and need not in found]
        found += [name] if name not in found else []
    return found


def stages(seed=None):
    """Name → a function that returns cases, or an object with run() and again()."""
    def suite(stage, tier=None, alone=False, **how):
        return Suite(stage, files_of(tier, alone), at_once=1 if alone else FILES_AT_ONCE, seed=seed, **how)

    return {
        "build": build,
        "unit": Programs("unit", "build-check"),
        "static": static,
        "core": suite("core", "core", in_memory=True),
        "full": suite("full", "full"),
        "core-alone": suite("core-alone", "core", alone=True),
        "full-alone": suite("full-alone", "full", alone=True),
        "build-asan": build_asan,
        "asan": Programs("asan", "build-asan", "--suite", "unit", "--suite", "fuzz", slow=4),
        "build-tsan": build_tsan,
        "tsan": Programs("tsan", "build-tsan", "--suite", "unit", slow=4, env=TSAN, before=fixed_layout),
        "integration-asan": suite("integration-asan", binary="build-asan/cay", env=ASAN),
        "integration-asan-alone": suite("integration-asan-alone", alone=True, binary="build-asan/cay", env=ASAN),
        "integration-tsan": suite("integration-tsan", binary="build-tsan/cay", env=TSAN, before=fixed_layout),
        "integration-tsan-alone": suite("integration-tsan-alone", alone=True, binary="build-tsan/cay", env=TSAN, before=fixed_layout),
        "tidy": tidy,
        "fuzz": fuzz,
        "soak": Soak(),
    }
