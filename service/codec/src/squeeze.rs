//! Squeezed sections of compact blocks (FORMAT.md, section 11): entries per tile, field by field in
//! packed bits, and numbers of variable length.
//!
//! Counts come from the header and the plan, never from here. Truncated input is an error.

use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::header::truncated;
use crate::node_spec::SectionSpec;
use crate::plan::PlanNode;
use crate::tile::{full_count, tiles};

/// Bytes of the largest entry of a tile: two values of 64 bits.
const ENTRY_BYTES_MAX: usize = 16;
/// Marks a field that is stored as differences.
const IS_DIFFERENCES: u8 = 0x80;

/// How the entries of a section are divided into fields.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    fields: &'static [Field],
    /// Bits of a field that takes the width of the values.
    value_bits: u32,
    entry_bytes: usize,
}

/// A field of an entry, from the lowest bit on.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// Offset of the tile's words: stored as the length of the tile.
    Offset,
    /// Values of the tile: stored as what lacks to a full node's.
    Count(u32),
    /// So many bits.
    Bits(u32),
    /// A value of the node's type.
    Value,
}

impl Field {
    fn bits(self, value_bits: u32) -> u32 {
        match self {
            Self::Offset => 32,
            Self::Count(bits) | Self::Bits(bits) => bits,
            Self::Value => value_bits,
        }
    }
}

impl Layout {
    /// The layout of a section; `None` if it has no entries per tile.
    pub(crate) fn of(spec: SectionSpec, node: &PlanNode) -> Option<Self> {
        let fields: &[Field] = match spec {
            SectionSpec::Directory => match node.encoding {
                Encoding::Huffman => {
                    &[Field::Offset, Field::Count(11), Field::Bits(13), Field::Bits(8)]
                }
                Encoding::HuffmanLong => {
                    &[Field::Offset, Field::Count(11), Field::Bits(15), Field::Bits(6)]
                }
                Encoding::Patch => {
                    &[Field::Offset, Field::Bits(8), Field::Bits(8), Field::Bits(8), Field::Bits(8)]
                }
                _ => &[Field::Offset, Field::Count(16), Field::Bits(8), Field::Bits(8)],
            },
            SectionSpec::Bases(1) => &[Field::Value],
            SectionSpec::Bases(2) => &[Field::Value, Field::Value],
            SectionSpec::Counts => &[Field::Bits(16)],
            _ => return None,
        };
        let value_bits = 8 * node.value_type.width_bytes() as u32;
        let bits: u32 = fields.iter().map(|field| field.bits(value_bits)).sum();
        Some(Self { fields, value_bits, entry_bytes: bits as usize / 8 })
    }

    /// True if a section of `bytes` has an entry for each tile of so many rows.
    pub(crate) fn fits(&self, bytes: u64, rows: u32) -> bool {
        (tiles(rows as usize) * self.entry_bytes) as u64 == bytes
    }

    /// What the section takes, about: a third.
    pub(crate) fn estimated_bytes(&self, tiles: usize) -> usize {
        2 * self.fields.len() + tiles * self.entry_bytes / 3
    }

    /// Appends the section, field by field.
    pub(crate) fn squeeze(&self, section: &[u8], rows: usize, out: &mut Vec<u8>) {
        let mut first = 0;
        for field in self.fields {
            let bits = field.bits(self.value_bits);
            let entries = section.chunks_exact(self.entry_bytes);
            let mut values: Vec<u64> = entries
                .enumerate()
                .map(|(tile, entry)| {
                    let mut whole = [0; ENTRY_BYTES_MAX];
                    whole[..entry.len()].copy_from_slice(entry);
                    let value = (u128::from_le_bytes(whole) >> first) as u64 & mask(bits);
                    changed(*field, value, rows, tile)
                })
                .collect();
            if matches!(field, Field::Offset) {
                lengths(&mut values);
            }
            put_values(&values, out);
            first += bits;
        }
    }

