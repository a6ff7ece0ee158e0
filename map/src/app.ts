// The page: one map, one fleet at a time, and the panels around it.

import type { MapLibreMap } from "maplibre-gl";

import { type Fleet, FleetService } from "../generated/shoal/v1/fleet_pb";
import { QueryService, Projection, RegionSchema } from "../generated/shoal/v1/query_pb";
import { create } from "@bufbuild/protobuf";
import type { Square } from "./live/density";
import { type Drawing, FleetView, type ZoneEvent } from "./live/fleet-view";
import { Past, PLAY_SPEED } from "./live/past";
import { Selection, TRACK_MS } from "./live/selection";
import { type Bounds, fromLngLat, type Space, spaceOf, toLngLat } from "./live/space";
import { loadZones, saveZones, type Zone, ZONES_MAX } from "./live/zones";
import { element, timeText } from "./panel/elements";
import { ObjectCard } from "./panel/object-card";
import { StatusLine } from "./panel/status-line";
import { TimeBar } from "./panel/time-bar";
import { TokenDialog } from "./panel/token-dialog";
import { ZoneList } from "./panel/zone-list";
import { type Coastlines, styleOf } from "./view/base-map";
import { FrameTimes } from "./view/frame-times";
import { Overlay } from "./view/overlay";
import { currentTheme, onThemeChange } from "./view/theme";
import type { Tiles } from "./view/tiles";
import { ZoneDrawing } from "./view/zone-drawing";
import type { Calls } from "./wire/calls";
import { CallError, Code } from "./wire/grpc-web";

/** Pixels around a click in which a point is found. */
const PICK_PIXELS = 10;
const FLEET_MS = 5_000;
/** Number of objects from which the first view of a fleet is computed. */
const SAMPLE_OBJECTS = 2_000n;

export class App {
  readonly frames = new FrameTimes();
  view: FleetView | null = null;
  /** The squares of the density that is drawn. */
  squares: Square[] = [];
  private fleet: Fleet | null = null;
  private past: Past | null = null;
  private selection: Selection | null = null;
  private zones: Zone[] = [];
  private overlay: Overlay | null = null;
  private drawnRevision = -1;
  /** Number of fleets opened so far; tells whether a fleet that is being opened was replaced. */
  private openings = 0;
  /** Number of the half second in which the counts were last written. */
  private countedAt = 0;
  private readonly fleetChoice = element("fleet", HTMLSelectElement);
  private readonly drawingChoice = element("drawing", HTMLSelectElement);
  private readonly status = new StatusLine(() => this.retry());
  private readonly tokens = new TokenDialog(() => this.retry());
  private readonly card = new ObjectCard(() => this.select(null));
  private readonly zoneList = new ZoneList({
    show: (zone) => this.showZone(zone),
    remove: (zone) => this.removeZone(zone),
    select: (object) => this.select(object),
  });
  private readonly timeBar = new TimeBar({
    live: () => this.goLive(),
    moment: (timeMs) => this.showMoment(timeMs),
    play: (isPlaying) => this.play(isPlaying),
  });
  private readonly drawing: ZoneDrawing;

  constructor(
    private readonly map: MapLibreMap,
    private readonly calls: Calls,
    private readonly coastlines: Coastlines,
    private readonly tiles: Tiles | null,
    /** What the address of the page asked for. */
    private asked: { fleet: string | null; hasView: boolean },
  ) {
    this.drawing = new ZoneDrawing(map, {
      draft: (corners) => this.overlay?.update({ draft: this.inSpace(corners) }),
      finished: (corners) => this.finishZone(corners),
    });
    this.listen();
    setInterval(() => void this.refreshFleet(), FLEET_MS);
    requestAnimationFrame((nowMs) => this.frame(nowMs));
  }

  /** Lists the fleets, and shows the chosen one. */
  async start(): Promise<void> {
    try {
      const names = await this.listFleets();
      this.fleetChoice.replaceChildren(...names.map((name) => new Option(name)));
      const chosen = this.asked.fleet ?? "default";
      const name = names.includes(chosen) ? chosen : names[0];
      if (name === undefined) this.status.failed("there is no fleet");
      else await this.open(name);
    } catch (error) {
      this.failed(error);
    }
  }

