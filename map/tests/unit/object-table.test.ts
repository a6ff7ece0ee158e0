// The object table against a Map.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ObjectTable } from "../../src/live/object-table";
import { place } from "../../src/view/points-layer";
import { Random } from "./random";

/** Few ids, so that slots collide and chains are long; some differ in their high half alone. */
function randomId(random: Random): [number, number] {
  return [random.below(300), (random.below(3) * 0x8000_0001) >>> 0];
}

function check(table: ObjectTable, model: Map<string, [number, number]>, seed: number): void {
  assert.equal(table.length, model.size, `seed ${seed}`);
  for (const [key, [x, y]] of model) {
    const [low, high] = key.split("/").map(Number);
    const row = table.find(low, high);
    assert.ok(row >= 0 && row < table.length, `seed ${seed}: ${key} is missing`);
    assert.deepEqual([table.toX[row], table.toY[row]], [x, y], `seed ${seed}: ${key}`);
    assert.equal(table.id(row), (BigInt(high >>> 0) << 32n) | BigInt(low));
  }
}

test("reports, removals and snapshots leave what a map holds", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const table = new ObjectTable(4);
    let model = new Map<string, [number, number]>();
    for (let step = 0; step < 3_000; step++) {
      const [low, high] = randomId(random);
      const choice = random.below(100);
      const position: [number, number] = [random.share(), random.share()];
      if (choice < 60) {
        table.report(low, high, ...position, 0, step);
        model.set(`${low}/${high}`, position);
      } else if (choice < 98) {
        table.remove(low, high);
        model.delete(`${low}/${high}`);
      } else if (choice < 99) {
        const kept = new Map<string, [number, number]>();
        table.beginSnapshot();
        for (const [key, value] of model) {
          if (random.below(2) === 0) continue;
          const [lowHalf, highHalf] = key.split("/").map(Number);
          table.report(lowHalf, highHalf, ...value, 0, step);
          kept.set(key, value);
        }
        table.endSnapshot();
        model = kept;
      }
    }
    check(table, model, seed);
    table.clear();
    check(table, new Map(), seed);
  }
});

test("an object moves from where it is shown, at the pace of its reports", () => {
  const table = new ObjectTable();
  const places = new Float32Array(3);
  const shown = (nowMs: number): number => {
    place(table, 0, 0, nowMs, places);
    return places[0] / 512;
  };
  table.report(7, 0, 0.1, 0.1, 0, 1_000);
  assert.ok(Math.abs(shown(1_000) - 0.1) < 1e-6);
  table.report(7, 0, 0.11, 0.1, 0, 2_000);
  // The move takes one second, the time between the reports.
  assert.ok(Math.abs(shown(2_500) - 0.105) < 1e-6);
  table.report(7, 0, 0.12, 0.1, 0, 2_500);
  assert.ok(Math.abs(shown(2_500) - 0.105) < 1e-6);
  assert.ok(Math.abs(shown(3_000) - 0.12) < 1e-6);
  assert.equal(table.movingUntilMs, 3_000);
  // A far jump, and a table that does not glide.
  table.report(7, 0, 0.45, 0.1, 0, 4_000);
  assert.ok(Math.abs(shown(4_000) - 0.45) < 1e-6);
  table.glides = false;
  table.report(7, 0, 0.451, 0.1, 0, 5_000);
  assert.ok(Math.abs(shown(5_000) - 0.451) < 1e-6);
});

test("the nearest row is the one that a scan of distances finds", () => {
  const random = new Random(5);
  const table = new ObjectTable();
  const positions: [number, number][] = [];
  for (let id = 0; id < 500; id++) {
    const at: [number, number] = [random.share(), random.share()];
    positions.push(at);
    table.report(id, 0, ...at, 0, 0);
  }
  for (let step = 0; step < 200; step++) {
    const [x, y] = [random.share(), random.share()];
    const distances = positions.map(([px, py]) => Math.hypot(px - x, py - y));
    const least = Math.min(...distances);
    const row = table.nearest(x, y, 0.05, 100);
    assert.equal(row, least <= 0.05 ? distances.indexOf(least) : -1);
  }
});
