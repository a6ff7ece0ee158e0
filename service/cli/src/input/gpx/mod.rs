//! GPX 1.0 and 1.1: the points of tracks.

mod fixes;
mod parts;
mod track_reader;

pub(super) use fixes::GpxFixes;
