import assert from "node:assert/strict";
import { test } from "node:test";
import { Cay, CommandTimeoutError } from "@cay/sdk";
import { cut, events, Fake, info, json } from "./fake.js";

const result = { exitCode: 0, stdout: "", stderr: "", duration: 1, reason: "exit", truncated: false };
const out = (data: string, cursor: number) => ({ type: "stdout", data, cursor, timestamp: 1 });
const exit = (data: string, reason = "exit") => ({ type: "exit", data, reason, timestamp: 1 });
const unknown = json({ error: "no", code: "exec_not_found" }, 404);

async function sandboxOf(fake: Fake) {
  return new Cay({ baseUrl: fake.url }).get("x");
}

const idIn = (body = "") => (JSON.parse(body) as { execId: string }).execId;

test("a command has an id of ours", async () => {
  await using fake = await new Fake(json(info), json(result)).start();
  await (await sandboxOf(fake)).exec(["ls"], 5);
  const body = JSON.parse(fake.seen[1]?.body ?? "");
  assert.match(body.execId, /^ex_[0-9a-f]{24}$/);
  assert.deepEqual([body.command, body.timeout], [["ls"], 5]);
});

test("a command whose answer is lost is found again, and not run again", async () => {
  await using fake = await new Fake(json(info), cut, events([out("a\n", 2), exit("3")])).start();
  const done = await (await sandboxOf(fake)).exec("x");
  assert.deepEqual([done.exitCode, done.stdout, done.reason], [3, "a\n", "exit"]);
  const id = idIn(fake.seen[1]?.body);
  assert.equal(fake.seen[2]?.path, `/sandbox/sandboxes/${info.id}/exec/${id}/stream?cursor=0`);
});

test("a command that was never heard of is sent again under its id", async () => {
  await using fake = await new Fake(json(info), cut, unknown, events([exit("0")])).start();
  await (await sandboxOf(fake)).exec("x");
  assert.deepEqual(
    fake.seen.slice(1).map((s) => s.method),
    ["POST", "GET", "POST"],
  );
  assert.equal(idIn(fake.seen[1]?.body), idIn(fake.seen[3]?.body));
});

test("a stream that is cut goes on at its cursor", async () => {
  for (const how of ["end", "cut"] as const) {
    await using fake = await new Fake(
      json(info),
      events([out("a", 1)], how),
      events([out("b", 2), exit("0")]),
    ).start();
    const done = await (await sandboxOf(fake)).execStream("x").result();
    assert.equal(done.stdout, "ab");
    assert.match(fake.seen[2]?.path ?? "", /stream\?cursor=1$/);
  }
});

test("leaving a stream that was come back to ends the command by its id", async () => {
  let told: (path: string) => void;
  const killed = new Promise<string>((go) => {
    told = go;
  });
  await using fake = await new Fake(
    json(info),
    events([out("a", 1)], "cut"),
    events([out("b", 2)], "stay"),
    (seen, answer) => {
      told(seen.path);
      json({})(seen, answer);
    },
  ).start();
  let seen = "";
  for await (const event of (await sandboxOf(fake)).execStream("x")) {
    seen += event.data;
    if (seen === "ab") break;
  }
  assert.match(await killed, new RegExp(`/exec/${idIn(fake.seen[1]?.body)}/kill$`));
});

test("a timeout is an error with what was put out", async () => {
  const body = { error: "late", code: "command_timeout", stdout: "so far", stderr: "", execId: "ex_1" };
  await using fake = await new Fake(json(info), json(body, 408)).start();
  await assert.rejects((await sandboxOf(fake)).exec("x", 1), (error) => {
    assert.ok(error instanceof CommandTimeoutError);
    assert.deepEqual([error.stdout, error.execId], ["so far", "ex_1"]);
    return true;
  });
});

test("so is one that happens while we are away", async () => {
  await using fake = await new Fake(
    json(info),
    cut,
    events([out("so far", 6), exit("-1", "timeout")]),
  ).start();
  await assert.rejects((await sandboxOf(fake)).exec("x"), {
    code: "command_timeout",
    stdout: "so far",
    status: 408,
  });
});

test("input goes with the request as long as it is small", async () => {
  await using fake = await new Fake(json(info), json(result)).start();
  await (await sandboxOf(fake)).exec("cat", { stdin: "gr\u00fc\u00dfe" });
  const { stdin, stdinEncoding } = JSON.parse(fake.seen[1]?.body ?? "");
  assert.deepEqual([Buffer.from(stdin, "base64").toString(), stdinEncoding], ["gr\u00fc\u00dfe", "base64"]);
});

test("a command in the background goes on when nobody follows it", async () => {
  await using fake = await new Fake(json(info), json({ id: "bg_1" }), events([out("a", 1)], "stay")).start();
  const command = await (await sandboxOf(fake)).background("x");
  for await (const _ of command.stream()) break;
  assert.equal(fake.seen.length, 3);
});
