//! How are raw values written?
//!
//! Little-endian, in row order, nothing between them. Padding is the container's matter.

use crate::word::Word;

/// The bytes of all values.
pub(crate) fn encode<T: Word>(values: &[T]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * T::BYTES);
    for value in values {
        value.write(&mut out);
    }
    out
}
