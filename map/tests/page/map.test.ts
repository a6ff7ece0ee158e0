// The map in a browser, against a real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import type { Browser, Page } from "playwright-core";

import { openPage, screenshot, startBrowser, type Watched } from "./browser";
import { pointPixels } from "./pixels";
import { type Position, ShoalServer, sleep, until } from "./server";

const CENTER = { x: -97.74, y: 30.27 };
const OBJECTS = 300;
/** The view of the tests: the objects are around its centre. */
const VIEW = `view=13/${CENTER.y}/${CENTER.x}`;

let server: ShoalServer;
let browser: Browser;
/** Moves the objects while tests run. */
let feed: Promise<void>;
let isFeeding = true;

before(async () => {
  server = await ShoalServer.start();
  browser = await startBrowser();
  // The past that the slider shows: everything 20 minutes ago, in a row south of the centre.
  await server.report("default", objectsAt(Date.now() - 1_200_000, pastPosition));
  feed = feedObjects();
});

after(async () => {
  isFeeding = false;
  await feed;
  await browser.close();
  await server.stop();
});

function pastPosition(object: number): { x: number; y: number } {
  return { x: CENTER.x + (object - OBJECTS / 2) * 1e-4, y: CENTER.y - 0.01 };
}

/** Every object on its circle around the centre. */
function nowPosition(object: number, timeMs: number): { x: number; y: number } {
  const angle = object + (timeMs / 20_000) * (1 + (object % 7) / 7);
  const radius = 0.002 + (object / OBJECTS) * 0.02;
  return { x: CENTER.x + radius * Math.cos(angle), y: CENTER.y + radius * 0.8 * Math.sin(angle) };
}

function objectsAt(
  timeMs: number,
  at: (object: number, timeMs: number) => { x: number; y: number },
): Position[] {
  return Array.from({ length: OBJECTS }, (_, object) => ({
    object: BigInt(object + 1),
    timeMs,
    ...at(object, timeMs),
    speedMps: 12,
    headingDeg: (object * 37) % 360,
  }));
}

async function feedObjects(): Promise<void> {
  while (isFeeding) {
    // A test may have stopped the server.
    await server.report("default", objectsAt(Date.now(), nowPosition)).catch(() => undefined);
    await sleep(250);
  }
}

function open(scheme: "light" | "dark" = "light"): Promise<Watched> {
  return openPage(browser, `${server.url}/#fleet=default&${VIEW}`, scheme);
}

function shownObjects(page: Page): Promise<number> {
  return page.evaluate(() => window.shoal?.app.view?.table.length ?? 0);
}

/** Where the page has object 1, in degrees. */
function shownPosition(page: Page): Promise<[number, number]> {
  return page.evaluate((): [number, number] => {
    const view = window.shoal?.app.view;
    if (view == null) return [0, 0];
    const row = view.table.find(1, 0);
    return row < 0
      ? [0, 0]
      : [view.space.fromWorldX(view.table.toX[row]), view.space.fromWorldY(view.table.toY[row])];
  });
}

async function state(page: Page): Promise<string | null> {
  return page.locator("#status").getAttribute("data-state");
}

async function close({ page, errors, foreign }: Watched): Promise<void> {
  await page.context().close();
  assert.deepEqual(errors, []);
  assert.deepEqual(foreign, []);
}

test("points appear and move, and nothing leaves the server", async () => {
  const watched = await open();
  const { page } = watched;
  await until("all objects are shown", async () => (await shownObjects(page)) === OBJECTS);
  await until("the page is live", async () => (await state(page)) === "live");
  await until("points are drawn", async () => (await pointPixels(page)).size > 500);
  const before = await pointPixels(page);
  const position = await shownPosition(page);
  await until("the object has moved", async () => (await shownPosition(page))[0] !== position[0]);
  await until("other pixels are points", async () => {
    const now = await pointPixels(page);
    return [...now].filter((pixel) => !before.has(pixel)).length > 200;
  });
  await screenshot(page, "live");
  await close(watched);
});

test("a drawn zone reports entries and exits, and outlasts a reload", async () => {
  const watched = await open();
  const { page } = watched;
  await until("all objects are shown", async () => (await shownObjects(page)) === OBJECTS);
  await page.locator("#draw").click();
  for (const [x, y] of [
    [560, 300],
    [720, 300],
    [720, 480],
    [560, 480],
  ]) {
    await page.mouse.click(x, y);
    await sleep(400);
  }
  await page.keyboard.press("Enter");
  await page.locator("#zones li").waitFor();
  const entered = page.locator("#events li", { hasText: "entered" });
  const left = page.locator("#events li", { hasText: "left" });
  await until("an object entered", async () => (await entered.count()) > 0);
  await until("an object left", async () => (await left.count()) > 0);
  assert.match((await entered.first().textContent()) ?? "", /^\d\d:\d\d:\d\d\d+ enteredZone 1$/);
  await screenshot(page, "zones");
  await page.reload();
  await until("entries are reported again", async () => (await entered.count()) > 0);
  await page.getByRole("button", { name: "Remove Zone 1" }).click();
  await until("the zone is gone", async () => (await page.locator("#zones li").count()) === 0);
  await close(watched);
});

