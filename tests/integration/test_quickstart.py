"""make quickstart, on machines where somebody else has the port that cay would take."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cay_harness import CAY, REPO

BUILD = Path(CAY).parent

pytestmark = [pytest.mark.full, pytest.mark.needs("built:build.ninja")]

# In a network of its own, so that the port is free to be taken. The one that takes it says so, and ends with its input.
ALONE = """
ip link set lo up
mkfifo "$1/said" "$1/alive"
"$2" "$3" "$4" <"$1/alive" >"$1/said" 2>"$1/log" &
exec 9>"$1/alive"
read -r _ <"$1/said"
BUILD="$5" MAKE=make "$6/tools/quickstart" 9>&-
exec 9>&-
wait
"""

FOREIGN = """
import http.server, sys, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"a page of another program")
server = http.server.HTTPServer(("127.0.0.1", 3111), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listens", flush=True)
sys.stdin.read()
"""


def quickstart(tmp_path, *neighbour):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_")) or k.startswith("CAY_TEST_")}
    env["CAY_RUN"] = str(tmp_path / "run")  # where no daemon is, whatever this machine has
    done = subprocess.run(["unshare", "--net", "sh", "-euc", ALONE, "sh", str(tmp_path), *neighbour, str(BUILD),
                           str(REPO)], capture_output=True, text=True, timeout=300, env=env,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line[:5] for line in done.stdout.splitlines() if line.startswith("[")] == ["[1/3]", "[2/3]", "[3/3]"]
    assert re.search(r"^hello from \S+$", done.stdout, re.M), done.stdout
    tried = re.findall(rf"^  (\S*{re.escape(str(BUILD))}/cay .*?) *(?:#.*)?$", done.stdout, re.M)
    assert len(tried) == 3, done.stdout
    return tried


def test_a_foreign_server_on_the_port_is_no_matter(tmp_path):
    tried = quickstart(tmp_path, sys.executable, "-c", FOREIGN)
    assert "--listen 127.0.0.1:3112" in tried[0], "the port that is offered is a free one"


def test_a_daemon_with_a_token_on_the_port_is_no_matter(tmp_path):
    serve = (f"exec {CAY} serve --data {tmp_path}/data --run {tmp_path}/other --stop-sandboxes "
             f"--ready-fd 1 --exit-with-parent-fd 0")
    tried = quickstart(tmp_path, "/bin/sh", "-c", f"CAY_AUTH_TOKEN=not-told {serve}")
    assert "--listen 127.0.0.1:3112" in tried[0]
