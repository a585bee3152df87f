import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  Cay,
  CayError,
  ClientTimeoutError,
  ConflictError,
  ConnectionError,
  createSandbox,
  getSandbox,
  InvalidRequestError,
  LimitError,
  listSandboxes,
  NotFoundError,
  PermissionError,
  SandboxNotFoundError,
  ServerError,
} from "@cay/sdk";
import { cut, Fake, hang, info, json } from "./fake.js";

const failed = (status: number, code: string, headers = {}) => json({ error: "no", code }, status, headers);

test("fields go into path, query and body, encoded", async () => {
  await using fake = await new Fake(json({})).start();
  const { client } = new Cay({ baseUrl: fake.url });
  await client.call("fs_read", { sandboxId: "a/b ü?", path: "x y", anywhere: true });
  await client.call("sandbox_list", { metadata: { team: "blue&red" }, pageSize: 5 });
  assert.deepEqual(
    fake.seen.map((s) => [s.method, s.path, s.body]),
    [
      ["POST", "/sandbox/sandboxes/a%2Fb%20%C3%BC%3F/files/read", '{"path":"x y","anywhere":true}'],
      ["GET", "/sandbox/sandboxes?metadata=%7B%22team%22%3A%22blue%26red%22%7D&pageSize=5", ""],
    ],
  );
});

test("what would be another path is refused before it is sent", async () => {
  await using fake = await new Fake(json({})).start();
  const cay = new Cay({ baseUrl: fake.url });
  for (const name of ["", ".", ".."]) await assert.rejects(cay.get(name), InvalidRequestError);
  assert.equal(fake.seen.length, 0);
});

test("the token goes with every request", async () => {
  await using fake = await new Fake(json(info)).start();
  await new Cay({ baseUrl: fake.url, token: "secret" }).get("x");
  assert.equal(fake.seen[0]?.headers.authorization, "Bearer secret");
});

test("the functions reuse the connection", async () => {
  const ports = new Set<unknown>();
  await using fake = await new Fake((seen, answer) => {
    ports.add(answer.socket?.remotePort);
    json(seen.path.includes("?") ? { items: [info], total: 1, page: 1, pageSize: 200 } : info)(seen, answer);
  }).start();
  const at = { baseUrl: fake.url };
  const sandbox = await createSandbox({ ...at, name: "n" });
  await getSandbox(sandbox.id, at);
  assert.equal((await listSandboxes(at)).length, 1);
  assert.deepEqual(JSON.parse(fake.seen[0]?.body ?? ""), { name: "n", image: "host" });
  assert.equal(ports.size, 1);
});

test("an unknown key and an unknown word in an answer are passed on", async () => {
  await using fake = await new Fake(json({ ...info, status: "dreaming", more: [1] })).start();
  const sandbox = await new Cay({ baseUrl: fake.url }).get("x");
  assert.equal(sandbox.status, "dreaming");
  assert.deepEqual((sandbox.info as unknown as { more: number[] }).more, [1]);
});

test("errors have the daemon's code and a class for what people catch", async () => {
  const table: [number, string, new (...a: never[]) => CayError][] = [
    [400, "bad_image_name", InvalidRequestError],
    [401, "unauthorized", PermissionError],
    [403, "scope_missing", PermissionError],
    [404, "snapshot_not_found", NotFoundError],
    [404, "sandbox_removed", SandboxNotFoundError],
    [409, "name_taken", ConflictError],
    [429, "sandbox_limit", LimitError],
    [500, "internal", ServerError],
    [418, "of_tomorrow", CayError],
  ];
  for (const [status, code, kind] of table) {
    await using fake = await new Fake(failed(status, code)).start();
    await assert.rejects(new Cay({ baseUrl: fake.url }).get("x"), (error: CayError) => {
      assert.ok(error instanceof kind);
      assert.deepEqual([error.code, error.status, error.method], [code, status, "GET"]);
      return true;
    });
  }
});

test("an answer that is no JSON is an error, not a crash", async () => {
  await using fake = await new Fake((_, answer) => answer.writeHead(502).end("<html>")).start();
  await assert.rejects(new Cay({ baseUrl: fake.url }).get("x"), { status: 502, code: "http_502" });
});

test("nobody there is told at once", async () => {
  await assert.rejects(new Cay({ baseUrl: "http://127.0.0.1:1", retryMs: 60_000 }).get("x"), (error) => {
    assert.ok(error instanceof ConnectionError && error.unsent);
    assert.equal(error.code, "connection_failed");
    assert.match(error.message, /cay serve/);
    return true;
  });
});

test("who has no token is told where to give it, and who wants TLS of a plain daemon that it has none", async () => {
  await using fake = await new Fake((_, answer) =>
    answer.writeHead(401).end('{"error":"Missing authorization header","code":"unauthorized"}'),
  ).start();
  await assert.rejects(new Cay({ baseUrl: fake.url }).get("x"), /CAY_TOKEN/);
  const secure = new Cay({ baseUrl: fake.url.replace("http:", "https:"), retryMs: 0 });
  await assert.rejects(secure.get("x"), /it speaks no TLS/);
});

