import { gather, streamOf } from "../bytes.js";
import type { HttpClient } from "../client.js";
import { CayError, ConnectionError, errorOf } from "../errors.js";
import type {
  ChannelEnd,
  Terminal,
  TerminalClosed,
  TerminalCreateInput,
  TerminalEvent,
  TerminalExit,
  TerminalSize,
} from "../generated.js";
import { type CallOptions, split } from "../options.js";
import { SocketConnection } from "../websocket.js";

/** What a new terminal is like. */
export interface TerminalOptions extends Omit<TerminalCreateInput, "sandboxId">, CallOptions {}

/** How to look at a terminal that there is. */
export interface ConnectOptions extends CallOptions {
  /** Begin with this byte; without it comes all that is kept. */
  cursor?: number | undefined;
  /** Look on only. */
  readOnly?: boolean | undefined;
  cols?: number | undefined;
  rows?: number | undefined;
}

/** The daemon ends, or is replaced by another, and will be there again in a moment. */
const COMING_BACK = 1012;

/**
 * The bytes of a terminal, both ways. It goes on over restarts of the daemon; closing it leaves the shell running.
 */
export class TerminalConnection implements AsyncIterable<Uint8Array>, AsyncDisposable {
  readonly sandboxId: string;
  readonly sessionId: string;
  readonly #client: HttpClient;
  readonly #options: ConnectOptions;
  readonly #exited: Promise<TerminalExit>;
  #settle!: { resolve: (exit: TerminalExit) => void; reject: (error: unknown) => void };
  /** The connection there is now, or the one that is being made. */
  #socket: Promise<SocketConnection>;
  #output: AsyncGenerator<Uint8Array, void> | undefined;
  #taken = false;
  #cursor: number | undefined;
  #closed = false;
  #ended = false;

  constructor(
    client: HttpClient,
    sandboxId: string,
    sessionId: string,
    options: ConnectOptions,
    socket: SocketConnection,
  ) {
    this.#client = client;
    this.sandboxId = sandboxId;
    this.sessionId = sessionId;
    this.#options = options;
    this.#cursor = options.cursor;
    this.#socket = Promise.resolve(socket);
    this.#exited = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.#exited.catch(() => undefined); // nobody need ask
  }

  /** Bytes of output that have been shown: where to come back to. */
  get cursor(): number {
    return this.#cursor ?? 0;
  }

  /** What the terminal shows, as it does. There is one reader. */
  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    this.#taken = true;
    return this.#pieces();
  }

  /** What it shows, as a web stream. */
  get readable(): ReadableStream<Uint8Array> {
    return streamOf(this[Symbol.asyncIterator]());
  }

  /** What is typed, as a web stream. */
  get writable(): WritableStream<Uint8Array | string> {
    return new WritableStream({ write: (piece) => this.write(piece) });
  }

  /** Types. */
  async write(data: Uint8Array | string): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const most = 64 * 1024;
    for (let at = 0; at < bytes.length; at += most)
      await (await this.#socket).send(bytes.subarray(at, at + most));
  }

  async resize(cols: number, rows: number): Promise<void> {
    await (await this.#socket).send(JSON.stringify({ resize: { cols, rows } }));
  }

  /** Sends a signal, as SIGINT, to all processes of the session. */
  async signal(name: string): Promise<void> {
    await (await this.#socket).send(JSON.stringify({ signal: name }));
  }

  /** How the shell ended. What it shows and nobody reads is read and dropped meanwhile. */
  async wait(): Promise<TerminalExit> {
    if (!this.#taken) for await (const _ of this.#pieces());
    return this.#exited;
  }

  /** Reads until the output has that text in it; gives all that came. */
  async readUntil(text: string): Promise<string> {
    const decoder = new TextDecoder();
    let seen = "";
    const output = this.#pieces();
    while (!seen.includes(text)) {
      const got = await output.next();
      if (got.done) throw new Error(`the terminal ended before it showed ${JSON.stringify(text)}`);
      seen += decoder.decode(got.value, { stream: true });
    }
    return seen;
  }

  /** Leaves; the shell goes on. */
  async close(): Promise<void> {
    this.#closed = true;
    (await this.#socket.catch(() => undefined))?.destroy();
    this.#settle.reject(new DOMException("the terminal was left", "AbortError"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #pieces(): AsyncGenerator<Uint8Array, void> {
    this.#output ??= this.#read();
    return this.#output;
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    const { signal } = this.#options;
    const patience = this.#client.patience(signal);
    try {
      for (;;) {
        const socket = await this.#socket;
        for await (const message of socket) {
          patience.reset();
          if (typeof message === "string") this.#control(JSON.parse(message));
          else {
            this.#cursor = (this.#cursor ?? 0) + message.length;
            yield message;
          }
        }
        signal?.throwIfAborted();
        if (this.#ended || this.#closed) return;
        if (socket.closed && socket.closed.code !== COMING_BACK)
          throw this.#error(socket.closed.reason, "terminal_closed");
        await this.#comeBack(patience);
      }
    } catch (error) {
      this.#settle.reject(error);
      throw error;
    } finally {
      await this.close();
    }
  }

  #control(said: TerminalEvent | TerminalExit): void {
    if (said.type === "exit") {
      this.#ended = true;
      this.#settle.resolve(said as TerminalExit);
    } else {
      const event = said as TerminalEvent;
      if (event.type === "error") throw this.#error(event.error ?? "", event.code ?? "internal");
      if (event.cursor !== undefined) this.#cursor = event.cursor;
    }
  }

  #error(text: string, code: string): CayError {
    const path = `/sandbox/sandboxes/${this.sandboxId}/terminal/${this.sessionId}/ws`;
    return errorOf({ method: "GET", path, status: 409, body: { error: text, code } });
  }

  async #comeBack(patience: { after(error: unknown): Promise<void> }): Promise<void> {
    const lost = this.#error("the connection to the terminal broke", "connection_lost");
    let arrive!: (socket: SocketConnection) => void;
    let fail!: (error: unknown) => void;
    this.#socket = new Promise((resolve, reject) => {
      arrive = resolve;
      fail = reject;
    });
    this.#socket.catch(() => undefined); // whoever types is told
    for (let failure: unknown = lost; ; ) {
      try {
        await patience.after(failure);
        arrive(
          await openSocket(this.#client, this.sandboxId, this.sessionId, {
            ...this.#options,
            cursor: this.#cursor,
          }),
        );
        return;
      } catch (error) {
        const away = error instanceof ConnectionError || (error instanceof CayError && error.status === 503);
        if (!away || error === failure) {
          fail(error);
          throw error;
        }
        failure = error;
      }
    }
  }
}

