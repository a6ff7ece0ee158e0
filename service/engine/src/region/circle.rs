//! Circles: the points within a distance of a centre.
//!
//! A point is inside when its rank ([`crate::rank::Ranker`]) is at most `rank_max`, which is
//! computed once. The cover of a geographic circle is widened by a metre and the wholly-inside test
//! narrowed by one, so that rounding and libm never decide an answer.

use super::Cover;
use super::rectangle::meridian_cover;
use crate::error::{GeometryError, number};
use crate::rank::Ranker;
use crate::space::{HALF_TURN, QUARTER_TURN, QuantaRect, Space};
use crate::sphere::{self, EARTH_RADIUS_M};

/// Metres by which covers are widened and wholly-inside tests narrowed.
const MARGIN_M: f64 = 1.0;
/// Quanta of one radian.
const QUANTA_PER_RADIAN: f64 = 1.8e9 / std::f64::consts::PI;

/// Everything within a distance of a centre; see [`super::Region::circle`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circle {
    ranker: Ranker,
    rank_max: u64,
    /// Points within this rank are certainly inside; `None` when none is.
    rank_sure: Option<u64>,
    cover: Cover,
}

impl Circle {
    /// See [`super::Region::circle`].
    pub(super) fn new(space: &Space, x: f64, y: f64, radius_m: f64) -> Result<Self, GeometryError> {
        let (x, y) = space.point(x, y)?;
        if radius_m.is_nan() {
            return Err(GeometryError::new("radius_m", "radius must be a number"));
        }
        if radius_m < 0.0 {
            let problem = format!("radius {} m must be 0 or greater", number(radius_m));
            return Err(GeometryError::new("radius_m", problem));
        }
        Ok(Self::within(space, &Ranker::new(space, x, y), radius_m))
    }

    /// The circle around a ranker's centre; `radius_m` is neither negative nor NaN.
    #[must_use]
    pub fn within(space: &Space, ranker: &Ranker, radius_m: f64) -> Self {
        Self::build(space, ranker, radius_m, space.rank_within(radius_m))
    }

    /// The circle of all points whose rank is at most `rank_max`.
    #[must_use]
    pub fn reaching(space: &Space, ranker: &Ranker, rank_max: u64) -> Self {
        // No rank is above that of 5, because a squared chord is at most 4 except for rounding.
        let is_everything = ranker.is_geographic() && rank_max > 5_f64.to_bits();
        let rank_max = if is_everything { u64::MAX } else { rank_max };
        Self::build(space, ranker, space.distance_m(rank_max), rank_max)
    }

    /// [`Circle::within`] the radius, but [`Circle::reaching`] the rank where that is less.
    #[must_use]
    pub fn bounded(space: &Space, ranker: &Ranker, radius_m: f64, rank_max: u64) -> Self {
        let within = space.rank_within(radius_m);
        if within < rank_max {
            Self::build(space, ranker, radius_m, within)
        } else {
            Self::reaching(space, ranker, rank_max)
        }
    }

    fn build(space: &Space, ranker: &Ranker, radius_m: f64, rank_max: u64) -> Self {
        let mut circle =
            Self { ranker: *ranker, rank_max, rank_sure: Some(rank_max), cover: Cover::empty() };
        circle.cover = if rank_max == u64::MAX {
            Cover::one(&space.bounds(), &space.bounds())
        } else if ranker.is_geographic() {
            circle.rank_sure = (radius_m > MARGIN_M)
                .then(|| sphere::chord_squared_of(radius_m - MARGIN_M).map(f64::to_bits))
                .flatten();
            geographic_cover(space, ranker, radius_m + MARGIN_M)
        } else {
            planar_cover(space, ranker, rank_max)
        };
        circle
    }

    /// Whether a point of the space lies in it: `rank(p) <= rank_max`.
    #[inline]
    #[must_use]
    pub fn contains(&self, x: i32, y: i32) -> bool {
        self.ranker.rank(x, y) <= self.rank_max
    }

