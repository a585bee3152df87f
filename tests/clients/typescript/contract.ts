// A small client of the REST contract in TypeScript: every call of ../calls.txt, each with its effect. CAY_URL says
// where the daemon is, CAY_TEST_ENV what sandboxes get as their environment, and CAY_TEST_CA what they trust.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

interface SandboxInfo {
  id: string; name: string; image: string; status: "creating" | "running" | "paused" | "stopped" | "expired";
  createdAt: number; expiresAt: number; config: Record<string, unknown>; metadata: Record<string, string>;
}
interface Exec { exitCode: number; stdout: string; stderr: string; duration: number }
interface FileInfo { name: string; path: string; size: number; isDirectory: boolean; modifiedAt: number }
interface Metrics {
  sandboxId: string; cpuPercent: number; memoryUsageMb: number; memoryLimitMb: number; networkRxBytes: number;
  networkTxBytes: number; pids: number;
}
interface Snapshot { id: string; sandboxId: string; name: string; imageId: string; size: number; createdAt: number }
interface Template { id: string; name: string; description: string; builtin: boolean; createdAt: number }
interface Job {
  id: string; sandboxId: string; command: string; status: "pending" | "running" | "completed" | "failed" | "cancelled";
  result?: Exec; error?: string; retries: number; maxRetries: number; createdAt: number;
}
interface Event { id: string; topic: string; sandboxId: string; data: Record<string, unknown>; timestamp: number }
interface Alert { id: string; sandboxId: string; metric: string; threshold: number; action: string; triggered: boolean; createdAt: number }
interface AlertEvent { alertId: string; sandboxId: string; metric: string; value: number; threshold: number; action: string; timestamp: number }
interface Network { id: string; name: string; dockerNetworkId: string; sandboxes: string[]; createdAt: number }
interface Volume { id: string; name: string; dockerVolumeName: string; mountPath?: string; sandboxId?: string; createdAt: number }
interface Port { containerPort: number; hostPort: number; protocol: string; state: string }
interface Trace { id: string; functionId: string; sandboxId?: string; duration: number; status: "ok" | "error"; timestamp: number }
interface Kernel { name: string; language: string; displayName: string }
interface Process { pid: number; user: string; cpu: string; memory: string; command: string }
interface Usage { pid: number; cpu: string; mem: string; vsz: number; rss: number; command: string }
interface Terminal { sessionId: string; sandboxId: string; execId: string; cols: number; rows: number; shell: string; status: string; createdAt: number }
interface LogEvent { type: "stdout" | "stderr" | "exit" | "end"; data: string; timestamp: number }
interface GitStatus { branch: string; clean: boolean; files: { status: string; path: string }[] }

const base = process.env.CAY_URL ?? "http://localhost:3111";
const limit = 60000 * Number(process.env.CAY_TEST_SLOW ?? 1); // milliseconds of a wait

class Failed extends Error {
  constructor(method: string, path: string, readonly status: number, body: string) {
    super(`${method} ${path} failed: ${status} ${body}`);
  }
}

// As the public client does it: a JSON type with every request, also without a body; with a limit for all of it.
async function send<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`${base}/sandbox${path}`, {
    method, headers: { "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(limit),
  });
  if (!answer.ok) throw new Failed(method, path, answer.status, await answer.text());
  return (await answer.json()) as T;
}

const get = <T>(path: string, query: Record<string, string> = {}) => {
  const words = new URLSearchParams(query).toString();
  return send<T>("GET", words ? `${path}?${words}` : path);
};
const post = <T>(path: string, body?: unknown) => send<T>("POST", path, body);
const del = <T>(path: string) => send<T>("DELETE", path);

// A line each; what is not "data: " does not count, nor does a last line without its end.
async function* stream<T>(method: string, path: string, body?: unknown): AsyncGenerator<T> {
  const stop = new AbortController();
  const answer = await fetch(`${base}/sandbox${path}`, {
    method, headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: body === undefined ? undefined : JSON.stringify(body), signal: stop.signal,
  });
  if (!answer.ok || !answer.body) throw new Failed(method, path, answer.status, await answer.text());
  let rest = "";
  try {
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + piece).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6)) as T;
    }
  } finally {
    stop.abort();
  }
}

async function waitFor<T>(ask: () => Promise<T | undefined | false>, what: string): Promise<T> {
  for (const end = Date.now() + limit; Date.now() < end; await new Promise((go) => setTimeout(go, 20))) {
    const got = await ask();
    if (got) return got;
  }
  throw new Error(what);
}