  private listen(): void {
    const { map } = this;
    map.on("move", () => this.viewChanged());
    map.on("resize", () => this.viewChanged());
    map.on("click", ({ lngLat }) => this.clicked(lngLat));
    this.fleetChoice.addEventListener("change", () => {
      this.open(this.fleetChoice.value).catch((error: unknown) => this.failed(error));
    });
    this.drawingChoice.addEventListener("change", () => {
      this.view?.setDrawing(this.drawingChoice.value as Drawing);
    });
    element("draw", HTMLButtonElement).addEventListener("click", () => this.toggleDrawing());
    document.addEventListener("keydown", (event) => {
      const isText = event.target instanceof HTMLInputElement;
      if (event.key === "z" && !isText && !this.drawing.isActive) this.toggleDrawing();
    });
    element("search", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.find(element("search-object", HTMLInputElement).value.trim());
    });
    onThemeChange(() => this.applyStyle());
  }

  private async listFleets(): Promise<string[]> {
    const names: string[] = [];
    let pageToken = "";
    do {
      const request = { pageSize: 1_000, pageToken };
      const page = await this.calls.unary(FleetService.method.listFleets, request);
      names.push(...page.fleets.map((fleet) => fleet.name));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return names;
  }

  private async open(name: string): Promise<void> {
    this.close();
    const opening = ++this.openings;
    const { fleet } = await this.calls.unary(FleetService.method.getFleet, { name });
    if (opening !== this.openings) return;
    if (fleet === undefined) throw new CallError(Code.notFound, `there is no fleet ${name}`);
    this.fleet = fleet;
    this.fleetChoice.value = name;
    const hash = new URLSearchParams(location.hash.slice(1));
    hash.set("fleet", name);
    history.replaceState(null, "", `#${hash.toString().replaceAll("%2F", "/")}`);
    const space = spaceOf(fleet);
    const view = new FleetView(this.calls, name, space, {
      state: (state) => {
        if (state.kind === "unauthenticated") this.tokens.ask(state.message);
        if (this.timeBar.isLive) this.status.session(state);
      },
      drawn: (showsPoints, squares) => this.drawn(showsPoints, squares),
      zoneCount: (zone, objects) => this.zoneList.count(zone, objects),
      zoneEvents: (events) => this.listEvents(events),
      zoneRefused: (zone, message) => {
        this.status.failed(`${zone.name}: ${message}`);
        this.zones = this.zones.filter((it) => it !== zone);
        this.zonesChanged();
      },
      failed: (error) => this.failed(error),
    });
    view.setDrawing(this.drawingChoice.value as Drawing);
    this.view = view;
    this.drawnRevision = -1;
    this.applyStyle();
    this.overlay?.update({ space, table: view.table, squares: [], track: [], showsPoints: true });
    this.overlay ??= this.createOverlay(space, view);
    this.openPast(name, space, view);
    this.openZones(name, view);
    this.describeFleet(fleet);
    // The view of the address counts once.
    const { hasView } = this.asked;
    this.asked = { fleet: name, hasView: false };
    if (!hasView) await this.showWhole(name, space);
    if (opening !== this.openings) return;
    view.start();
    this.viewChanged();
  }

  private close(): void {
    this.select(null);
    this.view?.close();
    this.past?.stop();
    this.view = null;
    this.past = null;
    this.timeBar.goLive();
    this.selection = null;
    this.fleet = null;
    this.zoneList.clearEvents();
  }

  private createOverlay(space: Space, view: FleetView): Overlay {
    const scene = {
      theme: currentTheme(),
      space,
      table: view.table,
      selectedRow: () => this.selectedRow(),
      showsPoints: true,
      squares: [],
      zones: [],
      draft: [],
      track: [],
    };
    return new Overlay(this.map, scene, () => this.frames.drawn(performance.now()));
  }

  private openPast(name: string, space: Space, view: FleetView): void {
    const failed = (error: unknown): void => this.failed(error);
    this.past = new Past(this.calls, name, space, view.table, {
      drawn: (showsPoints, squares) => this.drawn(showsPoints, squares),
      reached: (timeMs) => {
        this.timeBar.reached(timeMs);
        this.bumpRevision();
      },
      ended: () => this.timeBar.stopPlaying(),
      failed,
    });
    this.selection = new Selection(this.calls, name, () => this.fleet?.history !== undefined, {
      record: (object, fix) => this.card.show(String(object), fix, space.isGeographic),
      track: (track) => this.overlay?.update({ track }),
      failed,
    });
  }

  private openZones(name: string, view: FleetView): void {
    this.zones = loadZones(name);
    for (const zone of this.zones) view.addZone(zone);
    this.zonesChanged();
  }

  private retry(): void {
    if (this.view === null) void this.start();
    else this.view.retry();
  }

  private failed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof CallError && error.code === Code.unauthenticated) {
      this.status.session({ kind: "unauthenticated", message });
      this.tokens.ask(message);
      return;
    }
    this.status.failed(message);
    // Without a fleet nothing else tries again.
    if (this.view === null) setTimeout(() => void this.start(), FLEET_MS);
  }

  private async refreshFleet(): Promise<void> {
    const name = this.fleet?.name;
    if (name === undefined) return;
    try {
      const { fleet } = await this.calls.unary(FleetService.method.getFleet, { name });
      if (fleet === undefined || this.fleet?.name !== name) return;
      this.fleet = fleet;
      this.describeFleet(fleet);
    } catch {
      // The session reports what is wrong.
    }
  }

  private describeFleet(fleet: Fleet): void {
    this.timeBar.setEnd(fleet.history === undefined ? null : Number(fleet.history.watermarkMs));
  }

  /** Moves the map to where the objects of the fleet are. */
  private async showWhole(name: string, space: Space): Promise<void> {
    const { bounds } = space;
    const options = { fleet: name, projection: Projection.FIXES, limit: SAMPLE_OBJECTS };
    const region = create(RegionSchema, { kind: { case: "rectangle", value: { ...bounds } } });
    const x: number[] = [];
    const y: number[] = [];
    for await (const part of this.calls.stream(QueryService.method.range, { options, region })) {
      for (const fix of part.fixes) {
        x.push(fix.x);
        y.push(fix.y);
      }
    }
    const all: Bounds =
      x.length > 0
        ? {
            west: Math.min(...x),
            south: Math.min(...y),
            east: Math.max(...x),
            north: Math.max(...y),
          }
        : bounds;
    this.fit(space, all);
  }

  private fit(space: Space, { west, south, east, north }: Bounds): void {
    const [southWest, northEast] = [toLngLat(space, west, south), toLngLat(space, east, north)];
    const padding = { top: 60, bottom: 80, left: 40, right: 300 };
    this.map.fitBounds([southWest, northEast], { padding, animate: false, maxZoom: 16 });
  }

  private viewChanged(): void {
    const [view, zoom] = [this.visible(), this.map.getZoom()];
    this.view?.setView(view, zoom);
    if (!this.timeBar.isLive) this.past?.viewChanged(view, zoom);
  }

  /** The visible part of the world. */
  private visible(): Bounds {
    const { clientWidth, clientHeight } = this.map.getContainer();
    const side = 512 * 2 ** this.map.getZoom();
    const center = this.map.getCenter();
    const latitude = (center.lat * Math.PI) / 180;
    const x = center.lng / 360 + 0.5;
    const y = 0.5 + Math.asinh(Math.tan(latitude)) / (2 * Math.PI);
    const [width, height] = [clientWidth / side / 2, clientHeight / side / 2];
    return { west: x - width, south: y - height, east: x + width, north: y + height };
  }

  private drawn(showsPoints: boolean, squares: Square[]): void {
    this.squares = squares;
    this.bumpRevision();
    this.overlay?.update({ showsPoints, squares });
  }

  private frame(nowMs: number): void {
    requestAnimationFrame((next) => this.frame(next));
    const { view } = this;
    if (view === null || this.overlay === null) return;
    if (!this.overlay.frame(nowMs, view.revision !== this.drawnRevision)) this.frames.pause();
    this.drawnRevision = view.revision;
    if (Math.floor(nowMs / 500) !== this.countedAt) this.showCounts(nowMs, view);
  }

  private showCounts(nowMs: number, view: FleetView): void {
    this.countedAt = Math.floor(nowMs / 500);
    const shown = view.table.length.toLocaleString("en");
    const all = Number(this.fleet?.objectCount ?? 0n).toLocaleString("en");
    this.status.objects(`${shown} of ${all} objects`);
    const median = this.frames.percentile(50);
    const text = Number.isNaN(median) ? "" : `${median.toFixed(0)} ms`;
    element("frames", HTMLElement).textContent = text;
  }

  private applyStyle(): void {
    const theme = currentTheme();
    const space = this.view?.space;
    if (space === undefined) return;
    document.body.classList.toggle("is-planar", !space.isGeographic);
    this.map.setStyle(styleOf(theme, space, this.coastlines, this.tiles), { diff: true });
    this.overlay?.update({ theme });
  }

  private inSpace(corners: [number, number][]): [number, number][] {
    const space = this.view?.space;
    if (space === undefined) return [];
    return corners.map(([longitude, latitude]) => fromLngLat(space, longitude, latitude));
  }

  private toggleDrawing(): void {
    if (this.drawing.isActive) {
      this.drawing.cancel();
      return;
    }
    if (this.zones.length >= ZONES_MAX) {
      this.status.failed(`there are ${ZONES_MAX} zones already`);
      return;
    }
    element("draw-help", HTMLElement).hidden = false;
    element("draw", HTMLButtonElement).textContent = "Cancel";
    this.drawing.begin();
  }

  private finishZone(corners: [number, number][] | null): void {
    element("draw-help", HTMLElement).hidden = true;
    element("draw", HTMLButtonElement).textContent = "Draw";
    if (corners === null || this.view === null) return;
    const id = Math.max(1, ...this.zones.map((zone) => zone.id)) + 1;
    const zone = { id, name: `Zone ${id - 1}`, corners: this.inSpace(corners) };
    this.zones.push(zone);
    this.zonesChanged();
    this.view.addZone(zone);
  }

  private zonesChanged(): void {
    if (this.view !== null) saveZones(this.view.fleet, this.zones);
    this.zoneList.list(this.zones);
    this.overlay?.update({ zones: this.zones.slice() });
  }

  private removeZone(zone: Zone): void {
    this.zones = this.zones.filter((it) => it !== zone);
    this.view?.removeZone(zone);
    this.zonesChanged();
  }

  private showZone({ corners }: Zone): void {
    const x = corners.map((corner) => corner[0]);
    const y = corners.map((corner) => corner[1]);
    if (this.view === null) return;
    this.fit(this.view.space, {
      west: Math.min(...x),
      south: Math.min(...y),
      east: Math.max(...x),
      north: Math.max(...y),
    });
  }

  private listEvents(events: ZoneEvent[]): void {
    for (const { zone, kind, object, clockMs } of events.slice(-200)) {
      this.zoneList.event(zone, kind, object, String(object), clockMs);
    }
  }

  private clicked({ lng, lat }: { lng: number; lat: number }): void {
    const { view } = this;
    if (view === null || this.drawing.isActive) return;
    const { space, table } = view;
    const [x, y] = fromLngLat(space, lng, lat);
    const distance = PICK_PIXELS / (512 * 2 ** this.map.getZoom());
    const nowMs = performance.now();
    const row = table.nearest(space.toWorldX(x), space.toWorldY(y), distance, nowMs);
    this.select(row < 0 ? null : table.id(row));
  }

  private select(object: bigint | null): void {
    const momentMs = this.timeBar.isLive ? null : (this.past?.timeMs ?? null);
    this.selection?.select(object, momentMs);
    if (object === null) {
      this.card.hide();
      return;
    }
    const hours = TRACK_MS / 3_600_000;
    const hasHistory = this.fleet?.history !== undefined;
    this.card.track(hasHistory ? `Track of ${hours} hour` : "Track since it was selected");
    this.bumpRevision();
  }

  private selectedRow(): number {
    const object = this.selection?.object ?? null;
    if (object === null || this.view === null) return -1;
    return this.view.table.find(Number(object & 0xffffffffn), Number(object >> 32n));
  }

  private async find(text: string): Promise<void> {
    const { view } = this;
    if (view === null || !/^\d{1,20}$/.test(text)) return;
    const object = BigInt(text);
    const options = { fleet: view.fleet, projection: Projection.FIXES };
    const request = { options, objects: [object] };
    try {
      for await (const part of this.calls.stream(QueryService.method.get, request)) {
        const fix = part.fixes.at(0);
        if (fix === undefined) continue;
        const center = toLngLat(view.space, fix.x, fix.y);
        this.map.jumpTo({ center, zoom: Math.max(this.map.getZoom(), 13) });
      }
      this.select(object);
    } catch (error) {
      this.failed(error);
    }
  }

  private goLive(): void {
    if (this.view === null) return;
    this.past?.stop();
    this.view.resume();
    this.status.session({ kind: "connecting" });
    this.select(this.selection?.object ?? null);
  }

  private showMoment(timeMs: number): void {
    if (this.view === null || this.past === null) return;
    this.view.pause();
    this.status.past(`the past: ${timeText(timeMs, true)}`);
    void this.past.show(timeMs, this.visible(), this.map.getZoom()).then(() => {
      const object = this.selection?.object ?? null;
      if (object !== null) this.select(object);
    });
  }

  private bumpRevision(): void {
    if (this.view !== null) this.view.revision++;
  }

  private play(isPlaying: boolean): void {
    if (this.past === null) return;
    this.past.stop();
    if (!isPlaying) return;
    this.status.past(`the past, ${PLAY_SPEED} times as fast`);
    void this.past.play(this.visible(), Number(this.fleet?.history?.watermarkMs ?? 0n));
  }
}
