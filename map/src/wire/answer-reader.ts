// Reads the streams of rows that Range, AsOf, Trajectory and Replay answer with: objects in field 2
// and their fixes in field 3 of each message.

import { RowColumns } from "./row-columns";
import { WireReader } from "./wire-reader";

/** ReplayResponse.time_ms. */
const TIME_FIELD = 4;

/** Appends the rows of a message. Returns the time that a replay has reached, 0 where there is none. */
export function readAnswer(message: Uint8Array, rows: RowColumns): number {
  let timeMs = 0;
  const reader = new WireReader(message);
  while (reader.next()) {
    if (reader.field === 2) rows.readObjects(reader);
    else if (reader.field === 3) rows.readFix(reader);
    else if (reader.field === TIME_FIELD && reader.type === 0) timeMs = reader.varint();
    else reader.skip();
  }
  return timeMs;
}
