// The adapter of this SDK for sdk/conformance: one JSON object a line in, one a line out. See its README.md.

import { createHash } from "node:crypto";
import { createInterface } from "node:readline";
import { Cay, CayError, CommandTimeoutError, ConnectionError, type Sandbox } from "@cay/sdk";

type Data = { base64: string } | { pattern: number; size: number };

/** All keys that the operations have. */
interface Args {
  action: "notify";
  alert: string;
  all: boolean;
  anywhere: boolean;
  branch: string;
  bytes: Data & boolean;
  cancel_after_bytes: number;
  code: string;
  cols: number;
  command: string | string[];
  content: string;
  context: string;
  count: number;
  cpu: number;
  cwd: string;
  data: Record<string, unknown>;
  depth: number;
  dir: string;
  entrypoint: string[];
  env: Record<string, string>;
  exec_id: string;
  from: string;
  host_port: number;
  image: string;
  input: string;
  job: string;
  key: string;
  language: string;
  max_retries: number;
  memory: number;
  message: string;
  metadata: Record<string, string>;
  metric: "cpu";
  mode: string;
  name: string;
  network: string;
  path: string;
  pattern: string;
  pid: number;
  port: number;
  rows: number;
  sandbox: string;
  signal: "TERM";
  size_mb: number;
  snapshot: string;
  staged: boolean;
  status: "running";
  stdin: Data;
  tail: number;
  template: string;
  threshold: number;
  timeout: number;
  to: string;
  token: string;
  topic: string;
  unique: boolean;
  until: string;
  url: string;
  user: string;
  vars: Record<string, string>;
  volume: string;
}

interface Call {
  signal: AbortSignal;
}

type Answer = Record<string, unknown>;
type Operation = [keys: string, run: (a: Args, call: Call) => Promise<Answer>];

const cay = new Cay();
const LIMIT = 64 * 1024;
const known = new Map<string, Sandbox>();

async function box(a: Args, call: Call): Promise<Sandbox> {
  const found = known.get(a.sandbox) ?? (await cay.get(a.sandbox, call));
  known.set(found.id, found);
  return found;
}

// ---- data ----

async function* pieces(data: Data): AsyncGenerator<Uint8Array, void> {
  if ("base64" in data) {
    yield Buffer.from(data.base64, "base64");
    return;
  }
  const block = Uint8Array.from({ length: LIMIT }, (_, i) => i * 31 + (i >> 8) * 17 + data.pattern);
  for (let left = data.size; left > 0; left -= LIMIT) yield block.subarray(0, left);
}

/** Data of a result, which comes in pieces. */
class Told {
  readonly #digest = createHash("sha256");
  readonly #head: Uint8Array[] = [];
  size = 0;

  add(piece: Uint8Array | string): this {
    const bytes = typeof piece === "string" ? Buffer.from(piece) : piece;
    this.#digest.update(bytes);
    this.size += bytes.length;
    if (this.size <= LIMIT) this.#head.push(bytes);
    return this;
  }

