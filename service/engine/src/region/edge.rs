//! The edges of a polygon's rings, and the side of an edge that a point is on.
//!
//! Comparing two i64 products is exact. A mark separates the edges of the polygons of a union,
//! [`Edge::is_part_end`].

use crate::layout::PART_END_HEIGHT;
use crate::space::QuantaRect;

/// Widest and highest edge: differences along it stay below 2^31, their products below 2^62.
pub(super) const EDGE_MAX: u32 = i32::MAX as u32;

/// One side of a ring, its lower end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    x_low: i32,
    y_low: i32,
    x_high: i32,
    y_high: i32,
}

impl Edge {
    pub(super) fn new(a: (i32, i32), b: (i32, i32)) -> Self {
        let (low, high) = if a.1 <= b.1 { (a, b) } else { (b, a) };
        Self { x_low: low.0, y_low: low.1, x_high: high.0, y_high: high.1 }
    }

    /// Marks the end of one polygon's edges if the edges of another polygon follow. Its box holds
    /// every point, so [`Edge::side`] checks for the mark only if an edge's box holds the point. No
    /// ring has an edge of this height.
    pub(super) const PART_END: Self =
        Self { x_low: i32::MIN, y_low: i32::MIN, x_high: i32::MAX, y_high: i32::MAX };

    /// Whether this marks the end of one polygon's edges and is no edge itself.
    #[inline]
    #[must_use]
    pub fn is_part_end(&self) -> bool {
        self.y_low.abs_diff(self.y_high) == PART_END_HEIGHT
    }

    /// Its lower and its higher end: x, y, x, y in quanta.
    #[must_use]
    pub fn ends(&self) -> [i32; 4] {
        [self.x_low, self.y_low, self.x_high, self.y_high]
    }

    /// The y of its lower end.
    #[inline]
    pub(super) fn y_low(&self) -> i32 {
        self.y_low
    }

    /// The y of its higher end.
    #[inline]
    pub(super) fn y_high(&self) -> i32 {
        self.y_high
    }

    /// The side of a point. Only the lower end counts as crossed, so that a ray through a vertex
    /// has the correct parity; a horizontal edge is never crossed.
    #[inline]
    pub(super) fn side(&self, x: i32, y: i32) -> Side {
        if y < self.y_low || y > self.y_high || x > self.x_low.max(self.x_high) {
            return Side::Apart;
        }
        let below_high = y < self.y_high;
        if x < self.x_low.min(self.x_high) {
            return if below_high { Side::Crossed } else { Side::Apart };
        }
        if self.is_part_end() {
            return Side::PartEnd;
        }
        // The point lies in the edge's box: every difference is at most EDGE_MAX.
        let difference = |a: i32, b: i32| i64::from(a) - i64::from(b);
        let along = difference(self.x_high, self.x_low) * difference(y, self.y_low);
        let across = difference(self.y_high, self.y_low) * difference(x, self.x_low);
        match along.cmp(&across) {
            std::cmp::Ordering::Equal => Side::Border,
            std::cmp::Ordering::Greater if below_high => Side::Crossed,
            _ => Side::Apart,
        }
    }

    /// Whether [`Edge::side`] is `Crossed`, and whether the point lies on the edge's line: where it
    /// does not, the side is not `Border`. Has no branches, because the side of an edge whose box
    /// probably holds the point is hard to predict. Must not be called for the end of a part.
    #[inline(always)]
    pub(super) fn crossed_or_aligned(&self, x: i32, y: i32) -> (bool, bool) {
        // Along the edge differences are at most EDGE_MAX, others below 2^32: no product reaches
        // 2^63.
        let difference = |a: i32, b: i32| i64::from(a) - i64::from(b);
        let (high, up) = (difference(self.y_high, self.y_low), difference(y, self.y_low));
        let along = difference(self.x_high, self.x_low) * up;
        let across = high * difference(x, self.x_low);
        // From the lower end, included, to the higher one.
        (((up as u64) < high as u64) & (along > across), along == across)
    }

    /// Whether the edge certainly has no point in common with a closed rectangle: disjoint on an
    /// axis, or all corners strictly on one side of its line. The end of a part has no point.
    pub(super) fn misses(&self, rect: &QuantaRect) -> bool {
        let (west, east) = (self.x_low.min(self.x_high), self.x_low.max(self.x_high));
        if west > rect.x_max
            || east < rect.x_min
            || self.y_low > rect.y_max
            || self.y_high < rect.y_min
            || self.is_part_end()
        {
            return true;
        }
        // Corners may lie anywhere, so the products need more than 64 bits.
        let difference = |a: i32, b: i32| i128::from(a) - i128::from(b);
        let orientation = |x: i32, y: i32| {
            let along = difference(self.x_high, self.x_low) * difference(y, self.y_low);
            (along - difference(self.y_high, self.y_low) * difference(x, self.x_low)).signum()
        };
        let sum = orientation(rect.x_min, rect.y_min)
            + orientation(rect.x_min, rect.y_max)
            + orientation(rect.x_max, rect.y_min)
            + orientation(rect.x_max, rect.y_max);
        sum.abs() == 4
    }
}

/// The side of an edge that a point is on.
pub(super) enum Side {
    /// On the edge.
    Border,
    /// The ray from the point towards greater x crosses the edge.
    Crossed,
    /// Neither.
    Apart,
    /// This is no edge but the mark where the edges of one polygon end.
    PartEnd,
}
