// The layers above the map: density, zones, the track of the selected object, and the points.

import type { LayersList } from "@deck.gl/core";
import { PathLayer, SolidPolygonLayer } from "@deck.gl/layers";
import { MapboxOverlay } from "@deck.gl/mapbox";
import type { MapLibreMap } from "maplibre-gl";

import type { Square } from "../live/density";
import type { ObjectTable } from "../live/object-table";
import { type Space, toLngLat } from "../live/space";
import type { Zone } from "../live/zones";
import { PointsCanvas } from "./points-canvas";
import { PointsLayer } from "./points-layer";
import type { Theme } from "./theme";

/** From this zoom on points show their heading. */
const HEADING_ZOOM = 12;
/** Maximum number of pixels that all points cover together: keeps them legible and frames short. */
const POINT_PIXELS = 500_000;
const SIZE_MIN = 1.5;

/** What is drawn. */
export interface Scene {
  theme: Theme;
  space: Space;
  table: ObjectTable;
  selectedRow: () => number;
  showsPoints: boolean;
  squares: Square[];
  zones: Zone[];
  /** Corners of a zone that is being drawn, and the pointer. */
  draft: [number, number][];
  track: [number, number][];
}

export class Overlay {
  private readonly overlay: MapboxOverlay;
  private isAnimated = false;
  /** Draws the points where WebGL runs in software. */
  private readonly canvas: PointsCanvas | null;

  constructor(
    private readonly map: MapLibreMap,
    private scene: Scene,
    private readonly drawn: () => void,
  ) {
    // Multisampling would shade each pixel several times, and the points smooth their own edges.
    const deviceProps = { webgl: { antialias: false } };
    this.overlay = new MapboxOverlay({ interleaved: false, deviceProps, layers: [] });
    map.addControl(this.overlay);
    this.canvas = isSoftware(map) ? new PointsCanvas(map.getCanvasContainer()) : null;
    map.on("zoomend", () => this.update({}));
    map.on("render", () => this.drawCanvas());
    this.update({});
  }

  /** Changes what is drawn. */
  update(change: Partial<Scene>): void {
    this.scene = { ...this.scene, ...change };
    this.overlay.setProps({ layers: this.layers() });
    this.drawCanvas();
  }

  /** Draws every frame while objects move, and returns whether they do. */
  frame(nowMs: number, hasChanged: boolean): boolean {
    const { table, showsPoints } = this.scene;
    const isAnimated = showsPoints && (hasChanged || table.movingUntilMs > nowMs);
    const hasEnded = this.isAnimated && !isAnimated;
    if (isAnimated !== this.isAnimated && this.canvas === null) {
      this.overlay.setProps({ _animate: isAnimated });
    }
    this.isAnimated = isAnimated;
    // The last positions of the moves are drawn too.
    if (hasEnded) this.update({});
    else if (isAnimated) this.drawCanvas();
    return isAnimated;
  }

  private drawCanvas(): void {
    const { canvas, map } = this;
    if (canvas === null) return;
    const { table, theme, showsPoints, selectedRow } = this.scene;
    if (!showsPoints) return canvas.clear();
    this.drawn();
    const { clientWidth, clientHeight } = map.getContainer();
    const zoom = map.getZoom();
    const { x, y } = worldOf(map);
    canvas.draw(table, {
      width: clientWidth,
      height: clientHeight,
      centerX: x,
      centerY: y,
      scale: 512 * 2 ** zoom,
      nowMs: performance.now(),
      size: Math.round(pointSize(zoom, table.length)),
      hasHeadings: zoom >= HEADING_ZOOM,
      color: packed(theme.point),
      selectedColor: packed(theme.selected),
      selectedRow: selectedRow(),
    });
  }

  private layers(): LayersList {
    const { theme, table, selectedRow, showsPoints, squares } = this.scene;
    const zoom = this.map.getZoom();
    return [
      squares.length > 0 && this.density(),
      this.zones(),
      this.lines(),
      showsPoints &&
        this.canvas === null &&
        new PointsLayer({
          id: "points",
          data: [],
          table,
          color: theme.point,
          selectedColor: theme.selected,
          size: pointSize(zoom, table.length),
          drawn: this.drawn,
          hasHeadings: zoom >= HEADING_ZOOM,
          selectedRow,
        }),
    ];
  }

