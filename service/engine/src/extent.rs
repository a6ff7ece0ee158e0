//! Chooses the rectangle that a grid covers, and its proportions.
//!
//! Every backend with a grid uses the box of a sample of positions without its outliers. The extent
//! affects only speed, not answers, because positions outside it fall into the cells at the rim.

use crate::space::{QuantaRect, Space};

/// One in this many positions may lie beyond each side of the extent.
const OUTLIERS: usize = 256;

/// The box of some positions without outliers, slightly widened; the whole space if there are no
/// positions. `xs` and `ys` have equal length; both are sorted in place.
#[must_use]
pub fn extent(space: &Space, xs: &mut [i32], ys: &mut [i32]) -> QuantaRect {
    let bounds = space.bounds();
    if xs.is_empty() {
        return bounds;
    }
    let (x_min, x_max) = core(xs, bounds.x_min, bounds.x_max);
    let (y_min, y_max) = core(ys, bounds.y_min, bounds.y_max);
    QuantaRect { x_min, y_min, x_max, y_max }
}

/// The range of nearly all values, widened by a thirty-second on each side, inside [min, max].
fn core(values: &mut [i32], min: i32, max: i32) -> (i32, i32) {
    values.sort_unstable();
    let cut = values.len() / OUTLIERS;
    let (low, high) = (i64::from(values[cut]), i64::from(values[values.len() - 1 - cut]));
    let margin = (high - low) / 32 + 1;
    let clamp = |value: i64| value.clamp(i64::from(min), i64::from(max)) as i32;
    (clamp(low - margin), clamp(high + margin))
}

/// Height and width of an extent in quanta. They give the proportions of a grid whose cells are
/// about square. In geographic space the width is multiplied by the cosine of the middle latitude.
#[must_use]
pub fn height_and_width(space: &Space, extent: &QuantaRect) -> (f64, f64) {
    let mut width = f64::from(extent.x_max.abs_diff(extent.x_min)) + 1.0;
    let height = f64::from(extent.y_max.abs_diff(extent.y_min)) + 1.0;
    if space.is_geographic() {
        let middle_deg = (f64::from(extent.y_min) + f64::from(extent.y_max)) / 2.0 * 1e-7;
        width *= middle_deg.to_radians().cos().max(0.05);
    }
    (height, width)
}
