//! Fleets: the jobs of many callers, and one engine per fleet that runs them in cycles.
//!
//! Callers hold a `Fleet`, reserve a place in its `job_queue` and wait for replies.
//! `cycle_planner` makes cycles of the jobs, `engine_thread` runs them, `cycle_sink` passes them
//! on. Nothing here knows the wire format.

mod copies;
mod cycle_planner;
mod cycle_sink;
mod durability;
mod engine_export;
mod engine_thread;
mod event_clock;
#[allow(clippy::module_inception, reason = "a file's main type bears the file's name")]
mod fleet;
mod fleet_name;
mod fleet_names;
mod fleet_shared;
mod fleet_spec;
mod fleet_view;
mod followed;
mod job_answers;
mod job_queue;
mod jobs;
mod long_queries;
mod newest_times;
mod numbered_engine;
mod producers;
mod query_replies;
mod receipt_refusals;
mod registry;
mod role;
mod shared_terms;
mod subscription_planner;
mod token;
mod wall_clock;

pub use cycle_sink::{CycleRecord, CycleSink, ExportRows, SettledCycle, SinkCapacity, SinkFactory};
pub use durability::Durability;
pub use fleet::{Fleet, PendingChange, QueryRequest};
pub use fleet_name::{DEFAULT, FleetName};
pub use fleet_shared::FleetState;
pub use fleet_spec::{FleetKind, FleetSpec, event_clock_lead_ms};
pub use fleet_view::{FleetView, RowTotals};
pub(crate) use followed::{Followed, FollowedCycle};
pub use job_answers::JobAnswers;
pub use job_queue::QueueDepth;
pub use jobs::{ChangePermit, ChangeReply};
pub use newest_times::NewestTimes;
pub(crate) use numbered_engine::{CycleNumber, NumberedEngine};
pub use producers::BatchId;
pub(crate) use producers::Producers;
pub use receipt_refusals::{ConvertedRequest, RefusedRows};
pub use registry::Registry;
pub(crate) use role::{Following, Role, Staleness};
pub(crate) use shared_terms::SharedTerms;
pub use token::Token;
pub use wall_clock::WallClock;
