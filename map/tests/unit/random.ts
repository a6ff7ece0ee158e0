// Seeded random numbers (xorshift32), so that a failing test can be repeated.

export class Random {
  private state: number;

  constructor(readonly seed: number) {
    this.state = seed === 0 ? 1 : seed;
  }

  /** An integer from 0 to `bound`, without it. */
  below(bound: number): number {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state ^= this.state << 5;
    return (this.state >>> 0) % bound;
  }

  /** A number in [0, 1). */
  share(): number {
    return this.below(1 << 30) / (1 << 30);
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)];
  }
}
