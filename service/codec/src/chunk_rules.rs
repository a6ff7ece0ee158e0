//! Rules of the columns in a directory: numbers, order, types, keys.
//!
//! Blocks of fixes have the columns of `columns.rs`, each of one type; tables have columns from
//! 256 on, of any type (FORMAT.md, sections 4 and 4.1).

use crate::columns::Column;
use crate::value_type::ValueType;

/// Least number of a table's column.
pub const TABLE_COLUMN_MIN: u16 = 256;

/// A rule that holds, or the problem.
pub(crate) type Rule = Result<(), String>;

/// A column that has been read.
#[derive(Clone, Copy, Debug)]
struct Seen {
    id: u16,
    value_type: ValueType,
    is_keyed: bool,
}

/// Rules for the next column.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRules {
    is_table: bool,
    seen: Vec<Seen>,
}

impl ChunkRules {
    /// Rules of blocks of fixes, or of tables.
    pub(crate) fn new(is_table: bool) -> Self {
        Self { is_table, seen: Vec::new() }
    }

    /// Number of the previous column.
    fn previous(&self) -> Option<u16> {
        self.seen.last().map(|seen| seen.id)
    }

    /// Checks that column `id` exists and is in order.
    pub(crate) fn column(&self, id: u16) -> Rule {
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
                let name = Column::from_id(id).map_or("", Column::name);
                Err(format!("column {id} ({name}) is here twice"))
            }
            Some(previous) if previous > id => {
                Err(format!("column {id} follows column {previous}, order is ascending"))
            }
            _ => self.missing(Some(id)),
        }
    }

    /// Checks that no mandatory column is missing at the end.
    pub(crate) fn end(&self) -> Rule {
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

    /// The type of column `id`, if there is only one.
    pub(crate) fn value_type(&self, id: u16) -> Option<ValueType> {
        if self.is_table { None } else { Column::from_id(id).map(Column::value_type) }
    }

    /// Checks that column `key` may order the current one: it has been read, holds integers, is
    /// not keyed itself, and is the object column in blocks of fixes.
    pub(crate) fn key(&self, key: u16) -> Rule {
        let found = self.seen.iter().find(|seen| seen.id == key);
        let is_right = self.is_table || key == Column::Object.id();
        match found {
            Some(seen) if is_right && !seen.is_keyed && !seen.value_type.is_float() => Ok(()),
            _ => Err(format!("plan names key column {key}, which cannot order it")),
        }
    }

    /// Records a column that has been read.
    pub(crate) fn seen(&mut self, id: u16, value_type: ValueType, is_keyed: bool) {
        self.seen.push(Seen { id, value_type, is_keyed });
    }
}
