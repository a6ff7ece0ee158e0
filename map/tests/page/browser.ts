// Chromium for a test, with WebGL in software, and what a page did that it must not do.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";

import { type Browser, chromium, type Page } from "playwright-core";

const BINARY = process.env.SHOAL_CHROMIUM ?? "/usr/bin/chromium";
/** No GPU: WebGL by SwiftShader, windows composed by the processor. No connections of its own. */
const FLAGS = [
  "--no-sandbox",
  "--use-gl=angle",
  "--use-angle=swiftshader",
  "--enable-unsafe-swiftshader",
  "--ignore-gpu-blocklist",
  "--disable-gpu-compositing",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** A folder of build.mjs in place of the files in the server, so that it need not be built again. */
const FILES = process.env.SHOAL_MAP_FILES;
export const SCREENSHOTS = join(process.cwd(), "test-output", "screenshots");

export function startBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: BINARY, args: FLAGS });
}

/** A page, the errors of its console, and its requests to other servers. */
export interface Watched {
  page: Page;
  errors: string[];
  foreign: string[];
}

export async function openPage(
  browser: Browser,
  url: string,
  scheme: "light" | "dark" = "light",
  prepare: (page: Page) => Promise<void> = async () => {},
): Promise<Watched> {
  const context = await browser.newContext({
    viewport: { width: 1_280, height: 800 },
    colorScheme: scheme,
  });
  const page = await context.newPage();
  const watched: Watched = { page, errors: [], foreign: [] };
  const { origin } = new URL(url);
  page.on("console", (message) => {
    if (message.type() === "error") watched.errors.push(message.text());
  });
  page.on("pageerror", (error) => watched.errors.push(String(error)));
  page.on("request", (request) => {
    const to = new URL(request.url());
    if (to.protocol.startsWith("http") && to.origin !== origin) watched.foreign.push(to.href);
  });
  if (FILES !== undefined) await replaceFiles(page, FILES);
  await prepare(page);
  await page.goto(url);
  return watched;
}

async function replaceFiles(page: Page, folder: string): Promise<void> {
  await page.route("**/*", async (route) => {
    const { pathname } = new URL(route.request().url());
    const path = join(folder, pathname === "/" ? "index.html" : pathname);
    if (route.request().method() !== "GET" || !existsSync(path)) return route.fallback();
    // A test may end while the page still loads.
    const response = await route.fetch().catch(() => null);
    if (response !== null) await route.fulfill({ response, path, status: 200 });
  });
}

export async function screenshot(page: Page, name: string): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}
