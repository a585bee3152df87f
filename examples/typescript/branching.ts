// Branches: prepare once, keep that as a snapshot, try several ways from there at the same time, and undo what went wrong.
//
//     node branching.ts     (Node 24; with tsx, Bun or Deno as well)

import assert from "node:assert";
import { Cay } from "@cay/sdk";

const PROGRAM = "def roman(n):\n    return 'I' * n\n";
const RULES = `def roman(n):
    text = ''
    for value, sign in ((10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):
        text, n = text + sign * (n // value), n % value
    return text
`;
const CHECK = "from roman import roman; assert [roman(n) for n in (3, 4, 9, 14)] == ['III', 'IV', 'IX', 'XIV']";
const attempts = { replace: PROGRAM.replace("* n", "* n).replace('IIII', 'IV')").replace("'I'", "('I'"), rules: RULES };

const cay = new Cay();
await using base = await cay.create();
await base.filesystem.write("roman.py", PROGRAM);
const snapshot = await base.snapshot("prepared");
try {
  const tried = Object.entries(attempts).map(async ([name, source]) => {
    await using branch = await cay.get((await cay.snapshots.clone(snapshot.id)).id);
    await branch.filesystem.write("roman.py", source);
    return [name, (await branch.exec(["python3", "-c", CHECK])).exitCode === 0] as const;
  });
  for (const [name, works] of await Promise.all(tried)) console.log(`${name}: ${works}`);

  await base.exec("rm -rf /workspace/*");
  await base.restore(snapshot.id);
  assert.equal(await base.filesystem.read("roman.py"), PROGRAM);
  console.log("the base is as it was");
} finally {
  await cay.snapshots.delete(snapshot.id); // snapshots outlive their sandbox
}
