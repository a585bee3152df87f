// What the SDK has beyond the public contract, against a daemon: run by Node, Bun and Deno alike. CAY_URL says where it is,
// CAY_TEST_SOCKET the unix socket of the same daemon, CAY_TEST_FOLDER a folder for files.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile, stat, writeFile } from "node:fs/promises";
import {
  Cay,
  CommandNotFoundError,
  CommandTimeoutError,
  createSandbox,
  FileNotFoundError,
  type Sandbox,
} from "@cay/sdk";

const cay = new Cay();
const folder = process.env.CAY_TEST_FOLDER ?? "/tmp";
const text = (data: Uint8Array) => new TextDecoder().decode(data);

const limit = 60000 * Number(process.env.CAY_TEST_SLOW ?? 1); // milliseconds of a wait

async function waitFor<T>(ask: () => Promise<T | undefined | false>, what: string): Promise<T> {
  for (const end = Date.now() + limit; Date.now() < end; await new Promise((go) => setTimeout(go, 20))) {
    const got = await ask();
    if (got) return got;
  }
  throw new Error(what);
}

/** Does a command with this word run in the sandbox? */
async function runs(sandbox: Sandbox, word: string): Promise<boolean> {
  return (await sandbox.processes.list()).processes.some((p) => p.command.includes(word));
}

