// The reader of session messages against generated code, and on bytes that are no message.

import assert from "node:assert/strict";
import { test } from "node:test";

import { create, toBinary } from "@bufbuild/protobuf";

import {
  EventKind,
  type SubscribeResponse,
  SubscribeResponseSchema,
} from "../../generated/shoal/v1/subscription_pb";
import type { RowColumns } from "../../src/wire/row-columns";
import { type SessionEvents, SessionReader } from "../../src/wire/session-reader";
import { Random } from "./random";

function randomRows(random: Random): { objects: bigint[]; fixes: object[] } {
  const count = random.below(40);
  const objects = Array.from(
    { length: count },
    () => (BigInt(random.below(2 ** 31)) << 33n) | BigInt(random.below(2 ** 31)),
  );
  const fixes = objects.map(() => ({
    timeMs: BigInt(random.below(2 ** 31)) * 1_000n,
    // Zero is left out on the wire.
    x: random.below(5) === 0 ? 0 : random.share() * 360 - 180,
    y: random.share() * 180 - 90,
    speedMps: random.below(2) === 0 ? undefined : random.share(),
    headingDeg: random.below(2) === 0 ? undefined : random.below(360),
    altitudeM: random.below(2) === 0 ? undefined : random.share(),
    state: random.below(3),
  }));
  return { objects, fixes };
}

function randomMessage(random: Random): SubscribeResponse {
  const regions = Array.from({ length: 1 + random.below(4) }, (_, region) => {
    const { objects, fixes } = randomRows(random);
    const kinds = objects.map(() => random.pick([EventKind.ENTER, EventKind.MOVE, EventKind.LEFT]));
    const [first, last] = [random.below(2) === 0, random.below(2) === 0];
    const total = BigInt(objects.length);
    return { regionId: BigInt(region + 1), objects, fixes, kinds, first, last, total };
  });
  const shared = { epoch: 9n, clockMs: 1_700_000_000_000n + BigInt(random.below(1_000)) };
  const kind = random.pick([
    { case: "snapshot", value: { ...shared, regions } },
    { case: "events", value: { ...shared, regions } },
    { case: "progress", value: shared },
    { case: "lagged", value: { regionIds: [3n, 4n] } },
    { case: "opened", value: { session: new Uint8Array([1, 2]), resumed: true } },
  ]);
  const resumeToken = new Uint8Array([random.below(256), 7]);
  return create(SubscribeResponseSchema, { resumeToken, kind } as never);
}

function listRows(rows: RowColumns): object[] {
  return Array.from({ length: rows.length }, (_, row) => ({
    object: (BigInt(rows.high[row]) << 32n) | BigInt(rows.low[row]),
    timeMs: BigInt(rows.timeMs[row]),
    x: rows.x[row],
    y: rows.y[row],
    heading: Number.isNaN(rows.heading[row]) ? undefined : rows.heading[row],
  }));
}

class Recorder implements SessionEvents {
  readonly found: unknown[] = [];
  opened({ session, resumed }: { session: Uint8Array; resumed: boolean }): void {
    this.found.push(["opened", [...session], resumed]);
  }
  members(...[region, first, last, total, rows]: Parameters<SessionEvents["members"]>): void {
    this.found.push(["members", region, first, last, total, listRows(rows)]);
  }
  events(region: number, clockMs: number, rows: RowColumns): void {
    const kinds = [...rows.kind.subarray(0, rows.length)];
    this.found.push(["events", region, clockMs, kinds, listRows(rows)]);
  }
  clock(clockMs: number): void {
    this.found.push(["clock", clockMs]);
  }
  gap(): void {
    this.found.push(["gap"]);
  }
  lagged({ regionIds }: { regionIds: bigint[] }): void {
    this.found.push(["lagged", regionIds]);
  }
}

/** What a recorder finds, from the message itself. */
function expected({ kind }: SubscribeResponse): unknown[] {
  if (kind.case === "opened") return [["opened", [...kind.value.session], kind.value.resumed]];
  if (kind.case === "lagged") return [["lagged", kind.value.regionIds]];
  if (kind.case === "progress") return [["clock", Number(kind.value.clockMs)]];
  if (kind.case !== "snapshot" && kind.case !== "events") return [];
  const clockMs = Number(kind.value.clockMs);
  const found: unknown[] = [["clock", clockMs]];
  for (const part of kind.value.regions) {
    const rows = part.objects.map((object, row) => {
      const { timeMs, x, y, headingDeg } = part.fixes[row];
      return { object, timeMs, x, y, heading: headingDeg };
    });
    const region = Number(part.regionId);
    if ("kinds" in part) found.push(["events", region, clockMs, part.kinds, rows]);
    else found.push(["members", region, part.first, part.last, Number(part.total), rows]);
  }
  return found;
}

test("a message is read as generated code reads it", () => {
  const reader = new SessionReader();
  for (let seed = 1; seed <= 300; seed++) {
    const message = randomMessage(new Random(seed));
    const recorder = new Recorder();
    const token = reader.read(toBinary(SubscribeResponseSchema, message), recorder);
    assert.deepEqual([...token], [...message.resumeToken], `seed ${seed}`);
    assert.deepEqual(recorder.found, expected(message), `seed ${seed}`);
  }
});

test("bytes that are no message end in an error, not in a loop", () => {
  const reader = new SessionReader();
  let refused = 0;
  for (let seed = 1; seed <= 2_000; seed++) {
    const random = new Random(seed);
    const bytes = toBinary(SubscribeResponseSchema, randomMessage(random));
    for (let change = 0; change < 3; change++) bytes[random.below(bytes.length)] = random.below(256);
    const cut = bytes.subarray(0, random.below(bytes.length + 1));
    try {
      reader.read(cut, new Recorder());
    } catch (error) {
      assert.ok(error instanceof Error, `seed ${seed}`);
      refused++;
    }
  }
  assert.ok(refused > 500, `${refused} of 2,000 were refused`);
});
