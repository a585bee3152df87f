"""Uses the endpoint with a genuine iii-sdk of PyPI, whichever generation can be imported:
    client.py steps    every step of steps.txt, with III_SIZE bytes through channels
    client.py stay     stays connected, while its daemon comes and goes"""

import asyncio
import base64
import hashlib
import importlib.metadata
import json
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from iii import InitOptions, TriggerAction, register_worker

VERSION = importlib.metadata.version("iii-sdk")
GENERATION = int(VERSION.split(".")[1])
if GENERATION >= 22:
    from iii.channel import ChannelReader, StreamChannelRef
    from iii.helpers import create_channel
    from iii_helpers.observability import ReconnectionConfig
else:
    from iii import ChannelReader, ReconnectionConfig, StreamChannelRef

URL = os.environ["III_URL"]
SIZE = int(os.environ.get("III_SIZE", 1 << 20))
LIMIT = 60 * float(os.environ.get("CAY_TEST_SLOW", "1"))  # seconds of a wait
NOBODY = "00000000-0000-4000-8000-000000000000"


def connect(name):
    return register_worker(URL, InitOptions(worker_name=name, reconnection_config=ReconnectionConfig(
        initial_delay_ms=50, max_delay_ms=200, jitter_factor=0.0)))


def new_channel(iii):
    return create_channel(iii) if GENERATION >= 22 else iii.create_channel()


def call(iii, function_id, payload=None, **fields):
    return iii.trigger({"function_id": function_id, "payload": payload or {}, "timeout_ms": 60_000, **fields})


def failure(iii, function_id, payload=None, **fields):
    try:
        got = call(iii, function_id, payload, **fields)
    except Exception as error:
        assert isinstance(error.code, str), error
        return error
    raise AssertionError(f"{function_id} gave {got}")


def envelope(iii, function_id, payload=None):
    """The S-code and all else that a sandbox function says, cut out as the public pages show it."""
    error = failure(iii, function_id, payload)
    assert error.code == "invocation_failed", error
    found = re.search(r"handler error:\s*(\{.*\})", str(error), re.S)
    assert found, error
    return json.loads(found[1])


def code(iii, function_id, payload=None):
    return envelope(iii, function_id, payload)["code"]


def done(step):
    print(f"ok {step}", flush=True)


def same(got, want):
    assert got == want, f"{got!r}, not {want!r}"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def listed(iii, id):
    """Registrations are not acknowledged: it is there when it is listed."""
    while True:
        for row in call(iii, "engine::functions::list", {"prefix": id})["functions"]:
            if row["function_id"] == id:
                return row


# ---- the steps ----


def functions(a, b):
    seen = []

    def add(data, metadata=None):
        seen.append((data, metadata))
        if data.get("fail"):
            raise ValueError("on purpose")
        return {"sum": data["x"] + data["y"]}

    a.register_function("cay.test::add", add, description="adds", metadata={"of": "tests"})
    row = listed(b, "cay.test::add")
    same((row["description"], row["metadata"]), ("adds", {"of": "tests"}))
    done("register")

    same(call(b, "cay.test::add", {"x": 2, "y": 3}), {"sum": 5})
    same(seen[0][0]["x"], 2)
    error = failure(b, "cay.test::add", {"fail": True})
    assert error.code == "invocation_failed" and "on purpose" in str(error), error

    with ThreadPoolExecutor(50) as pool:
        same([m["sum"] for m in pool.map(lambda x: call(b, "cay.test::add", {"x": x, "y": 1}), range(50))], list(range(1, 51)))
    done("call")

    if GENERATION >= 22:
        call(b, "cay.test::add", {"x": 1, "y": 1}, metadata={"tenant": "blue"})
        same(seen[-1][1], {"tenant": "blue"})
    done("metadata")

    arrived, word = threading.Event(), []

    def take(data):
        word.append(data["word"])
        arrived.set()

    a.register_function("cay.test::void", take)
    listed(b, "cay.test::void")
    same(call(b, "cay.test::void", {"word": "fire"}, action=TriggerAction.Void()), None)
    assert arrived.wait(LIMIT) and word == ["fire"]
    done("void")

    refused = failure(b, "cay.test::add", {"x": 1, "y": 1}, action=TriggerAction.Enqueue(queue="jobs"))
    assert refused.code == "enqueue_error" and "genuine iii engine" in str(refused), refused
    done("enqueue")

    # A trigger is refused, and the connection goes on.
    bound = b.register_trigger({"type": "cron", "function_id": "cay.test::add", "config": {"expression": "* * * * * *"}})
    same(call(b, "engine::registered-triggers::list")["registered_triggers"], [])
    bound.unregister()
    same(call(b, "cay.test::add", {"x": 1, "y": 2})["sum"], 3)
    done("trigger")
    same(failure(b, "cay.test::no-such").code, "function_not_found")
    done("unknown")


