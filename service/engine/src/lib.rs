//! Where is everything now? The engine of one fleet.
//!
//! The contract is [`Backend`]: cycles of fixes, removals and queries go in, outcomes and answers
//! come out, the same from every implementation to the bit. The [`model`] is the plain truth that
//! the others are compared with; `cpu` is the fast one without a device. Knows no wire, no clock
//! and no file.

pub mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "cpu")]
pub mod cpu;
pub mod cycle;
pub mod error;
pub mod events;
pub mod extent;
pub mod layout;
pub mod limits;
pub mod model;
pub mod query;
pub mod rank;
pub mod region;
pub mod space;
pub mod sphere;
pub mod stage;
pub mod subscription;

pub use backend::{Backend, Clock, EngineOptions};
pub use cycle::{CycleInput, CycleOutput, Refusal, Request, RequestOutcome, Snapshot, Ticket};
pub use error::{EngineError, GeometryError};
pub use events::{EventHead, EventSet, KindList, RegionEvents, SharedBytes};
pub use model::Model;
pub use query::{
    Answer, AnswerSet, DeferredAnswer, Filter, Projection, Query, QueryKind, SharedFixes,
    SharedWords,
};
pub use rank::Ranker;
pub use region::{Circle, Cover, Polygon, Rectangle, Region, Ring};
pub use space::{PLANAR_QUANTUM_M, QuantaRect, Space};
pub use stage::dispatch::RowValidator;
pub use subscription::{
    EvaluationMode, EventKind, EventKinds, RegionId, Subscription, SubscriptionChange,
};