test("a GET whose answer is lost is asked again", async () => {
  await using fake = await new Fake(cut, json(info)).start();
  assert.equal((await new Cay({ baseUrl: fake.url }).get("x")).id, info.id);
  assert.equal(fake.seen.length, 2);
});

test("an answer that ends too early is lost too", async () => {
  await using fake = await new Fake((_, answer) => {
    answer.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    answer.write('{"id":', () => answer.destroy());
  }, json(info)).start();
  assert.equal((await new Cay({ baseUrl: fake.url }).get("x")).id, info.id);
});

test("a signal ends the reading of an answer", async () => {
  const stop = new AbortController();
  await using fake = await new Fake((_, answer) => {
    answer.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    answer.write('{"id":', () => setImmediate(() => stop.abort()));
  }).start();
  await assert.rejects(new Cay({ baseUrl: fake.url }).get("x", { signal: stop.signal }), {
    name: "AbortError",
  });
});

test("a create whose answer is lost is sent again with the same key", async () => {
  await using fake = await new Fake(cut, json(info)).start();
  await new Cay({ baseUrl: fake.url }).create();
  const keys = fake.seen.map((s) => s.headers["idempotency-key"]);
  assert.equal(keys.length, 2);
  assert.match(String(keys[0]), /^[0-9a-f-]{36}$/);
  assert.equal(keys[0], keys[1]);
});

test("a key of the caller's own is sent", async () => {
  await using fake = await new Fake(json(info)).start();
  await new Cay({ baseUrl: fake.url }).create({ idempotencyKey: "mine" });
  assert.equal(fake.seen[0]?.headers["idempotency-key"], "mine");
});

test("what could happen twice is not sent twice", async () => {
  await using fake = await new Fake(json(info), cut).start();
  const sandbox = await new Cay({ baseUrl: fake.url }).get("x");
  await assert.rejects(sandbox.pause(), { code: "connection_lost", unsent: false });
  assert.equal(fake.seen.length, 2);
});

test("a kill whose answer is lost has done what was asked", async () => {
  await using fake = await new Fake(json(info), cut, failed(404, "sandbox_removed")).start();
  const sandbox = await new Cay({ baseUrl: fake.url }).get("x");
  assert.deepEqual(await sandbox.kill(), { success: true });
});

test("who is told to come later comes later", async () => {
  await using fake = await new Fake(failed(429, "rate_limited", { "retry-after": "0" }), json(info)).start();
  await new Cay({ baseUrl: fake.url }).get("x");
  assert.equal(fake.seen.length, 2);
});

test("a failure that happens to be 503 is not tried again", async () => {
  await using fake = await new Fake(failed(503, "image_pull_failed", { "retry-after": "0" })).start();
  await assert.rejects(new Cay({ baseUrl: fake.url }).create(), { code: "image_pull_failed", retryAfter: 0 });
  assert.equal(fake.seen.length, 1);
});

test("a wait that is longer than our patience is left to the caller", async () => {
  await using fake = await new Fake(failed(429, "rate_limited", { "retry-after": "3600" })).start();
  await assert.rejects(new Cay({ baseUrl: fake.url }).get("x"), { retryAfter: 3600 });
});

test("an answer that does not come in time is given up", async () => {
  await using fake = await new Fake(hang).start();
  await assert.rejects(new Cay({ baseUrl: fake.url }).get("x", { timeoutMs: 20 }), ClientTimeoutError);
});

test("a signal ends a call with its reason", async () => {
  await using fake = await new Fake(hang).start();
  const cay = new Cay({ baseUrl: fake.url });
  const stop = new AbortController();
  const call = cay.get("x", { signal: stop.signal });
  const why = new Error("enough");
  stop.abort(why);
  await assert.rejects(call, (error) => error === why);
  await assert.rejects(cay.get("x", { signal: stop.signal }), (error) => error === why);
});

test("a signal ends the wait between two tries", async () => {
  const stop = new AbortController();
  await using fake = await new Fake((seen, answer) => {
    failed(429, "rate_limited", { "retry-after": "5" })(seen, answer);
    answer.on("close", () => stop.abort());
  }).start();
  await assert.rejects(new Cay({ baseUrl: fake.url }).get("x", { signal: stop.signal }), {
    name: "AbortError",
  });
});

test("a unix socket is an address", async () => {
  const folder = await mkdtemp(join(tmpdir(), "cay-ts-"));
  try {
    await using fake = await new Fake(json(info)).start(join(folder, "s"));
    assert.equal((await new Cay({ baseUrl: fake.url }).get("x")).name, "fake");
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("all pages are listed", async () => {
  const page = (id: string, nextCursor?: number) => json({ items: [{ ...info, id }], nextCursor });
  await using fake = await new Fake(page("a", 7), page("b")).start();
  assert.deepEqual(
    (await new Cay({ baseUrl: fake.url }).list()).map((s) => s.id),
    ["a", "b"],
  );
  assert.match(fake.seen[1]?.path ?? "", /cursor=7/);
});
