// Applies rows of snapshots, events and answers to an object table.

import { EventKind } from "../../generated/shoal/v1/subscription_pb";
import type { RowColumns } from "../wire/row-columns";
import type { ObjectTable } from "./object-table";
import type { Space } from "./space";

/** Reports the fix of every row of the columns to the table. */
export function applyRows(table: ObjectTable, space: Space, rows: RowColumns, nowMs: number): void {
  for (let row = 0; row < checkedLength(rows); row++) putRow(table, space, rows, row, nowMs);
}

/** Applies events of the region of the view. */
export function applyEvents(
  table: ObjectTable,
  space: Space,
  rows: RowColumns,
  nowMs: number,
): void {
  for (let row = 0; row < checkedLength(rows); row++) {
    const kind = rows.kind[row];
    if (kind === EventKind.ENTER || kind === EventKind.MOVE) {
      putRow(table, space, rows, row, nowMs);
    } else if (kind !== EventKind.CROSS) {
      table.remove(rows.low[row], rows.high[row]);
    }
  }
}

/** Lists that are present are equally long. */
function checkedLength(rows: RowColumns): number {
  if (rows.fixes !== rows.length) throw new RangeError("rows without their fixes");
  return rows.length;
}

function putRow(
  table: ObjectTable,
  space: Space,
  rows: RowColumns,
  row: number,
  nowMs: number,
): void {
  const x = space.toWorldX(rows.x[row]);
  const y = space.toWorldY(rows.y[row]);
  table.report(rows.low[row], rows.high[row], x, y, rows.heading[row], nowMs);
}
