// Which region to follow for what the user sees.
//
// The region is larger than the view, and stays while the view is inside it and not much smaller, so
// that panning and small zooms cost no call.

import type { Region } from "../../generated/shoal/v1/query_pb";
import { create } from "@bufbuild/protobuf";
import { RegionSchema } from "../../generated/shoal/v1/query_pb";
import { type Bounds, type Space, wrapLongitude } from "./space";

/** Space around the view, as a share of its width and height. */
const MARGIN = 0.4;
/** The region is replaced when its area exceeds this multiple of the area of a new one. */
const AREA_RATIO_MAX = 5;

/** The region to follow, in world coordinates: `current` as long as it fits. */
export function followedBounds(view: Bounds, current: Bounds | null): Bounds {
  const fresh = grow(view);
  if (current === null || !contains(current, view)) return fresh;
  return area(current) > area(fresh) * AREA_RATIO_MAX ? fresh : current;
}

/** A rectangle of the space, cut at its borders; west > east across the antimeridian. */
export function regionOf(space: Space, world: Bounds): Region {
  const { bounds } = space;
  let west = space.fromWorldX(world.west);
  let east = space.fromWorldX(world.east);
  if (space.isGeographic) {
    const isWhole = east - west >= 360;
    west = isWhole ? -180 : wrapLongitude(west);
    east = isWhole ? 180 : wrapLongitude(east);
  }
  const south = Math.max(bounds.south, space.fromWorldY(world.south));
  const north = Math.min(bounds.north, space.fromWorldY(world.north));
  // The world of the map ends before the poles do.
  return create(RegionSchema, {
    kind: {
      case: "rectangle",
      value: {
        west,
        south: world.south <= 0 ? bounds.south : Math.min(south, bounds.north),
        east,
        north: world.north >= 1 ? bounds.north : Math.max(north, bounds.south),
      },
    },
  });
}

function grow(view: Bounds): Bounds {
  const [x, y] = [(view.east - view.west) * MARGIN, (view.north - view.south) * MARGIN];
  return {
    west: view.west - x,
    south: Math.max(0, view.south - y),
    east: view.east + x,
    north: Math.min(1, view.north + y),
  };
}

function contains(outer: Bounds, inner: Bounds): boolean {
  return (
    outer.west <= inner.west &&
    outer.east >= inner.east &&
    outer.south <= Math.max(0, inner.south) &&
    outer.north >= Math.min(1, inner.north)
  );
}

function area(bounds: Bounds): number {
  return (bounds.east - bounds.west) * (bounds.north - bounds.south);
}
