//! Squeezed sections of compact blocks (FORMAT.md, sections 11.3 and 12). They store the entries of
//! tiles field by field.
//!
//! The number of entries comes from the header and the plan, never from the section. Truncated
//! input is an error.

use crate::compact::Form;
use crate::compact::body::{Body, mask};
use crate::compact::field_values;
use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::node_spec::SectionSpec;
use crate::plan::PlanNode;
use crate::tile::{full_count, tiles};

/// Bytes of the largest entry of a tile: two values of 64 bits.
const ENTRY_BYTES_MAX: usize = 16;
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
    /// Offset of the tile's words. It is stored as the length of the tile in words.
    Offset,
    /// Number of values of the tile, in a field of this number of bits. It is stored as the number
    /// of values of the tile in a full node minus the number of values of the tile.
    Count(u32),
    /// A field of this number of bits.
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
    /// The layout of a section; `None` if the section does not have an entry for each tile.
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

    /// True if a section of `bytes` bytes has an entry for each tile of `rows` rows.
    pub(crate) fn fits(&self, bytes: u64, rows: u32) -> bool {
        (tiles(rows as usize) * self.entry_bytes) as u64 == bytes
    }

    /// Estimated bytes of a squeezed section: a third of its bytes before, plus a byte for each
    /// field.
    pub(crate) fn estimated_bytes(&self, tiles: usize) -> usize {
        self.fields.len() + tiles * self.entry_bytes / 3
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
            let is_signed = matches!(field, Field::Value);
            field_values::put(&values, bits, is_signed, out);
            first += bits;
        }
    }

    /// Appends the section that was squeezed in this form.
    pub(crate) fn restore(
        &self,
        form: Form,
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
            let count = tiles - usize::from(is_offset && tiles > 0);
            field_values::read(form, count, bits, body, &mut values)?;
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

/// Converts the value of a field to its stored form. The same conversion restores the value.
fn changed(field: Field, value: u64, rows: usize, tile: usize) -> u64 {
    match field {
        Field::Count(bits) => (full_count(rows, tile) as u64).wrapping_sub(value) & mask(bits),
        _ => value,
    }
}

/// Replaces the offsets of all tiles by the lengths of all tiles but the last.
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
