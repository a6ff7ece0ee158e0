//! Ranks: the distance of a point from a centre as an integer that is equal on every backend.
//!
//! In planar space a rank is the exact squared distance in quanta. In geographic space it is the
//! bits of the squared chord of [`crate::sphere`]; non-negative doubles order as their bits. Ranks
//! of different spaces are not comparable.

use crate::space::Space;
use crate::sphere;

/// Ranks points by their distance from one centre, which is prepared once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranker {
    x: i32,
    y: i32,
    /// The centre's unit vector in geographic space, `None` in planar space.
    vector: Option<[f64; 3]>,
}

impl Ranker {
    /// A ranker around a point of the space, in quanta.
    #[must_use]
    pub fn new(space: &Space, x: i32, y: i32) -> Self {
        let vector = space.is_geographic().then(|| sphere::unit_vector(x, y));
        Self { x, y, vector }
    }

    /// The centre in quanta.
    #[must_use]
    pub fn centre(&self) -> (i32, i32) {
        (self.x, self.y)
    }

    /// The centre's unit vector in geographic space.
    #[must_use]
    pub fn vector(&self) -> Option<[f64; 3]> {
        self.vector
    }

    /// True for chords, false for squared quanta.
    #[inline]
    #[must_use]
    pub fn is_geographic(&self) -> bool {
        self.vector.is_some()
    }

    /// Rank of a point of the space: squared quanta, or the bits of the squared chord.
    #[inline]
    #[must_use]
    pub fn rank(&self, x: i32, y: i32) -> u64 {
        self.rank_of(&RankPoint::new(self.is_geographic(), x, y))
    }

    /// As [`Ranker::rank`], for a prepared point, which is ranked from several centres.
    #[inline]
    #[must_use]
    pub fn rank_of(&self, point: &RankPoint) -> u64 {
        let RankPoint { x, y, vector } = *point;
        match self.vector.as_ref().zip(vector.as_ref()) {
            Some((centre, point)) => sphere::chord_squared(centre, point).to_bits(),
            None => {
                let dx = u64::from(self.x.abs_diff(x));
                let dy = u64::from(self.y.abs_diff(y));
                // Below 2^63 inside the largest space; saturates for points outside.
                (dx * dx).saturating_add(dy * dy)
            }
        }
    }
}

/// A point with the values that its ranks from all centres share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankPoint {
    x: i32,
    y: i32,
    /// The point's unit vector in geographic space, `None` in planar space.
    vector: Option<[f64; 3]>,
}

impl RankPoint {
    /// A point of a space, in quanta.
    #[inline]
    #[must_use]
    pub fn new(is_geographic: bool, x: i32, y: i32) -> Self {
        Self { x, y, vector: is_geographic.then(|| sphere::unit_vector(x, y)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planar_ranks_are_exact_at_the_largest_diagonal() {
        let side = 2_147_483_647.0;
        let space = Space::planar(side, side, 1.0).unwrap();
        let ranker = Ranker::new(&space, 0, 0);
        let square = u64::from(u32::MAX >> 1).pow(2);
        assert_eq!(ranker.rank(i32::MAX, i32::MAX), 2 * square);
        assert_eq!(ranker.rank(3, 4), 25);
        assert_eq!(Ranker::new(&space, i32::MAX, 0).rank(0, 0), square);
        assert_eq!(ranker.rank(i32::MIN, i32::MIN), 1 << 63);
    }

    #[test]
    fn geographic_ranks_order_as_distances() {
        let space = Space::geographic();
        let ranker = Ranker::new(&space, 1_799_999_999, 0);
        assert_eq!(ranker.rank(1_799_999_999, 0), 0);
        let near = ranker.rank(-1_800_000_000, 0);
        let far = ranker.rank(1_799_999_997, 0);
        assert!(0 < near && near < far);
        assert!((space.distance_m(near) - 0.011_119_5).abs() < 1e-6);
        let antipode = Ranker::new(&space, 0, 0).rank(-1_800_000_000, 0);
        assert_eq!(f64::from_bits(antipode), 4.0);
    }

    #[test]
    fn all_points_of_a_pole_are_one() {
        let space = Space::geographic();
        let ranker = Ranker::new(&space, 17, 900_000_000);
        assert_eq!(ranker.rank(-1_800_000_000, 900_000_000), 0);
        assert_eq!(ranker.rank(5, 899_999_999), ranker.rank(5, 899_999_999));
    }
}
