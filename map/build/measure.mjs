// Runs tests/page/measure.ts: how long a frame takes with 100,000 moving points.

import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

import "./generate.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const outfile = join(root, "test-output", "measure.mjs");
await esbuild.build({
  absWorkingDir: root,
  entryPoints: ["tests/page/measure.ts"],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  packages: "external",
});
const { status } = spawnSync(process.execPath, [outfile], { stdio: "inherit", cwd: root });
process.exit(status ?? 1);
