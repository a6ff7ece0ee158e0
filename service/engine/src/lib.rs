//! The engine of one fleet: the latest fix of every object.
//!
//! The contract is [`Backend`]: it takes cycles of fixes, removals and queries and returns outcomes
//! and answers, bit-identical on every implementation. The [`model`] is the reference with which
//! the others are compared; `cpu` is the fast implementation without a device. The engine uses no
//! network, no system clock and no files.

pub mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "cpu")]
pub mod cpu;
pub mod cycle;
pub mod error;
pub mod events;
pub mod extent;
pub mod hash_key;
pub mod layout;
pub mod limits;
pub mod model;
pub mod query;
pub mod rank;
pub mod record_scan;
pub mod region;
pub mod space;
pub mod sphere;
pub mod stage;
pub mod subscription;

pub use backend::{Backend, Clock, EngineOptions, GridUpdates};
pub use cycle::{CycleInput, CycleOutput, ExportHeader, Request, RequestOutcome, Snapshot, Ticket};
pub use error::{EngineError, GeometryError};
pub use events::{EventHead, EventSet, KindList, RegionEvents, SharedBytes};
pub use hash_key::HashKey;
pub use layout::{EventKind, Refusal};
pub use model::Model;
pub use query::{
    Answer, AnswerSet, DeferredAnswer, Filter, Projection, Query, QueryKind, RowLimit, SharedFixes,
    SharedWords,
};
pub use rank::Ranker;
pub use record_scan::{RecordScan, ScannedState};
pub use region::{Circle, Cover, Polygon, Rectangle, Region, Ring};
pub use space::{PLANAR_QUANTUM_M, QuantaRect, Space};
pub use stage::dispatch::RowValidator;
pub use subscription::{EvaluationMode, EventKinds, RegionId, Subscription, SubscriptionChange};
