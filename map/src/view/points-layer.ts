// Draws every row of an object table as a point.
//
// One pass per frame places all rows between their last two positions, relative to the centre of the
// view, in single precision, which is then finer than a pixel at every zoom. This is a layer of
// deck.gl, so that it shares camera, canvas and redraws with the others. Each point is one vertex.

import { Layer, type LayerProps, type UpdateParameters } from "@deck.gl/core";
import type { Buffer, RenderPass } from "@luma.gl/core";
import { Model } from "@luma.gl/engine";

import type { ObjectTable } from "../live/object-table";

/** Units of deck.gl's common space per world. */
const COMMON = 512;
const FLOATS = 3;
/** Smaller points are squares, because a circle is not recognizable with so few pixels. */
const SOLID_SIZE = 3;

export interface PointsLayerProps extends LayerProps {
  table: ObjectTable;
  /** RGB, 0 to 1. */
  color: [number, number, number];
  selectedColor: [number, number, number];
  /** Width of a point, CSS pixels. */
  size: number;
  /** Whether points show their heading. */
  hasHeadings: boolean;
  /** Called with every frame that is drawn. */
  drawn: () => void;
  /** The highlighted row, -1 for none. */
  selectedRow: () => number;
}

const uniformBlock = `\
layout(std140) uniform pointsUniforms {
  mat4 matrix;
  vec4 color;
  vec4 selectedColor;
  float size;
  float selected;
  float hasHeadings;
} points;
`;

const pointsUniforms = {
  name: "points",
  vs: uniformBlock,
  fs: uniformBlock,
  uniformTypes: {
    matrix: "mat4x4<f32>",
    color: "vec4<f32>",
    selectedColor: "vec4<f32>",
    size: "f32",
    selected: "f32",
    hasHeadings: "f32",
  },
} as const;

const vs = `#version 300 es
in vec3 places;
flat out vec4 pointColor;
flat out vec2 direction;
void main() {
  gl_Position = points.matrix * vec4(places.xy, 0.0, 1.0);
  bool isSelected = float(gl_VertexID) == points.selected;
  pointColor = isSelected ? points.selectedColor : points.color;
  bool hasHeading = points.hasHeadings > 0.5 && places.z == places.z;
  direction = hasHeading ? vec2(sin(places.z), -cos(places.z)) : vec2(0.0);
  gl_PointSize = points.size * (isSelected ? 1.8 : 1.0) * (hasHeading ? 2.0 : 1.0);
}
`;

const fs = `#version 300 es
precision mediump float;
flat in vec4 pointColor;
flat in vec2 direction;
out vec4 fragColor;
void main() {
  vec2 at = gl_PointCoord * 2.0 - 1.0;
  float inside;
  if (points.size < ${SOLID_SIZE.toFixed(1)}) {
    inside = 1.0;
  } else if (direction == vec2(0.0)) {
    inside = 1.0 - smoothstep(0.7, 1.0, length(at));
  } else {
    // A wedge that points where the object goes.
    float along = dot(at, direction);
    float across = abs(at.x * direction.y - at.y * direction.x);
    float wedge = min(along + 0.75, (0.9 - along) * 0.42 - across);
    inside = smoothstep(0.0, 0.12, wedge);
  }
  if (inside < 0.02) discard;
  fragColor = vec4(pointColor.rgb, pointColor.a * inside);
}
`;

export class PointsLayer extends Layer<PointsLayerProps> {
  static override layerName = "PointsLayer";

  declare state: { model: Model; buffer: Buffer; places: Float32Array<ArrayBuffer> };

  override getNumInstances(): number {
    return this.props.table.length;
  }

  override initializeState(): void {
    this.state.places = new Float32Array(1024 * FLOATS);
    this.state.buffer = this.createBuffer();
    this.state.model = new Model(this.context.device, {
      id: this.props.id,
      vs,
      fs,
      modules: [pointsUniforms],
      topology: "point-list",
      isInstanced: false,
      // deck.gl passes uniforms of modules that this shader does not use.
      disableWarnings: true,
      bufferLayout: [{ name: "places", format: "float32x3" }],
      attributes: { places: this.state.buffer },
      parameters: { depthCompare: "always", depthWriteEnabled: false },
    });
  }

  override shouldUpdateState({ changeFlags }: UpdateParameters<this>): boolean {
    return Boolean(changeFlags.propsOrDataChanged);
  }

  override draw({ renderPass }: { renderPass: RenderPass }): void {
    const { table } = this.props;
    this.props.drawn();
    if (table.length === 0) return;
    this.fitBuffer(table.length);
    const { viewport } = this.context;
    const [centerX, centerY] = viewport.center;
    const count = place(table, centerX, centerY, performance.now(), this.state.places);
    this.state.buffer.write(this.state.places.subarray(0, count * FLOATS));
    const { model } = this.state;
    model.setVertexCount(count);
    const ratio = this.context.device.getDefaultCanvasContext().cssToDeviceRatio();
    model.shaderInputs.setProps({
      points: {
        matrix: translated(viewport.viewProjectionMatrix, centerX, centerY),
        color: [...this.props.color, 0.85],
        selectedColor: [...this.props.selectedColor, 1],
        size: this.props.size * ratio,
        selected: this.props.selectedRow(),
        hasHeadings: this.props.hasHeadings ? 1 : 0,
      },
    });
    model.draw(renderPass);
  }

  override finalizeState(): void {
    this.state.model.destroy();
    this.state.buffer.destroy();
  }

  private fitBuffer(rows: number): void {
    if (rows * FLOATS <= this.state.places.length) return;
    this.state.places = new Float32Array(rows * 2 * FLOATS);
    this.state.buffer.destroy();
    this.state.buffer = this.createBuffer();
    this.state.model.setAttributes({ places: this.state.buffer });
  }

  private createBuffer(): Buffer {
    return this.context.device.createBuffer({ byteLength: this.state.places.byteLength });
  }
}

/** Writes where each row is now, and its heading. Returns the number of rows. */
export function place(
  table: ObjectTable,
  centerX: number,
  centerY: number,
  nowMs: number,
  places: Float32Array,
): number {
  const { fromX, fromY, toX, toY, startMs, durationMs, heading, length } = table;
  for (let row = 0, at = 0; row < length; row++) {
    const share = (nowMs - startMs[row]) / durationMs[row];
    const made = share >= 1 ? 1 : share > 0 ? share : 0;
    const x = (fromX[row] + (toX[row] - fromX[row]) * made) * COMMON - centerX;
    const y = (fromY[row] + (toY[row] - fromY[row]) * made) * COMMON - centerY;
    // The copy of the world that is nearest to the centre.
    places[at++] = x > COMMON / 2 ? x - COMMON : x < -COMMON / 2 ? x + COMMON : x;
    places[at++] = y;
    places[at++] = heading[row] * (Math.PI / 180);
  }
  return length;
}

/** The matrix for positions relative to (x, y), multiplied in double precision. */
function translated(matrix: readonly number[], x: number, y: number): number[] {
  const moved = [...matrix];
  for (let row = 0; row < 4; row++) {
    moved[12 + row] += matrix[row] * x + matrix[4 + row] * y;
  }
  return moved;
}
