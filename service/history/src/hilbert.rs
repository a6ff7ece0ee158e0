//! Cells of 65,536 quanta a side, numbered along the Hilbert curve: near cells have near numbers.
//!
//! Hilbert, Math. Ann. 38 (1891); the loop is that of Warren, Hacker's Delight, section 16.

/// Bits of a coordinate that select the cell.
const BITS: u32 = 16;

/// Number of the cell of a point in quanta.
#[must_use]
pub fn hilbert_cell(x: i32, y: i32) -> u32 {
    // With the sign bit flipped, the unsigned order is the order of the coordinates.
    let high = |value: i32| (value as u32 ^ 1 << 31) >> (32 - BITS);
    let (mut x, mut y) = (high(x), high(y));
    let mut cell = 0;
    let mut side = 1 << (BITS - 1);
    while side > 0 {
        let (right, upper) = ((x & side > 0), (y & side > 0));
        cell += side * side * ((3 * u32::from(right)) ^ u32::from(upper));
        if !upper {
            if right {
                x = !x;
                y = !y;
            }
            std::mem::swap(&mut x, &mut y);
        }
        // Only the lower bits are used from here on.
        (x, y) = (x & (side - 1), y & (side - 1));
        side >>= 1;
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_follow_each_other_are_neighbours() {
        let side = 32;
        let mut cells = Vec::new();
        for x in 0..side {
            for y in 0..side {
                cells.push((hilbert_cell(i32::MIN + (x << 16), i32::MIN + (y << 16)), x, y));
            }
        }
        cells.sort_unstable();
        for pair in cells.windows(2) {
            let [(first, x, y), (second, next_x, next_y)] = pair else { unreachable!() };
            assert_eq!(first + 1, *second);
            assert_eq!((x - next_x).abs() + (y - next_y).abs(), 1, "{pair:?}");
        }
    }

    #[test]
    fn a_cell_is_a_square_of_points_and_corners_differ() {
        assert_eq!(hilbert_cell(0, 0), hilbert_cell(65_535, 65_535));
        assert_ne!(hilbert_cell(0, 0), hilbert_cell(-1, 0));
        let mut corners: Vec<u32> = [i32::MIN, i32::MAX]
            .iter()
            .flat_map(|x| [hilbert_cell(*x, i32::MIN), hilbert_cell(*x, i32::MAX)])
            .collect();
        corners.sort_unstable();
        corners.dedup();
        assert_eq!(corners.len(), 4);
        assert_eq!((corners[0], corners[3]), (0, u32::MAX));
    }
}