const made: string[] = [];
const ok = (name: string) => console.log("ok", name);
const code = (text: string) => Buffer.from(text, "binary").toString("base64");

async function create(fields: Record<string, unknown>): Promise<SandboxInfo> {
  const box = await post<SandboxInfo>("/sandboxes", { image: "host", ...fields });
  made.push(box.id);
  return box;
}

async function sandboxes(): Promise<string> {
  const box = await create({
    name: "contract-ts", timeout: 600, memory: 512, cpu: 1, network: true, env: JSON.parse(process.env.CAY_TEST_ENV ?? "{}"),
  });
  assert.equal(box.status, "running");
  assert.equal(box.image, "host");
  ok("createSandbox");
  const listed = await get<{ items: SandboxInfo[]; total: number }>("/sandboxes");
  assert.ok(listed.items.some((s) => s.id === box.id) && listed.total >= 1);
  ok("listSandboxes");
  assert.equal((await get<SandboxInfo>(`/sandboxes/${box.id}`)).name, "contract-ts");
  ok("getSandbox");
  assert.ok((await get<{ templates: Template[] }>("/templates")).templates.some((t) => t.builtin));
  ok("listTemplates");
  return box.id;
}

async function commands(at: string) {
  const done = await post<Exec>(`${at}/exec`, { command: "echo out; echo err >&2; exit 3" });
  assert.deepEqual([done.exitCode, done.stdout, done.stderr], [3, "out\n", "err\n"]);
  assert.ok(done.duration > 0);
  ok("sandbox.exec");
  const seen: LogEvent[] = [];
  for await (const e of stream<LogEvent>("POST", `${at}/exec/stream`, { command: "echo a; exit 4" })) seen.push(e);
  assert.deepEqual(seen.map((e) => [e.type, e.data]), [["stdout", "a\n"], ["exit", "4"]]);
  ok("sandbox.execStream");
  assert.equal((await post<SandboxInfo>(`${at}/pause`)).status, "paused");
  ok("sandbox.pause");
  assert.equal((await post<SandboxInfo>(`${at}/resume`)).status, "running");
  ok("sandbox.resume");
  assert.ok((await get<Metrics>(`${at}/metrics`)).pids >= 1);
  ok("sandbox.metrics");
  assert.equal((await get<SandboxInfo>(at)).status, "running");
  ok("sandbox.refresh");
}

async function environment(at: string) {
  assert.deepEqual(await post(`${at}/env`, { vars: { CONTRACT: "1 2" } }), { set: ["CONTRACT"], count: 1 });
  assert.equal((await post<Exec>(`${at}/exec`, { command: "echo $CONTRACT" })).stdout, "1 2\n");
  ok("env.set");
  assert.deepEqual(await post(`${at}/env/get`, { key: "CONTRACT" }), { key: "CONTRACT", value: "1 2", exists: true });
  ok("env.get");
  assert.equal((await get<{ vars: Record<string, string> }>(`${at}/env`)).vars.CONTRACT, "1 2");
  ok("env.list");
  assert.deepEqual(await post<{ deleted: string }>(`${at}/env/delete`, { key: "CONTRACT" }).then((d) => d.deleted), "CONTRACT");
  assert.equal((await post<{ value: string | null }>(`${at}/env/get`, { key: "CONTRACT" })).value, null);
  ok("env.delete");
}

async function files(at: string) {
  assert.deepEqual(await post(`${at}/files/write`, { path: "/workspace/d/f.txt", content: "grüße\n" }), { success: true });
  ok("filesystem.write");
  assert.equal(await post<string>(`${at}/files/read`, { path: "/workspace/d/f.txt" }), "grüße\n");
  ok("filesystem.read");
  assert.deepEqual((await post<FileInfo[]>(`${at}/files/list`, { path: "/workspace/d" })).map((f) => f.name), ["f.txt"]);
  ok("filesystem.list");
  assert.deepEqual(await post<string[]>(`${at}/files/search`, { pattern: "*.txt", dir: "/workspace/d" }), ["/workspace/d/f.txt"]);
  ok("filesystem.search");
  const data = Buffer.from(Array.from({ length: 10000 }, (_, i) => i % 256)).toString("base64");
  await post(`${at}/files/upload`, { path: "/workspace/d/b", content: data });
  ok("filesystem.upload");
  assert.equal(await post<string>(`${at}/files/download`, { path: "/workspace/d/b" }), data);
  ok("filesystem.download");
  await post(`${at}/files/delete`, { path: "/workspace/d/b" });
  assert.equal((await post<Exec>(`${at}/exec`, { command: "test ! -e /workspace/d/b" })).exitCode, 0);
  ok("filesystem.delete");
}

