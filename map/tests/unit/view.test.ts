// The region that is followed for a view, and the squares of the density.

import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";

import { FleetSchema } from "../../generated/shoal/v1/fleet_pb";
import { grid } from "../../src/live/density";
import { type Bounds, fromLngLat, spaceOf, toLngLat } from "../../src/live/space";
import { followedBounds, regionOf } from "../../src/live/view-region";
import { Random } from "./random";

const geographic = spaceOf(create(FleetSchema));
const planar = spaceOf(
  create(FleetSchema, {
    space: { kind: { case: "planar", value: { widthM: 2_000, heightM: 500 } } },
  }),
);

function randomView(random: Random): Bounds {
  const size = 2 ** -(1 + random.share() * 15);
  const [west, south] = [random.share() * 1.2 - 0.1, random.share() * (1 - size)];
  return { west, south, east: west + size, north: south + size * 0.6 };
}

test("a followed region holds the view, and stays while it does", () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = new Random(seed);
    let followed: Bounds | null = null;
    for (let step = 0; step < 20; step++) {
      const view = randomView(random);
      const next: Bounds = followedBounds(view, followed);
      assert.ok(next.west <= view.west && next.east >= view.east, `seed ${seed}`);
      assert.ok(next.south <= view.south && next.north >= view.north, `seed ${seed}`);
      const width = view.east - view.west;
      assert.ok(next.east - next.west < width * 8, `seed ${seed}: the region is too large`);
      const moved = { ...view, west: view.west + width * 0.1, east: view.east + width * 0.1 };
      assert.equal(followedBounds(moved, next === followed ? view : next) === next, next !== followed);
      followed = next;
    }
  }
});

test("a region across the antimeridian has its west side in the east", () => {
  const { kind } = regionOf(geographic, { west: 0.98, south: 0.4, east: 1.03, north: 0.6 });
  assert.equal(kind.case, "rectangle");
  if (kind.case !== "rectangle") return;
  assert.ok(Math.abs(kind.value.west - 172.8) < 1e-9, String(kind.value.west));
  assert.ok(Math.abs(kind.value.east - -169.2) < 1e-9, String(kind.value.east));
});

test("the whole world is the whole space, poles included", () => {
  for (const space of [geographic, planar]) {
    const { kind } = regionOf(space, { west: -1, south: 0, east: 2, north: 1 });
    assert.equal(kind.case, "rectangle");
    if (kind.case !== "rectangle") continue;
    const { west, south, east, north } = kind.value;
    assert.ok(west <= space.bounds.west && east >= space.bounds.east);
    assert.deepEqual([south, north], [space.bounds.south, space.bounds.north]);
  }
});

test("a position comes back from the map", () => {
  const random = new Random(3);
  for (let step = 0; step < 500; step++) {
    for (const space of [geographic, planar]) {
      const { west, south, east, north } = space.bounds;
      const x = west + (east - west) * random.share();
      const y = (south + (north - south) * random.share()) * 0.9;
      const [longitude, latitude] = toLngLat(space, x, y);
      const [backX, backY] = fromLngLat(space, longitude, latitude);
      assert.ok(Math.abs(backX - x) < 1e-6 && Math.abs(backY - y) < 1e-6, `${x} ${y}`);
      assert.ok(Math.abs(space.fromWorldX(space.toWorldX(x)) - x) < 1e-6);
    }
  }
});

test("squares cover the view, do not overlap, and are not too many for one call", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const view = randomView(random);
    const zoom = -Math.log2(view.east - view.west) + random.share() * 2;
    const squares = grid(view, zoom);
    assert.ok(squares.length > 0 && squares.length <= 4_096, `seed ${seed}: ${squares.length}`);
    assert.equal(new Set(squares.map((it) => `${it.west}/${it.south}`)).size, squares.length);
    for (const [x, y] of [
      [view.west, view.south],
      [view.east, view.north],
    ]) {
      const holds = squares.some(
        (it) => it.west <= x && x <= it.east && it.south <= y && y <= it.north,
      );
      assert.ok(holds, `seed ${seed}: ${x} ${y}`);
    }
  }
});
