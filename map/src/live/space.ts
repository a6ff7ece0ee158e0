// Where a fleet is on the world of the map.
//
// The world is the square of Web Mercator: x eastward and y northward, both from 0 to 1. A planar
// fleet lies in its middle, to scale, so that the same layers draw both kinds.

import type { Fleet } from "../../generated/shoal/v1/fleet_pb";

export interface Bounds {
  west: number;
  south: number;
  east: number;
  north: number;
}

export interface Space {
  readonly isGeographic: boolean;
  toWorldX(x: number): number;
  toWorldY(y: number): number;
  fromWorldX(worldX: number): number;
  fromWorldY(worldY: number): number;
  /** The whole space, in its own units. */
  readonly bounds: Bounds;
}

/** The greatest latitude of Web Mercator. A point beyond it is drawn at the edge. */
const LATITUDE_MAX = 85.051129;
/** The share of the world that the longer side of a plane takes. */
const PLANE_SIDE = 0.25;

class Geographic implements Space {
  readonly isGeographic = true;
  readonly bounds = { west: -180, south: -90, east: 180, north: 90 };

  toWorldX(x: number): number {
    return x / 360 + 0.5;
  }

  toWorldY(y: number): number {
    const latitude = Math.max(-LATITUDE_MAX, Math.min(LATITUDE_MAX, y));
    return 0.5 + Math.asinh(Math.tan((latitude * Math.PI) / 180)) / (2 * Math.PI);
  }

  fromWorldX(worldX: number): number {
    return (worldX - 0.5) * 360;
  }

  fromWorldY(worldY: number): number {
    return (Math.atan(Math.sinh((worldY - 0.5) * 2 * Math.PI)) * 180) / Math.PI;
  }
}

class Planar implements Space {
  readonly isGeographic = false;
  readonly bounds: Bounds;
  private readonly scale: number;

  constructor(width: number, height: number) {
    this.bounds = { west: 0, south: 0, east: width, north: height };
    this.scale = PLANE_SIDE / Math.max(width, height);
  }

  toWorldX(x: number): number {
    return 0.5 + (x - this.bounds.east / 2) * this.scale;
  }

  toWorldY(y: number): number {
    return 0.5 + (y - this.bounds.north / 2) * this.scale;
  }

  fromWorldX(worldX: number): number {
    return (worldX - 0.5) / this.scale + this.bounds.east / 2;
  }

  fromWorldY(worldY: number): number {
    return (worldY - 0.5) / this.scale + this.bounds.north / 2;
  }
}

const geographic: Space = new Geographic();

export function spaceOf(fleet: Fleet): Space {
  const kind = fleet.space?.kind;
  if (kind?.case !== "planar") return geographic;
  return new Planar(kind.value.widthM, kind.value.heightM);
}

/** The longitude and latitude at which the map shows a position. */
export function toLngLat(space: Space, x: number, y: number): [number, number] {
  if (space.isGeographic) return [x, y];
  return [
    geographic.fromWorldX(space.toWorldX(x)),
    geographic.fromWorldY(space.toWorldY(y)),
  ];
}

/** The position that the map shows at a longitude and latitude. */
export function fromLngLat(space: Space, longitude: number, latitude: number): [number, number] {
  if (space.isGeographic) return [wrapLongitude(longitude), latitude];
  return [
    space.fromWorldX(geographic.toWorldX(longitude)),
    space.fromWorldY(geographic.toWorldY(latitude)),
  ];
}

/** A longitude in [-180, 180). */
export function wrapLongitude(longitude: number): number {
  return ((((longitude + 180) % 360) + 360) % 360) - 180;
}
