// Measures the time between two frames in which the points were drawn, while they move. A frame
// that the browser showed without new points does not count.

const FRAMES = 240;

export class FrameTimes {
  private readonly times = new Float64Array(FRAMES);
  private count = 0;
  private lastMs = 0;

  /** Notes a drawn frame. */
  drawn(nowMs: number): void {
    if (this.lastMs > 0) this.times[this.count++ % FRAMES] = nowMs - this.lastMs;
    this.lastMs = nowMs;
  }

  /** Call this when nothing moves, so that the time until the next frame is not counted. */
  pause(): void {
    this.lastMs = 0;
  }

  /** Forgets the frames so far. */
  reset(): void {
    this.count = 0;
    this.lastMs = 0;
  }

  /** Frames since the last reset. */
  get total(): number {
    return this.count;
  }

  /** How many frames the figures cover. */
  get frames(): number {
    return Math.min(this.count, FRAMES);
  }

  /** The given percentile of the frame times, milliseconds; NaN without frames. */
  percentile(percent: number): number {
    const sorted = this.times.slice(0, this.frames).sort();
    return sorted.length === 0 ? Number.NaN : sorted[Math.floor((sorted.length * percent) / 100)];
  }
}
