//! Walks the buckets of the cells that a rectangle touches.
//!
//! Tells of each bucket whether its cell lies wholly inside the rectangle: then its positions need
//! no comparison.

use super::band::Band;
use super::bucket::{BUCKET_OBJECTS, Bucket, NO_BUCKET};
use super::grid::Grid;
use super::prefetch;
use crate::space::QuantaRect;

/// The grid and its bands, for reading.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    pub(super) grid: &'a Grid,
    pub(super) bands: &'a [Band],
}

/// Cells asked for ahead of one query.
const AHEAD_MAX: u64 = 24;

impl Cells<'_> {
    /// Asks the cache for the cells that a rectangle touches, unless they are many.
    pub(super) fn prefetch(&self, rect: &QuantaRect) {
        let cover = self.grid.cover(rect);
        if cover.cells() > AHEAD_MAX {
            return;
        }
        for row in cover.row_min..=cover.row_max {
            let (band, first) = self.grid.cell_of(cover.column_min, row);
            for at in 0..=cover.column_max - cover.column_min {
                prefetch::read(&self.bands[band as usize].buckets, (first + at) as usize);
            }
        }
    }

    /// Calls `each` with every bucket of every touched cell, and whether the cell is wholly inside.
    #[inline]
    pub(super) fn visit(&self, rect: &QuantaRect, mut each: impl FnMut(&Bucket, bool)) {
        let cover = self.grid.cover(rect);
        for row in cover.row_min..=cover.row_max {
            let (band, first) = self.grid.cell_of(cover.column_min, row);
            let buckets = &self.bands[band as usize].buckets;
            let row_inside = row > cover.row_min && row < cover.row_max;
            let last = first + (cover.column_max - cover.column_min);
            for cell in first..=last {
                let is_inside = row_inside && cell > first && cell < last;
                let mut bucket = &buckets[cell as usize];
                loop {
                    each(bucket, is_inside);
                    if bucket.next == NO_BUCKET {
                        break;
                    }
                    bucket = &buckets[bucket.next as usize];
                }
            }
        }
    }
}

/// One bit per object of the bucket that lies in the rectangle.
#[inline(always)]
pub(super) fn inside(bucket: &Bucket, rect: &QuantaRect) -> u32 {
    let mut hits = 0_u32;
    for at in 0..BUCKET_OBJECTS {
        let is_in = (bucket.x[at] >= rect.x_min)
            & (bucket.x[at] <= rect.x_max)
            & (bucket.y[at] >= rect.y_min)
            & (bucket.y[at] <= rect.y_max);
        hits |= u32::from(is_in) << at;
    }
    hits & ((1 << bucket.count) - 1)
}
