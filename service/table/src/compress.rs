//! Compresses a table, and plans one without writing.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use shoal_codec::Aim;

use crate::column_totals::ColumnTotals;
use crate::frame::{FrameWriter, Trailer};
use crate::limits::GROUPS_IN_FLIGHT;
use crate::row_group::RowGroup;
use crate::statistics::{ColumnStatistics, StatisticsCounter};
use crate::table_encoder::TableEncoder;
use crate::{TableCodec, TableError, TableSource};

/// A table that was compressed.
#[derive(Clone, Debug)]
pub struct Compressed {
    /// Sizes of its columns.
    pub totals: ColumnTotals,
    /// Sizes of the file.
    pub trailer: Trailer,
    /// Time spent in the codec.
    pub encode_time: Duration,
}

/// A table that was encoded and not written.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Sizes of its columns, as a file would have them.
    pub totals: ColumnTotals,
    /// Statistics of its columns, in order.
    pub statistics: Vec<ColumnStatistics>,
    /// Time spent in the codec.
    pub encode_time: Duration,
}

/// Writes the table of `source` to `out` in blocks of at most `block_rows` rows, planned with
/// `aim`, and returns `out` and the sizes; `file` is the name of `out` in errors. A second thread
/// encodes and writes while the calling thread reads.
///
/// # Errors
/// Those of the source, [`TableError::Block`], [`TableError::Device`] and [`TableError::Write`];
/// `out` is then incomplete.
pub fn compress<W: Write + Send>(
    source: &mut TableSource<'_>,
    (block_rows, aim): (usize, Aim),
    codec: &mut dyn TableCodec,
    out: W,
    file: &Path,
) -> Result<(W, Compressed), TableError> {
    let mut frame = FrameWriter::open(out, file, source.header())?;
    let mut encoder = TableEncoder::new(source.header(), aim, codec);
    std::thread::scope(|scope| {
        let (groups, queue) = sync_channel::<RowGroup>(GROUPS_IN_FLIGHT);
        let (frame, encoder) = (&mut frame, &mut encoder);
        let encoding = scope.spawn(move || {
            for group in queue {
                let blocks = encoder.encode(&group, frame.sequence())?;
                frame.group(&blocks, group.rows)?;
            }
            Ok::<_, TableError>(())
        });
        let read = loop {
            match source.group(block_rows) {
                Ok(Some(group)) => {
                    if groups.send(group).is_err() {
                        // The encoder has failed.
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(groups);
        joined(encoding)?;
        read
    })?;
    let (out, trailer) = frame.finish(!source.last_has_end())?;
    let TableEncoder { totals, encode_time, .. } = encoder;
    Ok((out, Compressed { totals, trailer, encode_time }))
}

/// Result of a thread; resumes its panic.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Encodes the table of `source` in blocks of at most `block_rows` rows, planned with `aim`.
///
/// # Errors
/// Those of the source, [`TableError::Block`] and [`TableError::Device`].
pub fn plan(
    source: &mut TableSource<'_>,
    (block_rows, aim): (usize, Aim),
    codec: &mut dyn TableCodec,
) -> Result<Planned, TableError> {
    let mut encoder = TableEncoder::new(source.header(), aim, codec);
    let kinds = source.header().columns.iter().map(|column| column.kind);
    let mut counters: Vec<_> = kinds.map(StatisticsCounter::new).collect();
    while let Some(group) = source.group(block_rows)? {
        for (counter, values) in counters.iter_mut().zip(&group.columns) {
            counter.add(values);
        }
        encoder.encode(&group, 0)?;
    }
    let columns = source.header().columns.iter().zip(counters);
    let statistics = columns.map(|(column, counter)| counter.finish(&column.name)).collect();
    let TableEncoder { totals, encode_time, .. } = encoder;
    Ok(Planned { totals, statistics, encode_time })
}
