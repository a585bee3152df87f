import type { Socket } from "node:net";
import { bodyOf, type Content, streamOf } from "./bytes.js";
import type { HttpClient } from "./client.js";
import { CayError, ConnectionError, errorOf } from "./errors.js";
import {
  type ExecEnd,
  FRAME,
  FrameReader,
  frame,
  frameOfNumbers,
  PIECE,
  readError,
  readExit,
} from "./frames.js";
import type { CmdAttachInput } from "./generated.js";
import { newExecId } from "./ids.js";
import { type CallOptions, split } from "./options.js";
import type { Upgraded } from "./upgrade.js";

const PROTOCOL = "cay-exec";

const SIGNALS: Record<string, number> = {
  HUP: 1,
  INT: 2,
  QUIT: 3,
  KILL: 9,
  USR1: 10,
  USR2: 12,
  TERM: 15,
  CONT: 18,
  STOP: 19,
  TSTP: 20,
  WINCH: 28,
};

/** How a command is attached to. */
export interface AttachOptions extends Omit<CmdAttachInput, "sandboxId" | "command">, CallOptions {}

/** How one comes back to a command that runs. */
export interface ReattachOptions extends CallOptions {
  /** Output before this byte is not wanted. */
  cursor?: number | undefined;
  /** Have its input; only one can. Without it any number reads along. */
  stdin?: boolean | undefined;
  share?: boolean | undefined;
  rows?: number | undefined;
  cols?: number | undefined;
}

/** A piece of output. */
export interface OutputPiece {
  type: "stdout" | "stderr";
  data: Uint8Array;
}

function numberOf(signal: number | string): number {
  const n = typeof signal === "number" ? signal : SIGNALS[signal.replace(/^SIG/, "")];
  if (n === undefined) throw new TypeError(`"${signal}" is no signal`);
  return n;
}

/** The pieces of a socket, which is read no faster than they are taken. */
async function* piecesOf(upgraded: Upgraded): AsyncGenerator<Uint8Array, void> {
  if (upgraded.early.length > 0) yield upgraded.early;
  for await (const piece of upgraded.socket) yield piece as Buffer;
}

/**
 * A command whose input and output are bytes over a connection of its own. Iterate over it, or take its `stdout` and
 * `stderr`, to get what it puts out; `wait()` says how it ended. It ends when it is closed, unless it was started
 * with `detach`.
 */
export class AttachedCommand implements AsyncIterable<OutputPiece>, AsyncDisposable {
  readonly execId: string;
  readonly sandboxId: string;
  readonly #client: HttpClient;
  readonly #options: AttachOptions;
  readonly #end: Promise<ExecEnd>;
  #settle!: { resolve: (end: ExecEnd) => void; reject: (error: unknown) => void };
  #socket: Socket;
  #upgraded: Upgraded;
  #output: AsyncGenerator<OutputPiece, void> | undefined;
  #cursor = 0;
  #sent = false;
  #stdinEnded = false;
  #closed = false;
  #ended = false;
  #lost = 0;
  /** Hanging up does not end what we came back to. */
  #back: boolean;
  readonly #abort = () => this.#stop(this.#options.signal?.reason);
  #reason: { error: unknown } | undefined;

