// The fleet at a time in the past, and its replay from that time.

import { create } from "@bufbuild/protobuf";

import { HistoryService, TimeWindowSchema } from "../../generated/shoal/v1/history_pb";
import type { Region } from "../../generated/shoal/v1/query_pb";
import { readAnswer } from "../wire/answer-reader";
import type { Calls } from "../wire/calls";
import { RowColumns } from "../wire/row-columns";
import { pastCell, pastDensity, type Square } from "./density";
import type { ObjectTable } from "./object-table";
import { applyRows } from "./row-sink";
import { type Bounds, type Space } from "./space";
import { followedBounds, regionOf } from "./view-region";

/** A state with more objects is shown as density. */
const POINTS_MAX = 150_000;
/** A view counts as settled after this time. */
const SETTLE_MS = 200;
/** How fast time passes when the past is played. */
export const PLAY_SPEED = 60;

export interface PastTarget {
  drawn(showsPoints: boolean, squares: Square[]): void;
  reached(timeMs: number): void;
  /** The replay is over. */
  ended(): void;
  failed(error: unknown): void;
}

export class Past {
  private readonly rows = new RowColumns();
  private asked = new AbortController();
  private followed: Bounds | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isPlaying = false;
  timeMs = 0;

  constructor(
    private readonly calls: Calls,
    private readonly fleet: string,
    private readonly space: Space,
    private readonly table: ObjectTable,
    private readonly target: PastTarget,
  ) {}

  stop(): void {
    this.isPlaying = false;
    clearTimeout(this.timer);
    this.asked.abort();
  }

  /** Requests the state again if the view has left the requested region. */
  viewChanged(view: Bounds, zoom: number): void {
    if (this.isPlaying || followedBounds(view, this.followed) === this.followed) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.show(this.timeMs, view, zoom), SETTLE_MS);
  }

  /** Shows the state at a moment. A later call replaces an earlier one. */
  async show(timeMs: number, view: Bounds, zoom: number): Promise<void> {
    const signal = this.begin();
    this.timeMs = timeMs;
    this.followed = followedBounds(view, null);
    const region = regionOf(this.space, this.followed);
    try {
      if (await this.readState(timeMs, region, signal)) {
        this.target.drawn(true, []);
        return;
      }
      const { calls, fleet, space } = this;
      const cell = pastCell(space, zoom);
      this.followed = null;
      const squares = await pastDensity(calls, fleet, region, cell, timeMs, signal);
      if (!signal.aborted) this.target.drawn(false, squares);
    } catch (error) {
      if (!signal.aborted) this.target.failed(error);
    }
  }

  /** Plays what came after the moment that is shown. */
  async play(view: Bounds, endMs: number): Promise<void> {
    const signal = this.begin();
    this.isPlaying = true;
    const region = regionOf(this.space, followedBounds(view, null));
    const window = create(TimeWindowSchema, {
      fromMs: BigInt(this.timeMs),
      toMs: BigInt(Math.max(endMs, this.timeMs)),
    });
    const request = { fleet: this.fleet, region, window, speed: PLAY_SPEED };
    this.table.glides = true;
    try {
      const { replay } = HistoryService.method;
      for await (const message of this.calls.bytes(replay, request, signal)) {
        if (signal.aborted) return;
        const reachedMs = this.apply(message);
        if (reachedMs > 0) {
          this.timeMs = reachedMs;
          this.target.reached(reachedMs);
        }
      }
    } catch (error) {
      if (!signal.aborted) this.target.failed(error);
    }
    if (signal.aborted) return;
    this.isPlaying = false;
    this.target.ended();
  }

  /** Fills the table. False if there are too many objects. */
  private async readState(timeMs: number, region: Region, signal: AbortSignal): Promise<boolean> {
    const request = { fleet: this.fleet, region, timeMs: BigInt(timeMs) };
    this.table.glides = false;
    this.table.beginSnapshot();
    for await (const message of this.calls.bytes(HistoryService.method.asOf, request, signal)) {
      if (signal.aborted) return true;
      this.apply(message);
      if (this.table.length > POINTS_MAX) return false;
    }
    this.table.endSnapshot();
    return true;
  }

  private apply(message: Uint8Array): number {
    this.rows.clear();
    const reachedMs = readAnswer(message, this.rows);
    applyRows(this.table, this.space, this.rows, performance.now());
    return reachedMs;
  }

  private begin(): AbortSignal {
    this.stop();
    this.asked = new AbortController();
    return this.asked.signal;
  }
}
