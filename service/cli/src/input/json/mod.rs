//! Rows as JSON: objects or GeoJSON features, each on its line or in a list.

mod fixes;
mod items;
mod lists;
mod row;

pub(super) use fixes::JsonFixes;
