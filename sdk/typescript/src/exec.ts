import { AttachedCommand, type AttachOptions } from "./attach.js";
import { bodyOf, type Content, join } from "./bytes.js";
import type { HttpClient } from "./client.js";
import { CayError, CommandTimeoutError, ConnectionError, errorOf } from "./errors.js";
import { EventStream } from "./events.js";
import type { CmdRunInput, ExecEvent, ExecResult, ExecState } from "./generated.js";
import { newExecId } from "./ids.js";
import { type CallOptions, split } from "./options.js";

/** A line for the sandbox's shell, or a program and its arguments. */
export type Command = string | string[];

type Fields = Omit<CmdRunInput, "sandboxId" | "command" | "stdin" | "stdinEncoding">;

/** How a command is run. */
export interface ExecOptions extends Fields, CallOptions {
  /** What it reads; it ends with that. */
  stdin?: Content | undefined;
}

/** How a command ended, with what it put out byte for byte. */
export interface ExecBytes extends Omit<ExecResult, "stdout" | "stderr"> {
  stdout: Uint8Array;
  stderr: Uint8Array;
}

/** What a command puts out is kept up to this size, each of stdout and stderr. */
const OUTPUT_MAX = 64 * 1024 * 1024;
/** Input up to this size goes with the request. */
const INPUT_MAX = 512 * 1024;
/** Somebody who has left waits at most so long until the command has been told. */
const KILL_MS = 2000;

/** The number is the timeout in seconds, as clients of the public contract give it. */
export function execOptions(options: number | ExecOptions | undefined): ExecOptions {
  return typeof options === "number" ? { timeout: options } : (options ?? {});
}

/** Input that goes with the request, so that it is all there whatever becomes of the connection; undefined = it cannot. */
function smallInput(stdin: Content | undefined): Pick<CmdRunInput, "stdin" | "stdinEncoding"> | undefined {
  if (stdin === undefined) return {};
  const bytes = typeof stdin === "string" || stdin instanceof Uint8Array ? bodyOf(stdin) : undefined;
  if (!(bytes instanceof Uint8Array) || bytes.length > INPUT_MAX) return undefined;
  return { stdin: Buffer.from(bytes).toString("base64"), stdinEncoding: "base64" };
}

/** Runs commands in one sandbox and finds them again when the connection broke. */
export class Runner {
  readonly #client: HttpClient;
  readonly #sandboxId: string;

