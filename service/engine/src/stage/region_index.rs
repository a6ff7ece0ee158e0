//! An index of regions by position: for each cell the list of regions that may contain its points.
//!
//! A region is indexed at the level where its cover has at most [`REGION_CELLS_MAX`] cells, so that
//! inserting and removing cost the same for every size; a position reads one cell of each level in
//! use. A cell lists the regions that contain the whole cell apart from the regions that must be
//! tested. Regions are small numbers here.

pub use super::cell_table::CellPlace;
use super::cell_table::CellTable;
use crate::region::{Cover, PreparedRegion, Region};
use crate::space::{HALF_TURN, QuantaRect, Space};

/// Maximum number of cells of one region. Eight by eight cells are each about a quarter of a radius
/// wide. With fewer, more positions test regions; with more, lists are longer (weak evidence: 2
/// cores).
pub const REGION_CELLS_MAX: u64 = 64;
/// Maximum number of cells of a level that are searched for the regions that a segment may cut. If
/// there are more, all regions of the level are tested.
const SEGMENT_CELLS_MAX: u64 = 256;
/// Levels: cells of 1, 2, 4 ... quanta a side; at the last one cell holds every space.
const LEVELS: u32 = 33;

/// The regions of one cell, in no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellRegions<'a> {
    all: &'a [u32],
    partial: usize,
}

impl<'a> CellRegions<'a> {
    /// The regions to test.
    #[inline]
    #[must_use]
    pub fn partial(&self) -> &'a [u32] {
        &self.all[..self.partial]
    }

    /// The regions that contain the whole cell.
    #[inline]
    #[must_use]
    pub fn whole(&self) -> &'a [u32] {
        &self.all[self.partial..]
    }

    /// The regions to test, then those that contain the whole cell.
    #[inline]
    #[must_use]
    pub fn all(&self) -> &'a [u32] {
        self.all
    }
}

/// Regions by the cells that they touch.
#[derive(Clone, Debug)]
pub struct RegionIndex {
    bounds: QuantaRect,
    /// True if regions are listed in every cell of their cover; see [`RegionIndex::wide`].
    is_wide: bool,
    levels: Vec<Level>,
}

/// One level that has regions.
#[derive(Clone, Debug)]
struct Level {
    level: u32,
    regions: usize,
    cells: CellTable,
    lists: Lists,
}

/// Lists of cells in one vector, in slices of powers of two that are reused.
#[derive(Clone, Debug, Default)]
struct Lists {
    words: Vec<u32>,
    /// The unused slices of each class.
    unused: Vec<Vec<u32>>,
}

impl RegionIndex {
    /// An index without regions of a space with these bounds.
    #[must_use]
    pub fn new(bounds: QuantaRect) -> Self {
        Self { bounds, is_wide: false, levels: Vec::new() }
    }

    /// As [`RegionIndex::new`], for segments between positions. A region is listed in every cell of
    /// its cover. A segment that cuts the region then shares a cell with it, even where the segment
    /// passes between the points of the space.
    #[must_use]
    pub fn wide(bounds: QuantaRect) -> Self {
        Self { is_wide: true, ..Self::new(bounds) }
    }

    /// Inserts a region under an unused number.
    pub fn insert(&mut self, number: u32, region: &Region) {
        self.insert_prepared(number, &PreparedRegion::plain(region));
    }

    /// As [`RegionIndex::insert`].
    pub fn insert_prepared(&mut self, number: u32, region: &PreparedRegion<'_>) {
        let Some(level) = level_of(&self.bounds, &region.cover()) else { return };
        let at = self.levels.iter().position(|held| held.level == level);
        let at = at.unwrap_or_else(|| {
            self.levels.push(Level::new(level));
            self.levels.len() - 1
        });
        let held = &mut self.levels[at];
        held.regions += 1;
        for_each_cell(&self.bounds, self.is_wide, level, region, |key, is_whole| {
            held.add(key, number, is_whole);
        });
    }

    /// Removes a number, whose region must be this one.
    pub fn remove(&mut self, number: u32, region: &Region) {
        let region = &PreparedRegion::plain(region);
        let Some(level) = level_of(&self.bounds, &region.cover()) else { return };
        let Some(at) = self.levels.iter().position(|held| held.level == level) else { return };
        let held = &mut self.levels[at];
        for_each_cell(&self.bounds, self.is_wide, level, region, |key, is_whole| {
            held.take(key, number, is_whole);
        });
        held.regions -= 1;
        if held.regions == 0 {
            self.levels.swap_remove(at);
        }
    }

    /// Number of levels in use; the functions below take their indices.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The cell of a position of the space at a level.
    #[inline]
    #[must_use]
    pub fn cell(&self, place: usize, x: i32, y: i32) -> u64 {
        key_at(&self.bounds, self.levels[place].level, x, y)
    }

