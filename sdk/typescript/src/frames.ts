// The frames of an attached command: u32 length and u8 type, little-endian, three zero bytes, the payload.

import type { ExecResult } from "./generated.js";

export const FRAME = {
  error: 2,
  started: 3,
  stdout: 4,
  stderr: 5,
  exit: 6,
  stdin: 10,
  resize: 11,
  signal: 12,
  lost: 14,
};

const HEAD = 8;
const FRAME_MAX = 256 * 1024;
/** Input goes in pieces of this size. */
export const PIECE = 64 * 1024;

export interface Frame {
  type: number;
  payload: Buffer;
}

/** A frame with these bytes. */
export function frame(type: number, payload: Uint8Array = new Uint8Array()): Buffer {
  const all = Buffer.alloc(HEAD + payload.length);
  all.writeUInt32LE(payload.length, 0);
  all.writeUInt8(type, 4);
  all.set(payload, HEAD);
  return all;
}

/** A frame with these numbers. */
export function frameOfNumbers(type: number, ...numbers: number[]): Buffer {
  const payload = Buffer.alloc(4 * numbers.length);
  numbers.forEach((n, i) => {
    payload.writeUInt32LE(n >>> 0, 4 * i);
  });
  return frame(type, payload);
}

/** Cuts what comes into frames. */
export class FrameReader {
  #data: Buffer = Buffer.alloc(0);

  *add(piece: Uint8Array): Generator<Frame, void> {
    this.#data = this.#data.length === 0 ? Buffer.from(piece) : Buffer.concat([this.#data, piece]);
    for (;;) {
      if (this.#data.length < HEAD) return;
      const length = this.#data.readUInt32LE(0);
      if (length > FRAME_MAX) throw new Error(`a frame of ${length} bytes`);
      if (this.#data.length < HEAD + length) return;
      const payload = this.#data.subarray(HEAD, HEAD + length);
      const type = this.#data.readUInt8(4);
      this.#data = this.#data.subarray(HEAD + length);
      yield { type, payload };
    }
  }
}

const REASONS: ExecResult["reason"][] = ["exit", "signal", "timeout", "cancelled", "lost"];
const MEMORY = 1 << 17;
const KILLED = 137;
/** As in the events of `execStream()`. */
const TIMED_OUT = -1;

/** How a command ended. */
export interface ExecEnd {
  /** 128 and the signal when it was killed by one, −1 after its timeout. */
  exitCode: number;
  reason: ExecResult["reason"];
  /** While it ran the kernel killed for lack of memory. */
  oom: boolean;
  /** Milliseconds. */
  duration: number;
  /** Bytes of its output that nobody kept. */
  lost: number;
}

export function readExit(payload: Buffer): ExecEnd {
  const how = payload.readUInt32LE(0);
  const code = payload.readUInt32LE(4);
  const oom = (code & MEMORY) !== 0;
  const exitCode = [code & 0xff, 128 + (code & 0x7f), TIMED_OUT][how] ?? KILLED;
  return {
    exitCode,
    reason: oom && exitCode === KILLED ? "oom" : (REASONS[how] ?? "lost"),
    oom,
    duration: Number(payload.readBigUInt64LE(8)) / 1e6,
    lost: Number(payload.readBigUInt64LE(16)) + Number(payload.readBigUInt64LE(24)),
  };
}

/** The words of an ERROR frame: a kind and an errno, then the code and the text, each with its length before it. */
export function readError(payload: Buffer): { code: string; error: string } {
  let at = 8;
  const word = () => {
    const length = payload.readUInt32LE(at);
    const text = payload.subarray(at + 4, at + 4 + length).toString("utf8");
    at += 4 + length;
    return text;
  };
  return { code: word(), error: word() };
}
