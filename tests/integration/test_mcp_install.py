"""`cay mcp install`: what it writes into the settings of programs that speak MCP, and what it leaves alone."""

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from cay_harness import CAY

pytestmark = pytest.mark.core

FILES = {  # client: its file below HOME, and the key of its servers
    "claude": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}


@pytest.fixture
def cay(tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "XDG_CONFIG_HOME"}

    def run(*words, status=0, **more):
        done = subprocess.run([CAY, "mcp", *words], cwd=tmp_path, env={**env, "HOME": str(tmp_path), **more},
                              capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done
    return run


def read(path):
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("client", FILES)
def test_a_client_is_told_how_to_start_it(cay, tmp_path, client):
    file, key = FILES[client]
    diff = cay("install", client).stdout
    entry = read(tmp_path / file)[key]["cay"]
    assert entry["args"] == ["mcp"] and Path(entry["command"]).samefile(CAY)
    assert "+" + (tmp_path / file).read_text().splitlines()[0] in diff.splitlines()
    assert (tmp_path / file).stat().st_mode & 0o777 == 0o600
    assert "has it already" in cay("install", client).stderr
    listed = [line.split() for line in cay("install").stdout.splitlines()]
    assert [line[0] for line in listed if line[-1] == "yes"] == [client]
    cay("uninstall", client)
    assert "cay" not in read(tmp_path / file).get(key, {})


def test_what_else_is_in_the_file_stays(cay, tmp_path):
    file = tmp_path / ".config/zed/settings.json"
    file.parent.mkdir(parents=True)
    before = '// mine\n{\n    "theme": "dark", // as it should be\n    "n": 1.50,\n}\n'
    file.write_text(before)
    file.chmod(0o644)
    cay("install", "--dry-run", "zed")
    assert file.read_text() == before
    diff = cay("install", "--tools", "core", "--read-only", "--host", "unix:/x", "zed").stdout
    assert [line for line in diff.splitlines() if line.startswith("-")] == [f"--- {file}"]
    assert [line for line in file.read_text().splitlines() if line in before.splitlines()] == before.splitlines()
    assert '"--tools=core",\n' in file.read_text() and '"--read-only"' in file.read_text() and '"--host=unix:/x"' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_link_to_the_file_stays_one(cay, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/claude.json").write_text('{"a": 1}\n')
    (tmp_path / ".claude.json").symlink_to("dotfiles/claude.json")
    cay("install", "claude")
    assert (tmp_path / ".claude.json").is_symlink()
    assert read(tmp_path / "dotfiles/claude.json")["mcpServers"]["cay"]["type"] == "stdio"


def test_a_project_has_settings_of_its_own(cay, tmp_path):
    cay("install", "--project", "--name", "boxes", "vscode")
    assert read(tmp_path / ".vscode/mcp.json")["servers"]["boxes"]["args"] == ["mcp"]
    assert not (tmp_path / ".config").exists()
    cay("install", "--project", "windsurf", status=2)


def test_what_is_not_understood_is_left_and_the_entry_is_shown(cay, tmp_path):
    file = tmp_path / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {\n"a": 1 "b": 2}}')
    done = cay("install", "cursor", status=1)
    assert "line 2" in done.stderr and '"cay": {\n  "command"' in done.stderr
    assert file.read_text() == '{"mcpServers": {\n"a": 1 "b": 2}}'


def test_bad_words(cay):
    assert "`cay mcp install` lists them" in cay("install", "emacs", status=2).stderr
    assert "letters, digits" in cay("install", "--name", 'a"b', "claude", status=2).stderr
    assert json.loads(cay("install", "--json", "-n", "claude").stdout)["changed"] is True
