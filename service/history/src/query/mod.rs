//! Queries over a held version, as iterators over bounded parts of the answer.

mod as_of;
mod budget;
mod density;
mod objects;
mod replay;
mod row_filter;
mod scan;
mod scan_piece;
mod together;
mod trajectory;

pub use as_of::{AsOf, AsOfQuery};
pub use budget::QueryBudget;
pub use density::{Density, DensityCell, DensityGrid};
pub use objects::Objects;
pub use replay::Replay;
pub use row_filter::{Everywhere, RowFilter};
pub use scan::Scan;
pub use trajectory::Trajectory;
