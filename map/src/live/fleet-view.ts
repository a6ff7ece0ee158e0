// One fleet on the map, live. Decides whether points or density are shown, and keeps the
// subscription.
//
// The page follows the visible region while it has few enough objects, and counts objects by squares
// where it has more. Zones are regions of the same session.

import { create } from "@bufbuild/protobuf";

import { Projection, QueryService } from "../../generated/shoal/v1/query_pb";
import { EventKind, RegionSubscriptionSchema } from "../../generated/shoal/v1/subscription_pb";
import type { Calls } from "../wire/calls";
import type { RowColumns } from "../wire/row-columns";
import { liveDensity, type Square } from "./density";
import { ObjectTable } from "./object-table";
import { applyEvents, applyRows } from "./row-sink";
import { Session, type SessionState } from "./session";
import type { Bounds, Space } from "./space";
import { followedBounds, regionOf } from "./view-region";
import { VIEW_REGION, type Zone, zoneSubscription } from "./zones";

export type Drawing = "automatic" | "points" | "density";

/** Most objects that are shown as points, by the user's setting; more are shown as density. */
const POINTS_MAX = { automatic: 150_000, points: 1_000_000, density: 0 };
/** Points remain up to this multiple of the limit, so that the drawing does not alternate. */
const POINTS_HYSTERESIS = 1.2;
const DENSITY_MS = 2_000;
/** A view counts as settled after this time. */
const SETTLE_MS = 150;

export interface ZoneEvent {
  zone: Zone;
  kind: number;
  object: bigint;
  clockMs: number;
}

export interface FleetViewTarget {
  state(state: SessionState): void;
  /** What to draw changed: points, or these squares. */
  drawn(showsPoints: boolean, squares: Square[]): void;
  zoneCount(zone: number, objects: number): void;
  zoneEvents(events: ZoneEvent[]): void;
  zoneRefused(zone: Zone, message: string): void;
  failed(error: unknown): void;
}

