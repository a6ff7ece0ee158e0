// Frames of gRPC-Web, however the network cuts them, and licences of packages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { isAllowed } from "../../build/licences.mjs";
import { FrameReader } from "../../src/wire/grpc-web";
import { Random } from "./random";

test("frames are the same whatever the chunks are", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const frames = Array.from({ length: 1 + random.below(6) }, () => ({
      flags: random.pick([0, 0x80]),
      bytes: Uint8Array.from({ length: random.below(50) }, () => random.below(256)),
    }));
    const wire = frames.flatMap(({ flags, bytes }) => [flags, 0, 0, 0, bytes.length, ...bytes]);
    const reader = new FrameReader();
    const found: { flags: number; bytes: Uint8Array }[] = [];
    // An empty chunk at the end lets a frame without bytes out.
    for (let at = 0; at < wire.length; ) {
      const end = Math.min(wire.length, at + 1 + random.below(20));
      found.push(...reader.push(Uint8Array.from(wire.slice(at, end))));
      at = end;
    }
    assert.deepEqual(found, frames, `seed ${seed}`);
  }
});

test("a frame that is too long is refused before memory is taken for it", () => {
  const reader = new FrameReader();
  assert.throws(() => [...reader.push(Uint8Array.from([0, 0xff, 0, 0, 0]))], /too long/);
});

test("a licence is allowed if it can be met without copyleft", () => {
  for (const name of ["MIT", "(Apache-2.0 AND BSD-3-Clause)", "GPL-3.0 OR ISC"]) {
    assert.ok(isAllowed(name), name);
  }
  for (const name of ["", "GPL-3.0", "(MIT AND AGPL-3.0)", "UNLICENSED"]) {
    assert.ok(!isAllowed(name), name);
  }
});
