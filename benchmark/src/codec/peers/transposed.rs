//! Byte planes: the first bytes of all values, then the second bytes, and so on.
//!
//! Byte codecs often compress planes better than whole values, because the high bytes of adjacent
//! values are similar. Only the order of bytes changes.

/// Values of one pass, which fit the nearest cache with all their planes.
const STRIP: usize = 2_048;

/// Replaces `out` with the planes of `bytes`, whole values of `width` bytes.
pub(super) fn transpose(bytes: &[u8], width: usize, out: &mut Vec<u8>) {
    let count = values(bytes, width);
    out.clear();
    out.resize(bytes.len(), 0);
    for start in (0..count).step_by(STRIP) {
        let end = count.min(start + STRIP);
        for plane in 0..width {
            let to = &mut out[plane * count + start..plane * count + end];
            for (to, value) in to.iter_mut().zip(bytes[start * width..].chunks_exact(width)) {
                *to = value[plane];
            }
        }
    }
}

/// Replaces `out` with the values whose planes are `planes`.
pub(super) fn restore(planes: &[u8], width: usize, out: &mut Vec<u8>) {
    let count = values(planes, width);
    out.clear();
    out.resize(planes.len(), 0);
    for start in (0..count).step_by(STRIP) {
        let end = count.min(start + STRIP);
        for plane in 0..width {
            let from = &planes[plane * count + start..plane * count + end];
            for (from, value) in from.iter().zip(out[start * width..].chunks_exact_mut(width)) {
                value[plane] = *from;
            }
        }
    }
}

fn values(bytes: &[u8], width: usize) -> usize {
    assert!(bytes.len().is_multiple_of(width), "{} bytes in values of {width}", bytes.len());
    bytes.len() / width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_in_order_and_round_trip() {
        let (mut planes, mut back) = (Vec::new(), Vec::new());
        transpose(&[1, 2, 3, 4, 5, 6], 2, &mut planes);
        assert_eq!(planes, [1, 3, 5, 2, 4, 6]);
        for width in [1, 2, 4, 8] {
            for count in [0, 1, STRIP - 1, STRIP, 2 * STRIP + 3] {
                let bytes: Vec<u8> = (0..count * width).map(|i| (i * 7 % 251) as u8).collect();
                transpose(&bytes, width, &mut planes);
                restore(&planes, width, &mut back);
                assert_eq!(back, bytes, "{count} values of {width} bytes");
            }
        }
    }
}
