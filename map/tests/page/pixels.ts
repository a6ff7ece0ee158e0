// Finds the pixels of a page that show points, by the colour of points in the light theme.

import type { Page } from "playwright-core";

/** The width of the part of the page that is looked at. */
export const PIXELS_WIDTH = 970;

/** Numbers of the pixels, row by row. The panels of the page are left out. */
export async function pointPixels(page: Page): Promise<Set<number>> {
  const clip = { x: 20, y: 60, width: PIXELS_WIDTH, height: 640 };
  const image = (await page.screenshot({ clip })).toString("base64");
  const found = await page.evaluate(async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("no 2D canvas");
    context.drawImage(bitmap, 0, 0);
    const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    const pixels: number[] = [];
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 2] - data[at] > 90) pixels.push(at / 4);
    }
    return pixels;
  }, image);
  return new Set(found);
}