    /// Appends the section that [`Layout::squeeze`] has squeezed.
    pub(crate) fn restore(
        &self,
        rows: usize,
        body: &mut Body<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        let (start, tiles) = (out.len(), tiles(rows));
        out.resize(start + tiles * self.entry_bytes, 0);
        let mut first = 0;
        for field in self.fields {
            let bits = field.bits(self.value_bits);
            let is_offset = matches!(field, Field::Offset);
            let mut values = Vec::new();
            body.values(tiles - usize::from(is_offset && tiles > 0), &mut values)?;
            if is_offset {
                offsets(&mut values, tiles);
            }
            let entries = out[start..].chunks_exact_mut(self.entry_bytes);
            for ((tile, entry), value) in entries.enumerate().zip(values) {
                let value = changed(*field, value, rows, tile) & mask(bits);
                let added = (u128::from(value) << first).to_le_bytes();
                entry.iter_mut().zip(added).for_each(|(byte, added)| *byte |= added);
            }
            first += bits;
        }
        Ok(())
    }
}

/// A field as it is stored, and back.
fn changed(field: Field, value: u64, rows: usize, tile: usize) -> u64 {
    match field {
        Field::Count(bits) => (full_count(rows, tile) as u64).wrapping_sub(value) & mask(bits),
        _ => value,
    }
}

/// Replaces the offsets of tiles by the lengths of all but the last.
fn lengths(offsets: &mut Vec<u64>) {
    for tile in 1..offsets.len() {
        offsets[tile - 1] = offsets[tile].wrapping_sub(offsets[tile - 1]) & mask(32);
    }
    offsets.pop();
}

/// Replaces lengths by the offsets of all tiles.
fn offsets(lengths: &mut Vec<u64>, tiles: usize) {
    let mut offset = 0_u64;
    for length in &mut *lengths {
        let next = offset.wrapping_add(*length);
        (*length, offset) = (offset, next);
    }
    if tiles > 0 {
        lengths.push(offset);
    }
}

/// Bits 0 to `bits` - 1.
fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Bits that a value needs.
fn bits_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Appends a number, seven bits a byte from the lowest, all but the last byte with the high bit.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends values as they are or as differences, whichever takes fewer bytes.
fn put_values(values: &[u64], out: &mut Vec<u8>) {
    let Some((first, rest)) = values.split_first() else { return };
    let (mut plain, mut differences) = (Vec::new(), Vec::new());
    put_packed(0, values, &mut plain);
    let mut before = *first;
    let zigzag = |value: &u64| {
        let difference = value.wrapping_sub(before) as i64;
        before = *value;
        (difference << 1 ^ difference >> 63) as u64
    };
    let rest: Vec<u64> = rest.iter().map(zigzag).collect();
    put_packed(IS_DIFFERENCES, &rest, &mut differences);
    put_number(*first, &mut differences);
    out.append(if differences.len() < plain.len() { &mut differences } else { &mut plain });
}

