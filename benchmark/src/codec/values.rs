//! The typed values of one column, as bytes and as a typed vector.

use shoal_codec::Values;

/// Evaluates an expression with the typed vector of the values.
macro_rules! with_values {
    ($values:expr, $vector:ident => $body:expr) => {
        match $values {
            shoal_codec::Values::U8($vector) => $body,
            shoal_codec::Values::U16($vector) => $body,
            shoal_codec::Values::U32($vector) => $body,
            shoal_codec::Values::U64($vector) => $body,
            shoal_codec::Values::I8($vector) => $body,
            shoal_codec::Values::I16($vector) => $body,
            shoal_codec::Values::I32($vector) => $body,
            shoal_codec::Values::I64($vector) => $body,
            shoal_codec::Values::F32($vector) => $body,
            shoal_codec::Values::F64($vector) => $body,
        }
    };
}

#[cfg(feature = "peers")]
pub(super) use with_values;

/// All values, little-endian, in row order.
pub(super) fn bytes(values: &Values) -> Vec<u8> {
    with_values!(values, values => {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    })
}

/// Bytes of one value.
#[cfg(feature = "peers")]
pub(super) fn width(values: &Values) -> usize {
    values.value_type().width_bytes()
}
