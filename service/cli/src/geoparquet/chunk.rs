//! The decoded columns of some rows.

use parquet::column::reader::ColumnReader;

use super::column::{Column, Fault};
use super::page_bounds::Pages;
use super::source_columns::{Leaf, Position, SourceColumns};

/// Positions of some rows.
#[derive(Debug)]
pub(super) enum ChunkPosition {
    /// WKB.
    Wkb(Column),
    /// x, y, and z if there is one.
    Columns(Column, Column, Option<Column>),
}

/// The values of some rows.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) rows: usize,
    pub(super) objects: Option<Column>,
    pub(super) times: Option<Column>,
    pub(super) positions: ChunkPosition,
    /// Speed, heading, altitude and validity; `None` for a missing column.
    pub(super) measures: [Option<Column>; 4],
    pub(super) states: Option<Column>,
}

impl Chunk {
    /// Decodes the next rows with the readers of [`SourceColumns::leaves`].
    ///
    /// # Errors
    /// A column that cannot be read further.
    pub(super) fn read(
        columns: &SourceColumns,
        readers: &mut [ColumnReader],
        rows: usize,
        pages: &Pages,
    ) -> Result<Self, Fault> {
        let mut readers = readers.iter_mut();
        let mut next = |leaf: &Leaf| {
            let reader = readers.next().expect("each leaf has a reader");
            Column::read(reader, leaf, rows, pages)
        };
        let objects = columns.object.as_ref().map(&mut next).transpose()?;
        let times = columns.time.as_ref().map(&mut next).transpose()?;
        let positions = match &columns.position {
            Position::Wkb(leaf) => ChunkPosition::Wkb(next(leaf)?),
            Position::Columns(x, y, z) => {
                let (x, y) = (next(x)?, next(y)?);
                ChunkPosition::Columns(x, y, z.as_ref().map(&mut next).transpose()?)
            }
        };
        let mut optional = |leaf: &Option<Leaf>| leaf.as_ref().map(&mut next).transpose();
        let [speed, heading, altitude, validity] = &columns.measures;
        let measures =
            [optional(speed)?, optional(heading)?, optional(altitude)?, optional(validity)?];
        let states = optional(&columns.state)?;
        Ok(Self { rows, objects, times, positions, measures, states })
    }
}
