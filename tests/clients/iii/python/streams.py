"""Functions behind paths of HTTP that stream, with the helper of a genuine iii-sdk of PyPI: each is at /cay-http-python/NAME."""

import hashlib
import json
import os
import sys

from iii import InitOptions, register_worker

from iii_helpers.http import http

iii = register_worker(os.environ["III_URL"], InitOptions(worker_name="cay-test-http-python"))


@http
async def up(req, res):
    digest, size = hashlib.sha256(), 0
    async for piece in req.request_body:
        digest.update(piece)
        size += len(piece)
    await res.status(201)
    await res.headers({"content-type": "application/json"})
    await res.writer.write(json.dumps({"size": size, "digest": digest.hexdigest(), "body": req.body}).encode())
    await res.writer.close_async()


@http
async def down(req, res):
    digest = hashlib.sha256()
    await res.status(200)
    await res.headers({"content-type": "application/octet-stream"})
    for _ in range(int(req.query_params["pieces"])):
        piece = os.urandom(100_000)
        digest.update(piece)
        await res.writer.write(piece)
    await res.writer.close_async()
    print("sent", digest.hexdigest(), flush=True)


functions = {"up": up, "down": down}
for name, handler in functions.items():
    iii.register_function(f"cay.http-python::{name}", handler)
    for method in ("GET", "POST"):
        iii.register_trigger({"type": "http", "function_id": f"cay.http-python::{name}",
                              "config": {"api_path": f"/cay-http-python/{name}", "http_method": method}})
while True:
    bound = iii.trigger({"function_id": "engine::registered-triggers::list", "payload": {}})["registered_triggers"]
    if sum(t["function_id"].startswith("cay.http-python::") for t in bound) == 2 * len(functions):
        break
print("here", flush=True)
sys.stdin.read()