  private density(): SolidPolygonLayer<Square> {
    const { space, squares, theme } = this.scene;
    const most = squares.reduce((a, b) => Math.max(a, b.count), 1);
    return new SolidPolygonLayer<Square>({
      id: "density",
      data: squares,
      getPolygon: ({ west, south, east, north }) => [
        toLngLat(space, west, south),
        toLngLat(space, east, south),
        toLngLat(space, east, north),
        toLngLat(space, west, north),
      ],
      getFillColor: ({ count }) => shade(theme, Math.log1p(count) / Math.log1p(most)),
    });
  }

  private zones(): SolidPolygonLayer<Zone> {
    const { space, zones, theme } = this.scene;
    return new SolidPolygonLayer<Zone>({
      id: "zones",
      data: zones,
      getPolygon: ({ corners }) => corners.map(([x, y]) => toLngLat(space, x, y)),
      getFillColor: [...theme.zone, 36],
    });
  }

  /** Outlines of zones, the zone that is being drawn, and the track. */
  private lines(): PathLayer<Line> {
    const { zones, draft, track, theme } = this.scene;
    const [r, g, b] = theme.selected.map((share) => share * 255);
    const lines: Line[] = zones.map(({ corners }) => ({
      path: [...corners, corners[0]],
      color: [...theme.zone, 220],
    }));
    if (draft.length > 1) lines.push({ path: draft, color: [...theme.zone, 255] });
    if (track.length > 1) lines.push({ path: track, color: [r, g, b, 200] });
    return new PathLayer<Line>({
      id: "lines",
      data: lines,
      getPath: ({ path }) => path.map(([x, y]) => toLngLat(this.scene.space, x, y)),
      getColor: ({ color }) => color,
      getWidth: 2,
      widthUnits: "pixels",
      jointRounded: true,
    });
  }
}

/** Width of a point: grows with the zoom, and shrinks with the number of points. */
function pointSize(zoom: number, points: number): number {
  const byZoom = Math.max(3, Math.min(9, zoom * 0.55));
  return Math.max(SIZE_MIN, Math.min(byZoom, Math.sqrt(POINT_PIXELS / Math.max(1, points))));
}

/**
 * Whether WebGL runs on the processor: SwiftShader, llvmpipe, or the renderer of Windows. The address
 * of the page may decide, with ?points=canvas or ?points=webgl.
 */
function isSoftware(map: MapLibreMap): boolean {
  const chosen = new URLSearchParams(location.search).get("points");
  if (chosen !== null) return chosen === "canvas";
  const gl = map.getCanvas().getContext("webgl2");
  const info = gl?.getExtension("WEBGL_debug_renderer_info") ?? null;
  if (gl == null || info === null) return false;
  const name = String(gl.getParameter(info.UNMASKED_RENDERER_WEBGL));
  return /swiftshader|llvmpipe|softpipe|basic render/i.test(name);
}

/** The centre of the map in world coordinates. */
function worldOf(map: MapLibreMap): { x: number; y: number } {
  const { lng, lat } = map.getCenter();
  const latitude = (lat * Math.PI) / 180;
  return { x: lng / 360 + 0.5, y: 0.5 + Math.asinh(Math.tan(latitude)) / (2 * Math.PI) };
}

/** A colour as the pixel of an image. */
function packed([r, g, b]: [number, number, number]): number {
  const byte = (share: number): number => Math.round(share * 255);
  return ((255 << 24) | (byte(b) << 16) | (byte(g) << 8) | byte(r)) >>> 0;
}

interface Line {
  path: [number, number][];
  color: [number, number, number, number];
}

/** The colour of a share between 0 and 1. */
function shade(theme: Theme, share: number): [number, number, number, number] {
  const steps = theme.density;
  const at = Math.min(share, 0.999) * (steps.length - 1);
  const [from, to] = [steps[Math.floor(at)], steps[Math.floor(at) + 1]];
  const mix = (i: number): number => from[i] + (to[i] - from[i]) * (at % 1);
  return [mix(0), mix(1), mix(2), 170];
}
