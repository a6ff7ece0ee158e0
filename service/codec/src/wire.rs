//! Copies of fields at fixed byte offsets. Callers check
//! that the field lies inside.

/// The `N` bytes at `offset`.
///
/// # Panics
/// If they do not lie inside `bytes`, which is a programmer error because callers check lengths.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

/// Writes `field` at `offset`.
///
/// # Panics
/// If the field does not fit, which is a programmer error.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], offset: usize, field: [u8; N]) {
    bytes[offset..offset + N].copy_from_slice(&field);
}
