//! Delivers the events of a fleet to its subscribers.
//!
//! `fan_out` distributes the events of each cycle to sessions. The `outbox` of a session keeps
//! messages within a bound: unread ones, and read ones for clients that resume. Unread messages of
//! a slow reader are coalesced; beyond the bound they are lost. Sessions and readers never wait for
//! each other.

mod coalesce;
mod columns;
mod delivery;
mod fan_out;
mod handle;
mod large_snapshot;
mod message;
mod outbox;
mod outbox_entry;
mod pending_changes;
mod pool;
mod region_depth;
mod session;
mod session_owner;
mod session_region;
mod sessions;

pub(crate) use fan_out::{FanOut, FanOutInput, FanOutSender, FanOutThreads, Route, RouteChange};
pub use handle::{ResumeToken, SessionHandle};
pub(crate) use message::{EpochStamp, MessageFormat, unnumbered};
pub(crate) use pending_changes::{PendingBatch, PendingChanges};
pub use pool::Pool;
pub(crate) use session::{Attached, Session, SessionEnd, SessionPoll};
pub(crate) use session_owner::SessionOwner;
pub(crate) use session_region::{Followed, RegionChange, RegionRequest, SettledChange};
pub use sessions::SubscriptionDepth;
pub(crate) use sessions::{SessionTools, Sessions};
