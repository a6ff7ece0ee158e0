//! How do the events of a fleet reach its subscribers?
//!
//! `fan_out` sorts each cycle's events out to sessions, encoded once; a session's `outbox` keeps
//! what was read for those who come back and what was not within a bound, then coalesces, then
//! tells that it lagged. Sessions wait for nobody and nobody waits for them.

mod chores;
mod coalesce;
mod delivery;
mod entry;
mod fan_out;
mod handle;
mod large;
mod message;
mod outbox;
mod pool;
mod session;
mod sessions;
mod standing;

pub(crate) use chores::{Chores, Owed};
pub(crate) use fan_out::{FanOut, FanOutSender, Handed, RouteChange};
pub use handle::{ResumeToken, SessionHandle};
pub(crate) use message::{Told, unnumbered};
pub use pool::Pool;
pub(crate) use session::{Attached, Session, SessionEnd, Take};
pub use sessions::SubscriptionDepth;
pub(crate) use sessions::{SessionTools, Sessions, SettledChange};
pub(crate) use standing::{Change, Wanted};
