//! Which hazards have hand-made cases? One file a hazard, one public function a case.
//!
//! Cases are added here and in the list of `suite.rs`; they know backends only through a trial.

pub mod admission;
pub mod borders;
pub mod clock;
pub mod flight;
pub mod limits;
pub mod memberships;
pub mod multitudes;
pub mod order;
pub mod passes;
pub mod queries;
pub mod refusals;
pub mod snapshots;
pub mod timelines;