    /// The regions of a cell.
    #[inline]
    #[must_use]
    pub fn regions(&self, place: usize, key: u64) -> CellRegions<'_> {
        let level = &self.levels[place];
        let found = level.cells.find(key);
        found.map_or_else(CellRegions::default, |at| level.regions_of(&level.cells[at]))
    }

    /// Calls `each` with the regions of the cells of a position, one call a level.
    #[inline]
    pub fn at(&self, x: i32, y: i32, mut each: impl FnMut(CellRegions<'_>)) {
        for place in 0..self.levels.len() {
            each(self.regions(place, self.cell(place, x, y)));
        }
    }

    /// Appends the regions that the segment between two points of the space may cut, in no order,
    /// with repetitions. In a geographic space the segment is the shorter one.
    pub fn between(
        &self,
        space: &Space,
        before: (i32, i32),
        after: (i32, i32),
        regions: &mut Vec<u32>,
    ) {
        let (west, east) = (before.0.min(after.0), before.0.max(after.0));
        let (y_min, y_max) = (before.1.min(after.1), before.1.max(after.1));
        let mut add = |x_min: i32, x_max: i32| {
            self.within(&QuantaRect { x_min, y_min, x_max, y_max }, regions);
        };
        if space.is_geographic() && east.abs_diff(west) > HALF_TURN.unsigned_abs() {
            add(self.bounds.x_min, west);
            add(east, self.bounds.x_max);
        } else {
            add(west, east);
        }
    }

    /// Appends the regions of the cells that a box inside the bounds touches. At a level where the
    /// box touches more than [`SEGMENT_CELLS_MAX`] cells, appends all regions of the level.
    fn within(&self, rect: &QuantaRect, regions: &mut Vec<u32>) {
        for level in &self.levels {
            let (columns, rows) = spans(&self.bounds, level.level, rect);
            let mut add = |cell: CellRegions<'_>| regions.extend_from_slice(cell.all());
            if (columns.1 - columns.0 + 1) * (rows.1 - rows.0 + 1) > SEGMENT_CELLS_MAX {
                level.cells.taken().for_each(|place| add(level.regions_of(place)));
                continue;
            }
            for column in columns.0..=columns.1 {
                for row in rows.0..=rows.1 {
                    if let Some(at) = level.cells.find(column << 32 | row) {
                        add(level.regions_of(&level.cells[at]));
                    }
                }
            }
        }
    }

    /// The place that a search for a cell reads first, for a prefetch.
    #[inline]
    #[must_use]
    pub fn first_look(&self, place: usize, key: u64) -> &CellPlace {
        self.levels[place].cells.first_look(key)
    }

    /// Level, key and regions of every cell, in no order.
    pub fn cells(&self) -> impl Iterator<Item = (u32, u64, CellRegions<'_>)> {
        self.levels.iter().flat_map(|level| {
            level.cells.taken().map(|place| (level.level, place.key, level.regions_of(place)))
        })
    }

    /// Bytes held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let level = |level: &Level| {
            let free: usize = level.lists.unused.iter().map(Vec::capacity).sum();
            level.cells.memory_bytes() + (level.lists.words.capacity() + free) * size_of::<u32>()
        };
        self.levels.iter().map(level).sum()
    }
}

/// The lowest level at which a region's cover has at most [`REGION_CELLS_MAX`] cells; `None` for a
/// region without points.
fn level_of(bounds: &QuantaRect, cover: &Cover) -> Option<u32> {
    let cells = |level: u32| -> u64 {
        let sides = |rect: &QuantaRect| {
            let (columns, rows) = spans(bounds, level, rect);
            (columns.1 - columns.0 + 1) * (rows.1 - rows.0 + 1)
        };
        cover.as_slice().iter().map(sides).fold(0, u64::saturating_add)
    };
    if cover.as_slice().is_empty() {
        return None;
    }
    // At the last level two boxes take two cells.
    (0..LEVELS).find(|level| cells(*level) <= REGION_CELLS_MAX)
}

/// Calls `each` once with every cell of a level that may have a point of a region, and whether the
/// region contains the whole cell. If `is_wide`, visits every cell that the cover touches.
fn for_each_cell(
    bounds: &QuantaRect,
    is_wide: bool,
    level: u32,
    region: &PreparedRegion<'_>,
    mut each: impl FnMut(u64, bool),
) {
    let cover = region.cover();
    let boxes = cover.as_slice();
    for (number, rect) in boxes.iter().enumerate() {
        let (columns, rows) = spans(bounds, level, rect);
        for column in columns.0..=columns.1 {
            for row in rows.0..=rows.1 {
                let is_earlier = boxes[..number].iter().any(|earlier| {
                    let (columns, rows) = spans(bounds, level, earlier);
                    (columns.0..=columns.1).contains(&column) && (rows.0..=rows.1).contains(&row)
                });
                let cell = cell_rect(bounds, level, column, row);
                if !is_earlier && (is_wide || !region.misses(&cell)) {
                    each(column << 32 | row, region.covers(&cell));
                }
            }
        }
    }
}

