"""Inside the machine that loses its power. Says on the second serial line what it finds of the boots before (FOUND), then what
programs inside sandboxes have written and synced (DID), until the machine is gone."""

import json
import os
import subprocess
import sys
import threading

CAY = os.environ["CAY_BIN"]
WORK = "/workspace"

# Each writes a number, makes it safe in its own way, and only then says so. What it prints last is what must be there.
WRITERS = {
    "append": """
f = os.open("append", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for n in range(1, 1 << 30):
    os.write(f, b"%d\\n" % n)
    os.fsync(f)
    print(n, flush=True)
""",
    "osync": """
f = os.open("osync", os.O_WRONLY | os.O_CREAT | os.O_SYNC, 0o644)
for n in range(1, 1 << 30):
    os.pwrite(f, b"%20d" % n, 0)
    print(n, flush=True)
""",
    # As editors and git do: another file, then its name.
    "rename": """
for n in range(1, 1 << 30):
    f = os.open("rename.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(f, b"%d" % n)
    os.fsync(f)
    os.close(f)
    os.rename("rename.tmp", "rename")
    d = os.open(".", os.O_RDONLY)
    os.fsync(d)
    os.close(d)
    print(n, flush=True)
""",
    "files": """
for n in range(1, 1 << 30):
    os.makedirs("files/%d" % (n // 10), exist_ok=True)
    f = os.open("files/%d/%d" % (n // 10, n), os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(f, b"%d" % n)
    os.fsync(f)
    os.close(f)
    for name in ("files/%d" % (n // 10), "files", "."):
        d = os.open(name, os.O_RDONLY)
        os.fsync(d)
        os.close(d)
    print(n, flush=True)
""",
    "sync": """
f = os.open("sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for n in range(1, 1 << 30):
    os.write(f, b"%d\\n" % n)
    os.sync()
    print(n, flush=True)
""",
    "sqlite": """
import sqlite3
db = sqlite3.connect("sqlite.db", isolation_level=None)
db.execute("pragma synchronous = extra") # full does not sync that the journal is gone
db.execute("create table t (n integer primary key, pad text)")
for n in range(1, 1 << 30):
    db.execute("insert into t values (?, ?)", (n, "x" * 500))
    print(n, flush=True)
""",
    "wal": """
import sqlite3
db = sqlite3.connect("wal.db", isolation_level=None)
db.execute("pragma journal_mode = wal")
db.execute("pragma synchronous = full")
db.execute("create table t (n integer primary key, pad text)")
for n in range(1, 1 << 30):
    db.execute("insert into t values (?, ?)", (n, "x" * 500))
    print(n, flush=True)
""",
}

# The highest number of each that is there with all before it; -1 = there is something, and it is broken. After what was synced last
# there may be anything.
READER = """
import json, os, sqlite3
def text(name):
    return open(name, errors="replace").read().strip("\\0") if os.path.exists(name) else ""
def rows(name):
    if not os.path.exists(name):
        return 0
    db = sqlite3.connect(name)
    if db.execute("pragma integrity_check").fetchall() != [("ok",)]:
        return -1
    if not db.execute("select 1 from sqlite_master where name = 't'").fetchall():
        return 0
    count, last = db.execute("select count(*), coalesce(max(n), 0) from t").fetchone()
    return last if count == last else -1
def lines(name):
    n = 0
    for line in text(name).split("\\n"):
        if line != str(n + 1):
            break
        n += 1
    return n
def files():
    n = 0
    while text("files/%d/%d" % ((n + 1) // 10, n + 1)) == str(n + 1):
        n += 1
    return n
print(json.dumps({"append": lines("append"), "osync": int(text("osync") or 0), "rename": int(text("rename") or 0),
                  "files": files(), "sync": lines("sync"), "sqlite": rows("sqlite.db"), "wal": rows("wal.db"),
                  "secret": text("secret").strip()}))
"""

out_lock = threading.Lock()
out = open("/dev/ttyS1", "w")


def say(*words):
    with out_lock:
        print(*words, file=out, flush=True)


def cay(*words):
    done = subprocess.run([CAY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        say("ERROR", words[0], done.stderr.replace("\n", " ")[:300])
        sys.exit(1)
    return done.stdout.strip()


def run(id, program):
    return [CAY, "exec", id, "python3", "-c", f"import os; os.chdir('{WORK}')\n{program}"]


def check():
    for sandbox in json.loads(cay("ls", "--all", "--json")):
        id = sandbox["id"]
        cay("start", id)
        found = subprocess.run(run(id, READER), stdout=subprocess.PIPE, text=True).stdout
        cay("stop", id)
        say("FOUND", id, sandbox["status"], found.strip() or "nothing")


def write(kind, id):
    with subprocess.Popen(run(id, WRITERS[kind]), stdout=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            say("DID", id, kind, line.strip())
    say("ERROR", kind, "ended")


def churn():
    """Sandboxes come and go, so that disks are used again: nobody may find what another left there."""
    kept = 0
    while True:
        id = cay("create")
        subprocess.run(run(id, f"f = open('secret', 'w'); f.write('{id}'); f.flush(); os.fsync(f)"))
        cay("rm", id)
        if kept < 2:
            cay("create")
            kept += 1


def main():
    os.makedirs("/data", exist_ok=True)
    subprocess.run(["mount", "/dev/vdc", "/data"], check=True)
    subprocess.run([CAY, "serve", "--data", "/data/cay", "--run", "/run/cay", "--detach"],
                   stderr=open("/mnt/daemon.log", "a"), check=True)
    check()
    say("CHECKED")
    threads = [threading.Thread(target=churn)]
    ids = [cay("create") for _ in range(3)]
    for i, kind in enumerate(WRITERS):
        threads.append(threading.Thread(target=write, args=(kind, ids[i % len(ids)])))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
