//! A raster over a polygon, so that a point tests the few edges near it.
//!
//! Answers exactly as [`Polygon::contains`], for every point. A square that no edge meets is wholly
//! inside or wholly outside; every other square lists the edges that may meet it.

use super::edge::{Edge, Side};
use super::polygon::{Polygon, Slabs};
use crate::limits::POLYGON_VERTICES_MAX;
use crate::space::{HALF_TURN, QuantaRect};

/// Squares on a side: 2 to this power.
const SIDE_SHIFTS: std::ops::RangeInclusive<u32> = 2..=9;
/// Entries of all squares, 2 bytes each. With at most 2^18 squares of 4 bytes, and the room that a
/// list reserves to grow, a raster takes at most 5 MiB, and 8 MiB more while it is built.
const ENTRIES_MAX: usize = 1 << 20;
/// Columns visited while it is built, over all rows and parts.
const VISITS_MAX: usize = 1 << 22;

/// The costs by which a raster is chosen (weak evidence: one core). The first three are costs of a
/// test: per edge of a slab, per edge of a square, and per point.
const SLAB_EDGE_NS: f64 = 0.7;
const ENTRY_TEST_NS: f64 = 3.0;
const POINT_NS: f64 = 4.0;
/// The costs of building a raster: per square, per entry, and per edge of the slab in each row.
const SQUARE_NS: f64 = 2.0;
const ENTRY_NS: f64 = 6.0;
const ROW_EDGE_NS: f64 = 1.5;
/// Estimated time of all tests below which no raster is built.
const WORTH_NS: f64 = 20_000.0;

/// Flag of an entry whose edge is the first one of another part.
const PART_BEGINS: u16 = 1;
/// Flag of an entry with `PART_BEGINS`: the ray crosses an odd number of the part's edges beyond
/// the square.
const PART_HOLDS: u16 = 2;
/// Flag of an entry whose edge counts once more from the height of its right end.
const ENDS_BEYOND: u16 = 4;
const FLAGS: u16 = 7;
const EDGE_SHIFT: u32 = FLAGS.count_ones();

const _: () = assert!(
    POLYGON_VERTICES_MAX * 3 / 2 <= 1 << (u16::BITS - EDGE_SHIFT),
    "the edges of a slab, and the ends of parts, fit an entry"
);

/// The squares over the box of a polygon.
///
/// The ray from a point of a square with columns `x0..=x1` and rows `y0..=y1` towards greater x
/// crosses listed edges and others. Listed edges are tested. The others do not meet the square, nor
/// the line `x = x1 + 1/2` at its heights: those to the left are never crossed, those to the right
/// whatever x is. Their parity is counted at `y0`. Further up it changes only at a vertex that
/// joins one of them to a listed edge: beyond the line, at the right end of a listed edge that
/// crosses the line (no vertex lies on it). So such an edge counts once more where
/// `y0 < y_end <= y`.
#[derive(Debug)]
pub(super) struct Raster<'a> {
    slabs: Slabs<'a>,
    /// A square is 2^x by 2^y quanta.
    shifts: (u32, u32),
    columns: usize,
    /// For each square, row by row, twice the index of its first entry. 1 is added if the whole
    /// square is inside, or if the ray crosses an odd number of its first part's edges beyond it.
    /// The last element is the end of the entries.
    squares: Vec<u32>,
    /// Edges by their places in their slab.
    entries: Vec<u16>,
}

/// The size of the squares of a raster: 2^x by 2^y quanta.
#[derive(Clone, Copy, Debug)]
pub(super) struct SquareSize {
    shifts: (u32, u32),
}

