//! How are raw values written?
//!
//! Little-endian, in row order, nothing between them. Padding is the container's matter.

/// Appends the bytes of all values.
pub(crate) fn encode<T: Copy, const N: usize>(
    values: &[T],
    out: &mut Vec<u8>,
    write: impl Fn(T) -> [u8; N] + Copy,
) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    let places = out[start..].as_chunks_mut::<N>().0;
    for (place, value) in places.iter_mut().zip(values) {
        *place = write(*value);
    }
}
