// Output while it comes, and an end to what takes too long.
//
//     node streaming.ts     (Node 24; with tsx, Bun or Deno as well)

import { createSandbox } from "@cay/sdk";

await using sandbox = await createSandbox();

// What a command does, event by event.
for await (const event of sandbox.execStream("for n in 1 2 3; do echo step $n; done; exit 4")) {
  if (event.type === "stdout") process.stdout.write(event.data);
  else if (event.type === "exit") console.log("it ended with", event.data);
}

// Who has seen enough leaves the loop, or aborts: the command is ended in the sandbox, with all that it started.
for await (const event of sandbox.execStream("echo begun; sleep 1000 & wait")) {
  if (event.type === "stdout") break;
}
console.log("seen enough");
