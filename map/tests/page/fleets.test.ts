// The choice of fleets: one around the world, and one in a plane.

import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";

import { FleetService, SpaceSchema } from "../../generated/shoal/v1/fleet_pb";
import { Random } from "../unit/random";
import { openPage, screenshot, startBrowser } from "./browser";
import { pointPixels, PIXELS_WIDTH } from "./pixels";
import { type Position, ShoalServer, sleep, until } from "./server";

/** Seas in which ships are: west, south, east, north. */
const SEAS = [
  [-60, 20, -20, 45],
  [-35, -30, 5, -5],
  [55, -25, 90, 5],
  [150, 10, 178, 40],
  [-175, -20, -100, 20],
];

function ships(seed: number): Position[] {
  const random = new Random(seed);
  return Array.from({ length: 2_000 }, (_, object) => {
    const [west, south, east, north] = SEAS[object % SEAS.length];
    return {
      object: BigInt(object + 1),
      timeMs: Date.now(),
      x: west + (east - west) * random.share(),
      y: south + (north - south) * random.share(),
    };
  });
}

test("each fleet is shown whole in its own space", async () => {
  const server = await ShoalServer.start();
  const browser = await startBrowser();
  try {
    const space = create(SpaceSchema, {
      kind: { case: "planar", value: { widthM: 400, heightM: 200 } },
    });
    await server.calls.unary(FleetService.method.createFleet, { name: "ships" });
    await server.calls.unary(FleetService.method.createFleet, { name: "hall", space });
    await server.report("ships", ships(7));
    const corners = [0, 400].flatMap((x) => [0, 200].map((y) => ({ x, y })));
    const robots = corners.map((at, object) => ({ object: BigInt(object), timeMs: Date.now(), ...at }));
    await server.report("hall", robots);
    const { page, errors, foreign } = await openPage(browser, `${server.url}/#fleet=ships`);
    const shown = (count: number) => () =>
      page.evaluate((all) => window.shoal?.app.view?.table.length === all, count);
    await until("all ships are shown", shown(2_000));
    const options = await page.locator("#fleet option").allTextContents();
    assert.deepEqual(options, ["default", "hall", "ships"]);
    // Coastlines and names take a moment.
    await sleep(3_000);
    await screenshot(page, "world");
    await page.locator("#fleet").selectOption("hall");
    await until("the robots are shown", shown(4));
    await until("the corners are drawn", async () => (await pointPixels(page)).size > 20);
    assert.match(page.url(), /#.*fleet=hall/);
    const lines = [...(await pointPixels(page))].map((pixel) => Math.floor(pixel / PIXELS_WIDTH));
    const columns = [...(await pointPixels(page))].map((pixel) => pixel % PIXELS_WIDTH);
    const width = Math.max(...columns) - Math.min(...columns);
    const height = Math.max(...lines) - Math.min(...lines);
    assert.ok(width > 600 && Math.abs(width / height - 2) < 0.1, `${width} by ${height} pixels`);
    assert.deepEqual(errors, []);
    assert.deepEqual(foreign, []);
  } finally {
    await browser.close();
    await server.stop();
  }
});
