//! Fleets: the jobs of many callers, and one engine per fleet that runs them in cycles.
//!
//! Callers hold a `Fleet`, reserve a place in its `job_queue` and wait for replies.
//! `cycle_planner` makes cycles of the jobs, `engine_thread` runs them, a `CycleSink` receives
//! them. Nothing here knows the wire format.

mod copies;
mod cycle_pace;
mod cycle_planner;
mod engine_export;
mod engine_thread;
mod event_clock;
#[allow(clippy::module_inception, reason = "a file's main type bears the file's name")]
mod fleet;
mod fleet_names;
mod fleet_shared;
mod fleet_view;
mod followed;
mod job_answers;
mod job_queue;
mod jobs;
mod light_clients;
mod long_queries;
mod newest_times;
mod query_replies;
mod receipt_refusals;
mod registry;
mod role;
mod subscription_planner;
mod token;

pub use fleet::{Fleet, PendingChange, QueryRequest};
pub use fleet_shared::FleetState;
pub use fleet_view::{FleetView, RowTotals};
pub(crate) use followed::{Followed, FollowedCycle};
pub use job_answers::JobAnswers;
pub use job_queue::QueueDepth;
pub use jobs::{ChangePermit, ChangeReply};
pub use newest_times::NewestTimes;
pub use receipt_refusals::{ConvertedRequest, DroppedOnReceipt, RefusedRows};
pub use registry::Registry;
pub(crate) use role::{Following, Role, Staleness};
pub use token::Token;
