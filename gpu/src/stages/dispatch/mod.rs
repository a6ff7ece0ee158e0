//! Stage dispatch: stages a cycle's input, then admits and settles its rows.

pub(crate) mod admission;
pub(crate) mod packing;
pub(crate) mod stage;
pub(crate) mod staging;
