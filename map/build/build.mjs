// Bundles the page into a folder: `node build/build.mjs [FOLDER]`, by default dist/.
//
// The folder has index.html, and below map/ everything that it loads. Nothing else is needed at run
// time. The page needs no network connection except to its server.

import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

import "./generate.mjs";
import { licenceList } from "./licences.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const out = resolve(process.argv[2] ?? join(root, "dist"));
const modules = join(root, "node_modules");

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "map"), { recursive: true });

const { metafile } = await esbuild.build({
  absWorkingDir: root,
  entryPoints: { main: "src/main.ts" },
  outdir: join(out, "map"),
  bundle: true,
  format: "esm",
  target: ["es2023", "chrome120", "firefox128", "safari17.4"],
  minify: true,
  legalComments: "none",
  define: { "process.env.NODE_ENV": '"production"' },
  metafile: true,
  logLevel: "warning",
});

// Files that the page loads as they are. The worker of MapLibre is a bundle of its own.
const copied = [
  ["maplibre-gl/dist/maplibre-gl-worker.mjs", "maplibre-gl-worker.mjs"],
  ["world-atlas/countries-50m.json", "countries-50m.json"],
];
for (const [from, to] of copied) cpSync(join(modules, from), join(out, "map", to));
cpSync(join(root, "src", "index.html"), join(out, "index.html"));
cpSync(join(root, "src", "icon.svg"), join(out, "map", "icon.svg"));

const files = [
  ...Object.keys(metafile.inputs).filter((path) => path.includes("node_modules")),
  ...copied.map(([from]) => `node_modules/${from}`),
];
writeFileSync(join(out, "map", "licences.txt"), licenceList(root, files));
