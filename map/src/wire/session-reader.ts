// Reads SubscribeResponse into columns.
//
// Snapshots and events are most of what a page receives, so their rows go from the bytes of the
// message into typed arrays. Everything else is decoded by generated code.

import { fromBinary } from "@bufbuild/protobuf";

import {
  GapSchema,
  LaggedSchema,
  type Lagged,
  SessionOpenedSchema,
  type SessionOpened,
} from "../../generated/shoal/v1/subscription_pb";
import { RowColumns } from "./row-columns";
import { WireReader } from "./wire-reader";

/** What a session reports, in the order of its messages. */
export interface SessionEvents {
  opened(message: SessionOpened): void;
  /** A part of a snapshot. The columns are valid during the call. */
  members(region: number, isFirst: boolean, isLast: boolean, total: number, rows: RowColumns): void;
  /** Events of a region. The columns are valid during the call. */
  events(region: number, clockMs: number, rows: RowColumns): void;
  /** The clock of the fleet. */
  clock(clockMs: number): void;
  /** Snapshots of all regions follow. */
  gap(): void;
  /** Ignore events of these regions until their snapshot; all regions if there are none. */
  lagged(message: Lagged): void;
}

/** Fields of SubscribeResponse. */
const Field = { token: 3, opened: 5, snapshot: 6, events: 7, progress: 8, gap: 9, lagged: 10 };

export class SessionReader {
  private readonly rows = new RowColumns();

  /** Reports a message, and returns its resume token. */
  read(message: Uint8Array, to: SessionEvents): Uint8Array {
    let token = message.subarray(0, 0);
    const reader = new WireReader(message);
    while (reader.next()) {
      switch (reader.field) {
        case Field.token:
          token = message.slice(...reader.span());
          break;
        case Field.opened:
          to.opened(fromBinary(SessionOpenedSchema, message.subarray(...reader.span())));
          break;
        case Field.snapshot:
          this.readParts(reader.inner(), (part) => this.readMembers(part, to), to);
          break;
        case Field.events: {
          const clockMs = clockOf(reader);
          this.readParts(reader.inner(), (part) => this.readEvents(part, clockMs, to), to);
          break;
        }
        case Field.progress:
          this.readParts(reader.inner(), (part) => part.skip(), to);
          break;
        case Field.gap:
          fromBinary(GapSchema, message.subarray(...reader.span()));
          to.gap();
          break;
        case Field.lagged:
          to.lagged(fromBinary(LaggedSchema, message.subarray(...reader.span())));
          break;
        default:
          reader.skip();
      }
    }
    return token;
  }

  /** Fields that SnapshotChunk and EventBatch share; Progress has the same clock field. */
  private readParts(
    reader: WireReader,
    readPart: (reader: WireReader) => void,
    to: SessionEvents,
  ): void {
    while (reader.next()) {
      if (reader.field === 2) to.clock(reader.varint());
      else if (reader.field === 3) readPart(reader);
      else reader.skip();
    }
  }

  private readMembers(outer: WireReader, to: SessionEvents): void {
    const { rows } = this;
    rows.clear();
    let [region, total, first, last] = [0, 0, 0, 0];
    const reader = outer.inner();
    while (reader.next()) {
      if (reader.field === 1) region = reader.varint();
      else if (reader.field === 2) total = reader.varint();
      else if (reader.field === 3) first = reader.varint();
      else if (reader.field === 4) last = reader.varint();
      else if (reader.field === 5) rows.readObjects(reader);
      else if (reader.field === 6) rows.readFix(reader);
      else reader.skip();
    }
    to.members(region, first !== 0, last !== 0, total, rows);
  }

  private readEvents(outer: WireReader, clockMs: number, to: SessionEvents): void {
    const { rows } = this;
    rows.clear();
    let region = 0;
    const reader = outer.inner();
    while (reader.next()) {
      if (reader.field === 1) region = reader.varint();
      else if (reader.field === 2) rows.readObjects(reader);
      else if (reader.field === 3) rows.readKinds(reader);
      else if (reader.field === 4) rows.readFix(reader);
      else reader.skip();
    }
    to.events(region, clockMs, rows);
  }
}

/** Reads the clock of the EventBatch at the reader's position. */
function clockOf(reader: WireReader): number {
  const at = reader.at;
  const batch = reader.inner();
  reader.at = at;
  while (batch.next()) {
    if (batch.field === 2) return batch.varint();
    batch.skip();
  }
  return 0;
}
