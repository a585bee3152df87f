import { badAnswer, type CayError, errorOf } from "./errors.js";
import type { Exchange, Message } from "./exchange.js";

/** One event is at most this long. */
const LINE_MAX = 64 * 1024 * 1024;

/** Events as they come, for `for await`. Leaving the loop, `close()` and the signal end the work behind them. */
export class EventStream<T> implements AsyncIterableIterator<T>, AsyncDisposable {
  readonly #open: (signal: AbortSignal) => Promise<AsyncIterator<T>>;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #abort = () => this.#stop.abort(this.#signal?.reason);
  #events: Promise<AsyncIterator<T>> | undefined;
  #closed = false;

  /** open is called once, for the first event. */
  constructor(open: (signal: AbortSignal) => Promise<AsyncIterator<T>>, signal?: AbortSignal) {
    this.#open = open;
    this.#signal = signal;
    if (signal?.aborted) this.#abort();
    else signal?.addEventListener("abort", this.#abort, { once: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The next event. */
  async next(): Promise<IteratorResult<T, undefined>> {
    if (this.#closed) return { done: true, value: undefined };
    try {
      this.#stop.signal.throwIfAborted();
      this.#events ??= this.#open(this.#stop.signal);
      const got = await (await this.#events).next();
      if (!got.done) return got;
    } catch (error) {
      if (!this.#closed) {
        this.#finish();
        throw error;
      }
    }
    this.#finish();
    return { done: true, value: undefined };
  }

  /** Ends the stream, also while somebody waits for an event. */
  async return(): Promise<IteratorResult<T, undefined>> {
    if (!this.#closed) {
      this.#finish();
      this.#stop.abort(new DOMException("the stream was closed", "AbortError"));
      // What is under way has been told; that it then fails is what we want.
      await this.#events?.then((events) => events.return?.()).catch(() => undefined);
    }
    return { done: true, value: undefined };
  }

  async close(): Promise<void> {
    await this.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  #finish(): void {
    this.#closed = true;
    this.#signal?.removeEventListener("abort", this.#abort);
  }
}

interface Failed {
  event?: unknown;
  type?: unknown;
  error?: unknown;
  status?: unknown;
}

/** The error that an event of a stream is, if it is one. */
function errorIn(event: unknown, message: Pick<Message, "method" | "path">): CayError | undefined {
  if (typeof event !== "object" || event === null) return undefined;
  const { event: kind, error, status } = event as Failed;
  if (kind !== "error" || typeof error !== "string") return undefined;
  return errorOf({
    method: message.method,
    path: message.path,
    status: Number(status) || 500,
    body: event as Record<string, unknown>,
  });
}

function readEvent<T>(text: string, message: Pick<Message, "method" | "path">): T {
  let event: T;
  try {
    event = JSON.parse(text) as T;
  } catch (cause) {
    throw badAnswer("an event is no JSON", message, cause);
  }
  const error = errorIn(event, message);
  if (error) throw error;
  return event;
}

/** The events of an answer: one line of JSON each; what is not "data:" does not count. */
export async function* readEvents<T>(
  exchange: Exchange,
  message: Pick<Message, "method" | "path">,
): AsyncGenerator<T, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of exchange.pieces()) {
    const text = decoder.decode(piece, { stream: true });
    rest += text;
    if (!text.includes("\n")) {
      if (rest.length > LINE_MAX) throw badAnswer("an event is too long", message);
      continue;
    }
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield readEvent<T>(line.slice(5), message);
  }
  return undefined;
}
