//! The names of the objects of a named fleet, and the numbers that stand for them.
//!
//! Clients of a named fleet identify objects by name; the engine, blocks and kernels use numbers.
//! Names are replaced with numbers when a request is read, and numbers with names when an answer is
//! written.

mod name;
mod name_changes;
mod name_parts;
mod name_pattern;
mod name_section;
mod name_table;
mod name_texts;

pub use name::check_name;
pub use name_changes::NameChanges;
pub use name_pattern::NamePattern;
pub(crate) use name_section::count as count_section_names;
pub use name_table::{NameReader, NameTable};
