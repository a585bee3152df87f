"""libcay: programs in C, and one in C++, that use it as it is built and as it is installed."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from cay_harness import CAY, REPO

pytestmark = [pytest.mark.full, pytest.mark.needs("built:tests/libcay/drive")]

BUILD = Path(CAY).parent
SOURCES = REPO / "src" / "libcay"
EXAMPLES = sorted((REPO / "examples" / "c").glob("*.c")) if (REPO / "examples").is_dir() else []
SAID = {
    "hello": "hello from Linux\n",
    "stream": "1+1 = 2\n6*7 = 42\n1<<20 = 1048576\nit ended with 0\n",
    "files": "8 bytes, the same\nthey were in /workspace\nsandbox.restored\n",
}
SANITIZER = {"address": ["-fsanitize=address"], "thread": ["-fsanitize=thread"]}.get(os.environ.get("CAY_TEST_SANITIZER", ""), [])


def run(argv, **more):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def environment(daemon):
    return {**os.environ, "CAY_HOST": f"unix:{daemon.run}/cay.sock"}


def built(source, to, flags, compiler="cc"):
    run([compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-o", to, *flags, *SANITIZER])
    return to


def as_built():
    where = BUILD / "src" / "libcay"
    return ["-I", SOURCES, "-L", where, "-lcay", f"-Wl,-rpath,{where}"]


def test_a_program_uses_all_of_it(shared):
    """Terminals, threads, cancelling, coming back, files, ports, lists."""
    said = run([BUILD / "tests" / "libcay" / "drive"], env=environment(shared))
    assert "not ok" not in said and said.count("ok ") >= 10, said


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_works(shared, tmp_path, source):
    program = built(source, tmp_path / source.stem, as_built())
    assert run([program], env=environment(shared)) == SAID[source.stem]


def test_the_quick_start_of_the_page_works(shared, tmp_path):
    blocks = re.findall(r"^```c\n(.*?)^```$", (REPO / "docs" / "sdk-c.md").read_text(), re.M | re.S)
    whole = [text for text in blocks if "int main" in text]
    parts = [text for text in blocks if "int main" not in text]
    assert whole and parts
    for text in whole:
        (tmp_path / "a.c").write_text(text)
        program = built(tmp_path / "a.c", tmp_path / "a", as_built())
        assert run([program], env=environment(shared)) == "hello\n"
    # Each of the others, in a function that has what they talk of.
    for text in parts:
        body = "\n".join("    " + line for line in text.splitlines())
        (tmp_path / "b.c").write_text("#include <cay.h>\n#include <stdio.h>\n#include <string.h>\n"
                                      "int part(struct cay *cay, const char *id, struct cay_error err);\n"
                                      "int part(struct cay *cay, const char *id, struct cay_error err)\n{\n"
                                      f"{body}\n    return cay && id && err.status;\n}}\n")
        run(["cc", "-Wall", "-Wextra", "-Wno-unused", "-Werror", "-c", "-I", SOURCES, tmp_path / "b.c", "-o", tmp_path / "b.o"])


def declared():
    text = re.sub(r"/\*.*?\*/", "", (SOURCES / "cay.h").read_text(), flags=re.S)
    return set(re.findall(r"\b(cay_\w+)\(", text))


def test_only_what_the_header_has_is_exported():
    said = run(["nm", "-D", "--defined-only", BUILD / "src" / "libcay" / "libcay.so.0"])
    symbols = {line.split()[2] for line in said.splitlines()}
    assert "CAY_0" in symbols
    assert {s.split("@")[0] for s in symbols - {"CAY_0"}} == declared()
    assert all(s.endswith("@@CAY_0") for s in symbols - {"CAY_0"}), "every symbol has its version"


def test_the_library_does_nothing_to_the_process():
    """No exit, no signals, no output, no threads: it does not even know how."""
    said = run(["nm", "-D", "--undefined-only", BUILD / "src" / "libcay" / "libcay.so.0"])
    known = {line.split()[-1].split("@")[0] for line in said.splitlines()}
    forbidden = {"exit", "_exit", "signal", "sigaction", "sigprocmask", "pthread_create", "fork", "setenv", "putenv", "printf", "puts"}
    if not SANITIZER:
        assert not known & forbidden


def test_the_header_has_no_type_of_others():
    text = (SOURCES / "cay.h").read_text()
    assert re.findall(r"#include (\S+)", text.split("#ifndef CAY_H", 1)[1]) == ["<stddef.h>", "<stdint.h>"]
    assert "json_t" not in text


def test_the_manual_page_is_of_the_header():
    with open(SOURCES / "cay.h") as header:
        page = run([REPO / "tools" / "libcay-man"], stdin=header, cwd=REPO)
    assert page == (REPO / "packaging" / "man" / "libcay.3").read_text(), \
        "tools/libcay-man <src/libcay/cay.h >packaging/man/libcay.3"
    for function in declared():
        assert function in page


CPP = """
#include <cay.h>
#include <cstdio>
int main()
{
    struct cay_command command = {};
    struct cay_output output = {};
    struct cay_sandbox sandbox = {};
    struct cay_error err = {};
    struct cay *client;

    command.line = "echo C++";
    if (cay_open(nullptr, &client, &err) < 0 || cay_create(client, nullptr, &sandbox, &err) < 0 ||
        cay_exec(client, sandbox.id, &command, &output, &err) < 0 || cay_kill(client, sandbox.id, &err) < 0)
        return std::fprintf(stderr, "%s\\n", err.message);
    std::printf("%s", output.out);
    cay_output_done(&output);
    cay_sandbox_done(&sandbox);
    cay_close(client);
}
"""


@pytest.mark.needs("program:g++")
@pytest.mark.skipif(bool(SANITIZER), reason="who installs has no sanitizer")
def test_it_is_used_as_it_is_installed(shared, tmp_path):
    run(["/usr/bin/meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], env={**os.environ, "DESTDIR": str(tmp_path / "root")})
    root = tmp_path / "root"
    found = next(root.rglob("libcay.pc"))
    library = found.parent.parent
    assert (library / "libcay.so.0").exists() and os.readlink(library / "libcay.so") == "libcay.so.0"
    assert list(root.rglob("man3/libcay.3*"))
    configured = {**os.environ, "PKG_CONFIG_PATH": str(found.parent), "PKG_CONFIG_SYSROOT_DIR": str(root)}
    flags = run(["pkg-config", "--cflags", "--libs", "libcay"], env=configured).split()
    assert run(["pkg-config", "--modversion", "libcay"], env=configured).strip() == run([CAY, "version", "--json"]).split('"version": "')[1].split('"')[0]
    use = {**environment(shared), "LD_LIBRARY_PATH": str(library)}
    program = built(REPO / "examples" / "c" / "hello.c", tmp_path / "hello", flags)
    assert run([program], env=use) == SAID["hello"]
    assert "libcay.so.0" in run(["readelf", "-d", program])
    (tmp_path / "a.cpp").write_text(CPP)
    assert run([built(tmp_path / "a.cpp", tmp_path / "cpp", flags, compiler="g++")], env=use) == "C++\n"
