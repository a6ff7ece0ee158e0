//! Reads the rows of a file batch by batch.
//!
//! A thread of its own reads a bounded number of batches ahead. Rows that cannot be read are
//! counted and skipped; the first are described. The rows of a stream, which may come slowly, do not
//! wait for a full batch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shoal_client::{AckTotals, v1};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fix_source::{FixSource, IdKind, SourceRow, SourceSummary};

/// Batches read ahead of the one being sent.
const BATCHES_AHEAD: usize = 2;
/// How long the rows of a stream wait for others.
const STREAM_WAIT: Duration = Duration::from_millis(500);

/// Rows of a file, in order.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    /// Rows that could be read.
    pub fixes: Vec<v1::Fix>,
    /// Their lines or rows in the file; empty without a file.
    pub places: Vec<u64>,
    /// Number of rows in this part of the file that could not be read.
    pub unreadable: u64,
    /// Errors of the first unreadable rows.
    pub unreadable_shown: Vec<String>,
}

impl RowBatch {
    fn is_empty(&self) -> bool {
        self.fixes.is_empty() && self.unreadable == 0
    }
}

/// How rows become batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// Only the last batch of a file may be smaller than the others, so the same file gives the same
    /// batches each time. Rows after the last whole batch are dropped at a stop.
    Whole,
    /// Rows wait half a second at most for a full batch, since the next ones may come slowly.
    Timely,
}

/// What [`RowBatches::take_partial`] found.
enum Partial {
    Rows(RowBatch),
    Empty,
    /// The thread is at work.
    Locked,
}

/// Batches that a thread reads ahead.
#[derive(Debug)]
pub struct RowBatches {
    batches: mpsc::Receiver<RowBatch>,
    /// The rows after those of `batches`, of a stream.
    partial: Option<Arc<Mutex<RowBatch>>>,
    /// True if the thread is to read no further.
    is_stopped: Arc<AtomicBool>,
    /// `None` once the thread has ended.
    thread: Option<JoinHandle<SourceSummary>>,
    /// How the file was understood, at its end.
    summary: Option<SourceSummary>,
}

impl RowBatches {
    /// A source of one batch with one row.
    #[must_use]
    pub fn one(fix: v1::Fix) -> Self {
        let (sender, batches) = mpsc::channel(1);
        // The queue has room for exactly this one.
        let _ = sender.try_send(RowBatch { fixes: vec![fix], ..RowBatch::default() });
        Self { batches, partial: None, is_stopped: Arc::default(), thread: None, summary: None }
    }

    /// Reads a file on a thread of its own into batches of `rows_max` rows.
    #[must_use]
    pub fn read(
        source: Box<dyn FixSource>,
        rows_max: usize,
        ids: IdKind,
        batching: Batching,
    ) -> Self {
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let partial: Option<Arc<Mutex<RowBatch>>> = match batching {
            Batching::Whole => None,
            Batching::Timely => Some(Arc::default()),
        };
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (shared, stop) = (partial.clone(), is_stopped.clone());
        let read = move || send(source, (rows_max, ids), &sender, shared.as_deref(), &stop);
        let thread = Some(tokio::task::spawn_blocking(read));
        Self { batches, partial, is_stopped, thread, summary: None }
    }

    /// Stops reading before the next row. The batches that were read, and with [`Batching::Timely`]
    /// all rows, are still returned.
    pub fn stop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns the next batch; `None` at the end of the file, or once reading has stopped.
    pub async fn next(&mut self) -> Option<RowBatch> {
        loop {
            let is_stopped = self.is_stopped.load(Ordering::Relaxed);
            let received = if self.partial.is_some() || is_stopped {
                timeout(STREAM_WAIT, self.batches.recv()).await
            } else {
                Ok(self.batches.recv().await)
            };
            match received {
                Ok(Some(batch)) => return Some(batch),
                Ok(None) => return self.end().await,
                Err(_) => match self.take_partial() {
                    Partial::Rows(batch) => return Some(batch),
                    // The thread waits for a row that may never come.
                    Partial::Empty if is_stopped => return None,
                    Partial::Empty | Partial::Locked => {}
                },
            }
        }
    }

    /// The rows of a stream that were read since the last batch.
    fn take_partial(&mut self) -> Partial {
        let Some(partial) = &self.partial else { return Partial::Empty };
        // The thread holds the lock while it sends a full batch, which comes before the partial one.
        let Ok(mut partial) = partial.try_lock() else { return Partial::Locked };
        if let Ok(batch) = self.batches.try_recv() {
            return Partial::Rows(batch);
        }
        let batch = std::mem::take(&mut *partial);
        if batch.is_empty() { Partial::Empty } else { Partial::Rows(batch) }
    }

