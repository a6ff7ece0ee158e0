//! How does a fleet take work from many callers and give it to one engine?
//!
//! Callers hold a `Fleet`, count room in its `queue`, and wait for replies; `planner` makes cycles
//! of what waits, `engine_thread` runs them. Knows quanta and queries, nothing of the wire.

mod answered;
mod engine_thread;
#[allow(clippy::module_inception, reason = "a file's main type bears the file's name")]
mod fleet;
mod job;
mod name;
mod planner;
mod producers;
mod queue;
mod region_plan;
mod registry;
mod shared;
mod token;
mod view;
mod wall_clock;

pub use answered::Answered;
pub use fleet::{Fleet, PendingChange, Question};
pub use job::{ChangePermit, ChangeReply};
pub use name::{DEFAULT, FleetName};
pub use producers::BatchId;
pub use queue::QueueDepth;
pub use registry::{FleetSpec, Registry};
pub use shared::FleetState;
pub use token::Token;
pub use view::{FleetView, RowTotals};
pub use wall_clock::WallClock;
