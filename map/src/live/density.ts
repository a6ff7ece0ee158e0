// How many objects are in each square of the view: live by counting regions, in the past by the
// density of the history.

import { create } from "@bufbuild/protobuf";

import { HistoryService } from "../../generated/shoal/v1/history_pb";
import { QueryService, type Region, RegionSchema } from "../../generated/shoal/v1/query_pb";
import type { Calls } from "../wire/calls";
import type { Bounds, Space } from "./space";

/** A square with objects, in the space of the fleet. */
export interface Square extends Bounds {
  count: number;
}

/**
 * Least width of a square, CSS pixels: 32 to 64, because its side is a power of two of the world.
 * Larger if the view would have more than REGIONS_MAX squares.
 */
const PIXELS = 32;
/** Maximum number of regions of a CountRegionsRequest. */
const REGIONS_MAX = 4_096;
/** Length of the window of the history whose fixes are counted, milliseconds. */
const PAST_WINDOW_MS = 300_000;

/** The squares of a view, in world coordinates. */
export function grid(view: Bounds, zoom: number): Bounds[] {
  let level = Math.floor(zoom) + Math.log2(512 / PIXELS);
  for (;;) {
    const side = 2 ** -level;
    const [west, east] = [Math.floor(view.west / side), Math.ceil(view.east / side)];
    const south = Math.max(0, Math.floor(view.south / side));
    const north = Math.min(1 / side, Math.ceil(view.north / side));
    const columns = Math.min(east - west, 1 / side);
    if (columns * (north - south) > REGIONS_MAX) {
      level--;
      continue;
    }
    const squares: Bounds[] = [];
    for (let row = south; row < north; row++) {
      for (let column = west; column < west + columns; column++) {
        squares.push({
          west: column * side,
          south: row * side,
          east: (column + 1) * side,
          north: (row + 1) * side,
        });
      }
    }
    return squares;
  }
}

/** Counts the objects of each square now. */
export async function liveDensity(
  calls: Calls,
  fleet: string,
  space: Space,
  view: Bounds,
  zoom: number,
  signal: AbortSignal,
): Promise<Square[]> {
  const inside = grid(view, zoom).map((square) => inSpace(space, square));
  const squares = inside.filter(({ west, south, east, north }) => west <= east && south <= north);
  if (squares.length === 0) return [];
  const request = { fleet, regions: squares.map(rectangle) };
  const answer = await calls.unary(QueryService.method.countRegions, request, signal);
  return squares.flatMap((square, at) => {
    const count = Number(answer.counts[at]);
    return count > 0 ? [{ ...square, count }] : [];
  });
}

/** Counts the fixes of each square up to a moment. */
export async function pastDensity(
  calls: Calls,
  fleet: string,
  region: Region,
  cell: number,
  timeMs: number,
  signal: AbortSignal,
): Promise<Square[]> {
  const window = { fromMs: BigInt(timeMs - PAST_WINDOW_MS), toMs: BigInt(timeMs) };
  const request = { fleet, region, window, cell };
  const squares: Square[] = [];
  let side = cell;
  for await (const part of calls.stream(HistoryService.method.density, request, signal)) {
    if (part.header !== undefined) side = part.cell;
    part.columns.forEach((column, at) => {
      const [west, south] = [column * side, part.rows[at] * side];
      const count = Number(part.fixes[at]);
      squares.push({ west, south, east: west + side, north: south + side, count });
    });
  }
  return squares;
}

/** The side of a square for `pastDensity`, in units of the space. */
export function pastCell(space: Space, zoom: number): number {
  const side = 2 ** -(Math.floor(zoom) + Math.log2(512 / PIXELS));
  return Math.abs(space.fromWorldX(0.5 + side) - space.fromWorldX(0.5));
}

/** Clips a square to the space. Its east and north sides belong to the neighbouring squares. */
function inSpace(space: Space, world: Bounds): Bounds {
  const { bounds } = space;
  let [west, east] = [space.fromWorldX(world.west), space.fromWorldX(world.east)];
  if (space.isGeographic) {
    const turns = Math.floor((west + 180) / 360) * 360;
    [west, east] = [west - turns, east - turns];
  }
  const inner = 1 - 1e-6;
  return {
    west: Math.max(bounds.west, west),
    south: Math.max(bounds.south, space.fromWorldY(world.south)),
    east: Math.min(bounds.east, west + (east - west) * inner),
    north: Math.min(bounds.north, space.fromWorldY(world.south + (world.north - world.south) * inner)),
  };
}

function rectangle(value: Bounds): Region {
  return create(RegionSchema, { kind: { case: "rectangle", value } });
}