async function git(at: string) {
  const path = "/workspace/repo";
  await post(`${at}/exec`, { command: "git init -q --bare -b main /workspace/origin.git" });
  assert.equal((await post<Exec>(`${at}/git/clone`, { url: "/workspace/origin.git", path })).exitCode, 0);
  ok("git.clone");
  await post(`${at}/exec`, { command: "git config user.name C; git config user.email c@example.com; git checkout -q -b main", cwd: path });
  await post(`${at}/files/write`, { path: `${path}/a.txt`, content: "one\n" });
  assert.deepEqual((await get<GitStatus>(`${at}/git/status`, { path })).files.map((f) => [f.status, f.path]), [["??", "a.txt"]]);
  ok("git.status");
  assert.equal((await post<Exec>(`${at}/git/commit`, { message: "first", path, all: true })).exitCode, 0);
  ok("git.commit");
  await post(`${at}/files/write`, { path: `${path}/a.txt`, content: "two\n" });
  assert.match((await get<{ diff: string }>(`${at}/git/diff`, { path, staged: "false" })).diff, /\+two/);
  ok("git.diff");
  const log = await get<{ entries: { hash: string; message: string; author: string; date: string }[] }>(`${at}/git/log`, { path, count: "1" });
  assert.deepEqual(log.entries.map((e) => e.message), ["first"]);
  ok("git.log");
  const branches = await post<{ branches: string[]; current: string }>(`${at}/git/branch`, { path, name: "side" });
  assert.ok(branches.current === "side" && branches.branches.includes("main"));
  ok("git.branch");
  assert.equal((await post<Exec>(`${at}/git/checkout`, { ref: "main", path })).exitCode, 0);
  ok("git.checkout");
  assert.equal((await post<Exec>(`${at}/git/push`, { path, remote: "origin", branch: "main" })).exitCode, 0);
  ok("git.push");
  assert.equal((await post<Exec>(`${at}/git/pull`, { path, remote: "origin", branch: "main" })).exitCode, 0);
  ok("git.pull");
}

async function interpreter(at: string) {
  const ran = await post<{ output: string; error: string | null; executionTime: number }>(`${at}/interpret/execute`, { code: "print(6 * 7)", language: "python" });
  assert.deepEqual([ran.output, ran.error], ["42\n", null]);
  assert.ok(ran.executionTime > 0);
  ok("interpreter.run");
  assert.ok((await get<Kernel[]>(`${at}/interpret/kernels`)).some((k) => k.language === "python"));
  ok("interpreter.kernels");
  if (process.env.CAY_TEST_CA)
    await post(`${at}/files/upload`, { path: process.env.CAY_TEST_CA_AT, content: code(readFileSync(process.env.CAY_TEST_CA, "binary")) });
  assert.equal(typeof (await post<{ output: string }>(`${at}/interpret/install`, { packages: ["cay-demo"], manager: "npm" })).output, "string");
  ok("interpreter.install");
}

async function processes(at: string) {
  const { pid } = await post<{ pid: number }>(`${at}/exec/background`, { command: "exec sleep 1000" });
  const listed = async () => (await get<{ processes: Process[] }>(`${at}/processes`)).processes.some((p) => p.pid === pid);
  assert.ok(await listed());
  ok("processes.list");
  assert.ok((await get<{ processes: Usage[] }>(`${at}/processes/top`)).processes.some((p) => p.pid === pid && p.rss >= 0));
  ok("processes.top");
  assert.equal((await post<{ killed: number }>(`${at}/processes/kill`, { pid })).killed, pid);
  await waitFor(async () => !(await listed()), "it is not killed");
  ok("processes.kill");
}

