import { AttachedCommand, type AttachOptions, type ReattachOptions } from "./attach.js";
import type { HttpClient } from "./client.js";
import { ConnectionError, SandboxNotFoundError } from "./errors.js";
import {
  BackgroundCommand,
  type Command,
  type ExecBytes,
  type ExecOptions,
  type ExecStream,
  execOptions,
  Runner,
} from "./exec.js";
import type {
  CmdBackgroundInput,
  Diff,
  ExecInfo,
  ExecResult,
  Image,
  ImageCommitInput,
  Interrupted,
  Metrics,
  MetricsHistory,
  SandboxInfo,
  SandboxStopInput,
  SandboxUpdateInput,
  Snapshot,
  SnapshotList,
  Success,
} from "./generated.js";
import { EnvManager } from "./managers/env.js";
import { FileSystem } from "./managers/filesystem.js";
import { GitManager } from "./managers/git.js";
import { CodeInterpreter } from "./managers/interpreter.js";
import { MonitorManager } from "./managers/monitor.js";
import { SandboxNetworkManager } from "./managers/network.js";
import { PortManager } from "./managers/ports.js";
import { ProcessManager } from "./managers/processes.js";
import { QueueManager } from "./managers/queue.js";
import { StreamManager } from "./managers/streams.js";
import { TerminalManager } from "./managers/terminal.js";
import { type CallOptions, split, type With } from "./options.js";

/**
 * A sandbox. `await using sandbox = await createSandbox()` removes it at the end of the block; else `kill()` does, or
 * its timeout.
 */
export class Sandbox implements AsyncDisposable {
  readonly #client: HttpClient;
  readonly #runner: Runner;
  #info: SandboxInfo;

  readonly env: EnvManager;
  readonly filesystem: FileSystem;
  readonly git: GitManager;
  readonly interpreter: CodeInterpreter;
  readonly processes: ProcessManager;
  readonly ports: PortManager;
  readonly queue: QueueManager;
  readonly streams: StreamManager;
  readonly monitor: MonitorManager;
  readonly terminal: TerminalManager;
  readonly network: SandboxNetworkManager;

  constructor(client: HttpClient, info: SandboxInfo) {
    this.#client = client;
    this.#info = info;
    this.#runner = new Runner(client, info.id);
    this.env = new EnvManager(client, info.id);
    this.filesystem = new FileSystem(client, info.id);
    this.git = new GitManager(client, info.id);
    this.interpreter = new CodeInterpreter(client, info.id);
    this.processes = new ProcessManager(client, info.id);
    this.ports = new PortManager(client, info.id);
    this.queue = new QueueManager(client, info.id);
    this.streams = new StreamManager(client, info.id);
    this.monitor = new MonitorManager(client, info.id);
    this.terminal = new TerminalManager(client, info.id);
    this.network = new SandboxNetworkManager(client, info.id);
  }

  /** What the daemon said of it last; `refresh()` asks again. */
  get info(): SandboxInfo {
    return this.#info;
  }

  get id(): string {
    return this.#info.id;
  }

  get name(): string {
    return this.#info.name;
  }

  get status(): SandboxInfo["status"] {
    return this.#info.status;
  }

  /** When it expires; undefined = never. */
  get expiresAt(): Date | undefined {
    return this.#info.expiresAt === 0 ? undefined : new Date(this.#info.expiresAt);
  }

  // ---- commands ----

  /**
   * Runs a command and waits for it. A string goes to the sandbox's shell, an array is run as it is. Any exit code is
   * a result; a timeout (in seconds) throws CommandTimeoutError. Aborting ends the command.
   */
  exec(command: Command, options?: number | ExecOptions): Promise<ExecResult> {
    return this.#runner.run(command, execOptions(options));
  }

  /** As `exec`, with what it puts out as it does. Leaving the loop ends the command. */
  execStream(command: Command, options?: number | ExecOptions): ExecStream {
    return this.#runner.stream(command, execOptions(options));
  }

  /** As `exec`, with what it put out byte for byte. */
  execBytes(command: Command, options?: number | ExecOptions): Promise<ExecBytes> {
    return this.#runner.runBytes(command, execOptions(options));
  }

