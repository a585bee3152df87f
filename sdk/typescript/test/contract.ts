// Every call of the public contract (tests/clients/calls.txt), by the name that it has there, each with its effect, against
// a daemon. CAY_URL says where it is, CAY_TEST_ENV what sandboxes get as their environment, and CAY_TEST_CA what they trust.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import {
  createSandbox,
  EventManager,
  getSandbox,
  HttpClient,
  listSandboxes,
  listTemplates,
  NetworkManager,
  ObservabilityClient,
  type Sandbox,
  SandboxNotFoundError,
  VolumeManager,
} from "@cay/sdk";

const client = new HttpClient();
const made: Sandbox[] = [];
const ok = (name: string) => console.log("ok", name);

const limit = 60000 * Number(process.env.CAY_TEST_SLOW ?? 1); // milliseconds of a wait

async function waitFor<T>(ask: () => Promise<T | undefined | false>, what: string): Promise<T> {
  for (const end = Date.now() + limit; Date.now() < end; await new Promise((go) => setTimeout(go, 20))) {
    const got = await ask();
    if (got) return got;
  }
  throw new Error(what);
}

async function create(fields: Parameters<typeof createSandbox>[0]): Promise<Sandbox> {
  const sandbox = await createSandbox({ image: "host", ...fields });
  made.push(sandbox);
  return sandbox;
}

async function sandboxes(): Promise<Sandbox> {
  const env = JSON.parse(process.env.CAY_TEST_ENV ?? "{}");
  const sandbox = await create({
    name: "contract-ts",
    timeout: 600,
    memory: 512,
    cpu: 1,
    network: true,
    env,
  });
  assert.deepEqual([sandbox.status, sandbox.info.image], ["running", "host"]);
  ok("createSandbox");
  assert.ok((await listSandboxes()).some((s) => s.id === sandbox.id));
  ok("listSandboxes");
  assert.equal((await getSandbox(sandbox.id)).name, "contract-ts");
  ok("getSandbox");
  assert.ok((await listTemplates()).templates.some((t) => t.builtin));
  ok("listTemplates");
  return sandbox;
}

async function commands(sandbox: Sandbox) {
  const done = await sandbox.exec("echo out; echo err >&2; exit 3", 20);
  assert.deepEqual([done.exitCode, done.stdout, done.stderr], [3, "out\n", "err\n"]);
  assert.ok(done.duration > 0);
  ok("sandbox.exec");
  const seen: string[] = [];
  for await (const event of sandbox.execStream("echo a; exit 4")) seen.push(`${event.type} ${event.data}`);
  assert.deepEqual(seen, ["stdout a\n", "exit 4"]);
  ok("sandbox.execStream");
  await sandbox.pause();
  assert.equal(sandbox.status, "paused");
  ok("sandbox.pause");
  await sandbox.resume();
  assert.equal(sandbox.status, "running");
  ok("sandbox.resume");
  assert.ok((await sandbox.metrics()).pids >= 1);
  ok("sandbox.metrics");
  assert.equal((await sandbox.refresh()).status, "running");
  ok("sandbox.refresh");
}

async function environment({ env, ...sandbox }: { env: Sandbox["env"]; exec: Sandbox["exec"] }) {
  assert.deepEqual(await env.set({ CONTRACT: "1 2" }), { set: ["CONTRACT"], count: 1 });
  assert.equal((await sandbox.exec("echo $CONTRACT")).stdout, "1 2\n");
  ok("env.set");
  assert.deepEqual(await env.get("CONTRACT"), { key: "CONTRACT", value: "1 2", exists: true });
  ok("env.get");
  assert.equal((await env.list()).vars.CONTRACT, "1 2");
  ok("env.list");
  assert.equal((await env.delete("CONTRACT")).deleted, "CONTRACT");
  assert.equal((await env.get("CONTRACT")).value, null);
  ok("env.delete");
}

