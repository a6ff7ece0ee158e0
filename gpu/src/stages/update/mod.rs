//! Stage update: applies a cycle's moves to one of the two grids, or rebuilds it.

pub(crate) mod cost;
pub(crate) mod grid_choice;
pub(crate) mod rebuild;
pub(crate) mod stage;
pub(crate) mod tables;