export class FleetView {
  readonly table = new ObjectTable();
  /** Incremented with every change of the table. */
  revision = 0;
  private readonly session: Session;
  private readonly zones = new Map<number, Zone>();
  /** Objects in each zone. */
  private readonly members = new Map<number, number>();
  private view: Bounds | null = null;
  private zoom = 0;
  private followed: Bounds | null = null;
  private showsPoints = true;
  private drawing: Drawing = "automatic";
  private isPaused = false;
  private asked = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly calls: Calls,
    readonly fleet: string,
    readonly space: Space,
    private readonly target: FleetViewTarget,
  ) {
    this.session = new Session(calls, fleet, {
      state: (state) => target.state(state),
      members: (region, isFirst, isLast, total, rows) =>
        this.onMembers(region, isFirst, isLast, total, rows),
      events: (region, clockMs, rows) => this.onEvents(region, clockMs, rows),
      clock: () => undefined,
      refused: (region, message) => this.onRefused(region, message),
    });
  }

  start(): void {
    this.session.run().catch((error: unknown) => this.target.failed(error));
  }

  close(): void {
    this.isPaused = true;
    clearTimeout(this.timer);
    this.asked.abort();
    this.session.close();
  }

  retry(): void {
    this.session.retry();
    this.schedule();
  }

  /** The visible part of the world, and the zoom of the map. */
  setView(view: Bounds, zoom: number): void {
    this.view = view;
    this.zoom = zoom;
    this.schedule();
  }

  setDrawing(drawing: Drawing): void {
    this.drawing = drawing;
    this.followed = null;
    this.schedule();
  }

  /** Stops following the view while the past is shown. Zones continue. */
  pause(): void {
    this.isPaused = true;
    clearTimeout(this.timer);
    this.asked.abort();
    this.session.dropRegion(VIEW_REGION);
    this.followed = null;
  }

  resume(): void {
    this.isPaused = false;
    this.table.clear();
    this.table.glides = true;
    this.schedule();
  }

  addZone(zone: Zone): void {
    this.zones.set(zone.id, zone);
    this.session.setRegion(zoneSubscription(zone));
  }

  removeZone(zone: Zone): void {
    this.zones.delete(zone.id);
    this.members.delete(zone.id);
    this.session.dropRegion(zone.id);
  }

  private schedule(waitMs = SETTLE_MS): void {
    if (this.isPaused) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh(), waitMs);
  }

  /** Chooses between points and density for the view, and asks for what is missing. */
  private async refresh(): Promise<void> {
    const { view } = this;
    if (view === null) return;
    const wanted = followedBounds(view, this.followed);
    if (wanted === this.followed && this.showsPoints) return;
    this.asked.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    try {
      const count = this.drawing === "density" ? 1 : await this.countIn(wanted, signal);
      if (count <= POINTS_MAX[this.drawing]) this.followPoints(wanted);
      else await this.drawDensity(view, signal);
    } catch (error) {
      if (signal.aborted) return;
      // The session reports a server that cannot be reached.
      this.schedule(DENSITY_MS);
    }
  }

  private async countIn(world: Bounds, signal: AbortSignal): Promise<number> {
    const options = { fleet: this.fleet, projection: Projection.COUNT };
    const request = { options, region: regionOf(this.space, world) };
    const answer = this.calls.stream(QueryService.method.range, request, signal);
    for await (const part of answer) return Number(part.header?.total ?? 0n);
    return 0;
  }

  private followPoints(world: Bounds): void {
    this.followed = world;
    this.session.setRegion(
      create(RegionSubscriptionSchema, {
        regionId: BigInt(VIEW_REGION),
        region: regionOf(this.space, world),
        projection: Projection.FIXES,
        snapshot: true,
      }),
    );
    if (!this.showsPoints) this.table.clear();
    this.showsPoints = true;
    this.target.drawn(true, []);
  }

  private async drawDensity(view: Bounds, signal: AbortSignal): Promise<void> {
    if (this.showsPoints || this.followed !== null) {
      this.session.dropRegion(VIEW_REGION);
      this.table.clear();
    }
    this.followed = null;
    this.showsPoints = false;
    const squares = await liveDensity(
      this.calls,
      this.fleet,
      this.space,
      view,
      this.zoom,
      signal,
    );
    this.target.drawn(false, squares);
    this.schedule(DENSITY_MS);
  }

  private onMembers(
    region: number,
    isFirst: boolean,
    isLast: boolean,
    total: number,
    rows: RowColumns,
  ): void {
    if (region !== VIEW_REGION) {
      if (isFirst) this.setMembers(region, total);
      return;
    }
    if (isFirst) this.table.beginSnapshot();
    applyRows(this.table, this.space, rows, performance.now());
    if (isLast) this.table.endSnapshot();
    this.revision++;
    this.checkCount(total);
  }

  private onEvents(region: number, clockMs: number, rows: RowColumns): void {
    if (region !== VIEW_REGION) {
      this.onZoneEvents(region, clockMs, rows);
      return;
    }
    applyEvents(this.table, this.space, rows, performance.now());
    this.revision++;
    this.checkCount(this.table.length);
  }

  /** Too many objects have come into the view for points. */
  private checkCount(objects: number): void {
    if (objects <= POINTS_MAX[this.drawing] * POINTS_HYSTERESIS) return;
    this.followed = null;
    this.schedule();
  }

  private setMembers(zone: number, objects: number): void {
    this.members.set(zone, objects);
    this.target.zoneCount(zone, objects);
  }

  private onZoneEvents(region: number, clockMs: number, rows: RowColumns): void {
    const zone = this.zones.get(region);
    if (zone === undefined) return;
    let objects = this.members.get(region) ?? 0;
    const events: ZoneEvent[] = [];
    for (let row = 0; row < rows.length; row++) {
      const kind = rows.kind[row];
      if (kind === EventKind.ENTER) objects++;
      else if (kind !== EventKind.CROSS) objects--;
      events.push({ zone, kind, object: idOf(rows, row), clockMs });
    }
    this.setMembers(region, objects);
    this.target.zoneEvents(events);
  }

  private onRefused(region: number, message: string): void {
    const zone = this.zones.get(region);
    if (zone === undefined) return;
    this.zones.delete(region);
    this.target.zoneRefused(zone, message);
  }
}

function idOf(rows: RowColumns, row: number): bigint {
  return (BigInt(rows.high[row]) << 32n) | BigInt(rows.low[row]);
}
