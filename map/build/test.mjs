// Runs tests: `node build/test.mjs [unit|page]`, by default both. Page tests need a server with the
// feature `map` and Chromium; see tests/page/server.ts and browser.ts.

import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

import "./generate.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const kinds = process.argv[2] === undefined ? ["unit", "page"] : [process.argv[2]];

for (const kind of kinds) {
  const out = join(root, "test-output", kind);
  rmSync(out, { recursive: true, force: true });
  const names = readdirSync(join(root, "tests", kind)).filter((it) => it.endsWith(".test.ts"));
  await esbuild.build({
    absWorkingDir: root,
    entryPoints: names.map((name) => join("tests", kind, name)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    sourcemap: "inline",
    logLevel: "warning",
  });
  const files = names.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
  const flags = ["--enable-source-maps", "--test", "--test-concurrency=1"];
  const { status } = spawnSync(process.execPath, [...flags, ...files], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
