"""Which tests there are, in which tier each is, and which of them a change can touch."""
import ast
import fnmatch
import functools
import pathlib
import re
import subprocess

REPO = pathlib.Path(__file__).resolve().parents[2]
MAP = REPO / "tests" / "map"
TIERS = ("core", "full")
OTHER_MARKS = ("alone", "needs", "skipif", "counts_rows")
EVERYTHING = "*"


def mark_words(node):
    """The words after `pytest.mark.` in a piece of Python."""
    return [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Attribute) and n.value.attr == "mark"]


@functools.cache
def marks(path):
    """The marks of a whole file: those of all its assignments to pytestmark."""
    return [word for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
            for word in mark_words(node.value)]


def bad_cases():
    """One line per case that pytest would leave out, or skip, without a word, and per mark of a file on a case."""
    found = []
    for path in test_files():
        names = set()
        for node in ast.parse((REPO / path).read_text()).body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            where, words = f"{path}:{node.lineno}: {node.name}", [word for mark in node.decorator_list for word in mark_words(mark)]
            found += [f"{where}: pytest.mark.{word} is of whole files: put it into pytestmark" for word in words if word in (*TIERS, "alone")]
            if not node.name.startswith("test_"):
                continue
            found += [f"{where}: a case above has the same name"] if node.name in names else []
            names.add(node.name)
            found += [f"{where}: pytest.mark.xfail: a case passes or fails"] if "xfail" in words else []
            if isinstance(node, ast.AsyncFunctionDef) or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(node)):
                found.append(f"{where}: pytest does not run async functions and generators")
    return found


def own_nodes(function):
    """The nodes of a function without those of the functions inside."""
    todo = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)


def test_files():
    """Every pytest file with its marks."""
    files = sorted([*REPO.glob("tests/integration/test_*.py"), *REPO.glob("tests/security/test_*.py")])
    return {str(path.relative_to(REPO)): marks(path) for path in files}


def bad_tiers():
    """One line per file that is not in exactly one tier, and per unknown mark."""
    files = test_files().items()
    return [*(f"{path}: one of {' or '.join(f'pytest.mark.{tier}' for tier in TIERS)} must stand in its line `pytestmark = …`"
              for path, words in files if sum(word in TIERS for word in words) != 1),
            *(f"{path}: pytest.mark.{word} is unknown" for path, words in files for word in words if word not in (*TIERS, *OTHER_MARKS))]


def unused_tests():
    """One line per file that looks like a test and that no stage runs."""
    suites = [path for part in ("integration", "security") for path in (REPO / "tests" / part).rglob("test_*.py")]
    known, programs = test_files(), unit_programs()
    found = [path for path in suites if str(path.relative_to(REPO)) not in known]
    for part in ("unit", "fuzz"):
        sources = [path for path in (REPO / "tests" / part).iterdir() if path.name.startswith(("test_", "fuzz_")) and path.suffix in (".c", ".py")]
        found += [path for path in sources if f"{part}-{path.stem.partition('_')[2]}" not in programs]
    return [f"{path.relative_to(REPO)}: no stage runs this file" for path in found]


def unit_programs():
    """The names of the unit programs and fuzz replays, as tests/unit/meson.build and tests/fuzz/meson.build give them."""
    text = "".join((REPO / "tests" / part / "meson.build").read_text() for part in ("unit", "fuzz"))
    # A name is written out in test('unit-x', …), or is a key of a table or a word of a list that a loop walks.
    names = re.findall(r"test\('((?:unit|fuzz)-[\w-]+)'", text)
    for part in ("unit", "fuzz"):
        text = (REPO / "tests" / part / "meson.build").read_text()
        sources = {p.stem.partition("_")[2] for p in (REPO / "tests" / part).iterdir() if p.stem.startswith(("test_", "fuzz_"))}
        names += [f"{part}-{word}" for word in re.findall(r"'(\w+)'(?=[:,\]])", text) if word in sources]
    return sorted(set(names))


def all_tests():
    return [*unit_programs(), *test_files()]


def has_case(name):
    """Whether a test has this name: a pytest node, a unit program, or a unit program and its case."""
    file, _, node = name.partition("::")
    program, _, case = name.partition(" ")
    if file in test_files():
        function = node.partition("[")[0].rpartition("::")[2]
        return not node or re.search(rf"^ *(async )?def {re.escape(function)}\(", (REPO / file).read_text(), re.M) is not None
    # A case may stand in a file that several programs include.
    return program in unit_programs() and (not case or any(re.search(rf"\b{re.escape(case)}\b", path.read_text())
                                                           for path in (REPO / "tests" / "unit").glob("*.*")))


