//! Points as WKB (OGC 06-103r4, section 8), as GeoParquet has them.

/// Types of a point without and with a third coordinate, by ISO and by the older extension.
const POINTS: [u32; 3] = [1, 1001, 0x8000_0001];

/// The first two coordinates of a point.
///
/// # Errors
/// A description of the bytes, if they are no valid point.
pub(super) fn point(bytes: &[u8]) -> Result<(f64, f64), String> {
    let too_short = || format!("{} bytes are no WKB point", bytes.len());
    let (order, rest) = bytes.split_first().ok_or_else(too_short)?;
    let (kind, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
    let (x, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
    let (y, _) = rest.split_first_chunk().ok_or_else(too_short)?;
    let (kind, x, y) = match order {
        0 => (u32::from_be_bytes(*kind), f64::from_be_bytes(*x), f64::from_be_bytes(*y)),
        1 => (u32::from_le_bytes(*kind), f64::from_le_bytes(*x), f64::from_le_bytes(*y)),
        _ => return Err(format!("{order} is no byte order of WKB")),
    };
    if !POINTS.contains(&kind) {
        return Err(format!("a geometry of WKB type {kind} is no point"));
    }
    if !(x.is_finite() && y.is_finite()) {
        return Err("the point is empty or not finite".to_owned());
    }
    Ok((x, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_both_byte_orders_are_read_and_others_named() {
        let little = [&[1, 1, 0, 0, 0], &1.5_f64.to_le_bytes()[..], &(-2.0_f64).to_le_bytes()];
        assert_eq!(point(&little.concat()), Ok((1.5, -2.0)));
        let kind = 1001_u32.to_be_bytes();
        let third = 9.0_f64.to_be_bytes();
        let big = [&[0], &kind[..], &1.5_f64.to_be_bytes(), &(-2.0_f64).to_be_bytes(), &third];
        assert_eq!(point(&big.concat()), Ok((1.5, -2.0)));
        let empty = [&[1, 1, 0, 0, 0], &f64::NAN.to_le_bytes()[..], &f64::NAN.to_le_bytes()];
        for (bytes, fault) in [
            (vec![], "0 bytes"),
            (little.concat()[..20].to_vec(), "20 bytes"),
            ([&[2], &little.concat()[1..]].concat(), "byte order"),
            ([&[1, 3, 0, 0, 0], &little.concat()[5..]].concat(), "type 3"),
            (empty.concat(), "empty"),
        ] {
            assert!(point(&bytes).unwrap_err().contains(fault), "{bytes:?}");
        }
    }
}
