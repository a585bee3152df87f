"""A client that a public generator makes of /openapi.json: is it typed, and does it work?"""

import ast
import json
import subprocess
import tempfile
from pathlib import Path

import pytest

from cay_kept import environment

pytestmark = pytest.mark.full

CONFIG = {"project_name_override": "cay-client", "package_name_override": "cay_client",
          "content_type_overrides": {"application/x-tar": "application/octet-stream",
                                     "application/x-asciicast": "application/octet-stream"}}


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory(prefix="cay-test-client-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def generator():
    """The folder of the programs of a venv that has the generator, and what its clients need."""
    return environment("openapi-client") / "bin"


@pytest.fixture(scope="module")
def document(shared):
    with shared.api() as api:
        answer = api.get("//openapi.json").ok()
        shared.apis.remove(api)
        return answer


@pytest.fixture(scope="module")
def client(generator, document, folder):
    """The folder that the generated package is in."""
    (folder / "openapi.json").write_text(json.dumps(document))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    done = subprocess.run(
        [generator / "openapi-python-client", "generate", "--path", "openapi.json", "--config",
         "config.json", "--meta", "none", "--output-path", "cay_client"],
        cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("Cannot parse", "ERROR", "Unsupported", "WARNING parsing"):
        assert word not in done.stdout + done.stderr, done.stdout + done.stderr
    return folder


def returned(path):
    """The names in what sync_detailed() of a generated operation says that it returns."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == "sync_detailed":
            return {n.id for n in ast.walk(node.returns) if isinstance(n, ast.Name)}
    raise AssertionError(f"{path} has no sync_detailed()")


def test_every_operation_is_typed(client, document):
    count, tags = 0, [tag["name"] for tag in document["tags"]]
    for item in document["paths"].values():
        for operation in item.values():
            path = client / "cay_client" / "api" / operation["tags"][0] / f"{operation['operationId']}.py"
            names = returned(path)
            assert tags.count(operation["tags"][0]) == 1
            assert "Error" in names, (path, names)
            if "101" not in operation["responses"]:  # there is no body after that
                assert "Any" not in names, (path, names)
                count += 1
    assert count > 50


def test_lists_of_words_are_of_their_own_type(client):
    words = {path.name for path in (client / "cay_client" / "models").glob("*_item.py")}
    assert {"token_create_body_scopes_item.py", "fs_watch_body_events_item.py"} <= words, words


def test_the_client_drives_a_daemon(own, generator, client):
    smoke = Path(__file__).with_name("cay_client_smoke.py")
    done = subprocess.run([generator / "python", smoke, client, f"http://127.0.0.1:{own.port}"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr
