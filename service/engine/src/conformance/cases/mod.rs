//! The hand-made cases by what they endanger: one public function a case.

pub mod borders;
pub mod clock;
pub mod flight;
pub mod limits;
pub mod order;
pub mod queries;
pub mod refusals;
pub mod snapshots;
