import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createContext, runInContext } from "node:vm";
import { operations } from "#internal/generated.js";

const dist = join(dirname(fileURLToPath(import.meta.resolve("@cay/sdk"))));

/** Operations that no method of a manager is for; `client.call()` has them all the same. */
const leftOut: Record<string, string> = {
  cmd_background_logs: "command(id).state() and stream() give it with more",
  cmd_background_status: "command(id).state() gives it with more",
  fs_watch_socket: "fs_watch for web pages",
  sandbox_network_explain_post: "another way to sandbox_network_explain",
  worker_heartbeat: "what a worker says of itself",
  worker_heartbeat_too: "another path of the same",
  worker_list_too: "another path of worker_list",
  worker_migrate_too: "another path of worker_migrate",
  worker_reap_too: "another path of worker_reap",
  worker_select_get: "another path of worker_select",
  worker_select_too: "another path of worker_select",
};

test("every operation of the daemon has a method, or a reason for none", () => {
  const text = readdirSync(dist, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".js") && !["generated.js", "safety.js"].includes(name))
    .map((name) => readFileSync(join(dist, name), "utf8"))
    .join("\n");
  const used = new Set(
    [
      ...text.matchAll(
        /\.(?:call|events|bytes|send|upgrade|open)\((?:this\.#?client, |client, )?\s*"(\w+)"/g,
      ),
    ].map((m) => m[1]),
  );
  const missing = Object.keys(operations).filter((id) => !used.has(id) && !(id in leftOut));
  assert.deepEqual(missing, []);
  assert.deepEqual(
    Object.keys(leftOut).filter((id) => used.has(id) || !(id in operations)),
    [],
  );
});

test("where the runtime lacks the symbol of `await using`, it gets one", () => {
  const context = createContext({});
  runInContext("Symbol = { for: Symbol.for }", context);
  runInContext(readFileSync(join(dist, "dispose.js"), "utf8").replace(/^export .*$/m, ""), context);
  assert.equal(runInContext("typeof Symbol.asyncDispose", context), "symbol");
});