/// First and last column, first and last row of a box inside the bounds.
fn spans(bounds: &QuantaRect, level: u32, rect: &QuantaRect) -> ((u64, u64), (u64, u64)) {
    let side = |value: i32, least: i32| u64::from(value.abs_diff(least)) >> level;
    let columns = (side(rect.x_min, bounds.x_min), side(rect.x_max, bounds.x_min));
    (columns, (side(rect.y_min, bounds.y_min), side(rect.y_max, bounds.y_min)))
}

/// The points of a cell that are in the bounds.
fn cell_rect(bounds: &QuantaRect, level: u32, column: u64, row: u64) -> QuantaRect {
    let low = |number: u64, least: i32| i64::from(least) + ((number as i64) << level);
    let high = |number: u64, least: i32, most: i32| {
        (low(number + 1, least) - 1).min(i64::from(most)) as i32
    };
    QuantaRect {
        x_min: low(column, bounds.x_min) as i32,
        y_min: low(row, bounds.y_min) as i32,
        x_max: high(column, bounds.x_min, bounds.x_max),
        y_max: high(row, bounds.y_min, bounds.y_max),
    }
}

/// The cell of a position inside the bounds.
#[inline]
fn key_at(bounds: &QuantaRect, level: u32, x: i32, y: i32) -> u64 {
    let side = |value: i32, least: i32| u64::from(value.wrapping_sub(least) as u32) >> level;
    side(x, bounds.x_min) << 32 | side(y, bounds.y_min)
}

impl Level {
    fn new(level: u32) -> Self {
        Self { level, regions: 0, cells: CellTable::new(), lists: Lists::default() }
    }

    #[inline]
    fn regions_of(&self, place: &CellPlace) -> CellRegions<'_> {
        let at = place.at as usize;
        let end = at + (place.partial + place.whole) as usize;
        CellRegions { all: &self.lists.words[at..end], partial: place.partial as usize }
    }

    fn add(&mut self, key: u64, number: u32, is_whole: bool) {
        let at = self.cells.find(key).unwrap_or_else(|| self.cells.claim(key, self.lists.take(0)));
        let place = &mut self.cells[at];
        let length = place.partial + place.whole;
        if length == 1 << place.class {
            let slice = self.lists.take(place.class + 1);
            let from = place.at as usize;
            self.lists.words.copy_within(from..from + length as usize, slice as usize);
            self.lists.free(place.at, place.class);
            (place.at, place.class) = (slice, place.class + 1);
        }
        let end = (place.at + length) as usize;
        if is_whole {
            place.whole += 1;
            self.lists.words[end] = number;
        } else {
            // The first whole region moves to the end.
            let middle = (place.at + place.partial) as usize;
            self.lists.words[end] = self.lists.words[middle];
            self.lists.words[middle] = number;
            place.partial += 1;
        }
    }

    fn take(&mut self, key: u64, number: u32, is_whole: bool) {
        let Some(at) = self.cells.find(key) else { return };
        let place = &mut self.cells[at];
        let first = place.at as usize;
        let (middle, end) =
            (first + place.partial as usize, first + (place.partial + place.whole) as usize);
        let list = &mut self.lists.words[first..end];
        let part = if is_whole { middle - first..end - first } else { 0..middle - first };
        let Some(found) = list[part.clone()].iter().position(|held| *held == number) else {
            debug_assert!(false, "a region is in every cell of its own");
            return;
        };
        let found = part.start + found;
        if is_whole {
            list[found] = list[end - first - 1];
            place.whole -= 1;
        } else {
            list[found] = list[middle - first - 1];
            list[middle - first - 1] = list[end - first - 1];
            place.partial -= 1;
        }
        if place.partial + place.whole == 0 {
            self.lists.free(place.at, place.class);
            self.cells.vacate(at);
        }
    }
}

impl Lists {
    /// A slice of a class.
    fn take(&mut self, class: u32) -> u32 {
        let class_at = class as usize;
        if self.unused.len() <= class_at {
            self.unused.resize_with(class_at + 1, Vec::new);
        }
        self.unused[class_at].pop().unwrap_or_else(|| {
            let at = self.words.len();
            assert!(at + (1 << class) < u32::MAX as usize, "the lists of a level fit 32 bits");
            self.words.resize(at + (1 << class), 0);
            at as u32
        })
    }

    fn free(&mut self, at: u32, class: u32) {
        self.unused[class as usize].push(at);
    }
}
