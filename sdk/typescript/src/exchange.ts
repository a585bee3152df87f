import { type ClientRequest, type IncomingMessage, request as plain, type RequestOptions } from "node:http";
import { request as secure } from "node:https";
import type { Target } from "./address.js";
import { room } from "./bytes.js";
import { badAnswer, CayError, ClientTimeoutError, ConnectionError } from "./errors.js";

/** An answer that is read into memory is at most this long. */
const ANSWER_MAX = 256 * 1024 * 1024;

/** With these nothing was sent: nobody took the connection. */
const UNSENT = new Set([
  "ECONNREFUSED",
  "ENOENT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EACCES",
  "EPERM",
]);

export type Body = string | Uint8Array | AsyncIterable<Uint8Array>;

/** One request as it goes over the wire. */
export interface Message {
  method: string;
  path: string;
  headers: Record<string, string | number>;
  body?: Body | undefined;
}

/** Turns a failure of the connection into an error of ours. */
export function connectionError(error: unknown, message: Pick<Message, "method" | "path">, target: Target) {
  const { code, message: text } = error as NodeJS.ErrnoException;
  const context = { method: message.method, path: message.path, cause: error };
  if (code && UNSENT.has(code)) {
    const hint =
      code === "EACCES" || code === "EPERM"
        ? "you may not use it"
        : "start one with `cay serve`, or name its address in CAY_HOST";
    return new ConnectionError(
      "connection_failed",
      `cannot reach the daemon at ${target.url} (${code}): ${hint}`,
      context,
      true,
    );
  }
  const why = code === "EPROTO" ? "it speaks no TLS; is it http://?" : text || code;
  return new ConnectionError(
    "connection_lost",
    `the connection to the daemon at ${target.url} broke: ${why} (${message.method} ${message.path})`,
    context,
    false,
  );
}

async function send(request: ClientRequest, body: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const piece of body) {
    if (request.destroyed || request.writableEnded) return;
    if (!request.write(piece)) await room(request);
  }
  request.end();
}

/** A request and its answer, from the first byte to the last; it can be ended from our side at any time. */
export class Exchange {
  readonly #target: Target;
  readonly #message: Message;
  readonly #signal: AbortSignal | undefined;
  #request: ClientRequest | undefined;
  #answer: IncomingMessage | undefined;
  #timer: NodeJS.Timeout | undefined;
  #reason: { error: unknown } | undefined;
  #reject: ((error: unknown) => void) | undefined;
  readonly #abort = () => this.end(this.#signal?.reason);

  constructor(target: Target, message: Message, signal: AbortSignal | undefined) {
    this.#target = target;
    this.#message = message;
    this.#signal = signal;
  }

  /** Sends it; resolves with the head of the answer. timeoutMs is for the whole exchange; 0 = none. */
  start(how: RequestOptions, timeoutMs: number): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      if (this.#signal?.aborted) return reject(this.#signal.reason);
      this.#reject = reject;
      const { method, path, headers, body } = this.#message;
      const request = (this.#target.tls ? secure : plain)({ ...how, method, path, headers }, (answer) => {
        this.#answer = answer;
        resolve(answer);
      });
      this.#request = request;
      this.#signal?.addEventListener("abort", this.#abort, { once: true });
      if (timeoutMs > 0)
        this.#timer = setTimeout(() => {
          this.end(
            new ClientTimeoutError("client_timeout", `no answer within ${timeoutMs} ms (${method} ${path})`, {
              method,
              path,
            }),
          );
        }, timeoutMs);
      request.on("error", (error) => {
        this.finish();
        reject(this.failure(error));
      });
      if (body === undefined || typeof body === "string" || body instanceof Uint8Array) request.end(body);
      else send(request, body).catch((error) => this.end(error));
    });
  }

  /** The whole answer. By its events and not by pieces(): most calls are this, and it takes half the time. */
  text(): Promise<string> {
    const answer = this.#answer;
    return new Promise((resolve, reject) => {
      if (!answer) return resolve("");
      const pieces: Buffer[] = [];
      let size = 0;
      let settled = false;
      const fail = (error: unknown) => {
        if (settled) return;
        settled = true;
        this.finish();
        reject(this.failure(error));
      };
      this.#reject = fail;
      answer.on("data", (piece: Buffer) => {
        pieces.push(piece);
        size += piece.length;
        if (size > ANSWER_MAX) this.end(badAnswer(`it is longer than ${ANSWER_MAX} bytes`, this.#message));
      });
      answer.on("end", () => {
        if (!answer.complete) return fail(new Error("it ended too early"));
        settled = true;
        this.finish();
        resolve((pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)).toString("utf8"));
      });
      answer.on("error", fail);
      answer.on("close", () => settled || fail(new Error("it ended too early")));
    });
  }

  /** The answer as it comes; who stops early ends the exchange. */
  async *pieces(): AsyncGenerator<Buffer, void> {
    if (!this.#answer) return;
    let whole = false;
    try {
      for await (const piece of this.#answer) yield piece as Buffer;
      // A runtime that does not say when the other side went too early leaves "complete" false.
      if (!this.#answer.complete) throw new Error("it ended too early");
      whole = true;
    } catch (error) {
      throw this.failure(error);
    } finally {
      if (!whole) this.end(undefined);
      this.finish();
    }
  }

  /** Ends it from our side; whoever waits for it gets the error. */
  end(error: unknown): void {
    this.#reason ??= { error };
    this.#reject?.(this.#reason.error); // now, whatever the other side still says
    this.#request?.destroy();
    this.finish();
  }

  finish(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#abort);
  }

  /** Why it failed: what we ended it for, or what became of the connection. */
  failure(error: unknown): unknown {
    if (this.#reason) return this.#reason.error;
    return error instanceof CayError ? error : connectionError(error, this.#message, this.#target);
  }
}
