"""The examples: each runs as its head says, is content with what it sees, says what it should, and leaves nothing behind."""

import os
import re
import subprocess

import pytest

import cay_pypi
from cay_harness import CAY, REPO
from cay_kept import LOCKS
from cay_npm import lacking, node, run, typescript_sdk

pytestmark = pytest.mark.full

EXAMPLES = REPO / "examples"
# What each says: all of these lines, in whatever order those come that run side by side.
SAID = {
    "code_interpreter": ["    a value: 3", "[2] highest: 1.0", "    KeyError: 4, in line 1", "    a picture: plot-1.png"],
    "agent_loop": ["run: cat median.py", "write: median.py", "finish: the tests pass"],
    "streaming": ["step 1", "step 3", "it ended with 4", "6 * 7 = 42", "2 ** 64 = 18446744073709551616", "seen enough"],
    "branching": ["delete it: ModuleNotFoundError: No module named 'roman'", "replace: AssertionError: IV", "rules: works",
                  "kept: 5 lines", "the base is as it was"],
    "parallel_map": ["primes below 10, 100 and 990: 4 25 166"],
    "web_preview": ["<!doctype html><title>Draft</title><h1>Draft</h1>", "<!doctype html><title>Final</title><h1>Final</h1>",
                    "missing pages are 404"],
    "mcp_client": ["data: hello from 42 | text: hello from 42"],
    "adapters/cay_langchain": ["shell: 285", "The sum of the first ten squares is 285."],
    "adapters/cay_openai_agents": ["They add up to 5050."],
    "adapters/cay_pydantic_ai": ["it sees: NameError: name 'math' is not defined", "There are 120."],
    "adapters/cay_smolagents": ["it writes: price('apples')", "the answer: 4.5"],
}
WITH_PACKAGES = [name for name in SAID if name == "mcp_client" or name.startswith("adapters/")]
WITHOUT_DAEMON = "parallel_map"  # also shows that it does with the room that a daemon has when nobody says more
SCRIPTS = {
    "streaming": ["step 1", "it ended with 4", "seen enough"],
    "branching": ["replace: false", "rules: true", "the base is as it was"],
    "parallel_map": ["100 sandboxes, 338350"],
}


def python(name):
    """The interpreter for an example, which has what that needs."""
    return cay_pypi.python("examples" if name in WITH_PACKAGES else "sdk-python")


def test_the_examples_are_tried_with_the_versions_that_are_written_there():
    wanted = re.findall(r"^\w.*$", (EXAMPLES / "requirements.txt").read_text(), re.M)
    installed = (REPO / LOCKS["examples"]).read_text()
    assert wanted and not [line for line in wanted if f"{line} \\\n" not in installed], "run tools/check-drift --lock examples"


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CAY_", "III_", "OPENAI_", "LANGCHAIN_", "LANGSMITH_"))}
    return {**kept, "PYTHONPATH": str(REPO / "sdk" / "python" / "src"), "CAY_BIN": str(CAY), "NO_PROXY": "*", "no_proxy": "*",
            "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", **more}


def told(argv, lines, **how):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, **how)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    missing = [line for line in lines if line not in done.stdout.split("\n")]
    assert not missing, done.stdout + done.stderr
    return done


def is_empty(daemon):
    with daemon.api() as api:
        return not api.get("/sandboxes").ok()["items"] and not api.get("/snapshots").ok()["snapshots"]


@pytest.mark.parametrize("name", [name for name in SAID if name != WITHOUT_DAEMON])
def test_an_example_works(shared, tmp_path, name):
    done = told([python(name), EXAMPLES / f"{name}.py"], SAID[name], cwd=tmp_path,
                env=environment(CAY_HOST=f"unix:{shared.socket_path}"))
    assert "Warning" not in done.stderr, done.stderr
    if name == "code_interpreter":
        assert (tmp_path / "plot-1.png").stat().st_size > 5000
    assert is_empty(shared)


def test_an_example_works_when_no_daemon_runs(tmp_path):
    env = environment(CAY_RUN=str(tmp_path / "none"), CAY_REST_PORT="0", TMPDIR=str(tmp_path))
    done = told([python(WITHOUT_DAEMON), EXAMPLES / f"{WITHOUT_DAEMON}.py"], SAID[WITHOUT_DAEMON], cwd=tmp_path, env=env)
    assert "this process started its own" in done.stderr


def test_their_style():
    ruff = [python("streaming"), "-m", "ruff"]
    config = ["--no-cache", "--config", REPO / "sdk" / "python" / "pyproject.toml", EXAMPLES]
    told([*ruff, "check", *config], [])
    told([*ruff, "format", "--check", *config], [])


def test_the_table_has_all_of_them():
    table = set(re.findall(r"^\| \[[\w.]+\]\(([\w/.]+)\) \|", (EXAMPLES / "README.md").read_text(), re.M))
    there = {str(path.relative_to(EXAMPLES)) for kind in ("py", "ts", "c") for path in EXAMPLES.rglob(f"*.{kind}")}
    assert table == there
    assert {f"{name}.py" for name in SAID} | {f"typescript/{name}.ts" for name in SCRIPTS} == {
        name for name in there if not name.startswith("c/")}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The examples in TypeScript as JavaScript, in a project that has the SDK."""
    why = lacking()
    if why:
        pytest.skip(why)
    sdk = typescript_sdk()
    folder = tmp_path_factory.mktemp("cay-test-examples")
    (folder / "node_modules" / "@cay").mkdir(parents=True)
    (folder / "node_modules" / "@cay" / "sdk").symlink_to(sdk)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    for name in SCRIPTS:
        (folder / f"{name}.ts").write_text((EXAMPLES / "typescript" / f"{name}.ts").read_text())
    run("node", sdk / "node_modules" / "typescript" / "bin" / "tsc", "--strict", "--skipLibCheck", "--module", "nodenext", "--target",
        "es2022", "--lib", "es2023,esnext.disposable", "--typeRoots", sdk / "node_modules" / "@types", "--types", "node",
        *(f"{name}.ts" for name in SCRIPTS), cwd=folder)
    return folder


@pytest.mark.needs("program:node")
@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_in_typescript_works(compiled, shared, name):
    told([node(), f"{name}.js"], SCRIPTS[name], cwd=compiled, env=environment(CAY_HOST=f"unix:{shared.socket_path}"))
    assert is_empty(shared)
