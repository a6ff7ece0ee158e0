//! How does a batch of fixes lie in memory?
//!
//! Columns of equal length, positions in quanta of the fleet's space; the codec, the engine, the
//! server and the load generator share these types. An optional column that is absent stands for
//! "unknown in every row" (state: zero). Values are not judged here: that is the engine's work.

use crate::column::{Column, ColumnSet};
use crate::error::BlockError;

/// Speed that is not known.
pub const SPEED_UNKNOWN: u32 = u32::MAX;
/// Heading that is not known.
pub const HEADING_UNKNOWN: u16 = u16::MAX;
/// Altitude that is not known.
pub const ALTITUDE_UNKNOWN: i32 = i32::MIN;
/// State of a row that brings none.
pub const STATE_NONE: u32 = 0;

/// One fix with plain values; what is unknown holds its sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixRow {
    /// Object id.
    pub object: u64,
    /// Event time, Unix milliseconds.
    pub time_ms: i64,
    /// Longitude or x, quanta.
    pub x: i32,
    /// Latitude or y, quanta.
    pub y: i32,
    /// Speed in mm/s or [`SPEED_UNKNOWN`].
    pub speed_mm_s: u32,
    /// Heading in hundredths of a degree clockwise from north or [`HEADING_UNKNOWN`].
    pub heading_cdeg: u16,
    /// Altitude in mm or [`ALTITUDE_UNKNOWN`].
    pub altitude_mm: i32,
    /// The user's state bits, [`STATE_NONE`] if none.
    pub state: u32,
}

impl FixRow {
    /// A fix whose attributes are all unknown.
    pub const fn new(object: u64, time_ms: i64, x: i32, y: i32) -> Self {
        Self {
            object,
            time_ms,
            x,
            y,
            speed_mm_s: SPEED_UNKNOWN,
            heading_cdeg: HEADING_UNKNOWN,
            altitude_mm: ALTITUDE_UNKNOWN,
            state: STATE_NONE,
        }
    }
}

/// A batch of fixes as columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FixColumns {
    /// Object ids.
    pub object: Vec<u64>,
    /// Event times, Unix milliseconds.
    pub time_ms: Vec<i64>,
    /// Longitudes or x, quanta.
    pub x: Vec<i32>,
    /// Latitudes or y, quanta.
    pub y: Vec<i32>,
    /// Speeds in mm/s, [`SPEED_UNKNOWN`] where not known.
    pub speed_mm_s: Option<Vec<u32>>,
    /// Headings in hundredths of a degree, [`HEADING_UNKNOWN`] where not known.
    pub heading_cdeg: Option<Vec<u16>>,
    /// Altitudes in mm, [`ALTITUDE_UNKNOWN`] where not known.
    pub altitude_mm: Option<Vec<i32>>,
    /// State bits; an absent column means zero in every row.
    pub state: Option<Vec<u32>>,
}

