// The map below the objects: coastlines and borders that are part of the page, and tiles where the
// server has some.

import { type LayerSpecification, MapLibreMap, type StyleSpecification } from "maplibre-gl";
import { feature, mesh } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";

import type { Space } from "../live/space";
import { toLngLat } from "../live/space";
import type { Theme } from "./theme";
import { tileLayers, tileSources, type Tiles } from "./tiles";

interface World extends Topology {
  objects: {
    countries: GeometryCollection<{ name: string }>;
    land: GeometryCollection;
  };
}

const EMPTY: GeoJSON.FeatureCollection = { type: "FeatureCollection", features: [] };

/** Natural Earth at 1:50 million, as GeoJSON. */
export interface Coastlines {
  land: GeoJSON.GeoJSON;
  borders: GeoJSON.GeoJSON;
  names: GeoJSON.FeatureCollection;
}

export async function loadCoastlines(url: URL): Promise<Coastlines> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: HTTP status ${response.status}`);
  const world = (await response.json()) as World;
  const { countries, land } = world.objects;
  const borders = mesh(world, countries, (a, b) => a !== b);
  return {
    land: unrolled(feature(world, land)),
    borders: { ...borders, coordinates: borders.coordinates.map(continuous) },
    names: namePoints(feature(world, countries)),
  };
}

/** Unwraps polygons that cross the antimeridian, so that no ring jumps across the map. */
function unrolled(land: GeoJSON.FeatureCollection): GeoJSON.FeatureCollection {
  const features = land.features.map((it): GeoJSON.Feature => {
    const { geometry } = it;
    if (geometry.type !== "MultiPolygon") return it;
    const coordinates = geometry.coordinates.map((rings) => rings.map(closed));
    return { ...it, geometry: { ...geometry, coordinates } };
  });
  return { ...land, features };
}

/** A line whose longitudes go on beyond 180 instead of jumping. */
function continuous(line: GeoJSON.Position[]): GeoJSON.Position[] {
  let turns = 0;
  return line.map(([longitude, latitude], at) => {
    const step = at === 0 ? 0 : longitude - line[at - 1][0];
    if (step > 180) turns -= 360;
    else if (step < -180) turns += 360;
    return [longitude + turns, latitude];
  });
}

/** Unwraps a ring. The ring around the south pole (Antarctica) is closed along the pole. */
function closed(ring: GeoJSON.Position[]): GeoJSON.Position[] {
  const line = continuous(ring);
  const [first, last] = [line[0], line[line.length - 1]];
  if (Math.abs(last[0] - first[0]) < 180) return line;
  return [...line, [last[0], -90], [first[0], -90], first];
}

/** The name of each country, in the middle of its largest part. */
function namePoints(
  countries: GeoJSON.FeatureCollection<GeoJSON.Geometry, { name: string }>,
): GeoJSON.FeatureCollection {
  const features = countries.features.flatMap((country): GeoJSON.Feature[] => {
    const { geometry } = country;
    const polygons =
      geometry.type === "Polygon"
        ? [geometry.coordinates]
        : geometry.type === "MultiPolygon"
          ? geometry.coordinates
          : [];
    const largest = polygons
      .map((rings) => extent(rings[0]))
      .reduce((a, b) => (b.size > a.size ? b : a), { center: [0, 0], size: 0 });
    if (largest.size === 0) return [];
    const point: GeoJSON.Point = { type: "Point", coordinates: largest.center };
    const properties = { name: country.properties.name, rank: -largest.size };
    return [{ type: "Feature", geometry: point, properties }];
  });
  return { type: "FeatureCollection", features };
}

function extent(ring: GeoJSON.Position[]): { center: number[]; size: number } {
  const x = ring.map((at) => at[0]);
  const y = ring.map((at) => at[1]);
  const [west, east] = [Math.min(...x), Math.max(...x)];
  const [south, north] = [Math.min(...y), Math.max(...y)];
  return {
    center: [(west + east) / 2, (south + north) / 2],
    size: (east - west) * (north - south),
  };
}

export function createMap(container: HTMLElement, style: StyleSpecification): MapLibreMap {
  const map = new MapLibreMap({
    container,
    style,
    center: [10, 30],
    zoom: 1.6,
    maxZoom: 22,
    maxPitch: 0,
    dragRotate: false,
    pitchWithRotate: false,
    attributionControl: false,
    // The view is a part of the address: #fleet=NAME&view=ZOOM/LAT/LNG.
    hash: "view",
  });
  map.touchZoomRotate.disableRotation();
  map.keyboard.disableRotation();
  return map;
}

/** The style for a space: the world for a geographic one, an outline for a plane. */
export function styleOf(
  theme: Theme,
  space: Space,
  coastlines: Coastlines,
  tiles: Tiles | null,
): StyleSpecification {
  const isWorld = space.isGeographic;
  const { land, borders, names } = coastlines;
  const layers: LayerSpecification[] = [
    { id: "water", type: "background", paint: { "background-color": theme.water } },
    fill("land", theme.land),
    line("coast", "land", theme.coast, 0.8),
    line("borders", "borders", theme.border, 0.8),
    ...(isWorld && tiles !== null ? tileLayers(tiles, theme) : []),
    label(theme),
  ];
  return {
    version: 8,
    sources: {
      land: { type: "geojson", data: isWorld ? land : outline(space), tolerance: 0.5 },
      borders: { type: "geojson", data: isWorld ? borders : EMPTY, tolerance: 0.5 },
      names: { type: "geojson", data: isWorld ? names : EMPTY },
      ...(isWorld && tiles !== null ? tileSources(tiles) : {}),
    },
    layers,
  };
}

function outline(space: Space): GeoJSON.Feature {
  const { west, south, east, north } = space.bounds;
  const corners = [
    [west, south],
    [east, south],
    [east, north],
    [west, north],
    [west, south],
  ];
  const ring = corners.map(([x, y]) => toLngLat(space, x, y));
  return {
    type: "Feature",
    geometry: { type: "Polygon", coordinates: [ring] },
    properties: {},
  };
}

function fill(source: string, color: string): LayerSpecification {
  return { id: source, type: "fill", source, paint: { "fill-color": color } };
}

function line(id: string, source: string, color: string, width: number): LayerSpecification {
  return {
    id,
    type: "line",
    source,
    paint: { "line-color": color, "line-width": width },
  };
}

/** Names are drawn with fonts of the browser, because the style has no glyphs. */
function label(theme: Theme): LayerSpecification {
  return {
    id: "names",
    type: "symbol",
    source: "names",
    minzoom: 2,
    maxzoom: 7,
    layout: {
      "text-field": ["get", "name"],
      "text-size": 12,
      "text-max-width": 7,
      "symbol-sort-key": ["get", "rank"],
    },
    paint: {
      "text-color": theme.label,
      "text-halo-color": theme.halo,
      "text-halo-width": 1,
    },
  };
}
