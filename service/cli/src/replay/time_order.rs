//! The rows of a file in the order of their event times.
//!
//! A replay sends a row when it is due, so a file that is grouped by vehicle would play one vehicle
//! after the other. Such a file is sorted in memory, within a limit.

use shoal_client::AckTotals;

use crate::input::{FixSource, IdKind, SourceRow, SourceSummary};

/// Most rows that are sorted: about 500 MB, and the bytes of the names in a named fleet.
pub(super) const SORTED_ROWS_MAX: u64 = 1 << 22;

/// Rows in order of time; rows with equal times keep the order of the file.
pub(super) struct TimeOrder {
    source: Box<dyn FixSource>,
    /// `None` until the first row is taken.
    sorted: Option<Sorted>,
}

/// The sorted rows, and the rows that cannot be read, of which the first are described.
struct Sorted {
    rows: std::vec::IntoIter<SourceRow>,
    unreadable_shown: std::vec::IntoIter<String>,
    unreadable_more: u64,
}

impl TimeOrder {
    /// Reads and sorts all rows when the first is taken.
    pub(super) fn of(source: Box<dyn FixSource>) -> Self {
        Self { source, sorted: None }
    }
}

impl Sorted {
    fn read(source: &mut dyn FixSource, ids: IdKind) -> Self {
        let (mut rows, mut unreadable_shown, mut unreadable_more) = (Vec::new(), Vec::new(), 0);
        while let Some(row) = source.next_row(ids) {
            match row {
                Ok(row) => rows.push(row),
                Err(fault) if unreadable_shown.len() < AckTotals::LISTED_MAX => {
                    unreadable_shown.push(fault);
                }
                Err(_) => unreadable_more += 1,
            }
        }
        rows.sort_by_key(|row| row.fix.time_ms);
        let (rows, unreadable_shown) = (rows.into_iter(), unreadable_shown.into_iter());
        Self { rows, unreadable_shown, unreadable_more }
    }

    fn next(&mut self) -> Option<Result<SourceRow, String>> {
        if let Some(row) = self.rows.next() {
            return Some(Ok(row));
        }
        if let Some(shown) = self.unreadable_shown.next() {
            return Some(Err(shown));
        }
        self.unreadable_more = self.unreadable_more.checked_sub(1)?;
        Some(Err("a row that cannot be read".to_owned()))
    }
}

impl FixSource for TimeOrder {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        let source = &mut *self.source;
        self.sorted.get_or_insert_with(|| Sorted::read(source, ids)).next()
    }

    fn summary(&self) -> SourceSummary {
        self.source.summary()
    }
}

#[cfg(test)]
mod tests {
    use shoal_table::FixFileOptions;

    use super::*;
    use crate::input::open_input;

    #[test]
    fn rows_are_sorted_by_time_and_keep_their_order_at_equal_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv").display().to_string();
        std::fs::write(&file, "id,t_ms,x,y\n1,5,0,0\n1,9,0,0\n2,x,0,0\n2,5,0,0\n2,7,0,0\n")
            .unwrap();
        let source = open_input(&file, &FixFileOptions::default()).unwrap();
        let mut order = TimeOrder::of(source);
        let rows: Vec<_> = std::iter::from_fn(|| order.next_row(IdKind::Numbers)).collect();
        let read: Vec<_> = rows.iter().flatten().collect();
        let order: Vec<_> = read.iter().map(|row| (row.fix.time_ms, row.fix.object)).collect();
        assert_eq!(order, [(5, 1), (5, 2), (7, 2), (9, 1)]);
        assert!(rows[4].as_ref().unwrap_err().contains("line 4"));
    }
}
