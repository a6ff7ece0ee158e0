//! The hand-made cases: one file per hazard, one public function per case.
//!
//! Each case is listed in `suite.rs` and uses the backend through a [`super::Trial`] only. The
//! files share the imports below.

pub mod admission;
pub mod borders;
pub mod bounded_work;
pub mod clock;
pub mod exports;
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

use shoal_codec::{BlockPlan, FixColumns, FixRow};

use crate::backend::{Clock, EngineOptions};
use crate::conformance::builders::{
    START_MS, circle, columns, events_of, fix, fixes, invalid_block, plane, planned_block, polygon,
    query, rectangle, request, set, square,
};
use crate::conformance::compare::first_difference;
use crate::conformance::trial::{Make, Trial};
use crate::cycle::{CycleInput, CycleOutput, Refusal, Request, RequestOutcome, Snapshot, Ticket};
use crate::error::EngineError;
use crate::events::EventSet;
use crate::layout::NOT_FINITE_X;
use crate::limits::{
    CYCLE_FIXES_MAX, CYCLE_QUERIES_MAX, CYCLE_REQUESTS_MAX, CYCLES_IN_FLIGHT_MAX, GET_OBJECTS_MAX,
    NEAREST_MAX, SNAPSHOT_BATCH_ROWS, TIME_MIN_MS,
};
use crate::query::{Filter, Projection, Query, QueryKind, RowLimit};
use crate::region::Region;
use crate::space::{HALF_TURN, QUARTER_TURN, Space};
use crate::subscription::{
    EvaluationMode, EventKind, EventKinds, RegionId, Subscription, SubscriptionChange,
};
use EventKind::{
    Cleared, Cross, Enter, Expired, Filtered, Left, Move, Present, RegionChanged, Removed,
};
use shoal_testkit::Random;
