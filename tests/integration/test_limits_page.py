"""docs/limits.md says what the program does: every variable with its default, and the program's own numbers."""

import re
import subprocess

import pytest

from cay_harness import CAY, REPO

pytestmark = pytest.mark.core

PAGE = (REPO / "docs/limits.md").read_text()

# Numbers, but no limits.
NO_LIMITS = {"CAY_REST_PORT", "CAY_WS_PORT", "CAY_POOL", "CAY_POOL_SIZE", "CAY_ALERT_INTERVAL", "CAY_METRICS_INTERVAL", "CAY_ENGINE_RETRY_MS"}

# The program's own: row, macro and the file that has it.
OWN = [
    ("commands at once in a sandbox", "EXECS_MAX", "agent/agent.h"),
    ("those that somebody waits for", "AGENT_TASKS_MAX", "engine/agent_wait_internal.h"),
    ("calls for files, processes and logs of one sandbox that its agent has not answered", "AGENT_WAITS_MAX",
     "engine/agent_wait_internal.h"),
    ("calls for files, processes and logs of one sandbox that its agent has not answered", "AGENT_EXTRA_MAX",
     "engine/agent_wait_internal.h"),
    ("calls that wait for agents, of all sandboxes", "AGENT_THREADS_MAX", "engine/agent_wait_internal.h"),
    ("calls that wait for agents, of all sandboxes", "AGENT_EXTRA_ALL_MAX", "engine/agent_wait_internal.h"),
    ("one argument", "ARG_BYTES_MAX", "model/limits.h"),
    ("arguments", "CALL_ARGS_MAX", "proto/call.h"),
    ("variables of its environment", "ENV_VARS_MAX", "engine/env.c"),
    ("variables of its environment", "ENV_BYTES_MAX", "engine/env.c"),
    ("output of one that is waited for", "EXEC_OUTPUT_MAX", "engine/exec.h"),
    ("output that is kept for later", "KEPT_WINDOW", "agent/kept.h"),
    ("log of one in the background", "EXEC_LOG_MAX", "engine/exec_internal.h"),
    ("background commands of a sandbox in its life", "STORE_EXECS_MAX", "store/store.h"),
    ("callers that follow one command", "WATCHERS_MAX", "agent/kept.h"),
    ("a terminal's recording", "RECORDING_MAX", "proto/call.h"),
    ("how many on one machine, of all daemons", "ID_RANGES", "runtime/native/id_ranges.h"),
    ("names of images", "NAMES_MAX", "image/image_internal.h"),
    ("pulls at once", "PULLS_MAX", "engine/pulls.c"),
    ("boxes of the warm pool in all", "POOL_SIZE_MAX", "engine/pool.h"),
    ("profiles of the warm pool", "POOL_PROFILES_MAX", "engine/pool.h"),
    ("steps of a build", "BUILD_STEPS_MAX", "service/build/build.h"),
    ("builds at once", "BUILDS_MAX", "service/build/run.c"),
    ("sandboxes of one fork", "FORK_MAX", "engine/snapshots.h"),
    ("a volume, MB", "VOLUME_MB_MIN", "model/mount.h"),
    ("alerts of a sandbox", "ALERTS_MAX", "service/alerts.h"),
    ("times that they fired which are kept", "ALERT_HISTORY_MAX", "service/alerts.h"),
    ("a volume, MB", "VOLUME_MB_MAX", "model/mount.h"),
    ("a JSON body", "BODY_MAX", "rest/serve.c"),
    ("a JSON body", "JSON_BODY_MAX", "functions/files.c"),
    ("a file inside JSON", "JSON_FILE_MAX", "rest/serve.c"),
    ("entries of a folder that is listed", "LIST_MAX", "agent/files.c"),
    ("sandboxes on a page of a list", "PAGE_MAX", "engine/lifecycle.c"),
]


def defaults():
    said = subprocess.run([CAY, "serve", "--help"], capture_output=True, text=True, check=True, env={}).stdout
    return dict(re.findall(r"^  (CAY_[A-Z_]+)=(.*)$", said, re.M))


def row(name):
    cells = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", PAGE, re.M)
    assert cells, f"the page has no row \"{name}\""
    return [cell.strip() for cell in cells[1].split("|")]


def test_every_variable_on_the_page_has_its_default():
    shown = re.findall(r"`(CAY_[A-Z_]+)=([^`]*)`", PAGE)
    known = defaults()
    assert [(name, value) for name, value in shown if known.get(name) != value and (name, value) != ("CAY_MAX_TIMEOUT", "0")] == []


def test_every_limit_that_can_be_set_is_on_the_page():
    numbers = {name for name, value in defaults().items() if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value)}
    shown = {name for name, _ in re.findall(r"`(CAY_[A-Z_]+)=([^`]*)`", PAGE)}
    assert numbers - shown - NO_LIMITS == set()


def test_ranges_of_a_sandbox_are_those_of_the_daemon(daemon_of):
    own = daemon_of().start()
    with own.api() as api:
        limits = api.get("/info").ok()["limits"]
    for name, key, unit in (("memory, MB", "memory", "Mb"), ("cores", "cpu", ""), ("processes and threads", "pids", ""),
                            ("disk, MB", "disk", "Mb"), ("time to live, s", "timeout", "")):
        _, least, _, most, *_ = row(name)
        assert float(least) == limits[f"{key}Min{unit}"], name
        assert float(most.strip("`").rpartition("=")[2].replace(",", "")) == limits[f"{key}Max{unit}"], name


def test_the_programs_own_limits_are_those_of_its_source():
    for name, macro, path in OWN:
        value = re.search(rf"^#define +{macro} +(\(?[0-9ul <]+\)?)", (REPO / "src" / path).read_text(), re.M)
        assert value, f"{path} has no {macro}"
        number = eval(re.sub("[ul]", "", value[1]))  # of our own source: (16u << 20)
        words = {f"{number:,}"}
        if number % 1024 == 0:
            words.add(f"{number >> 10} KiB")
        if number % (1 << 20) == 0:
            words.add(f"{number >> 20} MiB")
        assert any(re.search(rf"\b{re.escape(word)}\b", row(name)[0]) for word in words), (name, words, row(name))
