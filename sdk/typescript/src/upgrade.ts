import { connect, type Socket } from "node:net";
import { connect as secureConnect } from "node:tls";
import type { Target } from "./address.js";
import { badAnswer, refusalOf } from "./errors.js";
import { connectionError, type Message } from "./exchange.js";

/** The head of an answer is at most this long, and so is the body of a refusal. */
const HEAD_MAX = 64 * 1024;

/** A connection that speaks another protocol from here on. */
export interface Upgraded {
  socket: Socket;
  /** What came right behind the head. */
  early: Uint8Array;
  headers: Record<string, string>;
}

function headText(target: Target, message: Message, protocol: string): string {
  const host = target.socketPath
    ? "localhost"
    : `${target.host?.includes(":") ? `[${target.host}]` : target.host}:${target.port}`;
  const fields = { host, ...message.headers, connection: "Upgrade", upgrade: protocol };
  const lines = Object.entries(fields).map(([name, value]) => {
    const line = `${name}: ${value}`;
    if (/[\r\n\0]/.test(line)) throw new TypeError(`the header ${name} cannot hold that`);
    return line;
  });
  return `${message.method} ${message.path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
}

interface Head {
  status: number;
  headers: Record<string, string>;
  rest: Buffer;
}

function readHead(data: Buffer): Head | undefined {
  const end = data.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first = "", ...lines] = data.subarray(0, end).toString("latin1").split("\r\n");
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  return { status: Number(first.split(" ")[1]), headers, rest: data.subarray(end + 4) };
}

function open(target: Target): Socket {
  if (target.socketPath) return connect({ path: target.socketPath });
  const at = { host: target.host ?? "127.0.0.1", port: target.port ?? 80 };
  return target.tls ? secureConnect({ ...at, servername: at.host }) : connect(at);
}

/**
 * Sends a request that asks for another protocol. It is done by hand because the three runtimes do it in three ways,
 * and because the connection must be ours alone from its first byte on.
 */
export function upgrade(
  target: Target,
  message: Message,
  protocol: string,
  signal: AbortSignal | undefined,
): Promise<Upgraded> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const text = headText(target, message, protocol);
    const socket = open(target);
    let data: Buffer = Buffer.alloc(0);
    const settle = (done: () => void) => {
      signal?.removeEventListener("abort", onAbort);
      socket.off("data", onData).off("error", onError).off("close", onClose);
      done();
    };
    const fail = (error: unknown) =>
      settle(() => {
        socket.on("error", () => undefined).destroy();
        reject(error);
      });
    const onAbort = () => fail(signal?.reason);
    const onError = (error: Error) => fail(connectionError(error, message, target));
    const onClose = () => onError(new Error("it was closed before it answered"));
    const onData = (piece: Buffer) => {
      data = data.length === 0 ? piece : Buffer.concat([data, piece]);
      const head = readHead(data);
      if (!head) {
        if (data.length > HEAD_MAX) fail(badAnswer("its head has no end", message));
      } else if (head.status === 101) {
        socket.pause();
        settle(() => resolve({ socket, early: head.rest, headers: head.headers }));
      } else {
        const length = Math.min(Number(head.headers["content-length"]) || 0, HEAD_MAX);
        if (head.rest.length >= length)
          fail(refusalOf(message, head.status, head.headers, head.rest.toString("utf8")));
      }
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    socket.on("data", onData).on("error", onError).on("close", onClose);
    socket.setNoDelay(true);
    socket.write(text);
    if (typeof message.body === "string") socket.write(message.body);
  });
}
