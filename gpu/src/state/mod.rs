//! The data of a fleet that remains on the device between cycles: the records with their index, two
//! grids, and the continuous queries.

pub(crate) mod fleet;
pub(crate) mod grid_cells;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod records_export;
pub(crate) mod regions;
pub(crate) mod shapes;
