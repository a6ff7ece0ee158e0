//! Lengths of Huffman codes as differences from symbol to symbol (FORMAT.md, section 11.4).
//!
//! Neighbouring symbols have similar frequencies, so most lengths equal the one before or differ
//! from it by 1.

use crate::compact::body::{Body, mask};
use crate::encoding::{Encoding, huffman};
use crate::error::BlockError;
use crate::packed::{WORD_BYTES, pack, unpack, words};
use crate::plan::PlanNode;

/// Bits of a length.
const LENGTH_BITS: u32 = 4;

/// Number of symbols if section `index` of a node holds code lengths, else `None`.
pub(super) fn symbols(node: &PlanNode, index: usize) -> Option<usize> {
    let is_huffman = matches!(node.encoding, Encoding::Huffman | Encoding::HuffmanLong);
    (is_huffman && index == 0).then(|| huffman::symbols(node.parameter_u32))
}

/// Bytes of a section that holds the code lengths of `symbols` symbols.
pub(super) fn section_bytes(symbols: usize) -> usize {
    words(symbols, LENGTH_BITS) * WORD_BYTES
}

/// Appends the code lengths in `section` in the shorter of two forms: plain or as differences.
pub(super) fn put(section: &[u8], symbols: usize, out: &mut Vec<u8>) {
    let mut lengths = vec![0_u8; symbols];
    unpack(section, LENGTH_BITS, &mut lengths);
    let mut stepped = BitWriter::default();
    stepped.put(1, 1);
    let mut before = 0;
    for length in &lengths {
        match length.wrapping_sub(before) {
            0 => stepped.put(0, 1),
            1 => stepped.put(0b01, 2),
            u8::MAX => stepped.put(0b011, 3),
            _ => {
                stepped.put(0b111, 3);
                stepped.put(u64::from(*length), LENGTH_BITS);
            }
        }
        before = *length;
    }
    let mut plain = BitWriter::default();
    plain.put(0, 1);
    lengths.iter().for_each(|length| plain.put(u64::from(*length), LENGTH_BITS));
    let shorter = if stepped.bits < plain.bits { stepped } else { plain };
    out.extend_from_slice(&shorter.finish());
}

/// Reads the code lengths of `symbols` symbols and appends their section to `out`.
pub(super) fn read(
    symbols: usize,
    body: &mut Body<'_>,
    out: &mut Vec<u8>,
) -> Result<(), BlockError> {
    let mut bits = BitReader { body, held: 0, bits: 0 };
    let is_stepped = bits.next(1)? == 1;
    let mut lengths = Vec::new();
    let mut length = 0;
    for _ in 0..symbols {
        length = if !is_stepped {
            bits.next(LENGTH_BITS)?
        } else if bits.next(1)? == 0 {
            length
        } else if bits.next(1)? == 0 {
            (length + 1) & mask(LENGTH_BITS)
        } else if bits.next(1)? == 0 {
            length.wrapping_sub(1) & mask(LENGTH_BITS)
        } else {
            bits.next(LENGTH_BITS)?
        };
        lengths.push(length as u8);
    }
    pack(&lengths, LENGTH_BITS, out);
    Ok(())
}

/// Writes bits, the lowest bit of each byte first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    held: u64,
    bits: usize,
}

impl BitWriter {
    /// Appends the low `count` bits, at most 8, of `value`.
    fn put(&mut self, value: u64, count: u32) {
        self.held |= value << (self.bits % 8);
        let before = self.bits / 8;
        self.bits += count as usize;
        if self.bits / 8 > before {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
        }
    }

    /// All bytes; unused bits of the last byte are 0.
    fn finish(mut self) -> Vec<u8> {
        if !self.bits.is_multiple_of(8) {
            self.bytes.push(self.held as u8);
        }
        self.bytes
    }
}

/// Reads bits from the next bytes of a body.
struct BitReader<'a, 'b> {
    body: &'a mut Body<'b>,
    held: u64,
    bits: u32,
}

impl BitReader<'_, '_> {
    /// The next `count` bits, at most 8.
    fn next(&mut self, count: u32) -> Result<u64, BlockError> {
        if self.bits < count {
            let [byte] = self.body.take("lengths of codes")?;
            self.held |= u64::from(byte) << self.bits;
            self.bits += 8;
        }
        let value = self.held & mask(count);
        (self.held, self.bits) = (self.held >> count, self.bits - count);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back() {
        let mut mixed: Vec<u8> = (0..256).map(|symbol| (symbol * 7 % 16) as u8).collect();
        mixed[3] = 0;
        let slow: Vec<u8> = (0..200).map(|symbol| (symbol / 17) as u8).rev().collect();
        for lengths in [vec![], vec![1], vec![0, 0, 1], mixed, slow] {
            let (mut section, mut bytes, mut back) = (Vec::new(), Vec::new(), Vec::new());
            pack(&lengths, LENGTH_BITS, &mut section);
            assert_eq!(section.len(), section_bytes(lengths.len()));
            put(&section, lengths.len(), &mut bytes);
            assert!(bytes.len() <= lengths.len() / 2 + 1);
            let mut body = Body::new(&bytes, 0);
            read(lengths.len(), &mut body, &mut back).unwrap();
            assert_eq!((&back, body.rest().len()), (&section, 0));
            for cut in 0..bytes.len() {
                let mut body = Body::new(&bytes[..cut], 0);
                assert!(read(lengths.len(), &mut body, &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn the_example_of_the_format_is_what_it_says() {
        let (mut section, mut bytes) = (Vec::new(), Vec::new());
        pack(&[5_u8, 5, 5, 6, 5], LENGTH_BITS, &mut section);
        put(&section, 5, &mut bytes);
        // 1; 111 and 5; 0; 0; 10; 110.
        assert_eq!(bytes, [0x5f, 0x34]);
    }
}