function openSocket(
  client: HttpClient,
  sandboxId: string,
  sessionId: string,
  options: ConnectOptions,
): Promise<SocketConnection> {
  const [fields, call] = split(options);
  return SocketConnection.open(client, "terminal_attach", { ...fields, sandboxId, sessionId }, call);
}

/** Terminals of a sandbox: shells that go on, whoever looks at them. */
export class TerminalManager {
  readonly #client: HttpClient;
  readonly #sandboxId: string;

  constructor(client: HttpClient, sandboxId: string) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /** Starts a shell on a terminal. */
  create(options: TerminalOptions = {}): Promise<Terminal> {
    const [fields, call] = split(options);
    return this.#client.call("terminal_create", { ...fields, sandboxId: this.#sandboxId }, call);
  }

  /** Starts a shell and looks at it. */
  async open(options: TerminalOptions = {}): Promise<TerminalConnection> {
    const { sessionId } = await this.create(options);
    return this.connect(sessionId, { signal: options.signal });
  }

  /** Looks at a terminal that there is. */
  async connect(sessionId: string, options: ConnectOptions = {}): Promise<TerminalConnection> {
    const socket = await openSocket(this.#client, this.#sandboxId, sessionId, options);
    return new TerminalConnection(this.#client, this.#sandboxId, sessionId, options, socket);
  }

  /** One end of the channel that a new terminal comes with: who has its key needs no token. */
  channel(end: ChannelEnd, options: CallOptions = {}): Promise<SocketConnection> {
    const input = { channelId: end.channel_id, key: end.access_key, dir: end.direction as "read" | "write" };
    return SocketConnection.open(this.#client, "terminal_channel", input, options);
  }

  async list(options: CallOptions = {}): Promise<Terminal[]> {
    return (await this.#client.call("terminal_list", { sandboxId: this.#sandboxId }, options)).sessions;
  }

  get(sessionId: string, options: CallOptions = {}): Promise<Terminal> {
    return this.#client.call("terminal_get", { sandboxId: this.#sandboxId, sessionId }, options);
  }

  resize(sessionId: string, cols: number, rows: number, options: CallOptions = {}): Promise<TerminalSize> {
    return this.#client.call(
      "terminal_resize",
      { sandboxId: this.#sandboxId, sessionId, cols, rows },
      options,
    );
  }

  /** Ends the shell and all that it started. */
  close(sessionId: string, options: CallOptions = {}): Promise<TerminalClosed> {
    return this.#client.call("terminal_close", { sandboxId: this.#sandboxId, sessionId }, options);
  }

  /** What a terminal that was made with `record` has shown, as asciicast v2. */
  async recording(sessionId: string, options: CallOptions = {}): Promise<string> {
    const input = { sandboxId: this.#sandboxId, sessionId };
    const { pieces, length } = await this.#client.bytes("terminal_recording", input, options);
    return new TextDecoder().decode(await gather(pieces, length));
  }
}