async function ports(at: string, id: string) {
  const { pid } = await post<{ pid: number }>(`${at}/exec/background`, { command: "exec python3 -m http.server 8123 --bind 127.0.0.1 --directory /workspace" });
  assert.ok((await post<Port>(`${at}/ports`, { containerPort: 8123, hostPort: 0 })).hostPort > 0);
  ok("ports.expose");
  assert.deepEqual((await get<{ ports: Port[] }>(`${at}/ports`)).ports.map((p) => p.containerPort), [8123]);
  ok("ports.list");
  const proxied = await waitFor(() => post<{ statusCode: number; body: string }>(`/proxy/${id}/8123`, { method: "GET", path: "/" }).catch(() => undefined), "the server does not answer");
  assert.ok(proxied.statusCode === 200 && proxied.body.includes("repo"));
  ok("ports.getProxyUrl");
  assert.deepEqual(await del(`${at}/ports?containerPort=8123`), { removed: 8123 });
  ok("ports.unexpose");
  await post(`${at}/processes/kill`, { pid, signal: "KILL" });
}

async function queue(at: string, id: string) {
  const job = await post<Job>(`${at}/exec/queue`, { command: "echo queued; exit 5", timeout: 20 });
  assert.deepEqual([job.status, job.sandboxId], ["pending", id]);
  ok("queue.submit");
  const done = await waitFor(async () => {
    const now = await get<Job>(`/queue/${job.id}/status`);
    return now.status === "completed" && now;
  }, "it does not end");
  assert.deepEqual([done.result?.exitCode, done.result?.stdout], [5, "queued\n"]);
  ok("queue.status");
  const later = await post<Job>(`${at}/exec/queue`, { command: "true", delay: 600 });
  assert.deepEqual(await post(`/queue/${later.id}/cancel`), { cancelled: later.id });
  assert.equal((await get<Job>(`/queue/${later.id}/status`)).status, "cancelled");
  ok("queue.cancel");
  assert.ok(Array.isArray((await get<{ jobs: Job[]; total: number }>("/queue/dlq", { limit: "5" })).jobs));
  ok("queue.dlq");
}

async function streams() {
  const talker = await create({ entrypoint: ["sh", "-c", "echo one; echo two >&2; exec sleep 1000"] });
  const at = `/sandboxes/${talker.id}`;
  await waitFor(async () => {
    const seen: LogEvent[] = [];
    for await (const e of stream<LogEvent>("GET", `${at}/stream/logs?tail=10&follow=false`)) seen.push(e);
    assert.equal(seen.pop()?.type, "end");
    return seen.map((e) => `${e.type} ${e.data}`).sort().join() === "stderr two,stdout one";
  }, "the log has other lines");
  ok("streams.logs");
  for await (const sample of stream<Metrics>("GET", `${at}/stream/metrics?interval=1`)) {
    assert.equal(sample.sandboxId, talker.id);
    break;
  }
  ok("streams.metrics");
}

async function monitor(at: string) {
  const alert = await post<Alert>(`${at}/alerts`, { metric: "pids", threshold: 1 });
  assert.equal(alert.action, "notify");
  ok("monitor.setAlert");
  assert.ok((await get<{ alerts: Alert[] }>(`${at}/alerts`)).alerts.some((a) => a.id === alert.id));
  ok("monitor.listAlerts");
  const fired = await waitFor(async () => (await get<{ events: AlertEvent[] }>(`${at}/alerts/history`, { limit: "5" })).events[0], "it does not fire");
  assert.equal(fired.alertId, alert.id);
  ok("monitor.history");
  assert.deepEqual(await del(`/alerts/${alert.id}`), { deleted: alert.id });
  ok("monitor.deleteAlert");
}

async function terminal(at: string) {
  const session = await post<Terminal>(`${at}/terminal`, { cols: 100, rows: 30, shell: "/bin/sh" });
  assert.equal(session.status, "running");
  ok("terminal.create");
  assert.deepEqual(await post(`${at}/terminal/${session.sessionId}/resize`, { cols: 120, rows: 40 }), { cols: 120, rows: 40 });
  ok("terminal.resize");
  assert.deepEqual(await del(`${at}/terminal/${session.sessionId}`), { closed: session.sessionId });
  ok("terminal.close");
}

async function events(id: string) {
  const event = await post<Event>("/events/publish", { topic: "contract.typescript", sandboxId: id, data: { n: 1 } });
  assert.deepEqual(event.data, { n: 1 });
  ok("events.publish");
  const told = await waitFor(async () => (await get<{ events: Event[] }>("/events/history", { sandboxId: id, topic: "contract.typescript", limit: "5" })).events[0], "it is not in the history");
  assert.equal(told.id, event.id);
  ok("events.history");
}

