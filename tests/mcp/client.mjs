// What an official client for TypeScript makes of the daemon: `node client.mjs FOLDER SDK TRANSPORT TARGET SANDBOX`. FOLDER has
// node_modules, SDK is one (@modelcontextprotocol/sdk) or two (@modelcontextprotocol/client), TRANSPORT stdio or http.
import assert from "node:assert";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, sdk, transport, target, sandbox] = process.argv.slice(2);
const find = createRequire(folder + "/");
const load = (name) => import(pathToFileURL(find.resolve(name)));

const stdio = { command: target, args: ["mcp"], env: process.env };
let client, connection;
if (sdk === "one") {
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  client = new Client({ name: "test", version: "1" });
  connection = transport === "stdio" ? new StdioClientTransport(stdio) : new StreamableHTTPClientTransport(new URL(target));
} else {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
  connection = transport === "stdio" ? new StdioClientTransport(stdio) : new StreamableHTTPClientTransport(new URL(target));
}
await client.connect(connection);

const run = (command, options) => {
  const call = { name: "sandbox_exec", arguments: { sandboxId: sandbox, command } };
  return sdk === "one" ? client.callTool(call, undefined, options) : client.callTool(call, options);
};
const { tools } = await client.listTools();
assert.equal(tools.length, 39);
const said = await run("echo hello"); // checked against its outputSchema by the client
assert.equal(said.content[0].text, "hello\n");
assert.equal(said.structuredContent.exitCode, 0);
const heard = [];
await run("sleep 2.5", { onprogress: (progress) => heard.push(progress.progress) });
assert.ok(heard.length >= 1);
const { contents } = await client.readResource({ uri: `sandbox://${sandbox}` });
assert.equal(JSON.parse(contents[0].text).id, sandbox);
assert.ok((await client.listPrompts()).prompts.length > 0);
const stop = new AbortController();
const cancelled = run("sleep 54321", { signal: stop.signal, onprogress: () => stop.abort() });
await assert.rejects(cancelled);
for (;;) {
  const processes = (await client.callTool({ name: "sandbox_process_list", arguments: { sandboxId: sandbox } })).content[0].text;
  if (!processes.includes("54321")) break;
}
await client.close();
console.log("ok");
