// Starts the page: map, settings and coastlines first, then the fleet.

import "./main.css";
import "maplibre-gl/dist/maplibre-gl.css";

import { AttributionControl, type MapLibreMap, ScaleControl, setWorkerUrl } from "maplibre-gl";

import { App } from "./app";
import { element } from "./panel/elements";
import { storedToken } from "./panel/token-dialog";
import { createMap, loadCoastlines } from "./view/base-map";
import { currentTheme } from "./view/theme";
import { openTiles, type Settings } from "./view/tiles";
import { Calls } from "./wire/calls";

declare global {
  interface Window {
    /** The page, for tests and for the console of the browser. */
    shoal?: { app: App; map: MapLibreMap };
  }
}

async function start(): Promise<void> {
  const base = new URL("map/", document.baseURI);
  // Read before the map writes its view there.
  const address = new URLSearchParams(location.hash.slice(1));
  const asked = { fleet: address.get("fleet"), hasView: address.has("view") };
  setWorkerUrl(new URL("maplibre-gl-worker.mjs", base).href);
  const water = { "background-color": currentTheme().water };
  const map = createMap(element("map", HTMLElement), {
    version: 8,
    sources: {},
    layers: [{ id: "water", type: "background", paint: water }],
  });
  map.addControl(new ScaleControl(), "bottom-left");
  map.addControl(new AttributionControl({ compact: true }), "bottom-right");
  const settings = (await (await fetch(new URL("settings.json", base))).json()) as Settings;
  const [coastlines, tiles] = await Promise.all([
    loadCoastlines(new URL("countries-50m.json", base)),
    openTiles(settings, base),
  ]);
  const services = new URL(".", document.baseURI).href.slice(0, -1);
  const calls = new Calls({ base: services, token: storedToken });
  const app = new App(map, calls, coastlines, tiles, asked);
  window.shoal = { app, map };
  await app.start();
}

start().catch((error: unknown) => {
  const status = element("status", HTMLElement);
  status.dataset.state = "failed";
  status.textContent = error instanceof Error ? error.message : String(error);
});
