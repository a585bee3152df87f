import assert from "node:assert/strict";
import { test } from "node:test";
import { FRAME, FrameReader, frame, frameOfNumbers, readError, readExit } from "#internal/frames.js";
import { maskedFrame, readFrame } from "#internal/websocket.js";

test("frames are whole however they are cut on the way", () => {
  const sent = Buffer.concat([
    frame(FRAME.stdout, Buffer.from("hello")),
    frame(FRAME.stderr),
    frameOfNumbers(FRAME.resize, 24, 80),
  ]);
  for (let at = 0; at <= sent.length; at++) {
    const reader = new FrameReader();
    const got = [...reader.add(sent.subarray(0, at)), ...reader.add(sent.subarray(at))];
    assert.deepEqual(
      got.map((f) => [f.type, f.payload.toString("hex")]),
      [
        [FRAME.stdout, "68656c6c6f"],
        [FRAME.stderr, ""],
        [FRAME.resize, "1800000050000000"],
      ],
    );
  }
});

test("a frame that cannot be is refused before it is awaited", () => {
  assert.throws(() => [...new FrameReader().add(Buffer.from("ffffffff04000000", "hex"))]);
});

function exitFrame(how: number, code: number): Buffer {
  const payload = Buffer.alloc(32);
  payload.writeUInt32LE(how, 0);
  payload.writeUInt32LE(code, 4);
  payload.writeBigUInt64LE(1_500_000n, 8);
  payload.writeBigUInt64LE(3n, 16);
  payload.writeBigUInt64LE(4n, 24);
  return payload;
}

test("every end of a command is read", () => {
  const table: [number, number, number, string][] = [
    [0, 3, 3, "exit"],
    [1, 15, 143, "signal"],
    [1, 9 | (1 << 17), 137, "oom"],
    [0, 137 | (1 << 17), 137, "oom"],
    [0, 1 | (1 << 17), 1, "exit"],
    [2, 0, -1, "timeout"],
    [3, 0, 137, "cancelled"],
    [4, 0, 137, "lost"],
    [9, 0, 137, "lost"],
  ];
  for (const [how, code, exitCode, reason] of table) {
    const end = readExit(exitFrame(how, code));
    assert.deepEqual([end.exitCode, end.reason, end.duration, end.lost], [exitCode, reason, 1.5, 7]);
  }
});

test("the words of an error are read", () => {
  const word = (text: string) =>
    Buffer.concat([frameOfNumbers(0, text.length).subarray(8), Buffer.from(text)]);
  const payload = Buffer.concat([Buffer.alloc(8), word("no_space"), word("it is full")]);
  assert.deepEqual(readError(payload), { code: "no_space", error: "it is full" });
});

test("what clients send on a WebSocket is masked, at every size", () => {
  for (const size of [0, 125, 126, 65535, 65536]) {
    const payload = Buffer.alloc(size, 7);
    const sent = maskedFrame(2, payload);
    assert.ok((sent[1] as number) & 0x80);
    const head = sent.length - size - 4;
    const mask = sent.subarray(head, head + 4);
    const plain = sent.subarray(head + 4).map((byte, i) => byte ^ (mask[i & 3] as number));
    assert.equal(Buffer.compare(plain, payload), 0);
  }
});

test("what comes on a WebSocket is read when it is whole", () => {
  for (const size of [0, 125, 126, 65535, 65536]) {
    const head =
      size < 126
        ? [size]
        : size < 65536
          ? [126, size >> 8, size & 255]
          : [127, 0, 0, 0, 0, 0, size >> 16, 0, 0];
    const came = Buffer.concat([Buffer.from([0x82, ...head]), Buffer.alloc(size, 7), Buffer.from("rest")]);
    assert.equal(readFrame(came.subarray(0, came.length - 5)), undefined);
    const [got, used] = readFrame(came) ?? assert.fail();
    assert.deepEqual([got.opcode, got.last, got.payload.length, came.length - used], [2, true, size, 4]);
  }
});

test("a server that masks, or that uses extensions, is none", () => {
  assert.throws(() => readFrame(Buffer.from([0x82, 0x80, 0, 0, 0, 0])));
  assert.throws(() => readFrame(Buffer.from([0xc2, 0x00])));
  assert.throws(() => readFrame(Buffer.from([0x82, 127, 1, 0, 0, 0, 0, 0, 0, 0])));
});
