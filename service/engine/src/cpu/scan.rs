//! Visits the buckets of the cells that a rectangle touches.
//!
//! Reports with each bucket whether its cell is wholly inside the rectangle. If it is, the
//! positions of the bucket need no comparison.

use std::ops::ControlFlow::{self, Continue};

use super::band::{BLOCK_SIDE, Band, Leaf, split};
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

/// Maximum number of cells that are prefetched for one query.
const AHEAD_MAX: u64 = 24;

impl Cells<'_> {
    /// Number of objects in the smallest cell at a position, and the cell's area as a fraction of
    /// the area of an unrefined cell.
    pub(super) fn crowd(&self, x: i32, y: i32) -> (u32, f64) {
        let (band, cell) = self.grid.locate(x, y);
        let band = &self.bands[band as usize];
        let Leaf { head, depth } = band.leaf(self.grid, cell as usize, x, y);
        let mut objects = 0;
        let _ = chain(&band.buckets, &band.buckets[head], true, &mut |bucket, _| {
            objects += u32::from(bucket.count);
            Continue(())
        });
        (objects, f64::from(BLOCK_SIDE * BLOCK_SIDE).powi(-(depth as i32)))
    }

    /// Prefetches the cells that a rectangle touches, unless they are many.
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

    /// Calls `each` with every bucket of every touched cell, and whether the cell is wholly inside,
    /// until it returns `Break`.
    #[inline]
    pub(super) fn visit(
        &self,
        rect: &QuantaRect,
        mut each: impl FnMut(&Bucket, bool) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let cover = self.grid.cover(rect);
        for row in cover.row_min..=cover.row_max {
            let (band, first) = self.grid.cell_of(cover.column_min, row);
            let buckets = &self.bands[band as usize].buckets;
            let row_inside = row > cover.row_min && row < cover.row_max;
            let last = first + (cover.column_max - cover.column_min);
            for cell in first..=last {
                let head = &buckets[cell as usize];
                if let Some(block) = head.block() {
                    let low = self.grid.inside(rect.x_min, rect.y_min);
                    let high = self.grid.inside(rect.x_max, rect.y_max);
                    let columns = Span {
                        low: (cell == first).then_some(low.x),
                        high: (cell == last).then_some(high.x),
                    };
                    let rows = Span {
                        low: (row == cover.row_min).then_some(low.y),
                        high: (row == cover.row_max).then_some(high.y),
                    };
                    visit_block(buckets, block, columns, rows, &mut each)?;
                } else {
                    chain(buckets, head, row_inside && cell > first && cell < last, &mut each)?;
                }
            }
        }
        Continue(())
    }
}

/// The part of one side of a cell that a rectangle covers. Each end is the rectangle's border
/// inside the cell, or `None` if the rectangle extends beyond the cell.
#[derive(Clone, Copy)]
struct Span {
    low: Option<u32>,
    high: Option<u32>,
}

impl Span {
    /// Indices of the smaller cells along the side that the span touches.
    fn parts(self) -> std::ops::RangeInclusive<u32> {
        let low = self.low.map_or(0, |low| split(low).0);
        low..=self.high.map_or(BLOCK_SIDE - 1, |high| split(high).0)
    }

    /// The part of the span inside smaller cell `part` of the side.
    fn of_part(self, part: u32) -> Self {
        let border = |edge: Option<u32>| edge.map(split).filter(|(at, _)| *at == part);
        Self {
            low: border(self.low).map(|(_, low)| low),
            high: border(self.high).map(|(_, high)| high),
        }
    }

    fn is_open(self) -> bool {
        self.low.is_none() && self.high.is_none()
    }
}

/// Visits the smaller cells of a refined one.
fn visit_block<F: FnMut(&Bucket, bool) -> ControlFlow<()>>(
    buckets: &[Bucket],
    block: u32,
    columns: Span,
    rows: Span,
    each: &mut F,
) -> ControlFlow<()> {
    for row in rows.parts() {
        let of_row = rows.of_part(row);
        for column in columns.parts() {
            let of_column = columns.of_part(column);
            let head = &buckets[(block + row * BLOCK_SIDE + column) as usize];
            if let Some(block) = head.block() {
                visit_block(buckets, block, of_column, of_row, each)?;
            } else {
                chain(buckets, head, of_row.is_open() && of_column.is_open(), each)?;
            }
        }
    }
    Continue(())
}

/// Calls `each` with the buckets of a cell that is not refined.
#[inline(always)]
pub(super) fn chain<F: FnMut(&Bucket, bool) -> ControlFlow<()>>(
    buckets: &[Bucket],
    head: &Bucket,
    is_inside: bool,
    each: &mut F,
) -> ControlFlow<()> {
    let mut bucket = head;
    each(bucket, is_inside)?;
    while bucket.next != NO_BUCKET {
        bucket = &buckets[bucket.next as usize];
        each(bucket, is_inside)?;
    }
    Continue(())
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
    hits & bucket.mask()
}
