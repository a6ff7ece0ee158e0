//! Regions: closed sets of points in quanta, identical on every backend.
//!
//! `region` holds the enumeration of the kinds, `cover` the rectangles that contain a region; each
//! kind has its own file.

mod circle;
mod cover;
mod edge;
mod polygon;
mod prepared;
mod raster;
mod rectangle;
#[allow(clippy::module_inception, reason = "a file's main type bears the file's name")]
mod region;
mod ring;
mod segment;

pub use circle::Circle;
pub use cover::Cover;
pub use edge::Edge;
pub use polygon::{Polygon, Slabs};
pub use prepared::{Preparation, PreparedRegion};
pub use rectangle::Rectangle;
pub use region::Region;
pub use ring::Ring;
