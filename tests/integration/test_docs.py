"""Every shell block of README.md and docs/ is run, page by page, as somebody would who types it in.

A block says by its first line what it is: `sh` is run; anything else (console, text, json, ini) is shown only. Where one cannot be run
here, the line before it says why: <!-- not run: reason -->. Those are counted as skipped, with the reason.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cay_harness import CAY, REPO

pytestmark = pytest.mark.full

if not (REPO / "docs").is_dir():
    pytest.skip("needs the docs, which are not on this machine", allow_module_level=True)

LEFT_OUT = {
    "docs/api.md": "tools/api-docs writes it from the program",
    "docs/benchmarks.md": "its commands take an hour",
}
REFERENCE = "\n## Reference\n"
BLOCK = re.compile(r"(?:^<!-- not run: (?P<why>[^\n]+?) -->\n)?^(?P<indent> *)```(?P<kind>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
                   re.M | re.S)

# A network of its own, so that the usual port is free; what daemons it started ends before it does.
PAGE = r"""
ip link set lo up
finish() {
    cay rm --all --yes >/dev/null 2>&1 || true
    for p in /proc/[0-9]*; do
        if [ "$(readlink "$p/exe")" = "$CAY" ] && grep -qz '^serve$' "$p/cmdline"; then kill "${p#/proc/}"; fi
    done
    while [ -n "$(find .. -maxdepth 3 -name cay.sock)" ]; do sleep 0.02; done
}
trap finish EXIT
"""


def pages():
    return ["README.md", *sorted(str(p.relative_to(REPO)) for p in (REPO / "docs").glob("*.md"))]


def blocks(page):
    text = (REPO / page).read_text()
    if page == "docs/cli.md":
        text = text[:text.index(REFERENCE)]  # see test_an_example_of_the_reference_works
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("text"))
        yield line, found["kind"].strip(), found["why"], found["text"]


WRITTEN = [p for p in pages() if p not in LEFT_OUT]
MARKED = [*((page, 1, why) for page, why in LEFT_OUT.items()),
          *[(p, line, why) for p in WRITTEN for line, _, why, _ in blocks(p) if why]]


@pytest.mark.parametrize("page", WRITTEN)
def test_blocks_say_what_they_are(page):
    for line, kind, why, _ in blocks(page):
        assert kind, f"{page}:{line}: a block without a word after ```: sh if it is to be run"
        assert not why or kind == "sh", f"{page}:{line}: only sh blocks are run, so only they need a reason not to be"


@pytest.mark.parametrize("page", [p for p in WRITTEN if any(k == "sh" and not w for _, k, w, _ in blocks(p))])
def test_the_shell_blocks_of_a_page_work(page):
    script = PAGE
    for line, kind, why, text in blocks(page):
        if kind == "sh" and not why:
            script += f"echo 'block of line {line}' >&2\n{text}"
    run_script(script, page)


def run_script(script, what):
    """In a place and a network of its own; what it printed when it failed."""
    place = Path(tempfile.mkdtemp(prefix="cay-docs-"))
    try:
        (place / "bin").mkdir()
        (place / "here").mkdir()
        (place / "bin" / "cay").symlink_to(CAY)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
        env |= {"PATH": f"{place}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "CAY": os.path.realpath(CAY), "HOME": str(place),
                "CAY_DATA": f"{place}/data", "CAY_RUN": f"{place}/run", "TMPDIR": str(place)}
        done = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash",
                               "-euo", "pipefail", "-c", script], cwd=place / "here", env=env, capture_output=True,
                              text=True, timeout=300, stdin=subprocess.DEVNULL)
        log = place / "here" / "cay.log"
        assert done.returncode == 0, f"{what}\n{done.stdout}\n{done.stderr}\n{log.read_text() if log.exists() else ''}"
    finally:
        shutil.rmtree(place)


# What the examples of the reference take for granted, made anew for each line of them.
WORLD = r"""
cay serve --detach 2>>cay.log
export TOKEN=secret
mkdir -p project src rootfs/bin app filled
printf 'FROM host AS base\nARG VERSION\nFROM base AS test\nRUN true\n' | tee Dockerfile app/Dockerfile app/Dockerfile.dev >/dev/null
echo 'print(1)' >app.py
echo 1,2 | tee data data.csv data.json project/in.csv src/a filled/out.csv >/dev/null
world() {
    cay rm --all --yes >/dev/null 2>&1 || true
    case $1 in *template*)
        cay template rm web >/dev/null 2>&1 || true  # one that was built from a folder
        cay template create web host >/dev/null 2>&1 ;;
    esac
    for volume in $(cay volume ls -q); do cay volume rm $volume >/dev/null; done
    case $1 in "cay volume create"*) ;; *volume*)
        cay volume create --size 64M cache >/dev/null
        cay volume cp -q filled cache:/data ;;
    esac
    for snapshot in $(cay snapshot ls -q); do cay snapshot rm -q $snapshot; done
    case $1 in "cay run"*|"cay create"*|"id="*) return ;; esac
    cay create --name web >/dev/null
    printf 'all:\n\techo made\n' | cay file write -q web Makefile
    cay exec web "mkdir build; touch notes.txt out.csv"
    case $1 in "cay snapshot "[!c]*|"cay snapshot clone"*|"cay diff"*) cay snapshot create -q web before-upgrade ;; esac
    case $1 in "cay net explain"*) cay net set web packages ;; esac
    case $1 in "cay port rm"*) cay port add web 8080:80 >/dev/null ;; esac
    case $1 in "cay network connect"*) cay create --name db >/dev/null ;; esac
    case $1 in "cay image export"*|"cay image tag"*) cay image import -q ./rootfs app:1.0 >/dev/null ;; esac
}
"""

# Lines of the reference that are not run, by what is in them.
NOT_RUN = [
    (r"\bpython:3\.12|registry\.example|debian:12$|run python python3", "needs a registry"),
    (r" -it | -dt |^cay shell (?!--ls)", "needs somebody at a terminal"),
    (r"\bex_9b1deb|\bsbx_5f0c1e", "the id is made up"),
    (r"^docker|zstd|debian\.tar\.zst", "needs docker, or zstd"),
    (r"^cay forward", "does not end by itself; test_forward.py has it"),
    (r"^cay events -f|^cay file watch", "does not end by itself; their own pages have it"),
    (r"^cay serve", "does not end; other pages start one"),
    (r"^cay net explain web 169|^cay net log -f", "ends with 1, which says that it is refused, or not at all"),
    (r"nginx|^curl .*cay port|^cay port web$", "needs a registry"),
    (r"http://db:8080", "needs a server in another sandbox"),
    (r"^cay worker", "is a daemon; test_iii_worker.py starts it"),
    (r"\bcay sandbox |^cay trigger", "needs a registry, or sandboxes of iii; test_iii_cli.py has them"),
    (r"^cay completion", "writes into the system; test_cli.py tries the scripts"),
]


def examples():
    text = (REPO / "docs/cli.md").read_text().split(REFERENCE)[1]
    for found in BLOCK.finditer(text):
        if found["kind"].strip() == "sh":
            yield from found["text"].splitlines()


def why_not(line):
    return next((why for pattern, why in NOT_RUN if re.search(pattern, line)), None)


def test_the_examples_of_the_reference_work():
    script = PAGE + WORLD
    for line in examples():
        if not why_not(line):
            quoted = shlex.quote(line)
            script += f"echo {quoted} >&2\nworld {quoted}\ntimeout 60 bash -euo pipefail -c {quoted}\n"
    run_script(script, "docs/cli.md")


@pytest.mark.parametrize("line", [line for line in examples() if why_not(line)])
def test_an_example_that_is_not_run_says_why(line):
    pytest.skip(f"docs/cli.md, {line!r} is not run: {why_not(line)}")


@pytest.mark.parametrize("page, line, why", MARKED)
def test_a_block_that_is_not_run_says_why(page, line, why):
    pytest.skip(f"{page}:{line} is not run: {why}")


def test_no_page_has_two_versions_of_a_line():
    for page in ["CHANGELOG.md", "ARCHITECTURE.md", "SECURITY.md", "HACKING.md", *pages()]:
        assert not re.search("^(<<<<<<<|>>>>>>>) ", (REPO / page).read_text(), re.M), page


# Of the command line, and beginnings of names.
OTHERS = {"CAY_TOKEN", "CAY_HOST", "CAY_DEFAULT_", "CAY_MAX_", "CAY_TOTAL_", "CAY_"}
OTHERS |= {"CAY_URL", "CAY_BIN", "CAY_IMAGE"}  # of the SDKs


def variables():
    said = subprocess.run([CAY, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (CAY_[A-Z0-9_]+)=", said, re.M))


@pytest.mark.parametrize("page", [*(p for p in WRITTEN if not p.startswith("docs/security")), "packaging/default/cay"])
def test_every_variable_that_is_named_exists(page):
    text = re.sub(r"^```c\n.*?^```$", "", (REPO / page).read_text(), flags=re.M | re.S)  # has constants of its own
    named = set(re.findall(r"\bCAY_[A-Z0-9_]*", text))
    assert named - variables() - OTHERS == set()


def test_the_sample_configuration_is_accepted():
    """As it is, and with every line of it switched on."""
    text = (REPO / "packaging/default/cay").read_text()
    assert not re.findall(r"^[^#\n]", text, re.M), "as it is installed it changes nothing"
    env = dict(re.findall(r"^#(CAY_[A-Z0-9_]+)=(.*)$", text, re.M))
    assert len(env) > 15
    done = subprocess.run([CAY, "serve", "--openapi"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
