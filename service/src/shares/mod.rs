//! Shares of what many clients want at once: one place decides who is served next.
//!
//! A client first reserves places (`FairPlaces`), then waits for its turn (`FairQueue`), of a
//! thread too (`FairWorkers`). All know clients alone, not what the places or turns are for;
//! reports, queries and subscriptions use the same.

mod client;
mod fair_places;
mod fair_queue;
mod fair_workers;
mod waiting_line;

pub use client::Requester;
pub use fair_places::PlacesPermit;
pub(crate) use fair_places::{FairPlaces, NoPlaces};
pub(crate) use fair_queue::FairQueue;
pub(crate) use fair_workers::FairWorkers;