async function files(sandbox: Sandbox) {
  const { filesystem } = sandbox;
  await filesystem.write("/workspace/d/f.txt", "gr\u00fc\u00dfe\n");
  ok("filesystem.write");
  assert.equal(await filesystem.read("/workspace/d/f.txt"), "gr\u00fc\u00dfe\n");
  ok("filesystem.read");
  assert.deepEqual(
    (await filesystem.list("/workspace/d")).map((f) => f.name),
    ["f.txt"],
  );
  ok("filesystem.list");
  assert.deepEqual(await filesystem.search("*.txt", "/workspace/d"), ["/workspace/d/f.txt"]);
  ok("filesystem.search");
  const data = Buffer.from(Array.from({ length: 10000 }, (_, i) => i % 256)).toString("base64");
  await filesystem.upload("/workspace/d/b", data);
  ok("filesystem.upload");
  assert.equal(await filesystem.download("/workspace/d/b"), data);
  ok("filesystem.download");
  await filesystem.delete("/workspace/d/b");
  assert.equal((await sandbox.exec("test ! -e /workspace/d/b")).exitCode, 0);
  ok("filesystem.delete");
}

async function git({
  git,
  exec,
  filesystem,
}: {
  git: Sandbox["git"];
  exec: Sandbox["exec"];
  filesystem: Sandbox["filesystem"];
}) {
  const path = "/workspace/repo";
  await exec("git init -q --bare -b main /workspace/origin.git");
  assert.equal((await git.clone("/workspace/origin.git", { path })).exitCode, 0);
  ok("git.clone");
  await exec("git config user.name C; git config user.email c@example.com; git checkout -q -b main", {
    cwd: path,
  });
  await filesystem.write(`${path}/a.txt`, "one\n");
  assert.deepEqual(
    (await git.status(path)).files.map((f) => [f.status, f.path]),
    [["??", "a.txt"]],
  );
  ok("git.status");
  assert.equal((await git.commit("first", { path, all: true })).exitCode, 0);
  ok("git.commit");
  await filesystem.write(`${path}/a.txt`, "two\n");
  assert.match((await git.diff({ path, staged: false })).diff, /\+two/);
  ok("git.diff");
  assert.deepEqual(
    (await git.log({ path, count: 1 })).entries.map((e) => e.message),
    ["first"],
  );
  ok("git.log");
  const branches = await git.branch({ path, name: "side" });
  assert.ok(branches.current === "side" && branches.branches.includes("main"));
  ok("git.branch");
  assert.equal((await git.checkout("main", path)).exitCode, 0);
  ok("git.checkout");
  assert.equal((await git.push({ path, remote: "origin", branch: "main" })).exitCode, 0);
  ok("git.push");
  assert.equal((await git.pull({ path, remote: "origin", branch: "main" })).exitCode, 0);
  ok("git.pull");
}

async function interpreter({ interpreter, filesystem }: Sandbox) {
  const ran = await interpreter.run("print(6 * 7)", "python");
  assert.deepEqual([ran.output, ran.error], ["42\n", null]);
  ok("interpreter.run");
  assert.ok((await interpreter.kernels()).some((k) => k.language === "python"));
  ok("interpreter.kernels");
  if (process.env.CAY_TEST_CA && process.env.CAY_TEST_CA_AT)
    await filesystem.write(process.env.CAY_TEST_CA_AT, readFileSync(process.env.CAY_TEST_CA));
  assert.equal(typeof (await interpreter.install(["cay-demo"], "npm")).output, "string");
  ok("interpreter.install");
}

async function processes(sandbox: Sandbox) {
  const { pid } = await (await sandbox.background("exec sleep 1000")).state();
  const listed = async () => (await sandbox.processes.list()).processes.some((p) => p.pid === pid);
  assert.ok(await listed());
  ok("processes.list");
  assert.ok((await sandbox.processes.top()).processes.some((p) => p.pid === pid && p.rss >= 0));
  ok("processes.top");
  assert.equal((await sandbox.processes.kill(pid, "TERM")).killed, pid);
  await waitFor(async () => !(await listed()), "it is not killed");
  ok("processes.kill");
}

