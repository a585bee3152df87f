import assert from "node:assert/strict";
import { test } from "node:test";
import { Cay, CayError, ServerError } from "@cay/sdk";
import { events, Fake, hang, info, json } from "./fake.js";

test("events are whole however they are cut on the way", async () => {
  const text = Buffer.from(
    ': ping\n\nid: 7\ndata: {"topic":"gr\u00fc\u00dfe \u2028"}\n\ndata: {"topic":"b"}\n\ndata: {"top',
  );
  for (let at = 1; at < text.length; at++) {
    await using fake = await new Fake((_, answer) => {
      answer.writeHead(200, { "content-type": "text/event-stream" });
      answer.write(text.subarray(0, at), () => setImmediate(() => answer.end(text.subarray(at))));
    }).start();
    const topics: unknown[] = [];
    for await (const event of new Cay({ baseUrl: fake.url }).client.events("stream_events", {}))
      topics.push(event.topic);
    assert.deepEqual(topics, ["gr\u00fc\u00dfe \u2028", "b"], `cut at ${at}`);
  }
});

test("an error in a stream is thrown", async () => {
  const failure = { event: "error", status: 503, error: "no such registry", code: "image_pull_failed" };
  await using fake = await new Fake(events([{ event: "resolving", reference: "x" }, failure])).start();
  const seen: string[] = [];
  await assert.rejects(
    async () => {
      for await (const event of new Cay({ baseUrl: fake.url }).images.pullStream("x")) seen.push(event.event);
    },
    (error) => error instanceof ServerError && error.code === "image_pull_failed",
  );
  assert.deepEqual(seen, ["resolving"]);
});

test("an event that makes no sense is an error of ours", async () => {
  for (const event of ["{no", "[".repeat(100_000)]) {
    await using fake = await new Fake((_, answer) => {
      answer.writeHead(200, { "content-type": "text/event-stream" });
      answer.end(`data: ${event}\n\n`);
    }).start();
    await assert.rejects(
      new Cay({ baseUrl: fake.url }).events.stream().next(),
      (error) => error instanceof CayError && error.code === "bad_answer",
    );
  }
});

test("an event without an end is given up", async () => {
  const piece = "a".repeat(1 << 20);
  await using fake = await new Fake((_, answer) => {
    const more = () => {
      if (!answer.destroyed) answer.write(piece, more);
    };
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.write("data: ", more);
  }).start();
  await assert.rejects(
    new Cay({ baseUrl: fake.url }).events.stream().next(),
    (error) => error instanceof CayError && error.code === "bad_answer",
  );
});

test("leaving the loop closes the connection", async () => {
  let closed: () => void;
  const gone = new Promise<void>((go) => {
    closed = go;
  });
  await using fake = await new Fake((seen, answer) => {
    answer.on("close", () => closed());
    events([{ sandboxId: "a" }], "stay")(seen, answer);
  }).start();
  const { client } = new Cay({ baseUrl: fake.url });
  for await (const _ of client.events("stream_metrics", { sandboxId: "a" })) break;
  await gone;
});

test("closing ends a stream that nothing comes from", async () => {
  await using fake = await new Fake(hang).start();
  const stream = new Cay({ baseUrl: fake.url }).events.stream();
  const next = stream.next();
  await stream.close();
  assert.deepEqual(await next, { done: true, value: undefined });
});

test("a signal ends a stream with its reason", async () => {
  await using fake = await new Fake(hang).start();
  const stop = new AbortController();
  const next = new Cay({ baseUrl: fake.url }).events.stream({ signal: stop.signal }).next();
  stop.abort();
  await assert.rejects(next, { name: "AbortError" });
});

test("the daemon's events go on where they were", async () => {
  await using fake = await new Fake(
    events([{ id: "evt_1" }], "cut"),
    events([{ id: "evt_2" }], "stay"),
  ).start();
  const seen: string[] = [];
  for await (const event of new Cay({ baseUrl: fake.url }).events.stream({ topic: "a" })) {
    seen.push(event.id);
    if (seen.length === 2) break;
  }
  assert.deepEqual(seen, ["evt_1", "evt_2"]);
  assert.match(fake.seen[1]?.path ?? "", /topic=a&lastEventId=evt_1/);
});

test("the log of a sandbox is its lines", async () => {
  await using fake = await new Fake(
    json(info),
    events([
      { type: "stdout", data: "a" },
      { type: "end", data: "" },
    ]),
  ).start();
  const lines: string[] = [];
  const sandbox = await new Cay({ baseUrl: fake.url }).get("x");
  for await (const event of sandbox.streams.logs({ tail: 3 })) lines.push(`${event.type} ${event.data}`);
  assert.deepEqual(lines, ["stdout a", "end "]);
});
