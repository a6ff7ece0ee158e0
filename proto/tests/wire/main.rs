//! The protos: what was published does not change, and all files follow one style.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod published;
mod style;
