#!/usr/bin/env node
// dist/esm and dist/cjs, each with its types. The compiler checks and writes the first; the second is the same program
// in the other form of modules, and its types are the same text.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, "dist");
const tsc = join(root, "node_modules", "typescript", "bin", "tsc");

rmSync(dist, { recursive: true, force: true });
execFileSync(process.execPath, [tsc, "-p", root], { stdio: "inherit" });

for (const file of readdirSync(join(root, "src"), { recursive: true }).filter((name) =>
  name.endsWith(".ts"),
)) {
  const { outputText } = ts.transpileModule(readFileSync(join(root, "src", file), "utf8"), {
    fileName: file,
    compilerOptions: {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.CommonJS,
      isolatedModules: true,
    },
  });
  const [js, types] = [file.replace(/\.ts$/, ".js"), file.replace(/\.ts$/, ".d.ts")];
  mkdirSync(dirname(join(dist, "cjs", js)), { recursive: true });
  writeFileSync(join(dist, "cjs", js), outputText);
  cpSync(join(dist, "esm", types), join(dist, "cjs", types));
}
writeFileSync(join(dist, "cjs", "package.json"), '{ "type": "commonjs" }\n');
