// Generates the TypeScript of the protos into generated/, which git ignores.

import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(dirname(fileURLToPath(import.meta.url)), "..");
const programs = join(folder, "node_modules", ".bin");
const template = {
  version: "v2",
  clean: true,
  plugins: [
    {
      local: join(programs, "protoc-gen-es"),
      out: join(folder, "generated"),
      opt: ["target=ts"],
      include_imports: true,
    },
  ],
};

execFileSync(
  join(programs, "buf"),
  ["generate", join(folder, "..", "proto", "proto"), "--template", JSON.stringify(template)],
  { stdio: "inherit", cwd: folder },
);