    /// Returns the rows that a thread which failed has left, then what its end says.
    async fn end(&mut self) -> Option<RowBatch> {
        if let Some(partial) = &self.partial {
            let batch = std::mem::take(&mut *locked(partial));
            if !batch.is_empty() {
                return Some(batch);
            }
        }
        match self.thread.take()?.await {
            Ok(summary) => {
                self.summary = Some(summary);
                None
            }
            Err(failed) => {
                let shown = format!("the rest of the file, because its reader failed: {failed}");
                let unreadable_shown = vec![shown];
                Some(RowBatch { unreadable: 1, unreadable_shown, ..RowBatch::default() })
            }
        }
    }

    /// How the file was understood; `None` before its end, and for a source that is no file.
    #[must_use]
    pub fn into_summary(self) -> Option<SourceSummary> {
        self.summary
    }
}

/// Sends the rows of a file; returns how it was understood. The rows of the next batch are in
/// `partial`, if there is one, where the receiver may take them.
fn send(
    mut source: Box<dyn FixSource>,
    (rows_max, ids): (usize, IdKind),
    sender: &mpsc::Sender<RowBatch>,
    partial: Option<&Mutex<RowBatch>>,
    is_stopped: &AtomicBool,
) -> SourceSummary {
    let mut shown = 0;
    let mut own = RowBatch::default();
    while !is_stopped.load(Ordering::Relaxed)
        && let Some(row) = source.next_row(ids)
    {
        let mut shared = partial.map(locked);
        let batch = shared.as_deref_mut().unwrap_or(&mut own);
        match row {
            Ok(SourceRow { fix, place }) => {
                batch.fixes.push(fix);
                batch.places.push(place);
            }
            Err(error) => {
                batch.unreadable += 1;
                if shown < AckTotals::LISTED_MAX {
                    shown += 1;
                    batch.unreadable_shown.push(error);
                }
            }
        }
        if batch.fixes.len() == rows_max && sender.blocking_send(std::mem::take(batch)).is_err() {
            return source.summary();
        }
    }
    let mut shared = partial.map(locked);
    let batch = std::mem::take(shared.as_deref_mut().unwrap_or(&mut own));
    let is_cut = partial.is_none() && is_stopped.load(Ordering::Relaxed);
    if !batch.is_empty() && !is_cut {
        // Sending fails only if the receiver was dropped; the batch is then not needed.
        let _ = sender.blocking_send(batch);
    }
    source.summary()
}

