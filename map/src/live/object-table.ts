// Where every object is and was: one row per object, in columns.
//
// Rows are dense: a removed row is replaced by the last one. Object ids have 64 bits and are kept as two
// halves in an open-addressing table, because a Map of bigint costs an allocation per report. A row
// moves from the position that was shown when its last report came to the reported one. The move
// takes as long as the time between its last two moves, so that it is steady and one report late.

/** A move takes between these times, whatever the interval of reports. */
const MOVE_MS_MIN = 50;
const MOVE_MS_MAX = 5_000;
/** An object that moves farther than this share of the world jumps instead of gliding. */
const GLIDE_MAX = 0.02;
const EMPTY = -1;

export class ObjectTable {
  /** Rows in use. */
  length = 0;
  low: Uint32Array;
  high: Uint32Array;
  /** World coordinates at the start and the end of the current move. */
  fromX: Float64Array;
  fromY: Float64Array;
  toX: Float64Array;
  toY: Float64Array;
  /** When the move began, on the clock of the page, and how long it takes, milliseconds. */
  startMs: Float64Array;
  durationMs: Float32Array;
  /** Degrees clockwise from north; NaN where unknown. */
  heading: Float32Array;
  /** Whether objects glide to their new positions, or jump. */
  glides = true;
  /** The time at which the last move ends. */
  movingUntilMs = 0;

  private snapshot: Uint8Array;
  private isInSnapshot = 0;
  private slots: Int32Array;

  constructor(capacity = 1024) {
    this.low = new Uint32Array(capacity);
    this.high = new Uint32Array(capacity);
    this.fromX = new Float64Array(capacity);
    this.fromY = new Float64Array(capacity);
    this.toX = new Float64Array(capacity);
    this.toY = new Float64Array(capacity);
    this.startMs = new Float64Array(capacity);
    this.durationMs = new Float32Array(capacity);
    this.heading = new Float32Array(capacity);
    this.snapshot = new Uint8Array(capacity);
    this.slots = new Int32Array(capacity * 2).fill(EMPTY);
  }

  /** The row of an object, -1 without one. */
  find(low: number, high: number): number {
    return this.slots[this.slotOf(low, high)];
  }

  /** The id of the object of a row. */
  id(row: number): bigint {
    return (BigInt(this.high[row]) << 32n) | BigInt(this.low[row]);
  }

  /** Puts an object at a position; a known object moves there from where it is shown. */
  report(low: number, high: number, x: number, y: number, heading: number, nowMs: number): void {
    const slot = this.slotOf(low, high);
    let row = this.slots[slot];
    if (row === EMPTY) {
      row = this.add(low, high, slot);
      this.place(row, x, y, nowMs);
    } else {
      this.move(row, x, y, nowMs);
    }
    this.heading[row] = heading;
    this.snapshot[row] = this.isInSnapshot;
  }

  remove(low: number, high: number): void {
    const slot = this.slotOf(low, high);
    const row = this.slots[slot];
    if (row === EMPTY) return;
    this.freeSlot(slot);
    const last = --this.length;
    if (row === last) return;
    this.slots[this.slotOf(this.low[last], this.high[last])] = row;
    this.copyRow(last, row);
  }

  clear(): void {
    this.length = 0;
    this.slots.fill(EMPTY);
    this.movingUntilMs = 0;
  }

  /** Begins a snapshot. `endSnapshot` removes the rows that were not reported in between. */
  beginSnapshot(): void {
    this.isInSnapshot = 1 - this.isInSnapshot;
    // Marks all existing rows as not reported.
    this.snapshot.fill(1 - this.isInSnapshot, 0, this.length);
  }

  endSnapshot(): void {
    for (let row = this.length - 1; row >= 0; row--) {
      if (this.snapshot[row] !== this.isInSnapshot) this.remove(this.low[row], this.high[row]);
    }
  }

  /** The share of its move that a row has made. */
  progress(row: number, nowMs: number): number {
    const share = (nowMs - this.startMs[row]) / this.durationMs[row];
    return share >= 1 ? 1 : share > 0 ? share : 0;
  }

  /** The row shown nearest to a position, at most `distance` away; -1 without one. */
  nearest(x: number, y: number, distance: number, nowMs: number): number {
    let best = -1;
    let least = distance * distance;
    for (let row = 0; row < this.length; row++) {
      const share = this.progress(row, nowMs);
      const dx = this.fromX[row] + (this.toX[row] - this.fromX[row]) * share - x;
      const dy = this.fromY[row] + (this.toY[row] - this.fromY[row]) * share - y;
      const square = dx * dx + dy * dy;
      if (square > least) continue;
      least = square;
      best = row;
    }
    return best;
  }