async function ports(sandbox: Sandbox) {
  const server = await sandbox.background(
    "exec python3 -m http.server 8123 --bind 127.0.0.1 --directory /workspace",
  );
  assert.ok((await sandbox.ports.expose(8123, 0)).hostPort > 0);
  ok("ports.expose");
  assert.deepEqual(
    (await sandbox.ports.list()).ports.map((p) => p.containerPort),
    [8123],
  );
  ok("ports.list");
  const ask = { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"path": "/"}' };
  const proxied = await waitFor(async () => {
    const answer = await fetch(sandbox.ports.getProxyUrl(8123), ask);
    return answer.ok && ((await answer.json()) as { statusCode: number; body: string });
  }, "the server does not answer");
  assert.ok(proxied.statusCode === 200 && proxied.body.includes("repo"));
  assert.equal((await sandbox.ports.request(8123, { path: "/" })).statusCode, 200);
  ok("ports.getProxyUrl");
  assert.deepEqual(await sandbox.ports.unexpose(8123), { removed: 8123 });
  ok("ports.unexpose");
  await server.kill();
}

async function queue({ queue, id }: Sandbox) {
  const job = await queue.submit("echo queued; exit 5", { timeout: 20 });
  assert.deepEqual([job.status, job.sandboxId], ["pending", id]);
  ok("queue.submit");
  await queue.wait(job.id);
  const done = await queue.status(job.id);
  assert.deepEqual([done.result?.exitCode, done.result?.stdout], [5, "queued\n"]);
  ok("queue.status");
  const later = await queue.submit("true", { delay: 600 });
  assert.deepEqual(await queue.cancel(later.id), { cancelled: later.id });
  ok("queue.cancel");
  assert.ok(Array.isArray((await queue.dlq(5)).jobs));
  ok("queue.dlq");
}

async function streams() {
  const talker = await create({ entrypoint: ["sh", "-c", "echo one; echo two >&2; exec sleep 1000"] });
  await waitFor(async () => {
    const seen: string[] = [];
    for await (const event of talker.streams.logs({ tail: 10, follow: false }))
      seen.push(`${event.type} ${event.data}`);
    assert.equal(seen.pop(), "end ");
    return seen.sort().join() === "stderr two,stdout one";
  }, "the log has other lines");
  ok("streams.logs");
  for await (const sample of talker.streams.metrics(1)) {
    assert.equal(sample.sandboxId, talker.id);
    break;
  }
  ok("streams.metrics");
}

async function monitor({ monitor }: Sandbox) {
  const alert = await monitor.setAlert("pids", 1);
  assert.equal(alert.action, "notify");
  ok("monitor.setAlert");
  assert.ok((await monitor.listAlerts()).alerts.some((a) => a.id === alert.id));
  ok("monitor.listAlerts");
  const fired = await waitFor(async () => (await monitor.history(5)).events[0], "it does not fire");
  assert.equal(fired.alertId, alert.id);
  ok("monitor.history");
  assert.deepEqual(await monitor.deleteAlert(alert.id), { deleted: alert.id });
  ok("monitor.deleteAlert");
}

async function terminal({ terminal }: Sandbox) {
  const session = await terminal.create({ cols: 100, rows: 30, shell: "/bin/sh" });
  assert.equal(session.status, "running");
  ok("terminal.create");
  assert.deepEqual(await terminal.resize(session.sessionId, 120, 40), { cols: 120, rows: 40 });
  ok("terminal.resize");
  assert.deepEqual(await terminal.close(session.sessionId), { closed: session.sessionId });
  ok("terminal.close");
}

