//! The wire: what was published stays, and all of it reads alike.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod published;
mod style;