    /// The largest rank inside.
    #[inline]
    #[must_use]
    pub fn rank_max(&self) -> u64 {
        self.rank_max
    }

    /// The ranker of its centre.
    #[must_use]
    pub fn ranker(&self) -> &Ranker {
        &self.ranker
    }

    /// True when every point of the space is certainly inside.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.rank_max == u64::MAX
    }

    /// See [`super::Region::cover`].
    #[inline]
    #[must_use]
    pub fn cover(&self) -> Cover {
        self.cover
    }

    /// See [`super::Region::covers`].
    #[must_use]
    pub fn covers(&self, rect: &QuantaRect) -> bool {
        if self.is_everything() {
            return true;
        }
        if !self.ranker.is_geographic() {
            let (x, y) = self.ranker.centre();
            let far = |a: i32, b: i32, c: i32| if a.abs_diff(c) > b.abs_diff(c) { a } else { b };
            let (far_x, far_y) = (far(rect.x_min, rect.x_max, x), far(rect.y_min, rect.y_max, y));
            return self.ranker.rank(far_x, far_y) <= self.rank_max;
        }
        let Some(rect) = rect.intersection(&Space::geographic().bounds()) else {
            return true;
        };
        self.rank_sure.is_some_and(|rank_sure| self.farthest_rank(&rect) <= rank_sure)
    }

    /// See [`super::Region::misses`].
    #[must_use]
    pub fn misses(&self, rect: &QuantaRect) -> bool {
        if self.is_everything() {
            return false;
        }
        let (x, y) = self.ranker.centre();
        if !self.ranker.is_geographic() {
            let near = (x.clamp(rect.x_min, rect.x_max), y.clamp(rect.y_min, rect.y_max));
            return self.ranker.rank(near.0, near.1) > self.rank_max;
        }
        let radius_m = sphere::distance_m(f64::from_bits(self.rank_max)) + MARGIN_M;
        let beyond = sphere::chord_squared_of(radius_m).map_or(u64::MAX, f64::to_bits);
        self.nearest_rank(rect) > beyond
    }

    /// A lower bound of the rank of the points of a geographic `rect`, but for rounding.
    ///
    /// On one parallel the distance grows with the difference in longitude, so the nearest point
    /// lies on the nearest meridian, and there where the cosine of the distance, sin a sin b +
    /// cos a cos b cos l, has its maximum: tan b = tan a / cos l. A quarter of a turn away and
    /// further it has none between the poles, so the nearest point is an end.
    fn nearest_rank(&self, rect: &QuantaRect) -> u64 {
        let (x, y) = self.ranker.centre();
        let near_x = if (rect.x_min..=rect.x_max).contains(&x) {
            x
        } else {
            let (west, east) = (apart(x, rect.x_min), apart(x, rect.x_max));
            if west < east { rect.x_min } else { rect.x_max }
        };
        let apart = apart(x, near_x);
        if apart >= i64::from(QUARTER_TURN) {
            let south = self.ranker.rank(near_x, rect.y_min);
            return south.min(self.ranker.rank(near_x, rect.y_max));
        }
        let latitude = (f64::from(y) / QUANTA_PER_RADIAN).tan();
        let top = (latitude / (apart as f64 / QUANTA_PER_RADIAN).cos()).atan();
        let near_y = (top * QUANTA_PER_RADIAN) as i32;
        self.ranker.rank(near_x, near_y.clamp(rect.y_min, rect.y_max))
    }

    /// An upper bound of the rank of the points of a geographic `rect`, but for rounding.
    ///
    /// On one parallel the distance grows with the difference in longitude. On one meridian at most
    /// 90 degrees away the cosine of the distance, sin a sin b + cos a cos b cos l, has its maximum
    /// inside and falls to both sides, so the farthest point is an end. On meridians further away
    /// the distance is at most that over the pole, 180 degrees less |a + b|.
    fn farthest_rank(&self, rect: &QuantaRect) -> u64 {
        let (x, y) = self.ranker.centre();
        let opposite = if x < 0 { x + HALF_TURN } else { x - HALF_TURN };
        let (west, east) = (apart(x, rect.x_min), apart(x, rect.x_max));
        let farthest = if west > east { rect.x_min } else { rect.x_max };
        let meets_opposite = rect.x_min <= opposite && opposite <= rect.x_max;
        if !meets_opposite && west.max(east) <= i64::from(QUARTER_TURN) {
            let south = self.ranker.rank(farthest, rect.y_min);
            return south.max(self.ranker.rank(farthest, rect.y_max));
        }
        // The latitude of `rect` nearest to -y, on the opposite meridian.
        self.ranker.rank(opposite, (-y).clamp(rect.y_min, rect.y_max))
    }
}

