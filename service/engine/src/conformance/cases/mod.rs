//! The hand-made cases: one file per hazard, one public function per case.
//!
//! Each case is listed in `suite.rs` and uses the backend through a [`super::Trial`] only.

pub mod admission;
pub mod borders;
pub mod clock;
pub mod in_flight;
pub mod large_regions;
pub mod limits;
pub mod memberships;
pub mod order;
pub mod queries;
pub mod refusals;
pub mod snapshots;
pub mod timelines;
pub mod trajectories;
