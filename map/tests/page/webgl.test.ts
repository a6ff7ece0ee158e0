// The points as a layer of deck.gl, which draws them where there is a GPU; here it runs in software.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openPage, startBrowser } from "./browser";
import { pointPixels } from "./pixels";
import { ShoalServer, sleep, until } from "./server";

test("the layer draws the pixels that the canvas draws", async () => {
  const server = await ShoalServer.start();
  const browser = await startBrowser();
  try {
    const positions = Array.from({ length: 50 }, (_, object) => ({
      object: BigInt(object),
      timeMs: Date.now(),
      x: 10 + (object % 10) * 0.01,
      y: 50 + Math.floor(object / 10) * 0.01,
    }));
    await server.report("default", positions);
    const found: Set<number>[] = [];
    for (const drawing of ["canvas", "webgl"]) {
      const url = `${server.url}/?points=${drawing}#fleet=default&view=11/50.02/10.045`;
      const { page, errors } = await openPage(browser, url);
      await until("all objects are shown", () =>
        page.evaluate(() => window.shoal?.app.view?.table.length === 50),
      );
      await until("points are drawn", async () => (await pointPixels(page)).size > 500);
      await sleep(1_000);
      found.push(await pointPixels(page));
      assert.deepEqual(errors, []);
      await page.context().close();
    }
    // Circles lack the corners of squares.
    const [canvas, webgl] = found;
    const both = [...webgl].filter((pixel) => canvas.has(pixel)).length;
    assert.ok(both > canvas.size * 0.5, `${both} of ${canvas.size} pixels`);
    assert.ok(both > webgl.size * 0.8, `${both} of ${webgl.size} pixels`);
  } finally {
    await browser.close();
    await server.stop();
  }
});