  private constructor(
    client: HttpClient,
    ids: [string, string],
    options: AttachOptions,
    made: Upgraded,
    back: boolean,
  ) {
    this.#client = client;
    [this.sandboxId, this.execId] = ids;
    this.#options = options;
    this.#upgraded = made;
    this.#socket = made.socket;
    this.#back = back;
    this.#socket.on("error", () => undefined); // its reader is told
    this.#end = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.#end.catch(() => undefined); // nobody need ask
    if (options.signal?.aborted) this.#abort();
    else options.signal?.addEventListener("abort", this.#abort, { once: true });
  }

  static async start(
    client: HttpClient,
    sandboxId: string,
    command: string | string[],
    options: AttachOptions,
  ): Promise<AttachedCommand> {
    const [fields, call] = split(options);
    const execId = options.execId ?? newExecId();
    const made = await client.upgrade(
      "cmd_attach",
      { ...fields, sandboxId, command, execId },
      PROTOCOL,
      call,
    );
    return new AttachedCommand(client, [sandboxId, execId], options, made, false);
  }

  /** Comes back to one; closing it leaves it running. */
  static async find(
    client: HttpClient,
    sandboxId: string,
    execId: string,
    options: ReattachOptions,
  ): Promise<AttachedCommand> {
    const [fields, call] = split(options);
    const input = { stdin: false, ...fields, sandboxId, execId };
    const made = await client.upgrade("cmd_get_attach", input, PROTOCOL, call);
    const found = new AttachedCommand(client, [sandboxId, execId], { ...options, detach: true }, made, true);
    found.#cursor = options.cursor ?? 0;
    return found;
  }

  /** Bytes of output that have come, or are known to be lost: where to come back to. */
  get cursor(): number {
    return this.#cursor;
  }

  /** What it puts out, as it comes. There is one reader. */
  [Symbol.asyncIterator](): AsyncGenerator<OutputPiece, void> {
    this.#output ??= this.#read();
    return this.#output;
  }

  /** What it puts out on stdout alone; what comes on stderr is dropped. */
  get stdout(): ReadableStream<Uint8Array> {
    return streamOf(this.#only("stdout"));
  }

  /** What it puts out on stderr alone; what comes on stdout is dropped. */
  get stderr(): ReadableStream<Uint8Array> {
    return streamOf(this.#only("stderr"));
  }

  /** Its input, for `pipeTo()`. Closing it is the end of the input, and aborting it closes the command. */
  get stdin(): WritableStream<Uint8Array | string> {
    return new WritableStream({
      write: (piece) => this.write(piece),
      close: () => this.closeStdin(),
      abort: (reason) => this.#hangUp(reason),
    });
  }

  /** Gives it input; resolves when there is room for more. */
  async write(data: Uint8Array | string): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += PIECE) {
      this.#sent = true;
      await this.#send(frame(FRAME.stdin, bytes.subarray(at, at + PIECE)));
    }
  }

  /** There is no more input. */
  closeStdin(): Promise<void> {
    this.#stdinEnded = true;
    return this.#send(frame(FRAME.stdin));
  }

  /** Gives it all of that as input, and then its end. When the source fails, the command is closed with its error. */
  async sendAll(content: Content): Promise<void> {
    const body = bodyOf(content);
    if (body instanceof Uint8Array) await this.write(body);
    else for await (const piece of this.#watched(body)) await this.write(piece);
    await this.closeStdin();
  }

  /** Sends a signal: its name with or without SIG, or its number. */
  kill(signal: number | string = "TERM"): Promise<void> {
    return this.#send(frameOfNumbers(FRAME.signal, numberOf(signal)));
  }

  /** Its terminal has another size. */
  resize(rows: number, cols: number): Promise<void> {
    return this.#send(frameOfNumbers(FRAME.resize, rows, cols));
  }

  /** How it ended. What it puts out and nobody reads is read and dropped meanwhile. */
  async wait(): Promise<ExecEnd> {
    if (!this.#output) for await (const _ of this);
    return this.#end;
  }

  /** Hangs up, which ends it unless it is detached. */
  async close(): Promise<void> {
    await this.#hangUp(new DOMException("the command was closed", "AbortError"));
  }

  async #hangUp(reason: unknown): Promise<void> {
    this.#stop(reason);
    if (!this.#ended && this.#back && !this.#options.detach) {
      const where = { sandboxId: this.sandboxId, execId: this.execId };
      await this.#client.call("cmd_kill", where, { timeoutMs: 2000 }).catch(() => undefined);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #stop(reason: unknown): void {
    this.#reason ??= { error: reason };
    this.#closed = true;
    this.#options.signal?.removeEventListener("abort", this.#abort);
    this.#socket.destroy();
    this.#settle.reject(reason);
  }

  #checkOpen(): void {
    if (this.#reason) throw this.#reason.error;
  }

  #send(data: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed || this.#ended)
        return reject(this.#reason?.error ?? new Error("the command has ended"));
      this.#socket.write(data, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** What a source gives. Without the rest of it nobody can say what the command would do. */
  async *#watched(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    try {
      yield* source;
    } catch (error) {
      await this.#hangUp(error);
      throw error;
    }
  }

  async *#only(type: OutputPiece["type"]): AsyncGenerator<Uint8Array, void> {
    for await (const piece of this) if (piece.type === type) yield piece.data;
  }

  async *#read(): AsyncGenerator<OutputPiece, void> {
    const patience = this.#client.patience(this.#options.signal);
    try {
      for (;;) {
        try {
          for await (const piece of this.#pieces()) {
            patience.reset();
            yield piece;
          }
          if (this.#ended) return;
        } catch (error) {
          if (this.#reason || error instanceof CayError) throw this.#reason?.error ?? error;
        }
        await this.#comeBack(patience);
      }
    } catch (error) {
      this.#settle.reject(error);
      throw error;
    } finally {
      if (!this.#ended) await this.close();
      else this.#stop(undefined);
    }
  }

  async *#pieces(): AsyncGenerator<OutputPiece, void> {
    const reader = new FrameReader();
    for await (const piece of piecesOf(this.#upgraded)) {
      for (const { type, payload } of reader.add(piece)) {
        if (type === FRAME.stdout || type === FRAME.stderr) {
          this.#cursor += payload.length;
          yield { type: type === FRAME.stdout ? "stdout" : "stderr", data: payload };
        } else if (type === FRAME.lost) {
          this.#lost += Number(payload.readBigUInt64LE(0));
          this.#cursor += Number(payload.readBigUInt64LE(0));
        } else if (type === FRAME.exit) {
          const end = readExit(payload);
          this.#ended = true;
          this.#settle.resolve({ ...end, lost: end.lost + this.#lost });
          return;
        } else if (type === FRAME.error) {
          throw this.#errorOf(readError(payload));
        }
      }
    }
  }

  #errorOf(body: { code: string; error: string }): CayError {
    const path = `/sandbox/sandboxes/${this.sandboxId}/exec/attach`;
    return errorOf({ method: "POST", path, status: 500, body: { ...body, execId: this.execId } });
  }

  /** The connection broke. Input that was under way may or may not have arrived: then nobody can go on with it. */
  async #comeBack(patience: { after(error: unknown): Promise<void> }): Promise<void> {
    this.#checkOpen();
    const path = `/sandbox/sandboxes/${this.sandboxId}/exec/${this.execId}/attach`;
    const context = { method: "POST", path, execId: this.execId };
    const lost = new ConnectionError(
      "connection_lost",
      `the connection to the command broke (${path})`,
      context,
      false,
    );
    if (this.#sent && !this.#options.tty) throw lost;
    for (let failure: unknown = lost; ; ) {
      await patience.after(failure);
      this.#checkOpen();
      try {
        const { rows, cols, stdin, signal } = this.#options;
        const input = {
          sandboxId: this.sandboxId,
          execId: this.execId,
          cursor: this.#cursor,
          stdin,
          rows,
          cols,
        };
        this.#upgraded = await this.#client.upgrade("cmd_get_attach", input, PROTOCOL, { signal });
        this.#socket = this.#upgraded.socket;
        this.#socket.on("error", () => undefined);
        this.#back = true;
        this.#checkOpen(); // it may have been closed meanwhile
        if (this.#stdinEnded) await this.closeStdin().catch(() => undefined); // its end may not have arrived
        return;
      } catch (error) {
        const away =
          error instanceof ConnectionError ||
          (error instanceof CayError && (error.status === 503 || error.code === "exec_attached"));
        if (!away) throw error;
        failure = error;
      }
    }
  }
}
