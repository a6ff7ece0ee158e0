//! Tables of text: readers and columns.
#![allow(clippy::unwrap_used, reason = "a test fails on a missing value")]

mod fix_csv;
mod small_csv;
mod text_columns;
