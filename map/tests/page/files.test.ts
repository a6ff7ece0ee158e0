// What the server sends apart from calls: the page, its policy, its licences, and ranges of tiles.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { archiveOf } from "./archive";
import { openPage, startBrowser } from "./browser";
import { ShoalServer, until } from "./server";

test("files have types, validators and a policy that names this server alone", async () => {
  const server = await ShoalServer.start();
  try {
    const page = await fetch(`${server.url}/`);
    assert.equal(page.headers.get("content-type"), "text/html; charset=utf-8");
    const policy = page.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; script-src 'self'; worker-src 'self';/);
    assert.doesNotMatch(policy, /https?:|\*|unsafe-eval/);
    const script = await fetch(`${server.url}/map/main.js`);
    const etag = script.headers.get("etag") ?? "";
    assert.match(etag, /^"[0-9a-f]{16}"$/);
    const again = await fetch(`${server.url}/map/main.js`, { headers: { "if-none-match": etag } });
    assert.equal(again.status, 304);
    const licences = await (await fetch(`${server.url}/map/licences.txt`)).text();
    for (const name of ["maplibre-gl", "@deck.gl/core", "world-atlas", "@bufbuild/protobuf"]) {
      assert.ok(licences.includes(`\n${name} `), name);
    }
    for (const path of ["nothing.js", "tiles.pmtiles"]) {
      assert.equal((await fetch(`${server.url}/map/${path}`)).status, 404, path);
    }
    assert.deepEqual(await (await fetch(`${server.url}/map/settings.json`)).json(), { tiles: null });
  } finally {
    await server.stop();
  }
});

test("an archive of tiles is drawn", async () => {
  const browser = await startBrowser();
  const folder = mkdtempSync(join(tmpdir(), "shoal-tiles-"));
  const painter = await browser.newPage();
  await painter.setContent("<body style='background: rgb(40, 60, 240)'>");
  const tile = await painter.screenshot({ clip: { x: 0, y: 0, width: 256, height: 256 } });
  const archive = archiveOf(tile);
  const path = join(folder, "one.pmtiles");
  writeFileSync(path, archive);
  const server = await ShoalServer.start("--map-tiles", path);
  try {
    const url = `${server.url}/map/tiles.pmtiles`;
    const range = await fetch(url, { headers: { range: "bytes=0-6" } });
    assert.equal(range.status, 206);
    assert.equal(range.headers.get("content-range"), `bytes 0-6/${archive.length}`);
    assert.equal(await range.text(), "PMTiles");
    assert.equal((await fetch(url)).status, 416);
    const { page, errors, foreign } = await openPage(browser, server.url);
    await until("the tile is drawn", async () => {
      const png = await page.screenshot({ clip: { x: 600, y: 400, width: 1, height: 1 } });
      const color = await page.evaluate(async (text) => {
        const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        const context = new OffscreenCanvas(1, 1).getContext("2d");
        context?.drawImage(await createImageBitmap(new Blob([bytes])), 0, 0);
        return [...(context?.getImageData(0, 0, 1, 1).data ?? [])];
      }, png.toString("base64"));
      return color[0] === 40 && color[1] === 60 && color[2] === 240;
    });
    assert.deepEqual(errors, []);
    assert.deepEqual(foreign, []);
  } finally {
    await browser.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
