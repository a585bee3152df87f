"""The probe program, run inside a sandbox and outside as a control."""

import json
import subprocess
from pathlib import Path


class Probe:
    """The same probe inside a sandbox and, as the positive control, outside."""

    def __init__(self, api, id, path):
        self.api, self.id, self.path = api, id, path
        api.upload(id, "/workspace/probe", path.read_bytes())
        api.file(id, "chmod", path="/workspace/probe", mode="755").ok()

    def inside(self, *args, **how):
        done = self.api.exec(self.id, ["/workspace/probe", *map(str, args)], timeout=120, **how)
        assert done["exitCode"] == 0, done
        return json.loads(done["stdout"])

    def outside(self, *args):
        done = subprocess.run([self.path, *map(str, args)], capture_output=True, timeout=120,
                              check=True)
        return json.loads(done.stdout)

    def call(self, name, *args):
        return self.inside("call", NUMBERS[name], *args)["errno"]

    def call_outside(self, name, *args):
        return self.outside("call", NUMBERS[name], *args)["errno"]


def read_numbers():
    """Name → number, from the kernel's own header, and what is newer than Debian 12's."""
    out = {"cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454,
           "futex_wait": 455, "futex_requeue": 456}
    for path in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"):
        if Path(path).exists():
            for line in open(path):
                words = line.split()
                if len(words) == 3 and words[0] == "#define" and words[1].startswith("__NR_"):
                    if words[2].isdigit():
                        out.setdefault(words[1][5:], int(words[2]))
            break
    return out


NUMBERS = read_numbers()
