//! Shares limited resources fairly among clients: decides who is served next.
//!
//! A client first reserves places (`FairPlaces`), then waits for its turn in a queue (`FairQueue`)
//! or on a thread (`FairWorkers`). This code knows only clients, not what the places and turns are
//! for.

mod client;
mod fair_places;
mod fair_queue;
mod fair_workers;
mod waiting_line;

pub(crate) use client::Party;
pub use client::Requester;
pub use fair_places::PlacesPermit;
pub(crate) use fair_places::{FairPlaces, NoPlaces};
pub(crate) use fair_queue::{FairQueue, NextJob};
pub(crate) use fair_workers::FairWorkers;
