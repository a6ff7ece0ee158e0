//! A device of histories that decodes on this machine's cores, and declines now and then.

use std::sync::atomic::{AtomicU64, Ordering};

use shoal_codec::{FixColumns, FixRow};
use shoal_history::limits::TILE_ROWS;
use shoal_history::{RunDevice, RunPages, Zone};

/// Answers all but each seventh call.
#[derive(Debug, Default)]
pub(crate) struct HostDevice {
    calls: AtomicU64,
}

impl HostDevice {
    fn rows(&self, run: &RunPages<'_>) -> Option<Vec<FixRow>> {
        let blocks = run.blocks().unwrap();
        let mut rows = Vec::new();
        for block in &blocks {
            let columns = block.decode().unwrap();
            rows.extend((0..columns.len()).map(|row| columns.row(row)));
        }
        assert_eq!(rows.len() as u64, run.rows());
        assert_eq!(rows.len().div_ceil(TILE_ROWS), run.zones().len());
        assert!(rows.iter().all(|row| row.time_ms >= run.start_ms()) && run.bytes() > 0);
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        (calls % 7 != 3).then_some(rows)
    }

    /// Number of calls, answered or declined.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// The newest row of an object at or before a time.
fn newest(rows: &[FixRow], time_ms: i64) -> Option<FixRow> {
    rows.iter().rev().find(|row| row.time_ms <= time_ms).copied()
}

impl RunDevice for HostDevice {
    fn tiles_min(&self) -> usize {
        1
    }

    fn objects_min(&self) -> usize {
        1
    }

    fn tiles(&self, run: &RunPages<'_>, zone: &Zone) -> Option<Vec<u32>> {
        let rows = self.rows(run)?;
        let has = |row: &FixRow| {
            (zone.time_ms.0..=zone.time_ms.1).contains(&row.time_ms)
                && (zone.x.0..=zone.x.1).contains(&row.x)
                && (zone.y.0..=zone.y.1).contains(&row.y)
        };
        let tiles = (0..).zip(rows.chunks(TILE_ROWS));
        Some(tiles.filter(|(_, rows)| rows.iter().any(has)).map(|(tile, _)| tile).collect())
    }

    fn newest(
        &self,
        run: &RunPages<'_>,
        time_ms: i64,
        from: u64,
        most: usize,
    ) -> Option<FixColumns> {
        let rows = self.rows(run)?;
        let mut found = FixColumns::new();
        for object in run.objects().unwrap().iter().filter(|it| it.object >= from) {
            let first = object.first_row as usize;
            if found.len() < most
                && let Some(row) = newest(&rows[first..first + object.rows as usize], time_ms)
            {
                found.push_row(row);
            }
        }
        Some(found)
    }

    fn states(
        &self,
        run: &RunPages<'_>,
        objects: &[u64],
        time_ms: i64,
    ) -> Option<Vec<Option<FixRow>>> {
        let rows = self.rows(run)?;
        let of_run = run.objects().unwrap();
        let state = |object: &u64| {
            let found = of_run.binary_search_by_key(object, |it| it.object).ok()?;
            let first = of_run[found].first_row as usize;
            newest(&rows[first..first + of_run[found].rows as usize], time_ms)
        };
        Some(objects.iter().map(state).collect())
    }
}
