"""The SDK for TypeScript: its own tests, its types and style, what it is made from, what is packed, the pages that show it, and all of
its calls against a real daemon in Node, Bun and Deno."""

import json
import os
import re
import subprocess

import pytest

from cay_harness import CAY, REPO, SLOW
from cay_npm import PROGRAMS, SDK, lacking, modules, node, run, typescript_sdk
from cay_world import needs_network
from test_contract_clients import uses_all

pytestmark = [pytest.mark.full, pytest.mark.needs("program:node", "program:npm")]

RUNTIMES = {"node": [], "bun": [], "deno": ["run", "-A"]}  # and how each runs a file
PAGES = ["docs/sdk-typescript.md", "sdk/typescript/README.md"]


@pytest.fixture(scope="module")
def sdk():
    why = lacking()
    if why:
        pytest.skip(why)
    return typescript_sdk()


def openapi():
    return subprocess.run([CAY, "serve", "--openapi"], capture_output=True, check=True).stdout


def env_of(daemon, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CAY_", "III_"))}
    return {**kept, "CAY_URL": f"http://127.0.0.1:{daemon.port}", "NO_PROXY": "*", "no_proxy": "*", "NO_COLOR": "1",
            "CAY_TEST_SLOW": str(SLOW), **more}


def test_what_is_made_from_the_daemons_description_is_as_it_would_be_made_now():
    made = subprocess.run(["node", SDK / "tools" / "generate.mjs"], input=openapi(), capture_output=True, check=True)
    assert made.stdout == (SDK / "src" / "generated.ts").read_bytes(), "run tools/generate.mjs"


def test_its_version_is_the_daemons():
    package = json.loads((SDK / "package.json").read_text())
    assert package["version"] == json.loads(openapi())["info"]["version"]
    assert "dependencies" not in package


def test_style(sdk):
    run("node", "node_modules/@biomejs/biome/bin/biome", "check", cwd=sdk)


def test_its_own_tests(sdk):
    run("node", "--test", *sorted((sdk / "out" / "test").glob("*.test.js")), cwd=sdk, timeout=120)


@pytest.fixture(scope="module")
def installed(sdk, tmp_path_factory):
    """A project that has the packed package."""
    folder = tmp_path_factory.mktemp("cay-test-npm")
    (packed,) = json.loads(run("npm", "pack", "--offline", "--json", "--ignore-scripts", "--pack-destination", folder, cwd=sdk))
    names = {entry["path"] for entry in packed["files"]}
    assert {"package.json", "README.md", "LICENSE", "dist/esm/index.js", "dist/esm/index.d.ts", "dist/cjs/index.js",
            "dist/cjs/index.d.ts", "dist/cjs/package.json"} <= names
    assert not [name for name in names if not name.startswith("dist/") and name not in ("package.json", "README.md", "LICENSE")]
    home = folder / "node_modules" / "@cay" / "sdk"
    home.mkdir(parents=True)
    run("tar", "-xzf", folder / packed["filename"], "--strip-components=1", "-C", home, cwd=folder)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    return folder


def test_what_is_packed_can_be_imported_and_required(installed):
    esm = run("node", "--input-type=module", "-e", "import * as all from '@cay/sdk'; console.log(Object.keys(all).sort().join())",
              cwd=installed)
    cjs = run("node", "--input-type=commonjs", "-e", "console.log(Object.keys(require('@cay/sdk')).sort().join())", cwd=installed)
    assert esm == cjs and "createSandbox" in esm.split(",")


def test_what_is_packed_has_types_for_both(sdk, installed):
    use = 'const id: Promise<string> = createSandbox().then((s) => s.exec("x")).then((r) => r.stdout);\nvoid id;\n'
    (installed / "a.mts").write_text('import { createSandbox } from "@cay/sdk";\n' + use)
    (installed / "b.cts").write_text('import { createSandbox } from "@cay/sdk";\n' + use)
    run("node", sdk / "node_modules" / "typescript" / "bin" / "tsc", "--strict", "--noEmit", "--skipLibCheck", "--module", "nodenext",
        "--target", "es2022", "--lib", "es2023,esnext.disposable", "--typeRoots", sdk / "node_modules" / "@types", "--types", "node",
        "a.mts", "b.cts", cwd=installed)


def test_what_is_packed_is_as_publishers_want_it(installed):
    run("node", modules("npm-programs") / "publint" / "src" / "cli.js", "--strict", installed / "node_modules" / "@cay" / "sdk", cwd=installed)


def blocks(page):
    return re.findall(r"```ts\n(.*?)```", (REPO / page).read_text(), re.S)


def test_what_the_pages_show_runs(sdk, installed, shared):
    """All blocks are compiled at once, since that is what takes time, and as strictly as the SDK is."""
    shown = [block for page in PAGES for block in blocks(page)]
    assert len(shown) >= 7
    folder = installed / "shown"
    folder.mkdir()
    for n, block in enumerate(shown):
        (folder / f"shown{n}.mts").write_text(block)
    run("node", sdk / "node_modules" / "typescript" / "bin" / "tsc", "--strict", "--skipLibCheck", "--module", "nodenext", "--target",
        "es2022", "--lib", "es2023,esnext.disposable", "--typeRoots", sdk / "node_modules" / "@types", "--types", "node",
        *(f"shown{n}.mts" for n in range(len(shown))), cwd=folder)
    for n in range(len(shown)):
        said = run("node", f"shown{n}.mjs", cwd=folder, env=env_of(shared), timeout=60)
        assert said, shown[n]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_all_that_it_has(sdk, own, tmp_path, runtime):
    why = lacking(runtime)
    if why:
        pytest.skip(why)
    command = [node() if runtime == "node" else modules("npm-programs") / PROGRAMS[runtime], *RUNTIMES[runtime]]
    env = env_of(own, CAY_TEST_SOCKET=str(own.socket_path), CAY_TEST_FOLDER=str(tmp_path))
    said = run(*command, sdk / "out" / "test" / "features.js", cwd=sdk, env=env, timeout=120)
    cases = re.findall(r"^  async (\w+)\(sandbox\) \{$", (SDK / "test" / "features.ts").read_text(), re.M)
    assert said.split() == [word for name in cases for word in ("ok", name)] and len(cases) > 15


@needs_network
def test_every_call_of_the_contract_by_its_name(sdk, world, online_of):
    daemon = online_of(env={"CAY_ALERT_INTERVAL": "1"}).start()
    uses_all(world, daemon, node(), sdk / "out" / "test" / "contract.js")


def test_the_bench_says_what_a_call_costs(sdk, own):
    said = json.loads(run("node", sdk / "out" / "bench" / "overhead.js", f"unix:{own.socket_path}", 5, 3, cwd=sdk, timeout=60))
    assert len(said["exec"]) == len(said["exec_raw"]) == 5 and all(seconds > 0 for seconds in said["lives"])
