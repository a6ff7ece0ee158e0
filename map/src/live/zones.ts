// Zones that the user has drawn, by fleet. They are kept until the tab closes.

import { create } from "@bufbuild/protobuf";

import { RegionSchema } from "../../generated/shoal/v1/query_pb";
import { Projection } from "../../generated/shoal/v1/query_pb";
import {
  Evaluation,
  EventKind,
  type RegionSubscription,
  RegionSubscriptionSchema,
} from "../../generated/shoal/v1/subscription_pb";

/** A polygon in the space of its fleet. */
export interface Zone {
  /** Id of the zone's region in the session, from 2 on. Region 1 is the view. */
  id: number;
  name: string;
  /** The corners. The first one is not repeated at the end. */
  corners: [number, number][];
}

export const VIEW_REGION = 1;
/** More zones than this are refused, so that the list stays legible. */
export const ZONES_MAX = 64;

/** Events that begin or end a membership, and crossings between two reports. */
const EVENTS = [
  EventKind.ENTER,
  EventKind.CROSS,
  EventKind.LEFT,
  EventKind.REMOVED,
  EventKind.EXPIRED,
  EventKind.FILTERED,
  EventKind.REGION_CHANGED,
  EventKind.CLEARED,
];

export function zoneSubscription(zone: Zone): RegionSubscription {
  const ring = { x: zone.corners.map(([x]) => x), y: zone.corners.map(([, y]) => y) };
  return create(RegionSubscriptionSchema, {
    regionId: BigInt(zone.id),
    region: create(RegionSchema, { kind: { case: "polygon", value: { rings: [ring] } } }),
    events: EVENTS,
    projection: Projection.FIXES,
    evaluation: Evaluation.CROSSING,
    snapshot: true,
  });
}

const key = (fleet: string): string => `shoal.zones.${fleet}`;

export function loadZones(fleet: string): Zone[] {
  try {
    const stored = JSON.parse(sessionStorage.getItem(key(fleet)) ?? "[]") as unknown;
    return Array.isArray(stored) ? stored.filter(isZone).slice(0, ZONES_MAX) : [];
  } catch {
    return [];
  }
}

export function saveZones(fleet: string, zones: Zone[]): void {
  sessionStorage.setItem(key(fleet), JSON.stringify(zones));
}

function isZone(value: unknown): value is Zone {
  const { id, name, corners } = value as Partial<Zone>;
  return Number.isInteger(id) && typeof name === "string" && Array.isArray(corners);
}