/// The lock of a batch. A thread that panicked while it held the lock has not changed the batch.
fn locked(batch: &Mutex<RowBatch>) -> MutexGuard<'_, RowBatch> {
    batch.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use shoal_table::{CsvReader, FixFileOptions, TimeDefault};

    use super::super::csv::CsvFixes;
    use super::*;

    const TEXT: &str = "object_id,t_ms,x,y,speed,altitude,state\n\
        1,10,-97.5,30,1.5,-2.25,7\n2,x,0,0,,,\n\n4,11,1,,,,1\n3,11,1,2,,,\n5,11,1,2,fast,,\n";

    fn batches(text: &'static str, rows_max: usize, ids: IdKind) -> RowBatches {
        let options = FixFileOptions::default();
        let csv = CsvReader::from_reader(text.as_bytes(), Path::new("a.csv"), &options);
        RowBatches::read(Box::new(CsvFixes(csv.unwrap())), rows_max, ids, Batching::Whole)
    }

    #[tokio::test]
    async fn bad_rows_are_counted_and_skipped() {
        let mut rows = batches(TEXT, 1, IdKind::Numbers);
        let first = rows.next().await.unwrap();
        assert_eq!((first.fixes[0].object, first.fixes[0].speed_mps), (1, Some(1.5)));
        assert_eq!((first.fixes[0].x, first.fixes[0].altitude_m), (-97.5, Some(-2.25)));
        assert_eq!((first.fixes[0].state, first.places), (7, vec![2]));
        let second = rows.next().await.unwrap();
        assert_eq!((second.fixes[0].object, second.fixes[0].speed_mps), (3, None));
        assert_eq!((second.fixes[0].altitude_m, second.places), (None, vec![6]));
        assert_eq!(second.unreadable, 2);
        assert!(second.unreadable_shown[0].contains("line 3, t_ms"));
        assert!(second.unreadable_shown[1].contains("line 5, y"));
        assert_eq!(rows.next().await.unwrap().places, [7]);
        assert!(rows.next().await.is_none());
        let summary = rows.into_summary().unwrap();
        assert_eq!((summary.place, summary.dropped.count), ("line", 1));
        assert_eq!(summary.dropped.shown, ["a.csv, line 7, speed: `fast`"]);
        assert_eq!(summary.names[0], "object_id");
    }

    #[tokio::test]
    async fn the_rows_of_a_stream_do_not_wait_for_a_full_batch() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"id,t_ms,x,y\n1,10,1,2\n2,x,1,2\n").unwrap();
        let options = FixFileOptions::default();
        let csv = CsvReader::from_reader(reader, Path::new("a.csv"), &options).unwrap();
        let mut rows =
            RowBatches::read(Box::new(CsvFixes(csv)), 2, IdKind::Numbers, Batching::Timely);
        let first = rows.next().await.unwrap();
        assert_eq!((first.places, first.unreadable), (vec![2], 1));
        writer.write_all(b"3,10,1,2\n4,10,1,2\n5,10,1,2\n").unwrap();
        drop(writer);
        let mut places = Vec::new();
        while let Some(batch) = rows.next().await {
            assert!(batch.fixes.len() <= 2);
            places.extend(batch.places);
        }
        assert_eq!(places, [4, 5, 6]);
        assert_eq!(rows.into_summary().unwrap().file, "a.csv");
    }

    #[tokio::test]
    async fn a_stop_returns_what_was_read_from_a_stream_and_whole_batches_of_a_file() {
        let text = format!("id,t_ms,x,y\n{}", "1,10,1,2\n".repeat(10));
        let options = FixFileOptions::default();
        for (batching, rows) in [(Batching::Timely, 10), (Batching::Whole, 9)] {
            // The writer stays open: the reader waits for the next row.
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            let csv = CsvReader::from_reader(reader, Path::new("a.csv"), &options).unwrap();
            let source = Box::new(CsvFixes(csv));
            let mut batches = RowBatches::read(source, 3, IdKind::Numbers, batching);
            let mut read = batches.next().await.unwrap().fixes.len();
            // The rows are in the pipe, and the thread reads them before it waits.
            while read < 9 {
                read += batches.next().await.unwrap().fixes.len();
            }
            tokio::time::sleep(STREAM_WAIT / 5).await;
            batches.stop();
            while let Some(batch) = batches.next().await {
                read += batch.fixes.len();
            }
            assert_eq!(read, rows, "{batching:?}");
            drop(writer);
        }
    }

    #[tokio::test]
    async fn ids_of_a_named_fleet_are_texts() {
        let text = "object_id,t_ms,x,y\n truck-42 ,10,1,2\n7,11,1,2\n,12,1,2\n";
        let mut rows = batches(text, 10, IdKind::Names);
        let fixes = rows.next().await.unwrap().fixes;
        let ids: Vec<_> = fixes.iter().map(|fix| (fix.object, fix.name.as_str())).collect();
        // The server refuses the row without a name, and counts it.
        assert_eq!(ids, [(0, "truck-42"), (0, "7"), (0, "")]);
    }

    #[tokio::test]
    async fn the_object_and_the_time_of_rows_without_them_come_from_options() {
        let options = FixFileOptions {
            object: Some("7".to_owned()),
            time: Some(TimeDefault::At(9)),
            ..FixFileOptions::default()
        };
        for (text, objects, times) in
            [("x,y\n1,2\n", [7, 0], [9, 0]), ("id,t_ms,x,y\n1,5,1,2\n,,1,2\n", [1, 7], [5, 9])]
        {
            let csv = CsvReader::from_reader(text.as_bytes(), Path::new("a.csv"), &options);
            let mut rows = RowBatches::read(
                Box::new(CsvFixes(csv.unwrap())),
                10,
                IdKind::Numbers,
                Batching::Whole,
            );
            let mut fixes = rows.next().await.unwrap().fixes;
            fixes.resize(2, v1::Fix::default());
            assert_eq!([fixes[0].object, fixes[1].object], objects);
            assert_eq!([fixes[0].time_ms, fixes[1].time_ms], times);
            assert!(rows.next().await.is_none());
            let notes = rows.into_summary().unwrap().notes;
            assert!(notes[0].contains("9 ms where there is none"), "{notes:?}");
            assert_eq!(notes[1], "object = 7 where there is none");
        }
    }

    #[tokio::test]
    async fn a_reader_that_fails_does_not_end_the_file_in_silence() {
        struct BadPage;
        impl FixSource for BadPage {
            fn next_row(&mut self, _: IdKind) -> Option<Result<SourceRow, String>> {
                panic!("a bad page")
            }
            fn summary(&self) -> SourceSummary {
                SourceSummary::default()
            }
        }
        let mut rows = RowBatches::read(Box::new(BadPage), 1, IdKind::Numbers, Batching::Whole);
        let last = rows.next().await.unwrap();
        assert_eq!((last.unreadable, last.fixes.len()), (1, 0));
        assert!(last.unreadable_shown[0].contains("the rest of the file"));
        assert!(rows.next().await.is_none());
    }
}
