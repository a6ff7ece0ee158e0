// Reads the fields of a protobuf message in place, without an object for any of them.
//
// Throws RangeError if the bytes are not a message: a length goes beyond the end, a varint has more
// than ten bytes, or a wire type is unknown.

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

export class WireReader {
  /** The field that `next` found. */
  field = 0;
  /** Its wire type. */
  type = 0;
  at: number;
  readonly view: DataView;

  constructor(
    readonly bytes: Uint8Array,
    from = 0,
    readonly end = bytes.length,
  ) {
    this.at = from;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Moves to the next field. False at the end. */
  next(): boolean {
    if (this.at >= this.end) return false;
    const tag = this.varint();
    this.field = Math.floor(tag / 8);
    this.type = tag % 8;
    return true;
  }

  /** An unsigned varint; exact up to 2^53. */
  varint(): number {
    let value = 0;
    let scale = 1;
    for (let length = 0; length < 10; length++) {
      if (this.at >= this.end) throw new RangeError("a varint ends outside its message");
      const byte = this.bytes[this.at++];
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw new RangeError("a varint has more than ten bytes");
  }

  /** Start and end of the content of a field of bytes. Moves past the field. */
  span(): [number, number] {
    if (this.type !== BYTES) throw new RangeError(`field ${this.field} has no length`);
    const length = this.varint();
    return [this.advance(length), this.at];
  }

  /** A reader of an inner message. */
  inner(): WireReader {
    const [from, to] = this.span();
    return new WireReader(this.bytes, from, to);
  }

  /** Passes over the field. */
  skip(): void {
    switch (this.type) {
      case VARINT:
        this.varint();
        return;
      case FIXED64:
        this.advance(8);
        return;
      case BYTES:
        this.span();
        return;
      case FIXED32:
        this.advance(4);
        return;
      default:
        throw new RangeError(`wire type ${this.type} is unknown`);
    }
  }

  /** Passes over bytes, and returns where they begin. */
  advance(length: number): number {
    const from = this.at;
    if (length > this.end - from) throw new RangeError("a field ends outside its message");
    this.at = from + length;
    return from;
  }
}