  /** Starts a command that goes on by itself. What it puts out is kept as one: stderr is in its `stdout`. */
  async background(
    command: Command,
    options: With<Omit<CmdBackgroundInput, "sandboxId" | "command">> = {},
  ): Promise<BackgroundCommand> {
    const [fields, call] = split(options);
    const { id } = await this.#client.call(
      "cmd_background",
      { ...fields, sandboxId: this.id, command },
      call,
    );
    return this.command(id);
  }

  /** A command by its id, which may have been started by another program. */
  command(execId: string): BackgroundCommand {
    return new BackgroundCommand(this.#client, this.id, execId);
  }

  /** The commands that run, and the last that ended. */
  async commands(options: CallOptions = {}): Promise<ExecInfo[]> {
    return (await this.#client.call("cmd_list", { sandboxId: this.id }, options)).execs;
  }

  /** Starts a command whose input and output are ours, with a terminal if `tty` is set. */
  attach(command: Command, options: AttachOptions = {}): Promise<AttachedCommand> {
    return this.#runner.attach(command, options);
  }

  /** Comes back to a command that runs. */
  reattach(execId: string, options: ReattachOptions = {}): Promise<AttachedCommand> {
    return AttachedCommand.find(this.#client, this.id, execId, options);
  }

  /** Ctrl-C for one process, or for all commands. */
  interrupt(pid?: number, options: CallOptions = {}): Promise<Interrupted> {
    return this.#client.call("cmd_interrupt", { sandboxId: this.id, pid }, options);
  }

  // ---- life ----

  async refresh(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#learn(await this.#client.call("sandbox_get", { sandboxId: this.id }, options));
  }

  /** Its processes stand still until `resume()`. */
  async pause(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#learn(await this.#client.call("sandbox_pause", { sandboxId: this.id }, options));
  }

  async resume(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#learn(await this.#client.call("sandbox_resume", { sandboxId: this.id }, options));
  }

  /** Its processes end, its disk stays. With `drain` those commands that run come to their end first. */
  async stop(options: With<Omit<SandboxStopInput, "sandboxId">> = {}): Promise<SandboxInfo> {
    const [fields, call] = split(options);
    return this.#learn(await this.#client.call("sandbox_stop", { ...fields, sandboxId: this.id }, call));
  }

  /** It is used: its `idleTimeout` begins anew. */
  async touch(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#learn(await this.#client.call("sandbox_touch", { sandboxId: this.id }, options));
  }

  /** A stopped one runs again. */
  async start(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#learn(await this.#client.call("sandbox_start", { sandboxId: this.id }, options));
  }

  /** It expires so many seconds from now, or at that time. */
  async renew(until: number | Date, options: CallOptions = {}): Promise<SandboxInfo> {
    const expiresAt = typeof until === "number" ? Date.now() + Math.round(until * 1000) : until.getTime();
    return this.#learn(await this.#client.call("sandbox_renew", { sandboxId: this.id, expiresAt }, options));
  }

  /** Changes what it was made with, while it runs. */
  async update(changes: With<Omit<SandboxUpdateInput, "sandboxId">>): Promise<SandboxInfo> {
    const [fields, call] = split(changes);
    return this.#learn(await this.#client.call("sandbox_update", { ...fields, sandboxId: this.id }, call));
  }

  /** Removes it with all that is in it. */
  async kill(options: CallOptions = {}): Promise<Success> {
    try {
      return await this.#client.call("sandbox_kill", { sandboxId: this.id }, options);
    } catch (error) {
      if (!(error instanceof ConnectionError) || error.unsent) throw error;
    }
    // The answer was lost. If it is gone now, that is what was asked for.
    try {
      return await this.#client.call("sandbox_kill", { sandboxId: this.id }, options);
    } catch (error) {
      if (error instanceof SandboxNotFoundError) return { success: true };
      throw error;
    }
  }

  /** What `await using` does: removes it; one that is gone already is fine. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.kill();
    } catch (error) {
      if (!(error instanceof SandboxNotFoundError)) throw error;
    }
  }

  // ---- what it uses ----

  metrics(options: CallOptions = {}): Promise<Metrics> {
    return this.#client.call("metrics_sandbox", { sandboxId: this.id }, options);
  }

  /** Samples of the time before, since then in Unix milliseconds. */
  metricsHistory(since?: number, options: CallOptions = {}): Promise<MetricsHistory> {
    return this.#client.call("metrics_history", { sandboxId: this.id, since }, options);
  }

  // ---- copies ----

  /** A new sandbox with the same disk. */
  async clone(name?: string, options: CallOptions & { unique?: boolean } = {}): Promise<Sandbox> {
    const [fields, call] = split(options);
    const info = await this.#client.call("sandbox_clone", { ...fields, sandboxId: this.id, name }, call);
    return new Sandbox(this.#client, info);
  }

  /** So many new sandboxes with the same disk, as it is at one moment. */
  async fork(
    count: number,
    options: CallOptions & { name?: string; unique?: boolean } = {},
  ): Promise<Sandbox[]> {
    const [fields, call] = split(options);
    const { sandboxes } = await this.#client.call(
      "sandbox_fork",
      { ...fields, sandboxId: this.id, count },
      call,
    );
    return sandboxes.map((info) => new Sandbox(this.#client, info));
  }

  /** Keeps its disk as it is now. */
  snapshot(
    name?: string,
    options: CallOptions & { labels?: Record<string, string> } = {},
  ): Promise<Snapshot> {
    const [fields, call] = split(options);
    return this.#client.call("snapshot_create", { ...fields, sandboxId: this.id, name }, call);
  }

  /** Gives it the disk of a snapshot back; its processes end. */
  async restore(snapshotId: string, options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#learn(
      await this.#client.call("snapshot_restore", { sandboxId: this.id, snapshotId }, options),
    );
  }

  listSnapshots(options: CallOptions & { labels?: Record<string, string> } = {}): Promise<SnapshotList> {
    const [fields, call] = split(options);
    return this.#client.call("snapshot_list", { ...fields, sandboxId: this.id }, call);
  }

  /** What has changed on its disk since it was made, or since a snapshot. */
  diff(snapshotId?: string, options: CallOptions = {}): Promise<Diff> {
    return this.#client.call("sandbox_diff", { sandboxId: this.id, snapshotId }, options);
  }

  /** Makes an image of it. */
  commit(name: string, options: With<Omit<ImageCommitInput, "sandboxId" | "name">> = {}): Promise<Image> {
    const [fields, call] = split(options);
    return this.#client.call("image_commit", { ...fields, sandboxId: this.id, name }, call);
  }

  #learn(info: SandboxInfo): SandboxInfo {
    this.#info = info;
    return info;
  }
}
