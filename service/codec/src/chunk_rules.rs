//! Rules of the columns in a directory: numbers, order, types, parts, keys.
//!
//! Blocks of fixes have the columns of `columns.rs`, each of one type; tables have columns from
//! 256 on, of any type or text (FORMAT.md, sections 4 to 4.2).

use crate::chunk::Chunk;
use crate::columns::Column;
use crate::text::{Part, check_end, check_order};
use crate::value_type::ValueType;

/// Least number of a table's column.
pub const TABLE_COLUMN_MIN: u16 = 256;

/// `Ok` if a rule holds; else a description of the problem.
pub(crate) type Rule<T = ()> = Result<T, String>;

/// A column that has been read.
#[derive(Clone, Copy, Debug)]
struct Seen {
    id: u16,
    part: Part,
    value_type: ValueType,
    is_keyed: bool,
}

/// Rules for the next column.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRules {
    is_table: bool,
    has_text: bool,
    seen: Vec<Seen>,
}

impl ChunkRules {
    /// Rules of blocks of fixes, or of tables, with text or without.
    pub(crate) fn new(is_table: bool, has_text: bool) -> Self {
        Self { is_table, has_text, seen: Vec::new() }
    }

    /// The part with this code. Codes other than 0 are refused unless the block is a table with
    /// text.
    pub(crate) fn part(&self, code: u8) -> Rule<Part> {
        match Part::from_code(code) {
            Some(Part::Numbers) => Ok(Part::Numbers),
            Some(part) if self.is_table && self.has_text => Ok(part),
            Some(_) => Err(format!("part is {code}, it must be 0 in a block without text")),
            None => Err(format!("part is {code}, known are 0 to 3")),
        }
    }

    /// Number of the previous column.
    fn previous(&self) -> Option<u16> {
        self.seen.last().map(|seen| seen.id)
    }

    /// Checks that a part of column `id` is known and in order. Returns true if it has a value for
    /// each row, false if its entry states the number of values.
    pub(crate) fn column(&self, id: u16, part: Part) -> Rule<bool> {
        let previous = self.seen.last().map(|seen| (seen.id, seen.part));
        if !check_order(previous, id, part)? {
            return Ok(false);
        }
        if self.is_table && id < TABLE_COLUMN_MIN {
            return Err(format!(
                "column {id} is none of a table, whose columns begin at {TABLE_COLUMN_MIN}"
            ));
        }
        if !self.is_table && Column::from_id(id).is_none() {
            let last = Column::ALL.len();
            return Err(format!("column {id} is not known, columns are 1 to {last}"));
        }
        match self.previous() {
            Some(previous) if previous == id => {
                let name = Column::from_id(id).map(|column| format!(" ({})", column.name()));
                Err(format!("column {id}{} is here twice", name.unwrap_or_default()))
            }
            Some(previous) if previous > id => {
                Err(format!("column {id} follows column {previous}, order is ascending"))
            }
            _ => self.missing(Some(id)).map(|()| true),
        }
    }

    /// Checks that no mandatory column and no part is missing at the end.
    pub(crate) fn end(&self) -> Rule {
        check_end(self.seen.last().map(|seen| (seen.id, seen.part)))?;
        self.missing(None)
    }

    /// Refuses a mandatory column that is missing between the previous one and `next`.
    fn missing(&self, next: Option<u16>) -> Rule {
        let missing = Column::ALL.into_iter().find(|column| {
            !self.is_table
                && column.is_mandatory()
                && self.previous().is_none_or(|previous| column.id() > previous)
                && next.is_none_or(|next| column.id() < next)
        });
        match missing {
            None => Ok(()),
            Some(column) => {
                let (id, name) = (column.id(), column.name());
                Err(format!("mandatory column {id} ({name}) is missing"))
            }
        }
    }

    /// Value type of a part of column `id`; `None` if any type is allowed.
    pub(crate) fn value_type(&self, id: u16, part: Part) -> Option<ValueType> {
        match part {
            Part::Numbers if self.is_table => None,
            Part::Numbers => Column::from_id(id).map(Column::value_type),
            Part::Indexes | Part::Lengths => Some(ValueType::U32),
            Part::Bytes => Some(ValueType::U8),
        }
    }

    /// Checks that column `key` may order the current one. It must have been read, hold integers,
    /// and not be keyed; in blocks of fixes it must be the object column.
    pub(crate) fn key(&self, key: u16) -> Rule {
        let is_number = |seen: &&Seen| seen.part == Part::Numbers;
        let found = self.seen.iter().filter(is_number).find(|seen| seen.id == key);
        let is_right = self.is_table || key == Column::Object.id();
        match found {
            Some(seen) if is_right && !seen.is_keyed && !seen.value_type.is_float() => Ok(()),
            _ => Err(format!("plan names key column {key}, which cannot order it")),
        }
    }

    /// Records a chunk that has been read.
    pub(crate) fn seen(&mut self, chunk: &Chunk) {
        let Chunk { id, part, value_type, .. } = *chunk;
        let is_keyed = chunk.plan.key_column().is_some();
        self.seen.push(Seen { id, part, value_type, is_keyed });
    }
}