async function events(id: string) {
  const events = new EventManager(client);
  const event = await events.publish("contract.typescript", id, { n: 1 });
  assert.deepEqual(event.data, { n: 1 });
  ok("events.publish");
  const told = await waitFor(
    async () => (await events.history({ sandboxId: id, topic: "contract.typescript", limit: 5 })).events[0],
    "it is not in the history",
  );
  assert.equal(told.id, event.id);
  ok("events.history");
}

async function networks() {
  const networks = new NetworkManager(client);
  const network = await networks.create("contract-ts");
  ok("networks.create");
  const other = await create({});
  assert.equal((await networks.connect(network.id, other.id)).connected, true);
  ok("networks.connect");
  assert.deepEqual((await networks.list()).networks.find((n) => n.id === network.id)?.sandboxes, [other.id]);
  ok("networks.list");
  assert.equal((await networks.disconnect(network.id, other.id)).disconnected, true);
  ok("networks.disconnect");
  assert.equal((await networks.delete(network.id)).deleted, network.id);
  ok("networks.delete");
}

async function observability(sandboxId: string) {
  const observability = new ObservabilityClient(client);
  const traces = await waitFor(async () => {
    const found = (await observability.traces({ sandboxId, functionId: "cmd::run", limit: 3 })).traces;
    return found.length > 0 && found;
  }, "there is no trace");
  assert.ok(traces.every((t) => t.functionId === "cmd::run" && t.duration >= 0));
  ok("observability.traces");
  assert.ok((await observability.metrics()).totalRequests > 0);
  ok("observability.metrics");
  assert.equal(typeof (await observability.clear(1)).cleared, "number");
  ok("observability.clear");
}

async function volumes(sandbox: Sandbox) {
  const volumes = new VolumeManager(client);
  const volume = await volumes.create("contract-ts");
  ok("volumes.create");
  assert.equal((await volumes.attach(volume.id, sandbox.id, "/data")).mountPath, "/data");
  assert.equal((await sandbox.exec("echo kept >/data/f")).exitCode, 0);
  ok("volumes.attach");
  assert.equal((await volumes.list()).volumes.find((v) => v.id === volume.id)?.sandboxId, sandbox.id);
  ok("volumes.list");
  assert.equal((await volumes.detach(volume.id)).detached, true);
  ok("volumes.detach");
  assert.equal((await volumes.delete(volume.id)).deleted, volume.id);
  ok("volumes.delete");
}

async function snapshots(sandbox: Sandbox) {
  const path = "/workspace/kept";
  await sandbox.filesystem.write(path, "before");
  const shot = await sandbox.snapshot();
  ok("sandbox.snapshot");
  assert.ok((await sandbox.listSnapshots()).snapshots.some((s) => s.id === shot.id));
  ok("sandbox.listSnapshots");
  await sandbox.filesystem.write(path, "after");
  assert.equal((await sandbox.restore(shot.id)).status, "running");
  assert.equal(await sandbox.filesystem.read(path), "before");
  ok("sandbox.restore");
  const twin = await sandbox.clone("contract-ts-twin");
  assert.equal(await twin.filesystem.read(path), "before");
  ok("sandbox.clone");
  assert.deepEqual(await twin.kill(), { success: true });
  await assert.rejects(getSandbox(twin.id), SandboxNotFoundError);
  ok("sandbox.kill");
  await client.del(`/snapshots/${shot.id}`);
}

try {
  const sandbox = await sandboxes();
  const exec = sandbox.exec.bind(sandbox);
  await commands(sandbox);
  await environment({ env: sandbox.env, exec });
  await files(sandbox);
  await git({ git: sandbox.git, filesystem: sandbox.filesystem, exec });
  await interpreter(sandbox);
  await processes(sandbox);
  await ports(sandbox);
  await queue(sandbox);
  await streams();
  await monitor(sandbox);
  await terminal(sandbox);
  await events(sandbox.id);
  await networks();
  await observability(sandbox.id);
  await volumes(sandbox);
  await snapshots(sandbox);
} finally {
  for (const sandbox of made) await sandbox[Symbol.asyncDispose]();
}