def commands(iii, id):
    def run(**fields):
        return call(iii, "sandbox::exec", {"sandbox_id": id, **fields})

    out = run(cmd="python3", args=["-c", 'import sys; print("hi"); print("there", file=sys.stderr); sys.exit(3)'])
    same((out["stdout"], out["stderr"], out["exit_code"], out["success"], out["timed_out"]), ("hi\n", "there\n", 3, False, False))
    assert isinstance(out["duration_ms"], int), out
    same(run(cmd="cat", stdin=base64.b64encode(b"typed\n").decode())["stdout"], "typed\n")
    same(run(cmd="no-such-program")["exit_code"], 127)
    same(run(cmd="pwd", workdir="/usr")["stdout"], "/usr\n")
    done("exec")

    same(run(argv=["echo", "a  b"])["stdout"], "a  b\n")
    same(run(cmd="echo 'c  d' e")["stdout"], "c  d e\n")
    same(code(iii, "sandbox::exec", {"sandbox_id": id, "cmd": "echo x", "args": ["y"]}), "S001")
    done("exec-shapes")

    show = {"cmd": "sh", "args": ["-c", "echo $A-$B-$C"]}
    same(run(**show)["stdout"], "1-2-\n")
    same(run(**show, env=["B=3", "C=4"])["stdout"], "1-3-4\n")
    same(run(**show, env={"C": "5"})["stdout"], "1-2-5\n")
    done("env")

    lost = envelope(iii, "sandbox::exec", {"sandbox_id": NOBODY, "cmd": "true"})
    same((lost["type"], lost["code"], lost["retryable"]), ("validation", "S002", False))
    same(code(iii, "sandbox::exec", {"sandbox_id": "no-uuid", "cmd": "true"}), "S001")
    same(code(iii, "sandbox::exec", {"sandbox_id": id, "cmd": "true", "stdin": "!!!"}), "S001")
    slow = envelope(iii, "sandbox::exec", {"sandbox_id": id, "cmd": "sleep", "args": ["1000"], "timeout_ms": 100})
    same((slow["type"], slow["code"]), ("execution", "S200"))
    assert code(iii, "sandbox::create", {"image": "no.such.host.invalid/x:1"}) in ("S100", "S102")
    done("errors")


def read_all(ref):
    return asyncio.run(ChannelReader(URL, StreamChannelRef(**ref)).read_all())


