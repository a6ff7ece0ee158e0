// The selected object: its record, and its track.
//
// The track comes from the history where the server keeps one; else it grows while the object is
// selected.

import { HistoryService } from "../../generated/shoal/v1/history_pb";
import { type FixRecord, Projection, QueryService } from "../../generated/shoal/v1/query_pb";
import { readAnswer } from "../wire/answer-reader";
import type { Calls } from "../wire/calls";
import { RowColumns } from "../wire/row-columns";

/** How much of the past a track shows. */
export const TRACK_MS = 3_600_000;
/** Maximum number of fixes of a track; the server thins out longer ones. */
const TRACK_STEP = { $typeName: "google.protobuf.Duration", seconds: 1n, nanos: 0 } as const;
const TRACK_POINTS_MAX = 20_000;
const REFRESH_MS = 1_000;

export interface SelectionTarget {
  record(object: bigint, fix: FixRecord | null): void;
  track(points: [number, number][]): void;
  failed(error: unknown): void;
}

export class Selection {
  object: bigint | null = null;
  private track: [number, number][] = [];
  private asked = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private momentMs: number | null = null;

  constructor(
    private readonly calls: Calls,
    private readonly fleet: string,
    private readonly hasHistory: () => boolean,
    private readonly target: SelectionTarget,
  ) {}

  /** Selects an object as it is now, or as it was at a moment. Null clears the selection. */
  select(object: bigint | null, momentMs: number | null): void {
    this.asked.abort();
    this.asked = new AbortController();
    clearTimeout(this.timer);
    this.object = object;
    this.momentMs = momentMs;
    this.track = [];
    this.target.track([]);
    if (object === null) return;
    void this.refresh(object, this.asked.signal, true);
  }

  private async refresh(object: bigint, signal: AbortSignal, isFirst: boolean): Promise<void> {
    try {
      const fix = await this.read(object, signal);
      if (signal.aborted) return;
      this.target.record(object, fix);
      if (isFirst && fix !== null && this.hasHistory()) {
        await this.readTrack(object, this.momentMs ?? Number(fix.timeMs), signal);
      }
      if (signal.aborted) return;
      if (fix !== null) this.extend(fix);
    } catch (error) {
      if (signal.aborted) return;
      this.target.failed(error);
    }
    if (this.momentMs !== null) return;
    this.timer = setTimeout(() => void this.refresh(object, signal, false), REFRESH_MS);
  }

  private async read(object: bigint, signal: AbortSignal): Promise<FixRecord | null> {
    const { fleet, momentMs } = this;
    const objects = [object];
    const options = { fleet, projection: Projection.FIXES };
    const answer =
      momentMs === null
        ? this.calls.stream(QueryService.method.get, { options, objects }, signal)
        : this.calls.stream(
            HistoryService.method.asOf,
            { fleet, objects, timeMs: BigInt(momentMs) },
            signal,
          );
    for await (const part of answer) if (part.fixes.length > 0) return part.fixes[0];
    return null;
  }

  private async readTrack(object: bigint, endMs: number, signal: AbortSignal): Promise<void> {
    const window = { fromMs: BigInt(endMs - TRACK_MS), toMs: BigInt(endMs) };
    const request = { fleet: this.fleet, objects: [object], window, every: TRACK_STEP };
    const rows = new RowColumns();
    const { trajectory } = HistoryService.method;
    for await (const message of this.calls.bytes(trajectory, request, signal)) {
      readAnswer(message, rows);
    }
    const points: [number, number][] = [];
    for (let row = 0; row < rows.fixes; row++) points.push([rows.x[row], rows.y[row]]);
    this.track = points.slice(-TRACK_POINTS_MAX);
  }

  private extend({ x, y }: FixRecord): void {
    const last = this.track.at(-1);
    if (last === undefined || last[0] !== x || last[1] !== y) this.track.push([x, y]);
    if (this.track.length > TRACK_POINTS_MAX) this.track.shift();
    this.target.track(this.track.slice());
  }
}
