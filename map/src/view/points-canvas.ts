// Draws every row of an object table on a canvas without a GPU.
//
// Where WebGL runs in software, a vertex of WebGL costs about a microsecond and a frame of the layer a
// copy of the window: 100,000 points take longer than a frame may. Writing their pixels takes a few
// nanoseconds each. The map is neither rotated nor tilted, so that a pixel is a multiple of the world.

import type { ObjectTable } from "../live/object-table";

/** From this size on points are round. */
export const ROUND_SIZE = 4;

/** What a frame shows. */
export interface Frame {
  width: number;
  height: number;
  /** The world coordinates of the centre. */
  centerX: number;
  centerY: number;
  /** Pixels per world. */
  scale: number;
  nowMs: number;
  /** Side of a point, pixels. */
  size: number;
  hasHeadings: boolean;
  /** As in an image: A, B, G and R from the highest byte. */
  color: number;
  selectedColor: number;
  selectedRow: number;
}

export class PointsCanvas {
  private readonly canvas = document.createElement("canvas");
  private readonly context: CanvasRenderingContext2D;
  private image = new ImageData(1, 1);
  private pixels = new Uint32Array(1);
  private isBlank = true;

  constructor(container: HTMLElement) {
    // The canvas stays in memory, where its pixels are written.
    const context = this.canvas.getContext("2d", { willReadFrequently: true });
    if (context === null) throw new Error("the browser has no 2D canvas");
    this.context = context;
    this.canvas.id = "points";
    container.append(this.canvas);
  }

  draw(table: ObjectTable, frame: Frame): void {
    this.fit(frame.width, frame.height);
    this.pixels.fill(0);
    paint(table, frame, this.pixels);
    this.context.putImageData(this.image, 0, 0);
    this.isBlank = false;
  }

  clear(): void {
    if (this.isBlank) return;
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.isBlank = true;
  }

  private fit(width: number, height: number): void {
    if (this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }
}

/** Writes the points of a table. */
export function paint(table: ObjectTable, frame: Frame, pixels: Uint32Array): void {
  const { fromX, fromY, toX, toY, startMs, durationMs, heading } = table;
  const { width, height, scale, nowMs, size, color, selectedRow } = frame;
  const left = frame.centerX * scale - width / 2;
  const top = frame.centerY * scale + height / 2;
  const half = (size - 1) / 2;
  for (let row = 0; row < table.length; row++) {
    const share = (nowMs - startMs[row]) / durationMs[row];
    const made = share >= 1 ? 1 : share > 0 ? share : 0;
    let x = (fromX[row] + (toX[row] - fromX[row]) * made) * scale - left;
    const y = top - (fromY[row] + (toY[row] - fromY[row]) * made) * scale;
    // The copy of the world that is nearest to the centre.
    if (x > width / 2 + scale / 2) x -= scale;
    else if (x < width / 2 - scale / 2) x += scale;
    const column = Math.round(x - half);
    const line = Math.round(y - half);
    if (column < 0 || line < 0 || column + size > width || line + size > height) continue;
    const first = line * width + column;
    const last = first + (size - 1) * width;
    for (let at = first; at <= last; at += width) {
      // Larger points lose their corners.
      const cut = size >= ROUND_SIZE && (at === first || at === last) ? 1 : 0;
      for (let pixel = at + cut; pixel < at + size - cut; pixel++) pixels[pixel] = color;
    }
    if (frame.hasHeadings) paintHeading(frame, pixels, x, y, heading[row]);
  }
  if (selectedRow >= 0) paintSelected(table, frame, pixels);
}

/** Draws a line from the point in the direction of its heading. */
function paintHeading(
  frame: Frame,
  pixels: Uint32Array,
  x: number,
  y: number,
  heading: number,
): void {
  if (Number.isNaN(heading)) return;
  const angle = (heading * Math.PI) / 180;
  const [right, down] = [Math.sin(angle), -Math.cos(angle)];
  for (let step = 1; step <= frame.size * 1.6; step += 0.7) {
    const [column, line] = [Math.round(x + right * step), Math.round(y + down * step)];
    if (column < 0 || line < 0 || column >= frame.width || line >= frame.height) return;
    pixels[line * frame.width + column] = frame.color;
  }
}

/** The selected object above all others, larger. */
function paintSelected(table: ObjectTable, frame: Frame, pixels: Uint32Array): void {
  const { selectedRow: row, selectedColor, size } = frame;
  const one = table.single(row);
  const larger = { ...frame, selectedRow: -1, hasHeadings: false };
  paint(one, { ...larger, size: size + 5, color: selectedColor }, pixels);
}