  /** A table of one row alone, as it is now. */
  single(row: number): ObjectTable {
    const one = new ObjectTable(1);
    one.report(this.low[row], this.high[row], this.toX[row], this.toY[row], this.heading[row], 0);
    one.fromX[0] = this.fromX[row];
    one.fromY[0] = this.fromY[row];
    one.startMs[0] = this.startMs[row];
    one.durationMs[0] = this.durationMs[row];
    return one;
  }

  private place(row: number, x: number, y: number, nowMs: number): void {
    this.fromX[row] = this.toX[row] = x;
    this.fromY[row] = this.toY[row] = y;
    this.startMs[row] = nowMs;
    this.durationMs[row] = MOVE_MS_MIN;
  }

  private move(row: number, x: number, y: number, nowMs: number): void {
    const share = this.progress(row, nowMs);
    const shownX = this.fromX[row] + (this.toX[row] - this.fromX[row]) * share;
    const shownY = this.fromY[row] + (this.toY[row] - this.fromY[row]) * share;
    if (!this.glides || Math.abs(x - shownX) > GLIDE_MAX || Math.abs(y - shownY) > GLIDE_MAX) {
      this.place(row, x, y, nowMs);
      return;
    }
    const interval = nowMs - this.startMs[row];
    const duration = Math.max(MOVE_MS_MIN, Math.min(MOVE_MS_MAX, interval));
    this.fromX[row] = shownX;
    this.fromY[row] = shownY;
    this.toX[row] = x;
    this.toY[row] = y;
    this.startMs[row] = nowMs;
    this.durationMs[row] = duration;
    this.movingUntilMs = Math.max(this.movingUntilMs, nowMs + duration);
  }

  private add(low: number, high: number, slot: number): number {
    const row = this.length++;
    this.slots[slot] = row;
    if (row === this.low.length) this.grow();
    this.low[row] = low;
    this.high[row] = high;
    if (this.length * 2 > this.slots.length) this.rebuildSlots(this.slots.length * 2);
    return row;
  }

  /** The slot that has an object, or the empty slot into which it would be inserted. */
  private slotOf(low: number, high: number): number {
    const mask = this.slots.length - 1;
    let slot = hash(low, high) & mask;
    for (;;) {
      const row = this.slots[slot];
      if (row === EMPTY || (this.low[row] === low && this.high[row] === high)) return slot;
      slot = (slot + 1) & mask;
    }
  }

  /** Empties a slot, and moves later rows of its probe chain so that the chain has no gap. */
  private freeSlot(freed: number): void {
    const mask = this.slots.length - 1;
    let gap = freed;
    let slot = freed;
    for (;;) {
      slot = (slot + 1) & mask;
      const row = this.slots[slot];
      if (row === EMPTY) break;
      const home = hash(this.low[row], this.high[row]) & mask;
      // The row may move to the gap if its home is not between the gap and its slot.
      if (((slot - home) & mask) >= ((slot - gap) & mask)) {
        this.slots[gap] = row;
        gap = slot;
      }
    }
    this.slots[gap] = EMPTY;
  }

  private rebuildSlots(size: number): void {
    this.slots = new Int32Array(size).fill(EMPTY);
    for (let row = 0; row < this.length; row++) {
      this.slots[this.slotOf(this.low[row], this.high[row])] = row;
    }
  }

  private columns(): Column[] {
    const { low, high, fromX, fromY, toX, toY, startMs, durationMs, heading, snapshot } = this;
    return [low, high, fromX, fromY, toX, toY, startMs, durationMs, heading, snapshot];
  }

  private copyRow(from: number, to: number): void {
    this.low[to] = this.low[from];
    this.high[to] = this.high[from];
    this.fromX[to] = this.fromX[from];
    this.fromY[to] = this.fromY[from];
    this.toX[to] = this.toX[from];
    this.toY[to] = this.toY[from];
    this.startMs[to] = this.startMs[from];
    this.durationMs[to] = this.durationMs[from];
    this.heading[to] = this.heading[from];
    this.snapshot[to] = this.snapshot[from];
  }

  private grow(): void {
    const [low, high, fromX, fromY, toX, toY, startMs, durationMs, heading, snapshot] =
      this.columns().map(doubled);
    this.low = low as Uint32Array;
    this.high = high as Uint32Array;
    this.fromX = fromX as Float64Array;
    this.fromY = fromY as Float64Array;
    this.toX = toX as Float64Array;
    this.toY = toY as Float64Array;
    this.startMs = startMs as Float64Array;
    this.durationMs = durationMs as Float32Array;
    this.heading = heading as Float32Array;
    this.snapshot = snapshot as Uint8Array;
  }
}

type Column = Uint32Array | Float64Array | Float32Array | Uint8Array;

function doubled(column: Column): Column {
  const larger = new (column.constructor as new (length: number) => Column)(column.length * 2);
  larger.set(column as never);
  return larger;
}

/** The finalizer of MurmurHash3 over both halves. */
function hash(low: number, high: number): number {
  let value = low ^ Math.imul(high, 0x9e3779b1);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
