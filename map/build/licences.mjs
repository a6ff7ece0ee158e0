// Lists the packages of a bundle with the texts of their licences, and refuses a licence that
// deny.toml of the server would refuse too.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ALLOWED = new Set(["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Zlib"]);
const FILE = /^(licen[cs]e|notice|copying)/i;

/** The folder of the package that a file of node_modules belongs to. */
function packageOf(path) {
  const parts = path.split("/");
  const at = parts.lastIndexOf("node_modules");
  if (at < 0) return null;
  return parts.slice(0, at + (parts[at + 1].startsWith("@") ? 3 : 2)).join("/");
}

/** Whether an SPDX expression is allowed: every part joined by AND, or one part joined by OR. */
export function isAllowed(expression) {
  const text = expression.replaceAll(/[()]/g, "");
  return text
    .split(" OR ")
    .some((choice) => choice.split(" AND ").every((name) => ALLOWED.has(name.trim())));
}

/** Text for the packages of these files, relative to `root`. */
export function licenceList(root, files) {
  const folders = [...new Set(files.map(packageOf).filter((it) => it !== null))].sort();
  const parts = folders.map((folder) => {
    const about = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const licence = about.license ?? "";
    if (!isAllowed(licence)) {
      throw new Error(`the licence of ${about.name} ${about.version} is not allowed: "${licence}"`);
    }
    const texts = readdirSync(join(root, folder))
      .filter((name) => FILE.test(name) && existsSync(join(root, folder, name)))
      .map((name) => readFileSync(join(root, folder, name), "utf8").trim());
    return `${about.name} ${about.version}\nLicence: ${licence}\n\n${texts.join("\n\n")}\n`;
  });
  const line = `\n${"-".repeat(80)}\n\n`;
  return `The map of Shoal contains these packages.\n${line}${parts.join(line)}`;
}
