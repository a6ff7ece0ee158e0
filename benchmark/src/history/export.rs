//! All fixes as plain columns, for systems that read them: `benchmark/history_peers.py`.
//!
//! A group has its number of rows as a u32, then object u64, time i64 (Unix ms), x and y i32
//! (quanta), speed u32 (mm/s), heading u16 (hundredths of a degree), each for all rows,
//! little-endian. Rows have the order of the runs: partition, cell, object, time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use shoal_codec::FixColumns;
use shoal_history::{Everywhere, QueryBudget, Scan};

use super::past::Past;
use crate::error::BenchmarkError;
use crate::harness::command::failed;

/// Rows of a group, the default of DuckDB. A group becomes a row group of Parquet.
const GROUP_ROWS: usize = 122_880;

/// Writes all fixes to a file or a pipe.
pub(super) fn export(past: &Past, path: &Path) -> Result<(), BenchmarkError> {
    let file = File::options().create(true).write(true).truncate(true).open(path);
    let mut out = BufWriter::new(file.map_err(|source| failed(path, source))?);
    let budget = QueryBudget::unlimited();
    let mut scan = Scan::new(past.version.clone(), past.window_ms, Everywhere, budget);
    let mut rows = FixColumns::new();
    let mut write =
        |rows: FixColumns| write_group(&rows, &mut out).map_err(|source| failed(path, source));
    while scan.next(&mut rows)? {
        while rows.len() >= GROUP_ROWS {
            let rest = rows.slice(GROUP_ROWS..rows.len());
            rows.truncate(GROUP_ROWS);
            write(std::mem::replace(&mut rows, rest))?;
        }
    }
    if !rows.is_empty() {
        write(rows)?;
    }
    out.flush().map_err(|source| failed(path, source))
}

fn write_group(rows: &FixColumns, out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(&(rows.len() as u32).to_le_bytes())?;
    put(&rows.object, u64::to_le_bytes, out)?;
    put(&rows.time_ms, i64::to_le_bytes, out)?;
    put(&rows.x, i32::to_le_bytes, out)?;
    put(&rows.y, i32::to_le_bytes, out)?;
    let known = |index: usize| (rows.row(index).speed_mm_s, rows.row(index).heading_cdeg);
    let (speeds, headings): (Vec<u32>, Vec<u16>) = (0..rows.len()).map(known).unzip();
    put(&speeds, u32::to_le_bytes, out)?;
    put(&headings, u16::to_le_bytes, out)
}

fn put<T: Copy, const BYTES: usize>(
    values: &[T],
    bytes_of: fn(T) -> [u8; BYTES],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| bytes_of(*value)).collect();
    out.write_all(&bytes)
}
