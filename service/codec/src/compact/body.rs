//! Reads the bytes of a compact block from an offset: numbers of variable length and packed values,
//! all bounds-checked.
//!
//! The caller states how many values to read; it takes counts from the header and the plan.
//! Truncated input is an error.

use crate::error::BlockError;
use crate::header::truncated;

/// The bytes of a block and the offset of the next byte to read.
pub(crate) struct Body<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Body<'a> {
    /// Reads from byte `at` of the block.
    pub(crate) fn new(block: &'a [u8], at: usize) -> Self {
        Self { block, at }
    }

    /// Offset in the block of the byte that is read next.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.block[self.at..]
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(
        &mut self,
        part: &'static str,
        count: usize,
    ) -> Result<&'a [u8], BlockError> {
        match self.rest().get(..count) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(self.lacks(part, count as u64)),
        }
    }

    /// The error for a part that takes more bytes than are left.
    pub(crate) fn lacks(&self, part: &'static str, bytes: u64) -> BlockError {
        truncated(part, self.at, bytes, self.block)
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

    /// The next number; an error if it does not fit the type.
    pub(crate) fn small<N: TryFrom<u64>>(&mut self, part: &str) -> Result<N, BlockError> {
        let number = self.number()?;
        match N::try_from(number) {
            Ok(number) => Ok(number),
            Err(_) => self.fault(format!("{part} is {number}, its field has fewer bits")),
        }
    }

    /// The next number, decoded from zigzag as a signed number.
    pub(crate) fn signed(&mut self) -> Result<i64, BlockError> {
        self.number().map(unzigzag)
    }

    /// Reads `count` packed values of `width` bits each and appends them to `out`.
    pub(crate) fn packed(
        &mut self,
        count: usize,
        width: u32,
        out: &mut Vec<u64>,
    ) -> Result<(), BlockError> {
        let bytes = self.bytes("field", (count * width as usize).div_ceil(8))?;
        let (mut held, mut bits) = (0_u128, 0);
        let mut bytes = bytes.iter();
        out.reserve(count);
        for _ in 0..count {
            while bits < width {
                held |= u128::from(bytes.next().copied().unwrap_or(0)) << bits;
                bits += 8;
            }
            out.push(held as u64 & mask(width));
            (held, bits) = (held >> width, bits - width);
        }
        Ok(())
    }

    /// Checks that at most `padding` bytes are left, and that they are 0.
    pub(crate) fn finish(self, padding: usize) -> Result<(), BlockError> {
        let rest = self.rest();
        match rest.len() <= padding && rest.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => self.fault(format!("{} bytes follow the last section", rest.len())),
        }
    }

    /// An error at the byte that is read next.
    pub(crate) fn fault<T>(&self, problem: String) -> Result<T, BlockError> {
        Err(BlockError::Compact { offset: self.at, problem })
    }
}

/// Bits 0 to `bits` - 1.
pub(crate) fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Appends a number, seven bits per byte from the lowest. All bytes but the last have the high bit
/// set.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number.
pub(crate) fn put_signed(number: i64, out: &mut Vec<u8>) {
    put_number((number << 1 ^ number >> 63) as u64, out);
}

/// Decodes a zigzag number.
pub(crate) fn unzigzag(zigzag: u64) -> i64 {
    (zigzag >> 1 ^ (zigzag & 1).wrapping_neg()) as i64
}

/// Appends values of at most `width` bits, `width` bits each, and pads the last byte with zeros.
pub(crate) fn put_packed(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0_u128, 0);
    for value in values {
        held |= u128::from(value) << bits;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_have_64_bits() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            assert_eq!(Body::new(&bytes, 0).number(), Ok(number));
        }
        for number in [0, -1, 1, -64, 64, i64::MIN, i64::MAX] {
            let mut bytes = Vec::new();
            put_signed(number, &mut bytes);
            assert_eq!(Body::new(&bytes, 0).signed(), Ok(number));
        }
        let long = [0xff; 9];
        assert!(Body::new(&[&long[..], &[0x02]].concat(), 0).number().is_err());
        assert!(Body::new(&[&long[..], &[0x81, 0]].concat(), 0).number().is_err());
        let error = Body::new(&[0x80, 0x80, 0x04], 0).small::<u16>("column").unwrap_err();
        assert!(error.to_string().contains("column is 65536"), "{error}");
    }
}
