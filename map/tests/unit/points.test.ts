// The pixels that are written for points, against the arithmetic of the map.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ObjectTable } from "../../src/live/object-table";
import { type Frame, paint, ROUND_SIZE } from "../../src/view/points-canvas";
import { Random } from "./random";

const [WIDTH, HEIGHT] = [64, 48];
const COLOR = 0xff112233;
const SELECTED = 0xff445566;

function frame(change: Partial<Frame>): Frame {
  return {
    width: WIDTH,
    height: HEIGHT,
    centerX: 0.5,
    centerY: 0.5,
    scale: 512,
    nowMs: 1_000,
    size: 2,
    hasHeadings: false,
    color: COLOR,
    selectedColor: SELECTED,
    selectedRow: -1,
    ...change,
  };
}

test("every point inside is written where the map has it, and none outside", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const table = new ObjectTable();
    const shown = frame({
      centerX: random.share(),
      centerY: 0.2 + random.share() * 0.6,
      scale: 512 * 2 ** random.below(12),
      size: 1 + random.below(6),
      hasHeadings: random.below(2) === 0,
    });
    const expected = new Set<number>();
    for (let id = 0; id < 20; id++) {
      const [right, up] = [(random.share() - 0.5) * 100, (random.share() - 0.5) * 80];
      const x = shown.centerX + right / shown.scale;
      table.report(id, 0, x, shown.centerY + up / shown.scale, Number.NaN, 0);
      const half = (shown.size - 1) / 2;
      const column = Math.round(WIDTH / 2 + right - half);
      const line = Math.round(HEIGHT / 2 - up - half);
      const isInside =
        column >= 0 && line >= 0 && column + shown.size <= WIDTH && line + shown.size <= HEIGHT;
      for (let at = 0; isInside && at < shown.size ** 2; at++) {
        const [across, down] = [at % shown.size, Math.floor(at / shown.size)];
        const isEdge = (place: number): boolean => place === 0 || place === shown.size - 1;
        if (shown.size >= ROUND_SIZE && isEdge(across) && isEdge(down)) continue;
        expected.add((line + down) * WIDTH + column + across);
      }
    }
    const pixels = new Uint32Array(WIDTH * HEIGHT);
    paint(table, shown, pixels);
    const found = new Set([...pixels.keys()].filter((at) => pixels[at] === COLOR));
    // Rounding may differ by a pixel where a coordinate lies half between two.
    const wrong = [...found].filter((at) => !expected.has(at)).length;
    assert.ok(wrong <= 4 * shown.size, `seed ${seed}: ${wrong} pixels`);
    assert.ok(Math.abs(found.size - expected.size) <= 4 * shown.size, `seed ${seed}`);
  }
});

test("points beyond the antimeridian are on the side from where they are nearer", () => {
  const table = new ObjectTable();
  table.report(1, 0, 0.001, 0.5, Number.NaN, 0);
  const pixels = new Uint32Array(WIDTH * HEIGHT);
  paint(table, frame({ centerX: 0.999, scale: 4_096 }), pixels);
  const at = pixels.findIndex((pixel) => pixel === COLOR);
  assert.ok(Math.abs((at % WIDTH) - (WIDTH / 2 + 0.002 * 4_096)) <= 2);
});

test("the selected point is above the others, and headings point away from north clockwise", () => {
  const table = new ObjectTable();
  for (let id = 0; id < 50; id++) table.report(id, 0, 0.5, 0.5, 90, 0);
  const pixels = new Uint32Array(WIDTH * HEIGHT);
  paint(table, frame({ size: 4, selectedRow: 7, hasHeadings: true }), pixels);
  const center = (HEIGHT / 2) * WIDTH + WIDTH / 2;
  assert.equal(pixels[center], SELECTED);
  assert.ok(pixels[center + 6] === COLOR || pixels[center + 6] === SELECTED);
  assert.equal(pixels[center - 6], 0);
});
