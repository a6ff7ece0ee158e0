// Rows of an answer as columns: object, event kind and the fields of its fix.
//
// Columns grow by doubling and are used again for the next message. A column is valid up to `length`.

import { WireReader } from "./wire-reader";

const BYTES = 2;

/** Tags of FixRecord: field number and wire type. */
const TIME_TAG = 0x09;
const X_TAG = 0x11;
const Y_TAG = 0x19;
const HEADING_TAG = 0x29;

export class RowColumns {
  length = 0;
  /** Object ids, low and high halves. */
  low = new Uint32Array(1024);
  high = new Uint32Array(1024);
  /** EventKind of each row; filled by events alone. */
  kind = new Uint8Array(1024);
  /** Event time, Unix milliseconds. */
  timeMs = new Float64Array(1024);
  x = new Float64Array(1024);
  y = new Float64Array(1024);
  /** Degrees; NaN where unknown. */
  heading = new Float32Array(1024);

  /** Number of rows with a kind, and of rows with a fix. */
  kinds = 0;
  fixes = 0;

  clear(): void {
    this.length = 0;
    this.kinds = 0;
    this.fixes = 0;
  }

  /** Appends the objects of a packed or single field of fixed64. */
  readObjects(reader: WireReader): void {
    const isPacked = reader.type === BYTES;
    const [from, to] = isPacked ? reader.span() : [reader.advance(8), reader.at];
    const count = (to - from) >>> 3;
    this.reserve(this.length + count);
    for (let row = 0; row < count; row++) {
      this.low[this.length] = reader.view.getUint32(from + row * 8, true);
      this.high[this.length] = reader.view.getUint32(from + row * 8 + 4, true);
      this.length++;
    }
  }

  /** Appends the kinds of a packed or single field of an enumeration. */
  readKinds(reader: WireReader): void {
    if (reader.type !== BYTES) {
      this.pushKind(reader.varint());
      return;
    }
    const inner = reader.inner();
    while (inner.at < inner.end) this.pushKind(inner.varint());
  }

  private pushKind(kind: number): void {
    this.reserve(this.kinds + 1);
    this.kind[this.kinds++] = Math.min(kind, 255);
  }

  /** Appends one FixRecord. */
  readFix(reader: WireReader): void {
    const [from, to] = reader.span();
    const row = this.fixes++;
    this.reserve(row + 1);
    this.timeMs[row] = 0;
    this.x[row] = 0;
    this.y[row] = 0;
    this.heading[row] = Number.NaN;
    const { bytes, view } = reader;
    let at = from;
    // The fields that the map draws, at fixed lengths; the others by their wire type.
    while (at < to) {
      const tag = bytes[at];
      const isDouble = (tag & 7) === 1 && tag < 0x80;
      if (!isDouble || at + 9 > to) {
        at = this.skipField(reader, at, to);
        continue;
      }
      if (tag === X_TAG) this.x[row] = view.getFloat64(at + 1, true);
      else if (tag === Y_TAG) this.y[row] = view.getFloat64(at + 1, true);
      else if (tag === TIME_TAG) this.timeMs[row] = readInt64(view, at + 1);
      else if (tag === HEADING_TAG) this.heading[row] = view.getFloat64(at + 1, true);
      at += 9;
    }
  }

  private skipField(reader: WireReader, from: number, to: number): number {
    const rest = new WireReader(reader.bytes, from, to);
    rest.next();
    rest.skip();
    return rest.at;
  }

  private reserve(rows: number): void {
    if (rows <= this.low.length) return;
    const size = Math.max(rows, this.low.length * 2);
    this.low = grown(this.low, new Uint32Array(size));
    this.high = grown(this.high, new Uint32Array(size));
    this.kind = grown(this.kind, new Uint8Array(size));
    this.timeMs = grown(this.timeMs, new Float64Array(size));
    this.x = grown(this.x, new Float64Array(size));
    this.y = grown(this.y, new Float64Array(size));
    this.heading = grown(this.heading, new Float32Array(size));
  }
}

/** A signed 64-bit integer; exact up to 2^53, which times are. */
function readInt64(view: DataView, at: number): number {
  return view.getInt32(at + 4, true) * 4294967296 + view.getUint32(at, true);
}

function grown<T extends Uint32Array | Uint8Array | Float64Array | Float32Array>(
  old: T,
  larger: T,
): T {
  larger.set(old);
  return larger;
}
