//! Points as WKB (OGC 06-103r4, section 8), as GeoParquet has them, and as EWKB of PostGIS.

/// Type of a point without further coordinates.
const POINT: u32 = 1;
/// Types by ISO: 1000 is added for Z, 2000 for M.
const ISO_STEP: u32 = 1_000;
/// Byte order and type of a little-endian point without further coordinates.
const PLAIN_HEAD: [u8; 5] = [1, POINT as u8, 0, 0, 0];
/// Flags of EWKB.
const EWKB_Z: u32 = 0x8000_0000;
const EWKB_M: u32 = 0x4000_0000;
const EWKB_SRID: u32 = 0x2000_0000;

/// A point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WkbPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The third coordinate; `None` if there is none, or it is not a number.
    pub(super) z: Option<f64>,
    /// True if there is a measure M, which is not read.
    pub(super) has_m: bool,
    /// The reference system of EWKB.
    pub(super) srid: Option<u32>,
}

/// Bytes in one byte order.
struct Numbers<'bytes> {
    rest: &'bytes [u8],
    is_big_endian: bool,
    /// Bytes of the whole point.
    bytes: usize,
}

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| format!("{} bytes are no WKB point", self.bytes))?;
        self.rest = rest;
        let mut bytes = *bytes;
        if self.is_big_endian {
            bytes.reverse();
        }
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn f64(&mut self) -> Result<f64, String> {
        self.take().map(f64::from_le_bytes)
    }
}

/// Reads a point.
///
/// # Errors
/// A description of the bytes, if they are no valid point.
#[inline]
pub(super) fn point(bytes: &[u8]) -> Result<WkbPoint, String> {
    // The usual form, without a branch for each number.
    if let Some((&PLAIN_HEAD, numbers)) = bytes.split_first_chunk()
        && let ([x, y], []) = numbers.as_chunks::<8>()
    {
        let (x, y) = (f64::from_le_bytes(*x), f64::from_le_bytes(*y));
        if x.is_finite() && y.is_finite() {
            return Ok(WkbPoint { x, y, ..WkbPoint::default() });
        }
    }
    any_point(bytes)
}

/// Reads a point of any form.
fn any_point(bytes: &[u8]) -> Result<WkbPoint, String> {
    let (order, rest) = bytes.split_first().ok_or("0 bytes are no WKB point")?;
    if *order > 1 {
        return Err(format!("{order} is no byte order of WKB"));
    }
    let mut numbers = Numbers { rest, is_big_endian: *order == 0, bytes: bytes.len() };
    let kind = numbers.u32()?;
    let flags = kind & (EWKB_Z | EWKB_M | EWKB_SRID);
    let (iso, geometry) = ((kind ^ flags) / ISO_STEP, (kind ^ flags) % ISO_STEP);
    if geometry != POINT || iso > 3 {
        return Err(format!("a geometry of WKB type {kind} is no point"));
    }
    let srid = if flags & EWKB_SRID == 0 { None } else { Some(numbers.u32()?) };
    let (x, y) = (numbers.f64()?, numbers.f64()?);
    let has_z = flags & EWKB_Z != 0 || iso & 1 != 0;
    let has_m = flags & EWKB_M != 0 || iso & 2 != 0;
    let z = if has_z { Some(numbers.f64()?).filter(|z| !z.is_nan()) } else { None };
    if has_m {
        numbers.f64()?;
    }
    if !(x.is_finite() && y.is_finite()) {
        return Err("the point is empty or not finite".to_owned());
    }
    Ok(WkbPoint { x, y, z, has_m, srid })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn little(kind: u32, srid: Option<u32>, values: &[f64]) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend(kind.to_le_bytes());
        bytes.extend(srid.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    #[test]
    fn points_with_and_without_further_coordinates_are_read() {
        let plain = WkbPoint { x: 1.5, y: -2.0, ..WkbPoint::default() };
        let high = WkbPoint { z: Some(9.0), ..plain };
        let of = |kind, values: &[f64]| point(&little(kind, None, values));
        assert_eq!(of(1, &[1.5, -2.0]), Ok(plain));
        assert_eq!(of(1001, &[1.5, -2.0, 9.0]), Ok(high));
        assert_eq!(of(EWKB_Z | 1, &[1.5, -2.0, 9.0]), Ok(high));
        assert_eq!(of(1001, &[1.5, -2.0, f64::NAN]), Ok(plain));
        assert_eq!(of(2001, &[1.5, -2.0, 7.0]), Ok(WkbPoint { has_m: true, ..plain }));
        let measured = WkbPoint { has_m: true, ..high };
        assert_eq!(of(3001, &[1.5, -2.0, 9.0, 7.0]), Ok(measured));
        let kind = EWKB_Z | EWKB_M | EWKB_SRID | 1;
        let bytes = little(kind, Some(4326), &[1.5, -2.0, 9.0, 7.0]);
        assert_eq!(point(&bytes), Ok(WkbPoint { srid: Some(4326), ..measured }));
        let big = [&[0], &1001_u32.to_be_bytes()[..], &1.5_f64.to_be_bytes()].concat();
        let big = [big, (-2.0_f64).to_be_bytes().to_vec(), 9.0_f64.to_be_bytes().to_vec()];
        assert_eq!(point(&big.concat()), Ok(high));
    }

    #[test]
    fn other_bytes_are_named() {
        let plain = little(1, None, &[1.5, -2.0]);
        for (bytes, fault) in [
            (vec![], "0 bytes"),
            (plain[..20].to_vec(), "20 bytes"),
            (little(1001, None, &[1.5, -2.0]), "21 bytes"),
            ([&[2], &plain[1..]].concat(), "byte order"),
            (little(3, None, &[1.5, -2.0]), "type 3"),
            (little(4001, None, &[1.5, -2.0, 0.0, 0.0]), "type 4001"),
            (little(1, None, &[f64::NAN, f64::NAN]), "empty"),
        ] {
            assert!(point(&bytes).unwrap_err().contains(fault), "{bytes:?}");
        }
    }
}
