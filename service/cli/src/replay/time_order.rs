//! The rows of a file in the order of their event times.
//!
//! A replay sends a row when it is due, so a file that is grouped by vehicle would play one vehicle
//! after the other. Such a file is sorted in memory, within a limit.

use crate::input::{FixSource, IdKind, SourceRow, SourceSummary};

/// Most rows that are sorted, about 500 MB.
pub(super) const SORTED_ROWS_MAX: u64 = 1 << 22;

/// Rows in order of time; rows with equal times keep the order of the file.
pub(super) struct TimeOrder {
    rows: std::vec::IntoIter<SourceRow>,
    /// Descriptions of the rows that cannot be read.
    unreadable: std::vec::IntoIter<String>,
    summary: SourceSummary,
}

impl TimeOrder {
    /// Reads and sorts all rows.
    pub(super) fn of(mut source: Box<dyn FixSource>, ids: IdKind) -> Self {
        let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
        while let Some(row) = source.next_row(ids) {
            match row {
                Ok(row) => rows.push(row),
                Err(fault) => unreadable.push(fault),
            }
        }
        rows.sort_by_key(|row| row.fix.time_ms);
        Self {
            rows: rows.into_iter(),
            unreadable: unreadable.into_iter(),
            summary: source.summary(),
        }
    }
}

impl FixSource for TimeOrder {
    fn next_row(&mut self, _: IdKind) -> Option<Result<SourceRow, String>> {
        let row = self.rows.next().map(Ok);
        row.or_else(|| self.unreadable.next().map(Err))
    }

    fn summary(&self) -> SourceSummary {
        self.summary.clone()
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
        let mut order = TimeOrder::of(source, IdKind::Numbers);
        let rows: Vec<_> = std::iter::from_fn(|| order.next_row(IdKind::Numbers)).collect();
        let read: Vec<_> = rows.iter().flatten().collect();
        let order: Vec<_> = read.iter().map(|row| (row.fix.time_ms, row.fix.object)).collect();
        assert_eq!(order, [(5, 1), (5, 2), (7, 2), (9, 1)]);
        assert!(rows[4].as_ref().unwrap_err().contains("line 4"));
    }
}
