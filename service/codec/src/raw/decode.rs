//! How are raw values read, at the speed of memory?
//!
//! Bytes come in whole values (the section's length is checked while parsing). Loops have no
//! branch on a row: limits are judged by least and greatest of a tile that still lies in the
//! first-level cache.

/// Values judged together: 16 KiB of 4-byte values in, as much out, half of a 32 KiB cache each.
const TILE_VALUES: usize = 4096;

/// A value outside its limits.
pub(crate) struct Outside<W> {
    /// Which value, from 0.
    pub(crate) index: usize,
    /// What it is.
    pub(crate) value: W,
}

/// Replaces `out` with the values in `bytes`.
pub(crate) fn decode<T, const N: usize>(
    bytes: &[u8],
    out: &mut Vec<T>,
    read: impl Fn([u8; N]) -> T + Copy,
) {
    out.clear();
    out.extend(bytes.as_chunks::<N>().0.iter().map(|value| read(*value)));
}

/// Replaces `out` with the converted values in `bytes`, all of which must lie between the two
/// `limits`; gives the first that does not.
pub(crate) fn decode_within<W: Copy + Ord, T, const N: usize>(
    bytes: &[u8],
    limits: [W; 2],
    read: impl Fn([u8; N]) -> W + Copy,
    convert: impl Fn(W) -> T + Copy,
    out: &mut Vec<T>,
) -> Result<(), Outside<W>> {
    let [min, max] = limits;
    let values = bytes.as_chunks::<N>().0;
    out.clear();
    out.reserve(values.len());
    for (number, tile) in values.chunks(TILE_VALUES).enumerate() {
        let (mut least, mut greatest) = (max, min);
        for value in tile {
            let value = read(*value);
            least = least.min(value);
            greatest = greatest.max(value);
        }
        if least < min || greatest > max {
            let mut judged = tile.iter().map(|value| read(*value)).enumerate();
            if let Some((index, value)) = judged.find(|(_, value)| *value < min || *value > max) {
                return Err(Outside { index: number * TILE_VALUES + index, value });
            }
        }
        out.extend(tile.iter().map(|value| convert(read(*value))));
    }
    Ok(())
}
