// The client's side of RFC 6455, as far as the daemon uses it: no extensions. Node 20 has none of its own, and those
// of other runtimes cannot use a unix socket.

import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import type { HttpClient, InputOf, OperationId } from "./client.js";
import { badAnswer } from "./errors.js";
import type { CallOptions } from "./options.js";
import type { Upgraded } from "./upgrade.js";

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const MESSAGE_MAX = 64 * 1024 * 1024;

/** A message: text, or bytes. */
export type SocketMessage = string | Uint8Array;

/** Why the other side closed it. */
export interface CloseReason {
  code: number;
  reason: string;
}

/** A frame as clients send it: masked, whole. */
export function maskedFrame(opcode: number, payload: Uint8Array): Buffer {
  const length = payload.length;
  const extra = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const head = 2 + extra;
  const all = Buffer.alloc(head + 4 + length);
  all[0] = 0x80 | opcode;
  all[1] = 0x80 | (extra === 0 ? length : extra === 2 ? 126 : 127);
  if (extra === 2) all.writeUInt16BE(length, 2);
  if (extra === 8) all.writeBigUInt64BE(BigInt(length), 2);
  const mask = crypto.getRandomValues(new Uint8Array(4));
  all.set(mask, head);
  for (let i = 0; i < length; i++) all[head + 4 + i] = (payload[i] as number) ^ (mask[i & 3] as number);
  return all;
}

interface RawFrame {
  last: boolean;
  opcode: number;
  payload: Buffer;
}

/** The frame at the beginning of what has come, and its size there; undefined = more must come. */
export function readFrame(data: Buffer): [RawFrame, number] | undefined {
  if (data.length < 2) return undefined;
  const [first, second] = [data[0] as number, data[1] as number];
  if (first & 0x70 || second & 0x80) throw new Error("this is no WebSocket of a server");
  const short = second & 0x7f;
  const head = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (data.length < head) return undefined;
  const length =
    short === 126 ? data.readUInt16BE(2) : short === 127 ? Number(data.readBigUInt64BE(2)) : short;
  if (length > MESSAGE_MAX) throw new Error(`a message of ${length} bytes`);
  if (data.length < head + length) return undefined;
  const payload = data.subarray(head, head + length);
  return [{ last: (first & 0x80) !== 0, opcode: first & 0x0f, payload }, head + length];
}

/** A WebSocket of the daemon. Iterate over it for its messages; `closed` says afterwards why it ended. */
export class SocketConnection implements AsyncIterable<SocketMessage> {
  readonly #socket: Socket;
  readonly #early: Uint8Array;
  readonly #signal: AbortSignal | undefined;
  readonly #abort = () => this.destroy();
  #closing = false;
  /** What the other side said when it closed; undefined = the connection broke, or is open. */
  closed: CloseReason | undefined;

  constructor(upgraded: Upgraded, signal?: AbortSignal) {
    this.#socket = upgraded.socket;
    this.#early = upgraded.early;
    this.#signal = signal;
    this.#socket.on("error", () => undefined); // its reader is told
    if (signal?.aborted) this.destroy();
    else signal?.addEventListener("abort", this.#abort, { once: true });
  }

  static async open<K extends OperationId>(
    client: HttpClient,
    op: K,
    input: InputOf<K>,
    options: CallOptions,
  ): Promise<SocketConnection> {
    const key = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64");
    const headers = { "sec-websocket-version": "13", "sec-websocket-key": key };
    const made = await client.upgrade(op, input, "websocket", { ...options, headers });
    if (
      made.headers["sec-websocket-accept"] !==
      createHash("sha1")
        .update(key + GUID)
        .digest("base64")
    ) {
      made.socket.destroy();
      throw badAnswer("it is of another WebSocket", { method: "GET", path: op });
    }
    return new SocketConnection(made, options.signal);
  }

  /** Sends a message; resolves when there is room for more. */
  send(message: SocketMessage): Promise<void> {
    const text = typeof message === "string";
    return this.#write(maskedFrame(text ? TEXT : BINARY, text ? new TextEncoder().encode(message) : message));
  }

  /** Says goodbye; the messages end when the other side has too. */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    await this.#write(maskedFrame(CLOSE, Buffer.from([0x03, 0xe8]))).catch(() => undefined);
    this.#socket.end();
  }

  destroy(): void {
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#socket.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<SocketMessage, void> {
    let opcode = 0;
    let parts: Buffer[] = [];
    let size = 0;
    try {
      for await (const { last, opcode: kind, payload } of this.#frames()) {
        if (kind === CLOSE) {
          const code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
          this.closed = { code, reason: payload.subarray(2).toString("utf8") };
          return;
        }
        if (kind === PING) await this.#write(maskedFrame(PONG, payload)).catch(() => undefined);
        if (kind >= CLOSE) continue;
        if (kind !== 0) opcode = kind;
        parts.push(payload);
        size += payload.length;
        if (size > MESSAGE_MAX) throw new Error(`a message of more than ${MESSAGE_MAX} bytes`);
        if (!last) continue;
        const whole = parts.length === 1 ? payload : Buffer.concat(parts);
        parts = [];
        size = 0;
        yield opcode === TEXT ? whole.toString("utf8") : whole;
      }
    } finally {
      this.destroy();
    }
  }

  async *#frames(): AsyncGenerator<RawFrame, void> {
    let data = Buffer.from(this.#early);
    const socket = this.#socket[Symbol.asyncIterator]();
    for (;;) {
      const got = readFrame(data);
      if (got) {
        data = data.subarray(got[1]);
        yield got[0];
        continue;
      }
      const piece = await socket.next();
      if (piece.done) return;
      data = Buffer.concat([data, piece.value as Buffer]);
    }
  }

  #write(data: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.write(data, (error) => (error ? reject(error) : resolve()));
    });
  }
}