def files(iii, id):
    def fs(what, **fields):
        return call(iii, f"sandbox::fs::{what}", {"sandbox_id": id, **fields})

    def refused(what, **fields):
        return code(iii, f"sandbox::fs::{what}", {"sandbox_id": id, **fields})

    same(fs("mkdir", path="/tmp/d/e", parents=True), {"created": True})
    same(refused("mkdir", path="/tmp/d"), "S213")
    done("mkdir")

    same(fs("write", path="/tmp/d/a.txt", content="one\ntwo\nthree\n", mode="0600"), {"bytes_written": 14, "path": "/tmp/d/a.txt"})
    same(fs("write", path="/tmp/d/b.bin", content_b64=base64.b64encode(b"\0\xff\1").decode())["bytes_written"], 3)
    parent = envelope(iii, "sandbox::fs::write", {"sandbox_id": id, "path": "/tmp/none/x", "content": ""})
    same((parent["code"], parent["fix"]), ("S211", {"parents": True}))
    done("write")

    about = fs("stat", path="/tmp/d/a.txt")
    same([about[key] for key in ("name", "is_dir", "is_symlink", "size", "mode")], ["a.txt", False, False, 14, "0600"])
    assert isinstance(about["mtime"], int), about
    same(refused("stat", path="/tmp/none"), "S211")
    done("stat")

    same(sorted(entry["name"] for entry in fs("ls", path="/tmp/d")["entries"]), ["a.txt", "b.bin", "e"])
    same(refused("ls", path="/tmp/d/a.txt"), "S212")
    done("ls")

    got = fs("read", path="/tmp/d/a.txt")
    same((got["size"], got["mode"], got["body"]), (14, "0600", "one\ntwo\nthree\n"))
    same(read_all(got["content"]), b"one\ntwo\nthree\n")
    same(refused("read", path="/tmp/d"), "S212")
    done("read")

    found = fs("grep", path="/tmp/d", pattern="^t")
    same([(m["path"], m["line"], m["content"]) for m in found["matches"]], [("/tmp/d/a.txt", 2, "two"), ("/tmp/d/a.txt", 3, "three")])
    same(found["truncated"], False)
    same(refused("grep", path="/tmp/d", pattern="("), "S217")
    done("grep")

    same(fs("sed", files=["/tmp/d/a.txt"], pattern=r"t(\w)", replacement="T$1")["total_replacements"], 2)
    same(fs("read", path="/tmp/d/a.txt")["body"], "one\nTwo\nThree\n")
    done("sed")

    same(fs("chmod", path="/tmp/d", mode="0700", recursive=True), {"updated": 4})
    same(fs("stat", path="/tmp/d/b.bin")["mode"], "0700")
    done("chmod")

    same(fs("mv", src="/tmp/d/a.txt", dst="/tmp/d/c.txt"), {"moved": True})
    same(refused("mv", src="/tmp/d/c.txt", dst="/tmp/d/b.bin"), "S213")
    done("mv")

    same(refused("rm", path="/tmp/d"), "S214")
    same(fs("rm", path="/tmp/d", recursive=True), {"removed": True})
    same(refused("rm", path="/tmp/d"), "S211")
    done("rm")


def one_shots(iii):
    ran = call(iii, "sandbox::run", {"image": "host", "lang": "python", "code": "import helper; print(helper.word)",
                                     "files": [{"path": "/tmp/helper.py", "content": 'word = "from a file"\n'}]})
    same((ran["stdout"], ran["exit_code"], "sandbox_id" in ran), ("from a file\n", 0, False))
    inner = envelope(iii, "sandbox::run", {"image": "no.such.host.invalid/x:1", "lang": "sh", "code": "true"})
    same((inner["fix"]["inner_code"], inner["fix"]["sandbox_id"]), (inner["code"], ""))
    done("run")

    images = call(iii, "sandbox::catalog::list")["images"]
    same([(i["name"], i["kind"]) for i in images[:2]], [("python", "preset"), ("node", "preset")])
    assert all(isinstance(i["oci_ref"], str) for i in images), images
    done("catalog")


async def send_all(writer, data, text=None):
    if text:
        await writer.send_message_async(text)
    await writer.write(data)
    await writer.close_async()


