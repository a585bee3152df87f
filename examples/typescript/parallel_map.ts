// A parallel map: a function runs over 100 inputs, each in a sandbox of its own.
//
//     node parallel_map.ts     (Node 24; with tsx, Bun or Deno as well)

import assert from "node:assert";
import { createSandbox } from "@cay/sdk";

const AT_ONCE = 25; // a daemon has room for 50 sandboxes unless CAY_MAX_SANDBOXES says otherwise

async function square(n: number): Promise<number> {
  await using sandbox = await createSandbox();
  const { stdout } = await sandbox.exec(["sh", "-c", 'echo $(($1 * $1))', "sh", String(n)], { timeout: 60 });
  return Number(stdout);
}

/** What `each` makes of the inputs, some at a time, in their order. */
async function map<In, Out>(inputs: In[], each: (input: In) => Promise<Out>): Promise<Out[]> {
  const results: Out[] = [];
  const left = inputs.entries();
  const work = async () => {
    for (const [index, input] of left) results[index] = await each(input);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

const squares = await map(
  Array.from({ length: 100 }, (_, index) => index + 1),
  square,
);
const sum = squares.reduce((total, each) => total + each, 0);
console.log(`${squares.length} sandboxes, ${sum}`);
assert.equal(sum, 338350);
