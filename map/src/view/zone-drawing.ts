// Drawing a zone by hand: clicks set corners; by keyboard the space bar sets one in the centre of the
// map, Enter closes the zone and Escape cancels.

import type { MapLibreMap } from "maplibre-gl";

type Corner = [number, number];

/** Maximum number of corners of a zone. CountRegions and Subscribe accept more. */
const CORNERS_MAX = 256;

export interface DrawingTarget {
  /** The corners so far, as longitude and latitude, with the pointer as the last. */
  draft(corners: Corner[]): void;
  /** Null if cancelled. */
  finished(corners: Corner[] | null): void;
}

export class ZoneDrawing {
  private corners: Corner[] | null = null;

  constructor(
    private readonly map: MapLibreMap,
    private readonly target: DrawingTarget,
  ) {
    map.on("click", ({ lngLat }) => this.add([lngLat.lng, lngLat.lat]));
    map.on("mousemove", ({ lngLat }) => {
      if (this.corners !== null && this.corners.length > 0) {
        target.draft([...this.corners, [lngLat.lng, lngLat.lat]]);
      }
    });
    map.on("dblclick", (event) => {
      if (this.corners === null) return;
      event.preventDefault();
      this.finish();
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  get isActive(): boolean {
    return this.corners !== null;
  }

  begin(): void {
    this.corners = [];
    document.body.classList.add("is-drawing");
    this.map.getCanvas().focus();
  }

  cancel(): void {
    this.end(null);
  }

  private key(event: KeyboardEvent): void {
    if (this.corners === null) return;
    if (event.key === "Escape") this.cancel();
    else if (event.key === "Enter") this.finish();
    else if (event.key === " ") {
      const { lng, lat } = this.map.getCenter();
      this.add([lng, lat]);
    } else return;
    event.preventDefault();
  }

  private add(corner: Corner): void {
    if (this.corners === null || this.corners.length >= CORNERS_MAX) return;
    const last = this.corners.at(-1);
    // A double click is two clicks at one place.
    if (last !== undefined && last[0] === corner[0] && last[1] === corner[1]) return;
    this.corners.push(corner);
    this.target.draft(this.corners);
  }

  private finish(): void {
    if (this.corners === null || this.corners.length < 3) return;
    this.end(this.corners);
  }

  private end(corners: Corner[] | null): void {
    if (this.corners === null) return;
    this.corners = null;
    document.body.classList.remove("is-drawing");
    this.target.draft([]);
    // The click that ends a zone selects nothing.
    setTimeout(() => this.target.finished(corners));
  }
}
