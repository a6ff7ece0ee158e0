//! The history on the device: runs against their rows, whole histories against their model.

mod pasts;
mod runs;
