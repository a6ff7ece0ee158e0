//! Stage subscription: what standing regions are told, found by the device.

mod arrivals;
mod bins;
mod cells;
mod changes;
mod cut;
mod follow;
mod found;
mod judge;
mod members;
mod on_device;
mod pieces;
mod stage;
mod stands;
mod table;
mod told;
mod touched;
mod ways;

pub(crate) use changes::{Changes, file};
pub(crate) use stage::Subscriptions;
pub(crate) use told::Events;