impl<'a> Raster<'a> {
    /// The size of squares that makes this number of tests fastest in a raster of about this many
    /// bytes at most; `None` if they are faster without one.
    pub(super) fn size_for(polygon: &Polygon, tests: u64, bytes_max: usize) -> Option<SquareSize> {
        let slabs = polygon.slabs();
        let (plain_ns, in_slab) = (plain_ns(&slabs, tests), in_slab(&slabs));
        if plain_ns < WORTH_NS {
            return None;
        }
        let tests = tests as f64;
        let (mut wide, mut high) = (0.0, 0.0);
        for [x_low, y_low, x_high, y_high] in distinct(&slabs).map(|edge| edge.ends()) {
            wide += f64::from(x_low.abs_diff(x_high));
            high += f64::from(y_low.abs_diff(y_high));
        }
        let cost_ns = |shifts: (u32, u32)| {
            let (columns, rows) = size(&slabs, shifts);
            let squares = columns as f64 * rows as f64;
            let along = |length: f64, shift: u32| length / f64::from(1_u32 << shift);
            let crossed = along(wide, shifts.0) + along(high, shifts.1);
            let entries = polygon.vertices() as f64 + crossed;
            let bytes = squares * size_of::<u32>() as f64 + entries * size_of::<u16>() as f64;
            if entries > ENTRIES_MAX as f64 || bytes > bytes_max as f64 {
                return f64::INFINITY;
            }
            let building =
                squares * SQUARE_NS + entries * ENTRY_NS + rows as f64 * in_slab * ROW_EDGE_NS;
            building + tests * (POINT_NS + entries / squares * ENTRY_TEST_NS)
        };
        let (cost_ns, shifts) = SIDE_SHIFTS
            .map(|side| shifts(&slabs, side))
            .map(|shifts| (cost_ns(shifts), shifts))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        (cost_ns < plain_ns).then_some(SquareSize { shifts })
    }

    /// Builds a raster; `None` if it exceeds [`ENTRIES_MAX`] or [`VISITS_MAX`].
    pub(super) fn new(polygon: &'a Polygon, SquareSize { shifts }: SquareSize) -> Option<Self> {
        let slabs = polygon.slabs();
        let (columns, rows) = size(&slabs, shifts);
        let squares = Vec::with_capacity(columns * rows + 1);
        let mut raster = Self { slabs, shifts, columns, squares, entries: Vec::new() };
        let mut row = Row::new(columns);
        let mut visits = 0;
        for number in 0..rows {
            row.fill(&raster, number, &mut visits)?;
            row.append(&mut raster);
        }
        raster.squares.push((raster.entries.len() as u32) << 1);
        Some(raster)
    }

    fn column(&self, x: i32) -> usize {
        (x.abs_diff(self.slabs.extent.x_min) >> self.shifts.0) as usize
    }

    fn row(&self, y: i32) -> usize {
        (y.abs_diff(self.slabs.extent.y_min) >> self.shifts.1) as usize
    }

    /// The edges of the slab that a row lies in.
    #[inline]
    fn edges_of(&self, row: usize) -> &'a [Edge] {
        let slab = row >> (self.slabs.shift - self.shifts.1);
        let (first, end) = (self.slabs.starts[slab], self.slabs.starts[slab + 1]);
        &self.slabs.edges[first as usize..end as usize]
    }

    /// [`Polygon::contains`].
    #[inline]
    pub(super) fn contains(&self, x: i32, y: i32) -> bool {
        self.contains_at(x, y)
            || (self.slabs.touches_180 && x == -HALF_TURN && self.contains_at(HALF_TURN, y))
    }

    #[inline]
    fn contains_at(&self, x: i32, y: i32) -> bool {
        if !self.slabs.extent.contains(x, y) {
            return false;
        }
        let row = self.row(y);
        let square = row * self.columns + self.column(x);
        let (word, end) = (self.squares[square], self.squares[square + 1] >> 1);
        let mut inside = word & 1 != 0;
        let edges = self.edges_of(row);
        for entry in &self.entries[(word >> 1) as usize..end as usize] {
            let edge = &edges[(entry >> EDGE_SHIFT) as usize];
            let (is_crossed, is_aligned) = edge.crossed_or_aligned(x, y);
            if is_aligned | (entry & FLAGS != 0) {
                if (inside && entry & PART_BEGINS != 0) || is_on(edge, x, y) {
                    return true;
                }
                inside ^= entry & (PART_BEGINS | PART_HOLDS) == PART_BEGINS | PART_HOLDS;
                inside ^= entry & ENDS_BEYOND != 0 && y >= right_end(edge).1;
            }
            inside ^= is_crossed;
        }
        inside
    }

    /// True if no edge is near `rect` and all of `rect` is inside.
    pub(super) fn covers(&self, rect: &QuantaRect) -> bool {
        self.slabs.extent.covers(rect) && self.is_uniform(rect, 1)
    }

    /// True if no edge is near `rect` and all of `rect` is outside.
    pub(super) fn misses(&self, rect: &QuantaRect) -> bool {
        if self.slabs.touches_180 && rect.x_min == -HALF_TURN {
            return false;
        }
        rect.intersection(&self.slabs.extent).is_none_or(|near| self.is_uniform(&near, 0))
    }

    /// Whether the squares of a rectangle in the extent have no entry and this state.
    fn is_uniform(&self, rect: &QuantaRect, state: u32) -> bool {
        let columns = self.column(rect.x_min)..=self.column(rect.x_max);
        (self.row(rect.y_min)..=self.row(rect.y_max)).all(|row| {
            let first = row * self.columns + columns.start();
            let squares = &self.squares[first..=row * self.columns + columns.end() + 1];
            squares[0] & 1 == state
                && squares
                    .windows(2)
                    .all(|pair| pair[0] & 1 == state && pair[0] >> 1 == pair[1] >> 1)
        })
    }
}

