// An archive of one tile, zoom 0, by the specification of PMTiles, version 3.

const HEADER_BYTES = 127;
const NO_COMPRESSION = 1;
const PNG = 2;

export function archiveOf(tile: Buffer): Buffer {
  const length: number[] = [];
  for (let rest = tile.length; ; rest >>>= 7) {
    if (rest < 0x80) {
      length.push(rest);
      break;
    }
    length.push((rest & 0x7f) | 0x80);
  }
  // One entry: tile 0, once, its length, and its offset plus one.
  const directory = Buffer.from([1, 0, 1, ...length, 1]);
  const metadata = Buffer.from("{}");
  const header = Buffer.alloc(HEADER_BYTES);
  header.write("PMTiles");
  header[7] = 3;
  const metadataAt = HEADER_BYTES + directory.length;
  const tilesAt = metadataAt + metadata.length;
  const numbers = [
    ...[HEADER_BYTES, directory.length, metadataAt, metadata.length, tilesAt, 0],
    ...[tilesAt, tile.length, 1, 1, 1],
  ];
  numbers.forEach((number, at) => header.writeBigUInt64LE(BigInt(number), 8 + at * 8));
  header[96] = 1;
  header[97] = NO_COMPRESSION;
  header[98] = NO_COMPRESSION;
  header[99] = PNG;
  const bounds = [-180, -85, 180, 85];
  bounds.forEach((degrees, at) => header.writeInt32LE(degrees * 1e7, 102 + at * 4));
  return Buffer.concat([header, directory, metadata, tile]);
}