/// Appends the width with a flag, the least value, and what the values exceed it by.
fn put_packed(flag: u8, values: &[u64], out: &mut Vec<u8>) {
    let least = values.iter().copied().min().unwrap_or(0);
    let width = values.iter().map(|value| bits_of(value - least)).max().unwrap_or(0);
    out.push(width as u8 | flag);
    put_number(least, out);
    let (mut held, mut bits) = (0_u128, 0);
    for value in values {
        held |= u128::from(value - least) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            (held, bits) = (held >> 8, bits - 8);
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

/// The body of a compact block, read from its start.
pub(crate) struct Body<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Body<'a> {
    /// From byte `at` of the block on.
    pub(crate) fn new(block: &'a [u8], at: usize) -> Self {
        Self { block, at }
    }

    /// Byte of the block that is read next.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub(crate) fn rest(&self) -> usize {
        self.block.len() - self.at
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(
        &mut self,
        part: &'static str,
        count: usize,
    ) -> Result<&'a [u8], BlockError> {
        match self.block[self.at..].get(..count) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(truncated(part, self.at, count as u64, self.block)),
        }
    }

    /// The next `N` bytes.
    pub(crate) fn take<const N: usize>(
        &mut self,
        part: &'static str,
    ) -> Result<[u8; N], BlockError> {
        let bytes = self.bytes(part, N)?;
        Ok(*bytes.first_chunk().expect("they have this length"))
    }

    /// The next number of variable length.
    pub(crate) fn number(&mut self) -> Result<u64, BlockError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.take("number")?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        self.fault("a number has more than 64 bits".into())
    }

    /// The next number, which fits a type.
    pub(crate) fn small<N: TryFrom<u64>>(&mut self, part: &str) -> Result<N, BlockError> {
        let number = self.number()?;
        match N::try_from(number) {
            Ok(number) => Ok(number),
            Err(_) => self.fault(format!("{part} is {number}, its field has fewer bits")),
        }
    }

    /// The next `count` values of a field.
    fn values(&mut self, count: usize, out: &mut Vec<u64>) -> Result<(), BlockError> {
        if count == 0 {
            return Ok(());
        }
        let [head] = self.take("field")?;
        let (is_differences, width) = (head & IS_DIFFERENCES != 0, u32::from(head & 0x7f));
        if width > u64::BITS {
            return self.fault(format!("a field has {width} bits, the limit is 64"));
        }
        let least = self.number()?;
        let packed = if is_differences { count - 1 } else { count };
        let bytes = self.bytes("field", (packed * width as usize).div_ceil(8))?;
        let (mut held, mut bits) = (0_u128, 0);
        let mut bytes = bytes.iter();
        out.reserve(count);
        for _ in 0..packed {
            while bits < width {
                held |= u128::from(bytes.next().copied().unwrap_or(0)) << bits;
                bits += 8;
            }
            out.push((held as u64 & mask(width)).wrapping_add(least));
            (held, bits) = (held >> width, bits - width);
        }
        if is_differences {
            let mut value = self.number()?;
            for zigzag in &mut *out {
                let difference = *zigzag >> 1 ^ (*zigzag & 1).wrapping_neg();
                let next = value.wrapping_add(difference);
                (*zigzag, value) = (value, next);
            }
            out.push(value);
        }
        Ok(())
    }

    /// Checks that only padding is left: less than its multiple, and zeros.
    pub(crate) fn finish(self) -> Result<(), BlockError> {
        let rest = &self.block[self.at..];
        let is_padding = rest.len() < crate::compact::COMPACT_ALIGN_BYTES;
        match is_padding && rest.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => self.fault(format!("{} bytes follow the last section", rest.len())),
        }
    }

    /// An error at the byte that is read next.
    fn fault<T>(&self, problem: String) -> Result<T, BlockError> {
        Err(BlockError::Compact { offset: self.at, problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        for values in [
            &[][..],
            &[0],
            &[u64::MAX],
            &[7, 7, 7],
            &[0, u64::MAX, 0, 1 << 63],
            &[1_000_000, 1_000_003, 999_990, 1_000_001],
            &[5, 4, 3, 2, 1, 0],
        ] {
            let mut bytes = Vec::new();
            put_values(values, &mut bytes);
            let mut back = Vec::new();
            let mut body = Body::new(&bytes, 0);
            body.values(values.len(), &mut back).unwrap();
            assert_eq!((back.as_slice(), body.rest()), (values, 0));
            for cut in 0..bytes.len() {
                let mut body = Body::new(&bytes[..cut], 0);
                assert!(body.values(values.len(), &mut Vec::new()).is_err(), "{values:?}, {cut}");
            }
        }
    }

    #[test]
    fn numbers_come_back_and_have_64_bits() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            assert_eq!(Body::new(&bytes, 0).number(), Ok(number));
        }
        let long = [0xff; 9];
        assert!(Body::new(&[&long[..], &[0x02]].concat(), 0).number().is_err());
        assert!(Body::new(&[&long[..], &[0x81, 0]].concat(), 0).number().is_err());
        let error = Body::new(&[0x80, 0x80, 0x04], 0).small::<u16>("column").unwrap_err();
        assert!(error.to_string().contains("column is 65536"), "{error}");
    }
}