/// Returns each edge once, from the slab of its lower end, although every slab that it meets lists
/// it.
fn distinct<'a>(slabs: &Slabs<'a>) -> impl Iterator<Item = &'a Edge> {
    let slabs = *slabs;
    slabs.starts.windows(2).enumerate().flat_map(move |(slab, ends)| {
        let is_first = move |edge: &&Edge| {
            let up = edge.y_low().abs_diff(slabs.extent.y_min);
            !edge.is_part_end() && (up >> slabs.shift) as usize == slab
        };
        slabs.edges[ends[0] as usize..ends[1] as usize].iter().filter(is_first)
    })
}

/// The shifts with which there are at most 2^`side` columns and 2^`side` rows. There are more rows
/// if there are more slabs, because a row lies in one slab.
fn shifts(slabs: &Slabs<'_>, side: u32) -> (u32, u32) {
    let QuantaRect { x_min, y_min, x_max, y_max } = slabs.extent;
    let shift = |length: u32| (u32::BITS - length.leading_zeros()).saturating_sub(side);
    (shift(x_max.abs_diff(x_min)), shift(y_max.abs_diff(y_min)).min(slabs.shift))
}

/// Edges of a slab on average.
fn in_slab(slabs: &Slabs<'_>) -> f64 {
    slabs.edges.len() as f64 / slabs.len() as f64
}

/// Estimated time of this number of tests without a raster.
fn plain_ns(slabs: &Slabs<'_>, tests: u64) -> f64 {
    tests as f64 * in_slab(slabs) * SLAB_EDGE_NS
}

/// Columns and rows.
fn size(slabs: &Slabs<'_>, shifts: (u32, u32)) -> (usize, usize) {
    let QuantaRect { x_min, y_min, x_max, y_max } = slabs.extent;
    let columns = (x_max.abs_diff(x_min) >> shifts.0) + 1;
    (columns as usize, ((y_max.abs_diff(y_min) >> shifts.1) + 1) as usize)
}

/// Whether a point lies on an edge.
#[cold]
fn is_on(edge: &Edge, x: i32, y: i32) -> bool {
    matches!(edge.side(x, y), Side::Border)
}

/// The end of an edge with the greater x.
#[inline]
fn right_end(edge: &Edge) -> (i32, i32) {
    let [x_low, y_low, x_high, y_high] = edge.ends();
    if x_low < x_high { (x_high, y_high) } else { (x_low, y_low) }
}

/// An edge in one row.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Its place in the slab.
    edge: usize,
    /// The columns of the squares that it may meet.
    first: usize,
    last: usize,
}

/// A square of the row that is built.
#[derive(Clone, Copy, Debug, Default)]
struct Square {
    /// True if an odd number of the part's edges that begin here cross the lowest height.
    flips: bool,
    /// True if the ray crosses an odd number of the part's edges beyond the square.
    holds: bool,
    /// `holds` of the first part with an entry here.
    first_holds: bool,
    /// True if a part without an entry here contains the whole square.
    is_inside: bool,
    /// The last part with an entry here, counted from 1.
    part: u32,
    /// Number of entries; then where the next one goes.
    entries: u32,
}

/// One row while it is built.
#[derive(Debug)]
struct Row {
    /// The edges of one part.
    runs: Vec<Run>,
    squares: Vec<Square>,
    /// The entries of the row, each with its column, part by part.
    found: Vec<(u16, u16)>,
}

impl Row {
    fn new(columns: usize) -> Self {
        let squares = vec![Square::default(); columns];
        Self { runs: Vec::new(), squares, found: Vec::new() }
    }

    /// Lists what lies in a row; `None` beyond the limits.
    fn fill(&mut self, raster: &Raster<'_>, row: usize, visits: &mut usize) -> Option<()> {
        let shift = raster.shifts.1;
        let y_min = i64::from(raster.slabs.extent.y_min) + ((row as i64) << shift);
        let heights = (y_min, y_min + (1 << shift) - 1);
        self.squares.fill(Square::default());
        self.found.clear();
        let (edges, mut part) = (raster.edges_of(row), 1);
        for (number, edge) in edges.iter().enumerate() {
            if edge.is_part_end() {
                self.finish_part(raster, edges, part, heights, visits)?;
                part += 1;
            } else if let Some((first, last)) = columns_in(raster, edge, heights) {
                self.runs.push(Run { edge: number, first, last });
            }
        }
        self.finish_part(raster, edges, part, heights, visits)
    }