async function networks() {
  const network = await post<Network>("/networks", { name: "contract-ts" });
  ok("networks.create");
  const other = await create({});
  assert.equal((await post<{ connected: boolean }>(`/networks/${network.id}/connect`, { sandboxId: other.id })).connected, true);
  ok("networks.connect");
  assert.deepEqual((await get<{ networks: Network[] }>("/networks")).networks.find((n) => n.id === network.id)?.sandboxes, [other.id]);
  ok("networks.list");
  assert.equal((await post<{ disconnected: boolean }>(`/networks/${network.id}/disconnect`, { sandboxId: other.id })).disconnected, true);
  ok("networks.disconnect");
  assert.equal((await del<{ deleted: string }>(`/networks/${network.id}`)).deleted, network.id);
  ok("networks.delete");
}

async function observability(id: string) {
  const traces = await waitFor(async () => {
    const found = (await get<{ traces: Trace[] }>("/observability/traces", { sandboxId: id, functionId: "cmd::run", limit: "3" })).traces;
    return found.length > 0 && found;
  }, "there is no trace");
  assert.ok(traces.every((t) => t.functionId === "cmd::run" && t.duration >= 0));
  ok("observability.traces");
  const numbers = await get<{ totalRequests: number; p95Duration: number; functionCounts: Record<string, number> }>("/observability/metrics");
  assert.ok(numbers.totalRequests > 0 && (numbers.functionCounts["cmd::run"] ?? 0) > 0);
  ok("observability.metrics");
  assert.equal(typeof (await post<{ cleared: number }>("/observability/clear", { before: 1 })).cleared, "number");
  ok("observability.clear");
}

async function volumes(at: string, id: string) {
  const volume = await post<Volume>("/volumes", { name: "contract-ts" });
  ok("volumes.create");
  assert.equal((await post<{ mountPath: string }>(`/volumes/${volume.id}/attach`, { sandboxId: id, mountPath: "/data" })).mountPath, "/data");
  await post(`${at}/exec`, { command: "echo kept >/data/f" });
  ok("volumes.attach");
  assert.equal((await get<{ volumes: Volume[] }>("/volumes")).volumes.find((v) => v.id === volume.id)?.sandboxId, id);
  ok("volumes.list");
  assert.equal((await post<{ detached: boolean }>(`/volumes/${volume.id}/detach`)).detached, true);
  ok("volumes.detach");
  assert.equal((await del<{ deleted: string }>(`/volumes/${volume.id}`)).deleted, volume.id);
  ok("volumes.delete");
}

async function snapshots(at: string) {
  const path = "/workspace/kept";
  await post(`${at}/files/write`, { path, content: "before" });
  const shot = await post<Snapshot>(`${at}/snapshots`, {});
  ok("sandbox.snapshot");
  assert.ok((await get<{ snapshots: Snapshot[] }>(`${at}/snapshots`)).snapshots.some((s) => s.id === shot.id));
  ok("sandbox.listSnapshots");
  await post(`${at}/files/write`, { path, content: "after" });
  assert.equal((await post<SandboxInfo>(`${at}/snapshots/restore`, { snapshotId: shot.id })).status, "running");
  assert.equal(await post<string>(`${at}/files/read`, { path }), "before");
  ok("sandbox.restore");
  const twin = await post<SandboxInfo>(`${at}/clone`, { name: "contract-ts-twin" });
  made.push(twin.id);
  assert.equal(await post<string>(`/sandboxes/${twin.id}/files/read`, { path }), "before");
  ok("sandbox.clone");
  assert.deepEqual(await del(`/sandboxes/${twin.id}`), { success: true });
  made.pop();
  await assert.rejects(get(`/sandboxes/${twin.id}`), (e) => e instanceof Failed && e.status === 404);
  ok("sandbox.kill");
  await del(`/snapshots/${shot.id}`);
}

try {
  const id = await sandboxes();
  const at = `/sandboxes/${id}`;
  await commands(at);
  await environment(at);
  await files(at);
  await git(at);
  await interpreter(at);
  await processes(at);
  await ports(at, id);
  await queue(at, id);
  await streams();
  await monitor(at);
  await terminal(at);
  await events(id);
  await networks();
  await observability(id);
  await volumes(at, id);
  await snapshots(at);
} finally {
  for (const id of made) await del(`/sandboxes/${id}`);
}