test("a zone can be drawn with the keyboard alone", async () => {
  const watched = await open();
  const { page } = watched;
  await until("all objects are shown", async () => (await shownObjects(page)) === OBJECTS);
  await page.keyboard.press("z");
  for (const key of ["ArrowRight", "ArrowDown", "ArrowLeft"]) {
    await page.keyboard.press("Space");
    await page.keyboard.press(key);
    await sleep(700);
  }
  await page.keyboard.press("Enter");
  await page.locator("#zones li").waitFor();
  await page.keyboard.press("z");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#zones li").count(), 1);
  await close(watched);
});

test("the slider shows the past", async () => {
  const watched = await open();
  const { page } = watched;
  await until("all objects are shown", async () => (await shownObjects(page)) === OBJECTS);
  await until("there is a history", async () => page.locator("#moment").isEnabled());
  // Ten minutes back in the span of an hour: after the first report, before all others.
  await page.locator("#moment").fill("833");
  await until("the page shows the past", async () => (await state(page)) === "past");
  const { x, y } = pastPosition(0);
  await until("the object is where it was", async () => {
    const [shownX, shownY] = await shownPosition(page);
    return Math.abs(shownX - x) < 1e-6 && Math.abs(shownY - y) < 1e-6;
  });
  assert.equal(await shownObjects(page), OBJECTS);
  await screenshot(page, "past");
  await page.locator("#live").click();
  await until("the page is live again", async () => (await state(page)) === "live");
  await until("the object is where it is", async () => {
    const [, shownY] = await shownPosition(page);
    return Math.abs(shownY - y) > 1e-3;
  });
  await close(watched);
});

test("a click selects an object, with its fields and its track", async () => {
  const watched = await open("dark");
  const { page } = watched;
  await until("all objects are shown", async () => (await shownObjects(page)) === OBJECTS);
  await page.locator("#search-object").fill("7");
  await page.keyboard.press("Enter");
  const card = page.locator("#object");
  await card.waitFor();
  assert.equal(await page.locator("#object-name").textContent(), "7");
  await until("the fields are there", async () => {
    const text = (await page.locator("#object-fields").textContent()) ?? "";
    return text.includes("speed12.0 m/s") && text.includes("heading222°");
  });
  await sleep(1_500);
  await screenshot(page, "selection");
  await page.getByRole("button", { name: "Close" }).click();
  assert.equal(await card.isVisible(), false);
  // The place of an object on the screen, and a click there.
  const at = await page.evaluate(() => {
    const { app, map } = window.shoal ?? {};
    const view = app?.view;
    if (view == null || map === undefined) return null;
    map.jumpTo({ center: [-97.74, 30.27], zoom: 13 });
    const row = view.table.find(1, 0);
    const { space, table } = view;
    const point = map.project([space.fromWorldX(table.toX[row]), space.fromWorldY(table.toY[row])]);
    return { x: point.x, y: point.y };
  });
  assert.ok(at !== null);
  await page.mouse.click(at.x, at.y);
  await card.waitFor();
  await close(watched);
});

test("density counts the objects of squares", async () => {
  const watched = await open();
  const { page } = watched;
  await page.locator("#drawing").selectOption("density");
  await until("all objects are in squares", async () => {
    const count = await page.evaluate(() =>
      (window.shoal?.app.squares ?? []).reduce((sum, square) => sum + square.count, 0),
    );
    return count === OBJECTS;
  });
  assert.equal(await shownObjects(page), 0);
  await screenshot(page, "density");
  await page.locator("#drawing").selectOption("points");
  await until("points are back", async () => (await shownObjects(page)) === OBJECTS);
  await close(watched);
});

test("the page asks for a token, and keeps it in the session alone", async () => {
  const refusal = { "grpc-status": "16", "grpc-message": "a%20token%20is%20needed" };
  const sent: string[] = [];
  const watched = await openPage(browser, `${server.url}/#${VIEW}`, "light", async (page) => {
    await page.route("**/shoal.v1.*/*", async (route) => {
      const header = route.request().headers()["authorization"];
      if (header === "Bearer open sesame") {
        sent.push(header);
        return route.continue();
      }
      const headers = { ...refusal, "content-type": "application/grpc-web+proto" };
      return route.fulfill({ status: 200, headers, body: "" });
    });
  });
  const { page } = watched;
  await page.locator("#token[open]").waitFor();
  assert.equal(await state(page), "token");
  await screenshot(page, "token");
  await page.locator("#token-text").fill("open sesame");
  await page.keyboard.press("Enter");
  await until("all objects are shown", async () => (await shownObjects(page)) === OBJECTS);
  assert.ok(sent.length > 0);
  const kept = await page.evaluate(() => [
    sessionStorage.getItem("shoal.token"),
    JSON.stringify(localStorage).includes("sesame"),
    document.cookie,
    location.href.includes("sesame"),
  ]);
  assert.deepEqual(kept, ["open sesame", false, "", false]);
  await close(watched);
});

test("a page whose server is gone says so, and continues when it is back", async () => {
  const watched = await open();
  const { page, errors } = watched;
  await until("the page is live", async () => (await state(page)) === "live");
  await until("all objects are shown", async () => (await shownObjects(page)) === OBJECTS);
  await server.kill();
  await until("the page says that the server is gone", async () => (await state(page)) === "gone");
  await server.launch();
  await page.locator("#retry").click({ timeout: 1_000 }).catch(() => undefined);
  await until("the page is live again", async () => (await state(page)) === "live");
  const position = await shownPosition(page);
  await until("objects move again", async () => (await shownPosition(page))[0] !== position[0]);
  // The browser itself notes connections that were refused.
  errors.splice(0, errors.length, ...errors.filter((it) => !it.includes("net::ERR_")));
  await close(watched);
});
