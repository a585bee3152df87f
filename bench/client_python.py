"""The Python package beside plain httpx, in one process: client_python.py ADDRESS ROUNDS. Prints JSON of what bench/clients.py asks of
every language: exec_raw and exec (us, by turns), lives (s for a hundred), and import (ms)."""
import asyncio
import json
import os
import subprocess
import sys
import time

import httpx

import cay

LIVES = 100
WARM = 50


def elapsed(began):
    return (time.perf_counter() - began) * 1e6


async def execs(address, box, rounds):
    """By turns, so that both meet the same noise."""
    raw, ours = [], []
    path = f"/sandbox/sandboxes/{box.id}/exec"
    transport = httpx.AsyncHTTPTransport(uds=address.removeprefix("unix:"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for n in range(WARM + rounds):
            began = time.perf_counter()
            assert (await http.post(path, json={"command": ["/bin/true"]})).json()["exitCode"] == 0
            between = time.perf_counter()
            assert (await box.exec("/bin/true", [])).exit_code == 0
            if n >= WARM:
                raw.append((between - began) * 1e6)
                ours.append(elapsed(between))
    return raw, ours


async def life(client):
    async with cay.Sandbox.create(client=client) as box:
        assert (await box.exec("/bin/true", [])).exit_code == 0


async def lives(client):
    """As somebody writes it who does not think about it: all at once."""
    began = time.perf_counter()
    await asyncio.gather(*[life(client) for _ in range(LIVES)])
    return time.perf_counter() - began


def imports():
    """Of a new process, without what Python itself takes."""
    code = "import time; t = time.perf_counter(); from cay import Sandbox; print((time.perf_counter() - t) * 1e3)"
    return [float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                                 env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""}).stdout) for _ in range(10)]


async def main():
    address, rounds = sys.argv[1], int(sys.argv[2])
    async with cay.Client(address) as client:
        async with cay.Sandbox.create(client=client) as box:
            raw, ours = await execs(address, box, rounds)
        await lives(client)
        hundreds = [await lives(client) for _ in range(5)]
    print(json.dumps({"exec_raw": raw, "exec": ours, "lives": hundreds, "import": imports()}))


asyncio.run(main())
