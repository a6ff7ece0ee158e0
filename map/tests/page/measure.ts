// Prints how long frames take while 100,000 points move, by the page's own measure, and where the time
// goes. The load generator moves the points; it reports each once a second.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { openPage, startBrowser } from "./browser";
import { ShoalServer, sleep, until } from "./server";

const OBJECTS = Number(process.env.OBJECTS ?? 100_000);
const SECONDS = 20;
const LOADGEN =
  process.env.SHOAL_LOADGEN ?? join(process.cwd(), "..", "target", "debug", "shoal-loadgen");
/** Milliseconds of a tick in /proc. */
const TICK_MS = 10;

/** Processor time so far of Chromium's processes by type, milliseconds. */
function processorMs(): Record<string, number> {
  const times: Record<string, number> = {};
  for (const process of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${process}/stat`, "utf8");
      if (!stat.includes("(chromium)")) continue;
      const command = readFileSync(`/proc/${process}/cmdline`, "utf8");
      const type = /--type=([a-z-]+)/.exec(command)?.[1] ?? "browser";
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const ms = (Number(fields[11]) + Number(fields[12])) * TICK_MS;
      times[type] = (times[type] ?? 0) + ms;
    } catch {
      // The process has ended.
    }
  }
  return times;
}

const server = await ShoalServer.start();
const browser = await startBrowser();
const load = spawn(
  LOADGEN,
  [
    "run",
    ...["--target", `127.0.0.1:${server.grpcPort}`, "--fleet", "moving", "--workload", "gauss"],
    ...["--objects", String(OBJECTS), "--rate", String(OBJECTS), "--update-query", "1:0"],
    ...["--seconds", "600", "--connections", "1", "--encoding", "block", "--durability", "applied"],
  ],
  { stdio: ["ignore", "ignore", "inherit"] },
);
try {
  await sleep(5_000);
  const { page } = await openPage(browser, `${server.url}/#fleet=moving`);
  await until(
    "all objects are shown",
    () =>
      page.evaluate((all) => (window.shoal?.app.view?.table.length ?? 0) >= all * 0.99, OBJECTS),
    60_000,
  );
  await sleep(5_000);
  await page.evaluate(() => window.shoal?.app.frames.reset());
  const before = processorMs();
  const revision = await page.evaluate(() => window.shoal?.app.view?.revision ?? 0);
  await sleep(SECONDS * 1_000);
  const spent = processorMs();
  const found = await page.evaluate(() => {
    const app = window.shoal?.app;
    return {
      objects: app?.view?.table.length,
      revision: app?.view?.revision ?? 0,
      frames: app?.frames.total ?? 0,
      median: app?.frames.percentile(50),
      p90: app?.frames.percentile(90),
    };
  });
  console.log(`${found.objects} objects, ${found.revision - revision} messages in ${SECONDS} s`);
  console.log(`frames: ${found.frames}, median ${found.median} ms, p90 ${found.p90} ms`);
  for (const [type, ms] of Object.entries(spent)) {
    const share = (ms - (before[type] ?? 0)) / Math.max(1, found.frames);
    console.log(`processor time a frame, ${type}: ${share.toFixed(1)} ms`);
  }
  await page.screenshot({ path: join("test-output", "measure.png") });
} finally {
  load.kill();
  await browser.close();
  await server.stop();
}