    /// Lists the edges of one part.
    fn finish_part(
        &mut self,
        raster: &Raster<'_>,
        edges: &[Edge],
        part: u32,
        (y_min, y_max): (i64, i64),
        visits: &mut usize,
    ) -> Option<()> {
        let first = self.runs.iter().map(|run| run.first).min().unwrap_or(0);
        let end = self.runs.iter().map(|run| run.last + 1).max().unwrap_or(0);
        let entries: usize = self.runs.iter().map(|run| run.last - run.first + 1).sum();
        *visits += end - first + entries;
        let held = raster.entries.len() + self.found.len() + entries;
        if *visits > VISITS_MAX || held > ENTRIES_MAX {
            return None;
        }
        for run in &self.runs {
            let [_, y_low, _, y_high] = edges[run.edge].ends();
            self.squares[run.first].flips ^= i64::from(y_low) <= y_min && y_min < i64::from(y_high);
        }
        // A ring crosses a height an even number of times, so the parity left of all edges is even.
        let mut holds = false;
        for square in self.squares[first..end].iter_mut().rev() {
            square.holds = holds;
            holds ^= std::mem::take(&mut square.flips);
        }
        for run in self.runs.drain(..) {
            let (x_end, y_end) = right_end(&edges[run.edge]);
            let ends_here = y_min < i64::from(y_end) && i64::from(y_end) <= y_max;
            let beyond = if ends_here { raster.column(x_end) } else { 0 };
            let squares = self.squares[run.first..=run.last].iter_mut();
            self.found.extend(squares.zip(run.first..).map(|(square, column)| {
                let mut entry = (run.edge as u16) << EDGE_SHIFT;
                if square.part == 0 {
                    square.first_holds = square.holds;
                } else if square.part != part {
                    entry |= PART_BEGINS | if square.holds { PART_HOLDS } else { 0 };
                }
                (square.part, square.entries) = (part, square.entries + 1);
                (column as u16, entry | if column < beyond { ENDS_BEYOND } else { 0 })
            }));
        }
        for square in &mut self.squares[first..end] {
            square.is_inside |= square.holds && square.part != part;
        }
        Some(())
    }

    /// Appends the squares of the row to the raster.
    fn append(&mut self, raster: &mut Raster<'_>) {
        let mut at = raster.entries.len() as u32;
        for square in &mut self.squares {
            raster.squares.push(at << 1 | u32::from(square.is_inside | square.first_holds));
            let first = at;
            at += if square.is_inside { 0 } else { square.entries };
            square.entries = first;
        }
        raster.entries.resize(at as usize, 0);
        for (column, entry) in &self.found {
            let square = &mut self.squares[usize::from(*column)];
            if !square.is_inside {
                raster.entries[square.entries as usize] = *entry;
                square.entries += 1;
            }
        }
    }
}

/// The first and last column of the squares that an edge may meet between two heights, none of them
/// left of the edge; `None` if it does not meet the heights. At most a quantum too many on each
/// side, for rounding.
fn columns_in(
    raster: &Raster<'_>,
    edge: &Edge,
    (y_min, y_max): (i64, i64),
) -> Option<(usize, usize)> {
    let [x_low, y_low, x_high, y_high] = edge.ends();
    let (low, high) = (i64::from(y_low), i64::from(y_high));
    if high < y_min || low > y_max {
        return None;
    }
    let (west, east) = (x_low.min(x_high), x_low.max(x_high));
    if low >= y_min && high <= y_max {
        return Some((raster.column(west), raster.column(east)));
    }
    let slope = (f64::from(x_high) - f64::from(x_low)) / (high - low) as f64;
    let x_at = |y: i64| f64::from(x_low) + slope * (y - low) as f64;
    let (a, b) = (x_at(low.max(y_min)), x_at(high.min(y_max)));
    let clamp = |x: f64| (x as i64).clamp(west.into(), east.into()) as i32;
    // Casts round towards 0, and products are exact but for a millionth.
    Some((raster.column(clamp(a.min(b) - 1.0)), raster.column(clamp(a.max(b) + 1.0))))
}

#[cfg(test)]
mod tests;
