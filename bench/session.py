"""What every benchmark does around its measuring: a folder to work in, a clean end, the verdict."""
import os
import pathlib
import shutil
import signal
import sys
import tempfile


def stop_on_term(*_):
    raise KeyboardInterrupt


def run(make):
    """make(work) is a benchmark with run(), which gives its rows, and stop(). Ends the program with a word
    when it is interrupted or cannot go on."""
    signal.signal(signal.SIGTERM, stop_on_term)
    base = os.environ.setdefault("CAY_BENCH_DIR", "/var/tmp")
    work = pathlib.Path(tempfile.mkdtemp(prefix="cay-bench-", dir=base))
    bench = make(work)
    try:
        return bench.run()
    except KeyboardInterrupt:
        sys.exit("bench: stopped, and cleaned up")
    except RuntimeError as e:
        sys.exit(f"bench: {e}")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bench.stop()
        shutil.rmtree(work, ignore_errors=True)
        if work.exists():
            print(f"bench: {work} could not be removed", file=sys.stderr)


def verdict(checks):
    """[(claim, what was measured, passed; None when it was not measured)]; gives the exit status."""
    words = {True: "pass", False: "FAIL", None: "skip"}
    for claim, measured, passed in checks:
        print(f"{words[passed]}  {claim}: {measured}")
    return 1 if any(passed is False for _, _, passed in checks) else 0