# ---- tests/map: source folders and the tests that can notice a change in them ----


def read_map():
    """Folder → patterns. A row is a folder and the patterns of its tests; an indented line goes on with the row above."""
    rows = {}
    for line in MAP.read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if line[0].isspace() and not rows:
            raise ValueError(f"tests/map: the first row is indented: {line}")
        if not line[0].isspace():
            folder, *words = words
            if folder in rows:
                raise ValueError(f"tests/map has two rows for {folder}")
            rows[folder] = []
        rows[folder] += words
    return rows


def matching(patterns, names):
    """Names that match a pattern. A pattern without a slash is a unit program, or X of a pytest file test_X.py."""
    full = [p if "/" in p or p.startswith(("unit-", "fuzz-")) or p == EVERYTHING else f"tests/*/test_{p}.py" for p in patterns]
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in full)]


def bad_map():
    """One line per mistake in tests/map."""
    try:
        rows, names = read_map(), all_tests()
    except ValueError as e:
        return [str(e)]
    folders = [f"src/{p.name}" for p in sorted((REPO / "src").iterdir()) if p.is_dir()]
    found = [f"tests/map: no row for {folder}" for folder in folders if folder not in rows]
    found += [f"tests/map: {folder} is not there" for folder in rows if not (REPO / folder).exists()]
    found += [f"tests/map: {folder}: {pattern} matches no test" for folder, patterns in rows.items()
              for pattern in patterns if not matching([pattern], names)]
    named = {name for patterns in rows.values() for name in matching([p for p in patterns if p != EVERYTHING], names)}
    found += [f"tests/map: no row names {name}" for name in names if name not in named]
    for source in sorted([*REPO.glob("tests/unit/test_*.c"), *REPO.glob("tests/fuzz/fuzz_*.c")]):
        name = f"{source.parent.name}-{source.stem.partition('_')[2]}"
        used = {f"src/{folder}" for folder in re.findall(r'^#include "([\w-]+)/', source.read_text(), re.M)}
        found += [f"tests/map: {folder}: {name} is missing, since {source.name} includes a header of {folder}" for folder in sorted(used)
                  if name in names and folder in rows and name not in matching(rows[folder], names)]
    return found


def changed_files(revision):
    """Paths that differ from a revision, untracked ones among them."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=REPO, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]

    return sorted({*git("diff", "--name-only", "--no-renames", "-z", revision, "--"), *git("ls-files", "--others", "--exclude-standard", "-z")})


def importers(module):
    """The pytest files that import a helper module of the tests, or run it by its path, directly or through another helper."""
    found, todo = set(), [module]
    texts = {p: p.read_text() for part in ("integration", "security") for p in (REPO / "tests" / part).glob("*.py")}
    while todo:
        name = todo.pop()
        word = re.compile(r"^\s*(?:from|import) {0}\b|\b{0}\.py\b".format(name), re.M)
        for path, text in texts.items():
            if path not in found and name in text and word.search(text):  # `in` is much faster, and most files lack the name
                found.add(path)
                todo.append(path.stem)
    if any(path.name in ("conftest.py", "cay_fixtures.py") for path in found):
        return list(test_files())
    return [str(path.relative_to(REPO)) for path in found if path.name.startswith("test_")]


def touched(paths):
    """The tests that a change of these files can touch, and the files that no rule knows: those touch everything."""
    rows, names = read_map(), all_tests()
    found, unknown = set(), []
    for path in paths:
        part = pathlib.PurePath(path)
        folder = max((f for f in rows if part.is_relative_to(f)), key=len, default=None)
        if path in names:
            found.update([path, *importers(part.stem)])
        elif part.parent.name in ("integration", "security") and part.parts[0] == "tests" and part.suffix == ".py":
            found.update(list(test_files()) if part.stem in ("conftest", "cay_fixtures") else importers(part.stem))
        elif part.parent.name in ("unit", "fuzz") and part.suffix == ".c" and f"{part.parent.name}-{part.stem.partition('_')[2]}" in names:
            found.add(f"{part.parent.name}-{part.stem.partition('_')[2]}")
        elif part.parts[:2] in (("tests", "unit"), ("tests", "fuzz")):
            found.update(name for name in names if name.startswith(("unit-", "fuzz-")))
        elif folder:
            found.update(matching(rows[folder], names))
        elif part.suffix != ".md" and part.name not in ("LICENSE", ".gitignore"):
            unknown.append(path)
    return [name for name in names if unknown or name in found], unknown