  constructor(client: HttpClient, sandboxId: string) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  async run(command: Command, options: ExecOptions): Promise<ExecResult> {
    const input = smallInput(options.stdin);
    if (!input) return this.#runAttached(command, options);
    const { stdin: _, ...rest } = options;
    const [fields, call] = split(rest);
    const execId = options.execId ?? newExecId();
    try {
      return await this.#client.call(
        "cmd_run",
        { ...fields, ...input, sandboxId: this.#sandboxId, command, execId },
        call,
      );
    } catch (error) {
      // Hanging up has ended it; a proxy on the way, or a runtime, may be slow to pass that on.
      if (options.signal?.aborted && !options.detach) void this.#kill(execId);
      if (error instanceof CayError && error.code === "agent_too_old" && options.stdin !== undefined)
        return this.#runAttached(command, options);
      if (!(error instanceof ConnectionError) || error.unsent) throw error;
    }
    return collect(this.#follow(command, { ...options, execId }, true));
  }

  async #kill(execId: string): Promise<void> {
    const where = { sandboxId: this.#sandboxId, execId };
    await this.#client.call("cmd_kill", where, { timeoutMs: KILL_MS }).catch(() => undefined);
  }

  async runBytes(command: Command, options: ExecOptions): Promise<ExecBytes> {
    const { stdin, ...rest } = options;
    const attached = await this.attach(command, { ...rest, stdin: stdin !== undefined });
    // A command need not read all that there is for it; a source that fails closes it.
    const sent = stdin === undefined ? undefined : attached.sendAll(stdin).catch(() => undefined);
    const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    const sizes = { stdout: 0, stderr: 0 };
    let truncated = false;
    for await (const { type, data } of attached) {
      const room = OUTPUT_MAX - sizes[type];
      truncated ||= data.length > room;
      kept[type].push(data.subarray(0, room));
      sizes[type] += Math.min(room, data.length);
    }
    await sent;
    const { lost, ...end } = await attached.wait();
    const output = { stdout: join(kept.stdout), stderr: join(kept.stderr), truncated: truncated || lost > 0 };
    if (end.reason === "timeout") throw timeoutError(this.#sandboxId, attached.execId, texts(output));
    return { ...end, ...output, execId: attached.execId };
  }

  async #runAttached(command: Command, options: ExecOptions): Promise<ExecResult> {
    const done = await this.runBytes(command, options);
    return { ...done, ...texts(done) };
  }

  stream(command: Command, options: ExecOptions): ExecStream {
    return this.#follow(command, options, false);
  }

  attach(command: Command, options: AttachOptions): Promise<AttachedCommand> {
    return AttachedCommand.start(this.#client, this.#sandboxId, command, options);
  }

  /** The events of a command; sent: it may have been started under this id already. */
  #follow(command: Command, options: ExecOptions, sent: boolean): ExecStream {
    const input = smallInput(options.stdin);
    if (!input) throw new TypeError("execStream() takes input of at most 512 KiB: use attach() for more");
    const { detach, execId = newExecId() } = options;
    const { stdin: _, ...rest } = options;
    const [fields, call] = split(rest);
    const where = { sandboxId: this.#sandboxId, execId };
    return new ExecStream(
      async (signal) => {
        const begin = () =>
          this.#client.events(
            "cmd_run_stream",
            { ...fields, ...input, ...where, command },
            { ...call, signal },
          );
        return follow(this.#client, where, { begin, sent, signal, leave: detach ?? false });
      },
      where,
      options.signal,
    );
  }
}

interface Where {
  sandboxId: string;
  execId: string;
}

interface Following {
  /** Starts the command; absent: it was started by somebody else. */
  begin?: () => EventStream<ExecEvent>;
  /** It may have been started already. */
  sent: boolean;
  /** It goes on when nobody follows it. */
  leave: boolean;
  cursor?: number | undefined;
  signal: AbortSignal;
}

/** What is to be done about a failure: come back to the command, start it, or give up. */
function afterFailure(error: unknown, back: boolean, fresh: boolean): "come back" | "begin" | "give up" {
  if (error instanceof ConnectionError) return error.unsent ? "give up" : "come back";
  if (!(error instanceof CayError)) return "give up";
  if (back && fresh && error.code === "exec_not_found") return "begin"; // it was never heard of, so it has not run
  const late = !back && error.code === "exec_exists"; // it was heard of after all
  const soon = back && (error.status === 503 || error.code === "exec_attached");
  return late || soon ? "come back" : "give up";
}

/** The events of a command to its end, over as many connections as that takes. */
async function* follow(
  client: HttpClient,
  where: Where,
  how: Following,
): AsyncGenerator<ExecEvent, undefined> {
  const patience = client.patience(how.signal);
  let cursor = how.cursor ?? 0;
  let back = how.sent || !how.begin;
  let ended = false;
  try {
    for (;;) {
      const again = () => client.events("cmd_get_stream", { ...where, cursor }, { signal: how.signal });
      const events = back || !how.begin ? again() : how.begin();
      let failure: unknown = lostError(where);
      try {
        for await (const event of events) {
          patience.reset();
          cursor = event.cursor ?? cursor;
          if (event.type === "error") throw errorOfEvent(event, where);
          ended = event.type === "exit";
          yield event;
          if (ended) return undefined;
        }
        back = true; // it was cut without an end
      } catch (error) {
        const next = afterFailure(error, back, cursor === 0 && how.begin !== undefined);
        if (next === "give up") throw error;
        failure = error;
        back = next === "come back";
      }
      await patience.after(failure);
    }
  } finally {
    // Hanging up ends a command only for the connection that started it.
    if (!ended && back && !how.leave)
      await client.call("cmd_kill", where, { timeoutMs: KILL_MS }).catch(() => undefined);
  }
}

function lostError(where: Where): ConnectionError {
  const path = `/sandbox/sandboxes/${where.sandboxId}/exec/${where.execId}/stream`;
  return new ConnectionError(
    "connection_lost",
    `the output of the command was cut off (GET ${path})`,
    { method: "GET", path, execId: where.execId },
    false,
  );
}

function errorOfEvent(event: ExecEvent, where: Where): CayError {
  return errorOf({
    method: "POST",
    path: `/sandbox/sandboxes/${where.sandboxId}/exec/stream`,
    status: 500,
    body: { error: event.data, code: event.code ?? "internal", execId: where.execId },
  });
}

function texts(output: { stdout: Uint8Array; stderr: Uint8Array; truncated: boolean }) {
  const decoder = new TextDecoder();
  return {
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
    truncated: output.truncated,
  };
}

function timeoutError(
  sandboxId: string,
  execId: string,
  output: { stdout: string; stderr: string; truncated: boolean },
): CommandTimeoutError {
  const path = `/sandbox/sandboxes/${sandboxId}/exec`;
  return new CommandTimeoutError("command_timeout", `the command did not end in its time (POST ${path})`, {
    method: "POST",
    path,
    status: 408,
    body: { ...output, execId, exitCode: 124 },
  });
}

/** What a command puts out, as it does: `{type: "stdout" | "stderr", data}`, at last `{type: "exit", data: "0"}`. */
export class ExecStream extends EventStream<ExecEvent> {
  /** By which the daemon knows the command. */
  readonly execId: string;
  readonly sandboxId: string;

  constructor(
    open: (signal: AbortSignal) => Promise<AsyncIterator<ExecEvent>>,
    where: Where,
    signal?: AbortSignal,
  ) {
    super(open, signal);
    this.execId = where.execId;
    this.sandboxId = where.sandboxId;
  }

  /** Reads what is left, and says how it ended. */
  result(): Promise<ExecResult> {
    return collect(this);
  }
}

async function collect(stream: ExecStream): Promise<ExecResult> {
  const began = Date.now();
  const output = { stdout: "", stderr: "", truncated: false };
  for await (const event of stream) {
    const kind = event.type === "stdout" ? "stdout" : event.type === "stderr" ? "stderr" : undefined;
    if (kind) {
      const room = OUTPUT_MAX - output[kind].length;
      output.truncated ||= event.data.length > room;
      output[kind] += event.data.slice(0, room);
    } else if (event.type === "lost") {
      output.truncated = true;
    } else if (event.type === "exit") {
      const { execId, sandboxId } = stream;
      if (event.reason === "timeout") throw timeoutError(sandboxId, execId, output);
      const { reason = "exit", oom, message } = event;
      const more = { ...(oom === undefined ? {} : { oom }), ...(message === undefined ? {} : { message }) };
      return {
        exitCode: Number(event.data),
        duration: Date.now() - began,
        reason,
        execId,
        ...output,
        ...more,
      };
    }
  }
  throw lostError(stream);
}

/** A command that goes on by itself. */
export class BackgroundCommand {
  readonly #client: HttpClient;
  readonly sandboxId: string;
  readonly id: string;

  constructor(client: HttpClient, sandboxId: string, id: string) {
    this.#client = client;
    this.sandboxId = sandboxId;
    this.id = id;
  }

  /** How it is, with what it put out from `cursor` on. */
  state(options: CallOptions & { cursor?: number } = {}): Promise<ExecState> {
    const [fields, call] = split(options);
    return this.#client.call("cmd_get", { ...fields, sandboxId: this.sandboxId, execId: this.id }, call);
  }

  /** Its output from `cursor` on, until it ends. Leaving it leaves the command running. */
  stream(options: CallOptions & { cursor?: number } = {}): ExecStream {
    const where = { sandboxId: this.sandboxId, execId: this.id };
    return new ExecStream(
      async (signal) =>
        follow(this.#client, where, { sent: true, leave: true, cursor: options.cursor, signal }),
      where,
      options.signal,
    );
  }

  /** Waits until it has ended; gives all that it put out. */
  wait(options: CallOptions = {}): Promise<ExecResult> {
    return this.stream(options).result();
  }

  /** Ends it and all that it started. */
  async kill(options: CallOptions = {}): Promise<void> {
    await this.#client.call("cmd_kill", { sandboxId: this.sandboxId, execId: this.id }, options);
  }
}
