// Tiles of the operator (`--map-tiles`): an archive of PMTiles or images by a URL template.
//
// The layers of a vector archive are drawn by name. The known names are those of the Protomaps and
// OpenMapTiles schemas; other layers are not drawn.

import { addProtocol, type LayerSpecification, type SourceSpecification } from "maplibre-gl";
import { PMTiles, Protocol, TileType } from "pmtiles";

import type { Theme } from "./theme";

/** `map/settings.json`. */
export interface Settings {
  /** Where the tiles are: a URL of an archive, or a template with {z}, {x} and {y}. */
  tiles: string | null;
}

export interface Tiles {
  url: string;
  isArchive: boolean;
  isVector: boolean;
  layers: string[];
  attribution: string;
}

/** How a layer of a vector archive is drawn. */
type Kind = "land" | "water" | "building" | "road" | "border";

const KINDS: Record<string, Kind> = {
  earth: "land",
  water: "water",
  buildings: "building",
  building: "building",
  roads: "road",
  transportation: "road",
  boundaries: "border",
  boundary: "border",
};

/** Reads what the archive has. Null without tiles. */
export async function openTiles(settings: Settings, base: URL): Promise<Tiles | null> {
  if (settings.tiles === null) return null;
  if (settings.tiles.includes("{z}")) {
    const url = settings.tiles;
    return { url, isArchive: false, isVector: false, layers: [], attribution: "" };
  }
  const url = new URL(settings.tiles, base).href;
  const archive = new PMTiles(url);
  const [header, metadata] = await Promise.all([archive.getHeader(), archive.getMetadata()]);
  const protocol = new Protocol();
  protocol.add(archive);
  addProtocol("pmtiles", protocol.tile);
  const { vector_layers: layers = [], attribution = "" } = metadata as {
    vector_layers?: { id: string }[];
    attribution?: string;
  };
  return {
    url,
    isArchive: true,
    isVector: header.tileType === TileType.Mvt || header.tileType === TileType.Mlt,
    layers: layers.map((layer) => layer.id),
    attribution,
  };
}

export function tileSources(tiles: Tiles): Record<string, SourceSpecification> {
  const place = tiles.isArchive ? { url: `pmtiles://${tiles.url}` } : { tiles: [tiles.url] };
  const { attribution } = tiles;
  if (tiles.isVector) return { tiles: { type: "vector", ...place, attribution } };
  return { tiles: { type: "raster", ...place, tileSize: 256, attribution } };
}

export function tileLayers(tiles: Tiles, theme: Theme): LayerSpecification[] {
  if (!tiles.isVector) return [{ id: "tiles", type: "raster", source: "tiles" }];
  return tiles.layers.flatMap((layer) => {
    const kind = KINDS[layer];
    return kind === undefined ? [] : [vectorLayer(layer, kind, theme)];
  });
}

function vectorLayer(layer: string, kind: Kind, theme: Theme): LayerSpecification {
  const shared = { id: `tiles-${layer}`, source: "tiles", "source-layer": layer };
  if (kind === "road" || kind === "border") {
    const color = kind === "road" ? theme.road : theme.border;
    const paint = { "line-color": color, "line-width": kind === "road" ? 1.2 : 0.8 };
    return { ...shared, type: "line", paint };
  }
  const isPolygon: ["==", ["geometry-type"], string] = ["==", ["geometry-type"], "Polygon"];
  return { ...shared, type: "fill", filter: isPolygon, paint: { "fill-color": theme[kind] } };
}