impl FixColumns {
    /// No rows, no optional columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// No rows, no optional columns, room for `rows` in the mandatory ones.
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            object: Vec::with_capacity(rows),
            time_ms: Vec::with_capacity(rows),
            x: Vec::with_capacity(rows),
            y: Vec::with_capacity(rows),
            ..Self::default()
        }
    }

    /// Number of rows, counted on the object column; [`FixColumns::check`] says if all agree.
    pub fn len(&self) -> usize {
        self.object.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// Which columns are present.
    pub fn column_set(&self) -> ColumnSet {
        let mut set = ColumnSet::MANDATORY;
        for column in Column::ALL {
            if !column.is_mandatory() && self.column_len(column).is_some() {
                set = set.with(column);
            }
        }
        set
    }

    /// Length of one column, `None` if it is absent.
    fn column_len(&self, column: Column) -> Option<usize> {
        match column {
            Column::Object => Some(self.object.len()),
            Column::Time => Some(self.time_ms.len()),
            Column::X => Some(self.x.len()),
            Column::Y => Some(self.y.len()),
            Column::Speed => self.speed_mm_s.as_ref().map(Vec::len),
            Column::Heading => self.heading_cdeg.as_ref().map(Vec::len),
            Column::Altitude => self.altitude_mm.as_ref().map(Vec::len),
            Column::State => self.state.as_ref().map(Vec::len),
        }
    }

    /// Confirms that all present columns are equally long.
    ///
    /// # Errors
    /// [`BlockError::ColumnLength`] names the first column that differs from the object column.
    pub fn check(&self) -> Result<(), BlockError> {
        let rows = self.len();
        for column in Column::ALL {
            match self.column_len(column) {
                Some(length) if length != rows => {
                    return Err(BlockError::ColumnLength { column: column.name(), length, rows });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Drops all rows; keeps allocations, and with them which optional columns are present.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Drops the rows from `rows` on; nothing happens if there are no more than that.
    pub fn truncate(&mut self, rows: usize) {
        self.object.truncate(rows);
        self.time_ms.truncate(rows);
        self.x.truncate(rows);
        self.y.truncate(rows);
        if let Some(values) = &mut self.speed_mm_s {
            values.truncate(rows);
        }
        if let Some(values) = &mut self.heading_cdeg {
            values.truncate(rows);
        }
        if let Some(values) = &mut self.altitude_mm {
            values.truncate(rows);
        }
        if let Some(values) = &mut self.state {
            values.truncate(rows);
        }
    }

    /// Appends one fix. An absent optional column is created, filled with "unknown" for the rows
    /// before, only when the fix brings a known value for it (state: a bit set).
    pub fn push_row(&mut self, row: FixRow) {
        let rows = self.len();
        self.object.push(row.object);
        self.time_ms.push(row.time_ms);
        self.x.push(row.x);
        self.y.push(row.y);
        push_optional(&mut self.speed_mm_s, rows, row.speed_mm_s, SPEED_UNKNOWN);
        push_optional(&mut self.heading_cdeg, rows, row.heading_cdeg, HEADING_UNKNOWN);
        push_optional(&mut self.altitude_mm, rows, row.altitude_mm, ALTITUDE_UNKNOWN);
        push_optional(&mut self.state, rows, row.state, STATE_NONE);
    }

    /// The fix at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`FixColumns::len`], or the columns are not equally long.
    pub fn row(&self, index: usize) -> FixRow {
        FixRow {
            object: self.object[index],
            time_ms: self.time_ms[index],
            x: self.x[index],
            y: self.y[index],
            speed_mm_s: value_or(&self.speed_mm_s, index, SPEED_UNKNOWN),
            heading_cdeg: value_or(&self.heading_cdeg, index, HEADING_UNKNOWN),
            altitude_mm: value_or(&self.altitude_mm, index, ALTITUDE_UNKNOWN),
            state: value_or(&self.state, index, STATE_NONE),
        }
    }
}

/// Appends `value` to a column that stands for `absent` in every row while it does not exist.
fn push_optional<T: Copy + PartialEq>(
    column: &mut Option<Vec<T>>,
    rows: usize,
    value: T,
    absent: T,
) {
    match column {
        Some(values) => values.push(value),
        None if value == absent => {}
        None => {
            let mut values = vec![absent; rows];
            values.push(value);
            *column = Some(values);
        }
    }
}

/// The value at `index`, `absent` if the column does not exist.
fn value_or<T: Copy>(column: &Option<Vec<T>>, index: usize, absent: T) -> T {
    column.as_ref().map_or(absent, |values| values[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_column_appears_with_the_first_known_value() {
        let mut columns = FixColumns::new();
        columns.push_row(FixRow::new(1, 10, 100, 200));
        assert_eq!(columns.column_set(), ColumnSet::MANDATORY);
        columns.push_row(FixRow { speed_mm_s: 7, ..FixRow::new(2, 11, 101, 201) });
        columns.push_row(FixRow { state: 1, ..FixRow::new(3, 12, 102, 202) });
        assert_eq!(columns.speed_mm_s, Some(vec![SPEED_UNKNOWN, 7, SPEED_UNKNOWN]));
        assert_eq!(columns.state, Some(vec![0, 0, 1]));
        assert_eq!(columns.heading_cdeg, None);
        columns.check().unwrap();
        assert_eq!(columns.row(1), FixRow { speed_mm_s: 7, ..FixRow::new(2, 11, 101, 201) });
        columns.truncate(1);
        assert_eq!(columns.len(), 1);
        columns.clear();
        assert!(columns.is_empty());
        columns.check().unwrap();
    }

    #[test]
    fn unequal_columns_are_named() {
        let columns = FixColumns { heading_cdeg: Some(vec![1]), ..FixColumns::new() };
        let message = columns.check().unwrap_err().to_string();
        assert!(message.contains("heading") && message.contains('1'), "{message}");
    }
}