  value(): unknown {
    if (this.size > LIMIT) return { size: this.size, sha256: this.#digest.digest("hex") };
    const all = Buffer.concat(this.#head);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(all);
    } catch {
      return { base64: all.toString("base64") };
    }
  }
}

const tell = (data: Uint8Array | string) => new Told().add(data).value();

// ---- commands ----

function execOptions(a: Args, call: Call) {
  const { cwd, env, user, timeout } = a;
  return { cwd, env, user, timeout, ...call };
}

async function exec(a: Args, call: Call): Promise<Answer> {
  const sandbox = await box(a, call);
  const options = { ...execOptions(a, call), stdin: a.stdin && pieces(a.stdin) };
  const done = a.bytes ? await sandbox.execBytes(a.command, options) : await sandbox.exec(a.command, options);
  const { exitCode, stdout, stderr, truncated, reason } = done;
  return { exit_code: exitCode, stdout: tell(stdout), stderr: tell(stderr), truncated, reason };
}

async function execAttached(a: Args, call: Call): Promise<Answer> {
  const sandbox = await box(a, call);
  const told = { stdout: new Told(), stderr: new Told() };
  const attached = await sandbox.attach(a.command, { ...execOptions(a, call), stdin: a.stdin !== undefined });
  const sent = a.stdin === undefined ? undefined : attached.sendAll(pieces(a.stdin)).catch(() => undefined);
  for await (const { type, data } of attached) {
    told[type].add(data);
    if (a.cancel_after_bytes && told.stdout.size >= a.cancel_after_bytes) return { cancelled: true };
  }
  await sent;
  const { exitCode, reason } = await attached.wait();
  return {
    exit_code: exitCode,
    reason,
    stdout: told.stdout.value(),
    stderr: told.stderr.value(),
  };
}

async function execStream(a: Args, call: Call): Promise<Answer> {
  if (a.stdin !== undefined || a.bytes) return execAttached(a, call);
  const sandbox = await box(a, call);
  const told = { stdout: new Told(), stderr: new Told() };
  for await (const event of sandbox.execStream(a.command, execOptions(a, call))) {
    if (event.type === "stdout") told.stdout.add(event.data);
    if (event.type === "stderr") told.stderr.add(event.data);
    if (a.cancel_after_bytes && told.stdout.size >= a.cancel_after_bytes) return { cancelled: true };
    if (event.type === "exit")
      return {
        exit_code: Number(event.data),
        reason: event.reason,
        stdout: told.stdout.value(),
        stderr: told.stderr.value(),
      };
  }
  throw new Error("the stream had no end");
}

// ---- the table ----

const sandboxOf = ({ id, name, info, status }: Sandbox) => ({
  id,
  name,
  image: info.image,
  status,
  metadata: info.metadata,
});

const none = async (work: Promise<unknown>): Promise<Answer> => {
  await work;
  return {};
};

const turn = (word: "pause" | "resume" | "stop" | "start"): Operation => [
  "sandbox",
  async (a, call) => ({ status: (await (await box(a, call))[word](call)).status }),
];

const sandboxes: Record<string, Operation> = {
  create: [
    "image? name? unique? timeout? memory? cpu? env? workdir? metadata? template? network? entrypoint?",
    async (a, call) => sandboxOf(await cay.create({ ...a, ...call })),
  ],
  get: ["sandbox", async (a, call) => sandboxOf(await cay.get(a.sandbox, call))],
  list: [
    "metadata? status?",
    async ({ metadata, status }, call) => ({
      ids: (await cay.list({ metadata, status, ...call })).map((s) => s.id),
    }),
  ],
  pause: turn("pause"),
  resume: turn("resume"),
  stop: turn("stop"),
  start: turn("start"),
  renew: [
    "sandbox timeout",
    async (a, call) => {
      const { expiresAt } = await (await box(a, call)).renew(a.timeout, call);
      return { expires_in: Math.floor((expiresAt - Date.now()) / 1000) };
    },
  ],
  kill: ["sandbox", async (a, call) => none((await box(a, call)).kill(call))],
  clone: ["sandbox name?", async (a, call) => sandboxOf(await (await box(a, call)).clone(a.name, call))],
  connect: [
    "url? token?",
    (a, call) => none(new Cay({ baseUrl: a.url, token: a.token }).list({ ...call, status: "running" })),
  ],
};

const commands: Record<string, Operation> = {
  exec: ["sandbox command cwd? env? user? timeout? stdin? bytes?", exec],
  exec_stream: ["sandbox command cwd? env? user? timeout? stdin? bytes? cancel_after_bytes?", execStream],
  background: [
    "sandbox command",
    async (a, call) => ({ exec_id: (await (await box(a, call)).background(a.command, call)).id }),
  ],
  background_wait: [
    "sandbox exec_id",
    async (a, call) => {
      const told = new Told();
      for await (const event of (await box(a, call)).command(a.exec_id).stream(call)) {
        if (event.type === "stdout" || event.type === "stderr") told.add(event.data);
        if (event.type === "exit") return { exit_code: Number(event.data), stdout: told.value() };
      }
      throw new Error("the stream had no end");
    },
  ],
  process_list: [
    "sandbox",
    async (a, call) => ({
      processes: (await (await box(a, call)).processes.list(call)).processes.map(({ pid, command }) => ({
        pid,
        command,
      })),
    }),
  ],
  process_kill: [
    "sandbox pid signal?",
    async (a, call) => none((await box(a, call)).processes.kill(a.pid, a.signal, call)),
  ],
};

const files: Record<string, Operation> = {
  write_file: [
    "sandbox path content anywhere?",
    async (a, call) =>
      none((await box(a, call)).filesystem.write(a.path, a.content, { anywhere: a.anywhere, ...call })),
  ],
  read_file: [
    "sandbox path anywhere?",
    async (a, call) => ({
      content: tell(await (await box(a, call)).filesystem.read(a.path, { anywhere: a.anywhere, ...call })),
    }),
  ],
  upload: [
    "sandbox path bytes mode? anywhere?",
    async (a, call) => {
      const { mode, anywhere } = a;
      return none(
        (await box(a, call)).filesystem.upload(a.path, pieces(a.bytes), { mode, anywhere, ...call }),
      );
    },
  ],
  download: [
    "sandbox path anywhere?",
    async (a, call) => {
      const told = new Told();
      const { anywhere } = a;
      const stream = await (await box(a, call)).filesystem.readStream(a.path, { anywhere, ...call });
      const reader = stream.getReader();
      for (let got = await reader.read(); !got.done; got = await reader.read()) told.add(got.value);
      return { bytes: told.value() };
    },
  ],
  list_files: [
    "sandbox path? anywhere?",
    async (a, call) => ({
      names: (await (await box(a, call)).filesystem.list(a.path, { anywhere: a.anywhere, ...call })).map(
        (f) => f.name,
      ),
    }),
  ],
  stat: [
    "sandbox path anywhere?",
    async (a, call) => {
      const meta = await (await box(a, call)).filesystem.stat(a.path, { anywhere: a.anywhere, ...call });
      const kind = meta.isSymlink ? "link" : meta.isDirectory ? "directory" : "file";
      return { kind, size: meta.size, permissions: meta.permissions };
    },
  ],
  mkdir: [
    "sandbox path anywhere?",
    async (a, call) => none((await box(a, call)).filesystem.mkdir(a.path, { anywhere: a.anywhere, ...call })),
  ],
  remove_file: [
    "sandbox path anywhere?",
    async (a, call) =>
      none((await box(a, call)).filesystem.delete(a.path, { anywhere: a.anywhere, ...call })),
  ],
  remove_dir: [
    "sandbox path anywhere?",
    async (a, call) => none((await box(a, call)).filesystem.rmdir(a.path, { anywhere: a.anywhere, ...call })),
  ],
  move_file: [
    "sandbox from to anywhere?",
    async (a, call) =>
      none((await box(a, call)).filesystem.move(a.from, a.to, { anywhere: a.anywhere, ...call })),
  ],
  chmod: [
    "sandbox path mode",
    async (a, call) => none((await box(a, call)).filesystem.chmod(a.path, a.mode, call)),
  ],
  search: [
    "sandbox pattern dir?",
    async (a, call) => ({ paths: await (await box(a, call)).filesystem.search(a.pattern, a.dir, call) }),
  ],
};

const inside: Record<string, Operation> = {
  env_set: ["sandbox vars", async (a, call) => none((await box(a, call)).env.set(a.vars, call))],
  env_get: [
    "sandbox key",
    async (a, call) => {
      const { exists, value } = await (await box(a, call)).env.get(a.key, call);
      return { exists, value };
    },
  ],
  env_list: ["sandbox", async (a, call) => ({ vars: (await (await box(a, call)).env.list(call)).vars })],
  env_delete: ["sandbox key", async (a, call) => none((await box(a, call)).env.delete(a.key, call))],
  run_code: [
    "sandbox code language? context?",
    async (a, call) => {
      const options = { contextId: a.context, ...call };
      const { output, error } = await (await box(a, call)).interpreter.run(a.code, a.language, options);
      return { output, error };
    },
  ],
  context_create: [
    "sandbox language?",
    async (a, call) => ({
      id: (await (await box(a, call)).interpreter.createContext({ language: a.language, ...call })).id,
    }),
  ],
  context_delete: [
    "sandbox context",
    async (a, call) => none((await box(a, call)).interpreter.deleteContext(a.context, call)),
  ],
  git_clone: [
    "sandbox url path? branch? depth?",
    async (a, call) => {
      const { path, branch, depth } = a;
      const done = await (await box(a, call)).git.clone(a.url, { path, branch, depth, ...call });
      return { exit_code: done.exitCode };
    },
  ],
  git_status: [
    "sandbox path?",
    async (a, call) => {
      const { branch, clean, files } = await (await box(a, call)).git.status(a.path, call);
      return { branch, clean, files: files.map(({ path, status }) => ({ path, status })) };
    },
  ],
  git_commit: [
    "sandbox message path? all?",
    async (a, call) => {
      const done = await (await box(a, call)).git.commit(a.message, { path: a.path, all: a.all, ...call });
      return { exit_code: done.exitCode };
    },
  ],
  git_log: [
    "sandbox path? count?",
    async (a, call) => ({
      messages: (await (await box(a, call)).git.log({ path: a.path, count: a.count, ...call })).entries.map(
        (e) => e.message,
      ),
    }),
  ],
  git_diff: [
    "sandbox path? staged?",
    async (a, call) => ({
      diff: (await (await box(a, call)).git.diff({ path: a.path, staged: a.staged, ...call })).diff,
    }),
  ],
  snapshot: [
    "sandbox name?",
    async (a, call) => ({ id: (await (await box(a, call)).snapshot(a.name, call)).id }),
  ],
  list_snapshots: [
    "sandbox",
    async (a, call) => ({ ids: (await (await box(a, call)).listSnapshots(call)).snapshots.map((s) => s.id) }),
  ],
  restore: [
    "sandbox snapshot",
    async (a, call) => ({ status: (await (await box(a, call)).restore(a.snapshot, call)).status }),
  ],
  delete_snapshot: ["snapshot", (a, call) => none(cay.snapshots.delete(a.snapshot, call))],
  metrics: [
    "sandbox",
    async (a, call) => {
      const { memoryLimitMb, pids } = await (await box(a, call)).metrics(call);
      return { memory_limit_mb: memoryLimitMb, pids };
    },
  ],
  logs: [
    "sandbox tail?",
    async (a, call) => {
      const lines: string[] = [];
      for await (const event of (await box(a, call)).streams.logs({ tail: a.tail, follow: false, ...call }))
        if (event.type !== "end") lines.push(event.data);
      return { lines };
    },
  ],
  terminal: [
    "sandbox input until cols? rows?",
    async (a, call) => {
      const sandbox = await box(a, call);
      const { sessionId } = await sandbox.terminal.create({ cols: a.cols, rows: a.rows, ...call });
      const terminal = await sandbox.terminal.connect(sessionId, call);
      await terminal.write(a.input);
      await terminal.readUntil(a.until);
      await terminal.close();
      await sandbox.terminal.close(sessionId, call);
      return { seen: true };
    },
  ],
};

const around: Record<string, Operation> = {
  queue_submit: [
    "sandbox command max_retries? timeout?",
    async (a, call) => {
      const options = { maxRetries: a.max_retries, timeout: a.timeout, ...call };
      const { id, status } = await (await box(a, call)).queue.submit(a.command, options);
      return { id, status };
    },
  ],
  queue_status: [
    "job",
    async (a, call) => {
      const { status, result } = await cay.jobs.status(a.job, call);
      return result
        ? { status, exit_code: result.exitCode, stdout: result.stdout, stderr: result.stderr }
        : { status };
    },
  ],
  queue_cancel: ["job", (a, call) => none(cay.jobs.cancel(a.job, call))],
  port_expose: [
    "sandbox port host_port?",
    async (a, call) => {
      const made = await (await box(a, call)).ports.expose(a.port, a.host_port, undefined, call);
      return { port: made.containerPort, host_port: made.hostPort };
    },
  ],
  port_list: [
    "sandbox",
    async (a, call) => ({
      ports: (await (await box(a, call)).ports.list(call)).ports.map((p) => p.containerPort),
    }),
  ],
  port_unexpose: ["sandbox port", async (a, call) => none((await box(a, call)).ports.unexpose(a.port, call))],
  volume_create: [
    "name size_mb?",
    async (a, call) => {
      const { id, name } = await cay.volumes.create(a.name, undefined, { sizeMb: a.size_mb, ...call });
      return { id, name };
    },
  ],
  volume_list: ["", async (_, call) => ({ ids: (await cay.volumes.list(call)).volumes.map((v) => v.id) })],
  volume_attach: [
    "volume sandbox path",
    (a, call) => none(cay.volumes.attach(a.volume, a.sandbox, a.path, call)),
  ],
  volume_detach: [
    "volume sandbox?",
    (a, call) => none(cay.volumes.detach(a.volume, { sandboxId: a.sandbox, ...call })),
  ],
  volume_delete: ["volume", (a, call) => none(cay.volumes.delete(a.volume, call))],
  network_create: [
    "name",
    async (a, call) => {
      const { id, name } = await cay.networks.create(a.name, undefined, call);
      return { id, name };
    },
  ],
  network_list: ["", async (_, call) => ({ ids: (await cay.networks.list(call)).networks.map((n) => n.id) })],
  network_connect: ["network sandbox", (a, call) => none(cay.networks.connect(a.network, a.sandbox, call))],
  network_disconnect: [
    "network sandbox",
    (a, call) => none(cay.networks.disconnect(a.network, a.sandbox, call)),
  ],
  network_delete: ["network", (a, call) => none(cay.networks.delete(a.network, call))],
  event_publish: [
    "topic sandbox data?",
    async (a, call) => ({ id: (await cay.events.publish(a.topic, a.sandbox, a.data, call)).id }),
  ],
  events: [
    "sandbox? topic?",
    async (a, call) => ({
      topics: (await cay.events.history({ sandboxId: a.sandbox, topic: a.topic, ...call })).events.map(
        (e) => e.topic,
      ),
    }),
  ],
  alert_set: [
    "sandbox metric threshold action?",
    async (a, call) => ({
      id: (await (await box(a, call)).monitor.setAlert(a.metric, a.threshold, a.action, call)).id,
    }),
  ],
  alert_list: [
    "sandbox",
    async (a, call) => ({
      ids: (await (await box(a, call)).monitor.listAlerts(call)).alerts.map((x) => x.id),
    }),
  ],
  alert_delete: [
    "alert",
    (a, call) => none(cay.client.call("monitor_delete_alert", { alertId: a.alert }, call)),
  ],
  template_list: ["", async (_, call) => ({ names: (await cay.templates.list(call)).map((t) => t.name) })],
};

const operations: Record<string, Operation> = { ...sandboxes, ...commands, ...files, ...inside, ...around };

// ---- lines in, lines out ----

interface Request {
  id: number;
  op: string;
  args?: Partial<Args> & { id?: number };
}

const pending = new Map<number, AbortController>();
const say = (answer: Answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

function badArgs(keys: string, args: object): string | undefined {
  const words = keys.split(" ").filter(Boolean);
  const given = Object.keys(args);
  const missing = words.find((word) => !word.endsWith("?") && !given.includes(word));
  const extra = given.find((key) => !words.includes(key) && !words.includes(`${key}?`));
  return missing ? `${missing} is missing` : extra && `there is no ${extra}`;
}

function errorOf(error: unknown, signal: AbortSignal): Answer {
  if (signal.aborted) return { code: "cancelled", message: "the caller cancelled it" };
  if (error instanceof ConnectionError) return { code: "unreachable", message: error.message };
  if (!(error instanceof CayError)) return { code: "adapter_failed", message: String(error) };
  const { code, status, message } = error;
  if (!(error instanceof CommandTimeoutError)) return { code, status, message };
  return { code, status, message, stdout: tell(error.stdout), stderr: tell(error.stderr) };
}

async function serve({ id, op, args = {} }: Request): Promise<void> {
  if (op === "cancel") {
    pending.get(args.id ?? 0)?.abort();
    say({ id, ok: {} });
    return;
  }
  const [keys, run] = operations[op] ?? [];
  const bad = keys === undefined ? undefined : badArgs(keys, args);
  if (keys === undefined || !run) return void say({ id, error: { code: "unsupported_op", message: op } });
  if (bad) return void say({ id, error: { code: "bad_args", message: bad } });
  const stop = new AbortController();
  pending.set(id, stop);
  try {
    say({ id, ok: await run(args as Args, { signal: stop.signal }) });
  } catch (error) {
    say({ id, error: errorOf(error, stop.signal) });
  } finally {
    pending.delete(id);
  }
}

for await (const line of createInterface({ input: process.stdin })) void serve(JSON.parse(line) as Request);
for (const stop of pending.values()) stop.abort();
process.exit(0);