const cases: Record<string, (sandbox: Sandbox) => Promise<void>> = {
  async bytes(sandbox) {
    const done = await sandbox.execBytes(["printf", "\\377\\000x"]);
    assert.deepEqual([...done.stdout], [255, 0, 120]);
    assert.equal((await sandbox.exec("cat", { stdin: "gr\u00fc\u00dfe" })).stdout, "gr\u00fc\u00dfe");
    const big = new Uint8Array(3 << 20).fill(7);
    const echoed = await sandbox.execBytes("cat", { stdin: new Blob([big]) });
    assert.equal(Buffer.compare(echoed.stdout, big), 0);
  },

  async sources(sandbox) {
    const stop = new AbortController();
    async function* endless() {
      for (;;) {
        yield new Uint8Array(1 << 16);
        await new Promise((go) => setTimeout(go, 10));
      }
    }
    setTimeout(() => stop.abort(), 100);
    const aborted = sandbox.execBytes("cat >/dev/null", { stdin: endless(), signal: stop.signal });
    await assert.rejects(aborted, (error) => error === stop.signal.reason);
    await new Promise((go) => setTimeout(go, 50)); // a rejection that nobody handles would end this program
    const broken = new Error("no more");
    async function* breaks() {
      yield new Uint8Array(1);
      throw broken;
    }
    await assert.rejects(sandbox.execBytes("exec cat", { stdin: breaks() }), (error) => error === broken);
    const command = await sandbox.attach("exec cat", { stdin: true });
    const source = new ReadableStream({ pull: (to) => to.error(broken) });
    await assert.rejects(source.pipeTo(command.stdin), (error) => error === broken);
    await assert.rejects(command.wait(), (error) => error === broken);
    await waitFor(async () => !(await runs(sandbox, "cat")), "cat goes on");
    await sandbox.filesystem.write("large", new Uint8Array(4 << 20));
    await assert.rejects(sandbox.filesystem.downloadFile("large", `${folder}/none/large`), {
      code: "ENOENT",
    });
  },

  async errors(sandbox) {
    await assert.rejects(sandbox.exec(["/none"]), CommandNotFoundError);
    await assert.rejects(sandbox.filesystem.read("none"), FileNotFoundError);
    for (const run of [sandbox.exec.bind(sandbox), sandbox.execBytes.bind(sandbox)])
      await assert.rejects(run("echo first; exec sleep 1000", 2), (error) => {
        assert.ok(error instanceof CommandTimeoutError);
        assert.equal(error.stdout, "first\n");
        return true;
      });
  },

  async aborted(sandbox) {
    for (const run of [sandbox.exec.bind(sandbox), sandbox.execBytes.bind(sandbox)]) {
      const stop = new AbortController();
      const done = run("exec sleep 4711", { signal: stop.signal });
      const failed = assert.rejects(done, (error) => error === stop.signal.reason);
      await waitFor(() => runs(sandbox, "sleep 4711"), "it does not start");
      stop.abort();
      await failed;
      await waitFor(async () => !(await runs(sandbox, "sleep 4711")), "it goes on");
    }
  },

  async left(sandbox) {
    for await (const event of sandbox.execStream("echo go; exec sleep 4712")) {
      assert.equal(event.data, "go\n");
      break;
    }
    await waitFor(async () => !(await runs(sandbox, "sleep 4712")), "it goes on");
  },

  async attached(sandbox) {
    await using command = await sandbox.attach("cat; exit 3", { stdin: true });
    await command.write("hello");
    await command.closeStdin();
    let seen = "";
    for await (const { data } of command) seen += text(data);
    assert.equal(seen, "hello");
    assert.deepEqual([(await command.wait()).exitCode, command.cursor], [3, 5]);
    const killed = await sandbox.attach("exec sleep 1000");
    await killed.kill("SIGTERM");
    assert.deepEqual([(await killed.wait()).exitCode, (await killed.wait()).reason], [143, "signal"]);
  },

  async streams_of_an_attached_command(sandbox) {
    const command = await sandbox.attach("cat", { stdin: true });
    const piped = new Blob(["from a stream"]).stream().pipeTo(command.stdin);
    assert.equal(await new Response(command.stdout).text(), "from a stream");
    await piped;
  },

  async reattached(sandbox) {
    const first = await sandbox.attach("echo one; read word; echo $word", { stdin: true, detach: true });
    await first.close();
    assert.ok((await sandbox.commands()).some((c) => c.id === first.execId && c.running));
    const second = await sandbox.reattach(first.execId, { stdin: true });
    await second.write("two\n");
    let seen = "";
    for await (const { data } of second) seen += text(data);
    assert.equal(seen, "one\ntwo\n");
  },

  async background(sandbox) {
    const command = await sandbox.background("echo one; echo two >&2; exit 5");
    const done = await command.wait();
    assert.deepEqual([done.exitCode, done.stdout], [5, "one\ntwo\n"]);
    assert.equal((await command.state()).running, false);
    const long = await sandbox.background("exec sleep 4713");
    await long.kill();
    assert.equal((await long.wait()).reason, "cancelled");
  },

  async terminal(sandbox) {
    await using terminal = await sandbox.terminal.open({ cols: 80, rows: 24, record: true });
    await terminal.write("stty -echo; echo $((6 * 7))\n");
    await terminal.readUntil("42");
    await terminal.resize(132, 43);
    await terminal.write("stty size\n");
    await terminal.readUntil("43 132");
    const { sessionId, cursor } = terminal;
    await using other = await sandbox.terminal.connect(sessionId, { cursor, readOnly: true });
    await terminal.write("echo o''ther; exit 7\n");
    assert.match(await other.readUntil("other"), /other/);
    assert.equal((await terminal.wait()).exitCode, 7);
    assert.match(await sandbox.terminal.recording(sessionId), /"version": ?2/);
    assert.ok((await sandbox.terminal.list()).some((t) => t.sessionId === sessionId));
  },

  async channel(sandbox) {
    const { channel, sessionId } = await sandbox.terminal.create();
    assert.ok(channel);
    const [reader, writer] = [
      await sandbox.terminal.channel(channel.reader),
      await sandbox.terminal.channel(channel.writer),
    ];
    await writer.send(new TextEncoder().encode("echo $((20 + 3))\n"));
    let seen = "";
    for await (const message of reader) {
      if (typeof message !== "string") seen += text(message);
      if (seen.includes("23")) break;
    }
    await writer.close();
    await sandbox.terminal.close(sessionId);
  },

  async files(sandbox) {
    const { filesystem } = sandbox;
    await filesystem.write("a b#?%/\u00fc '\".txt", new Uint8Array([0, 255]), { mode: "0750" });
    const meta = await filesystem.stat("a b#?%/\u00fc '\".txt");
    assert.deepEqual([meta.size, meta.permissions], [2, "-rwxr-x---"]);
    assert.deepEqual([...(await filesystem.readBytes("a b#?%/\u00fc '\".txt"))], [0, 255]);
    await filesystem.mkdir("x/y");
    await filesystem.move("a b#?%/\u00fc '\".txt", "x/y/moved");
    assert.deepEqual(
      [await filesystem.exists("x/y/moved"), await filesystem.exists("a b#?%/none")],
      [true, false],
    );
    await filesystem.chmod("x/y/moved", "u-w");
    assert.equal((await filesystem.info(["x/y/moved"]))[0]?.permissions, "-r-xr-x---");
    await filesystem.rmdir("x");
    assert.equal(await filesystem.exists("x"), false);
    await filesystem.write("empty", "");
    assert.equal((await filesystem.readBytes("empty")).length, 0);
  },

  async large_files(sandbox) {
    const { filesystem } = sandbox;
    const [local, back] = [`${folder}/local`, `${folder}/back`];
    const data = Buffer.alloc(20 << 20, "0123456789abcdef\n");
    await writeFile(local, data, { mode: 0o640 });
    await filesystem.uploadFile(local, "large");
    assert.equal((await filesystem.stat("large")).permissions, "-rw-r-----");
    const digest = createHash("sha256").update(data).digest("hex");
    assert.match((await sandbox.exec("sha256sum large")).stdout, new RegExp(`^${digest} `));
    await filesystem.downloadFile("large", back);
    assert.equal(Buffer.compare(await readFile(back), data), 0);
    await assert.rejects(filesystem.downloadFile("none", `${folder}/none`), FileNotFoundError);
    await assert.rejects(stat(`${folder}/none`));
    const copied = await filesystem.write("copied", await filesystem.readStream("large"));
    assert.equal(copied.success, true);
    assert.equal((await filesystem.stat("copied")).size, data.length);
  },

  async watched(sandbox) {
    await using changes = sandbox.filesystem.watch(undefined, { recursive: true });
    assert.equal((await changes.next()).value?.type, "ready");
    await sandbox.filesystem.write("watched.txt", "1");
    assert.match((await changes.next()).value?.path ?? "", /watched\.txt$/);
  },

  async code(sandbox) {
    const context = await sandbox.interpreter.createContext();
    await sandbox.interpreter.run("x = 41", "python", { contextId: context.id });
    assert.equal(
      (await sandbox.interpreter.run("x + 1", "python", { contextId: context.id })).results[0]?.data,
      "42",
    );
    const kinds: string[] = [];
    for await (const event of sandbox.interpreter.runStream("print(1); 2", "python")) kinds.push(event.event);
    assert.deepEqual(kinds, ["stdout", "result", "done"]);
    await sandbox.interpreter.deleteContext(context.id);
  },

  async ports(sandbox) {
    const server = await sandbox.background(
      "exec python3 -m http.server 8124 --bind 127.0.0.1 --directory /workspace",
    );
    const socket = await waitFor(() => sandbox.ports.dial(8124).catch(() => undefined), "nobody listens");
    socket.end("GET / HTTP/1.0\r\n\r\n");
    let seen = "";
    for await (const piece of socket) seen += piece;
    assert.match(seen, /^HTTP\/1\.0 200/);
    await server.kill();
  },

  async life(sandbox) {
    await sandbox.filesystem.write("kept", "1");
    const [twin] = await sandbox.fork(1);
    assert.ok(twin);
    await using fork = twin;
    assert.equal(await fork.filesystem.read("kept"), "1");
    await fork.stop();
    assert.equal(fork.status, "stopped");
    await fork.start();
    await fork.renew(300);
    assert.ok((fork.expiresAt?.getTime() ?? 0) > Date.now() + 200_000);
    await fork.filesystem.write("new", "1");
    assert.ok((await fork.diff()).changes.some((c) => c.path.endsWith("/new")));
  },

  async volume(sandbox) {
    const volume = await cay.volumes.create(`ts-${sandbox.id}`);
    const files = cay.volumes.files(volume.id);
    await files.mkdir("d");
    await files.write("d/f", "text");
    await files.write("d/g", new Uint8Array([1, 2]));
    assert.equal(await files.read("d/f"), "text");
    assert.deepEqual([...(await files.readBytes("d/g"))], [1, 2]);
    assert.deepEqual((await files.list("d")).map((f) => f.name).sort(), ["f", "g"]);
    await files.delete("d", { recursive: true });
    await cay.volumes.delete(volume.id);
  },

  async events(sandbox) {
    const stop = new AbortController();
    const told = cay.events.stream({
      sandboxId: sandbox.id,
      topic: "ts.test",
      since: 1,
      signal: stop.signal,
    });
    await cay.events.publish("ts.test", sandbox.id, { n: 1 });
    assert.deepEqual((await told.next()).value?.data, { n: 1 });
    stop.abort();
    await assert.rejects(told.next(), (error) => error === stop.signal.reason);
  },

  async daemon(sandbox) {
    assert.equal((await cay.observability.health()).status, "healthy");
    assert.ok((await cay.admin.info()).version);
    assert.match(await cay.observability.prometheus(), /^# HELP/m);
    const listed: string[] = [];
    for await (const { id } of cay.sandboxes({ metadata: { of: "features" } })) listed.push(id);
    assert.ok(listed.includes(sandbox.id));
    const token = await cay.tokens.create({ name: "ts", scopes: ["read"] });
    await cay.tokens.revoke(token.id);
  },

  async socket(sandbox) {
    const { CAY_TEST_SOCKET: path } = process.env;
    assert.ok(path);
    const local = await new Cay({ baseUrl: `unix:${path}` }).get(sandbox.id);
    assert.equal((await local.exec("echo by socket")).stdout, "by socket\n");
    const terminal = await local.terminal.open();
    await terminal.write("exit 4\n");
    assert.equal((await terminal.wait()).exitCode, 4);
  },
};

await using sandbox = await createSandbox({ metadata: { of: "features" } });
for (const [name, run] of Object.entries(cases)) {
  await run(sandbox);
  console.log("ok", name);
}