def data_through_channels(a, b, id):
    data = os.urandom(SIZE)
    up, wrote = new_channel(a), {}
    writing = threading.Thread(target=lambda: wrote.update(call(a, "sandbox::fs::write", {
        "sandbox_id": id, "path": "/tmp/big", "content": up.reader_ref.model_dump()})))
    writing.start()
    asyncio.run(send_all(up.writer, data))
    writing.join()
    same(wrote.get("bytes_written"), SIZE)
    out = call(a, "sandbox::exec", {"sandbox_id": id, "cmd": "sha256sum", "args": ["/tmp/big"]})["stdout"]
    same(out.split()[0], digest(data))
    done("upload")

    got = call(a, "sandbox::fs::read", {"sandbox_id": id, "path": "/tmp/big"})
    same(got["size"], SIZE)
    same(digest(read_all(got["content"])), digest(data))
    call(a, "sandbox::fs::rm", {"sandbox_id": id, "path": "/tmp/big"})
    done("download")

    # From one client to another: text beside bytes, and refs in what a handler is given are live ends.
    async def drain(data):
        texts = []
        data["from"].on_message(texts.append)
        everything = await data["from"].read_all()
        return {"bytes": len(everything), "digest": digest(everything), "texts": texts}

    a.register_function("cay.test::drain", drain)
    listed(b, "cay.test::drain")
    between, drained = new_channel(b), {}
    draining = threading.Thread(target=lambda: drained.update(call(b, "cay.test::drain", {"from": between.reader_ref.model_dump()})))
    draining.start()
    asyncio.run(send_all(between.writer, data[:300_000], "first"))
    draining.join()
    same(drained, {"bytes": min(SIZE, 300_000), "digest": digest(data[:300_000]), "texts": ["first"]})
    done("channel")


def introspection(b):
    same(call(b, "engine::functions::info", {"function_id": "cay.test::add"})["worker_name"], "cay-test-a")
    ids = [f["function_id"] for f in call(b, "engine::functions::list")["functions"]]
    assert "sandbox::create" in ids and "sandbox::fs::sed" in ids, ids
    me = next(w for w in call(b, "engine::workers::list")["workers"] if w["name"] == "cay-test-a")
    same((me["runtime"], me["version"]), ("python", VERSION))
    done("functions")


def steps():
    a, b = connect("cay-test-a"), connect("cay-test-b")
    functions(a, b)
    made = call(a, "sandbox::create", {"image": "host", "name": "steps", "env": ["A=1", "B=2"]})
    id = made["sandbox_id"]
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", id), made
    same(made["image"], "host")
    done("create")
    commands(a, id)
    row = next(s for s in call(b, "sandbox::list")["sandboxes"] if s["sandbox_id"] == id)
    same([row[key] for key in ("name", "image", "exec_in_progress", "stopped")], ["steps", "host", False, False])
    done("list")
    files(a, id)
    one_shots(a)
    data_through_channels(a, b, id)
    introspection(b)
    same(call(a, "sandbox::stop", {"sandbox_id": id, "wait": True}), {"sandbox_id": id, "stopped": True})
    same(code(a, "sandbox::stop", {"sandbox_id": id}), "S002")
    done("stop")
    for iii in (a, b):
        iii.shutdown()


# ---- while the daemon comes and goes ----


def stay():
    """Commands, one a line: "create" and "exec ID COMMAND" (which is begun, not waited for), "list" (its ids), "leave"."""
    iii, begun = connect("cay-test-stay"), []
    iii.register_function("cay.test::echo", lambda data: {"word": data["word"], "from": VERSION})
    listed(iii, "cay.test::echo")
    print("here", flush=True)

    def begin(id, words):
        try:
            got = iii.trigger({"function_id": "sandbox::exec", "payload": {"sandbox_id": id, "argv": words}, "timeout_ms": 600_000})
            print(f"begun gave {got}", flush=True)
        except Exception:
            print("begun failed", flush=True)

    for line in sys.stdin:
        what, *words = line.split()
        if what == "create":
            print("created", call(iii, "sandbox::create", {"image": "host"})["sandbox_id"], flush=True)
        elif what == "exec":
            begun.append(threading.Thread(target=begin, args=(words[0], words[1:])))
            begun[-1].start()
        elif what == "list":
            print("listed", *[s["sandbox_id"] for s in call(iii, "sandbox::list")["sandboxes"]], flush=True)
        elif what == "leave":
            break
    iii.shutdown()
    for thread in begun:
        thread.join()


{"steps": steps, "stay": stay}[sys.argv[1]]()