/// Distance of two longitudes, quanta.
fn apart(a: i32, b: i32) -> i64 {
    let direct = i64::from(a.abs_diff(b));
    direct.min(2 * i64::from(HALF_TURN) - direct)
}

/// The box of a planar circle whose points are at most `sqrt(rank_max)` quanta away.
fn planar_cover(space: &Space, ranker: &Ranker, rank_max: u64) -> Cover {
    let radius = i64::try_from(rank_max.isqrt()).unwrap_or(i64::MAX);
    let (x, y) = ranker.centre();
    let clamp = |value: i64| value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    let rect = QuantaRect {
        x_min: clamp(i64::from(x) - radius),
        y_min: clamp(i64::from(y) - radius),
        x_max: clamp(i64::from(x) + radius),
        y_max: clamp(i64::from(y) + radius),
    };
    Cover::one(&rect, &space.bounds())
}

/// The boxes of a geographic circle; libm suffices, as the radius is widened already.
///
/// A circle of angle d around latitude a that holds no pole touches the meridians at the longitudes
/// l with sin l = sin d / cos a on both sides; written with the arc tangent, because the arc sine
/// is inexact near 90 degrees: tan l = sin d / sqrt(cos(a + d) cos(a - d)).
fn geographic_cover(space: &Space, ranker: &Ranker, radius_m: f64) -> Cover {
    let (x, y) = ranker.centre();
    let angle = radius_m / EARTH_RADIUS_M;
    let reach = (angle * QUANTA_PER_RADIAN).ceil().min(f64::from(HALF_TURN)) as i64 + 1;
    let (south, north) = (i64::from(y) - reach, i64::from(y) + reach);
    let quarter = i64::from(QUARTER_TURN);
    let (y_min, y_max) = (south.max(-quarter) as i32, north.min(quarter) as i32);
    if south <= -quarter || north >= quarter {
        return meridian_cover(space, -HALF_TURN, HALF_TURN, y_min, y_max);
    }
    let latitude = f64::from(y) / QUANTA_PER_RADIAN;
    let squared = (latitude + angle).cos() * (latitude - angle).cos();
    let half_width = angle.sin().atan2(squared.max(0.0).sqrt());
    let half_width = (half_width * QUANTA_PER_RADIAN).ceil() as i64 + 1;
    let wrap = |value: i64| {
        let (half, turn) = (i64::from(HALF_TURN), 2 * i64::from(HALF_TURN));
        (value + half).rem_euclid(turn) - half
    };
    let (west, east) = (wrap(i64::from(x) - half_width), wrap(i64::from(x) + half_width));
    meridian_cover(space, west as i32, east as i32, y_min, y_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_circles_are_named() {
        let fault = |x, y, radius_m| {
            let error = Circle::new(&Space::geographic(), x, y, radius_m).unwrap_err();
            format!("{}: {error}", error.field())
        };
        assert_eq!(fault(200.0, 0.0, 1.0), "x: longitude 200 is outside -180 to 180");
        assert_eq!(fault(0.0, f64::NAN, 1.0), "y: latitude must be a finite number");
        assert_eq!(fault(0.0, 0.0, -1.0), "radius_m: radius -1 m must be 0 or greater");
        assert_eq!(fault(0.0, 0.0, f64::NAN), "radius_m: radius must be a number");
    }
}
