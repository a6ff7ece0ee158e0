//! Stage subscription: what standing regions are told, found by the device.

mod bins;
mod cells;
mod changes;
mod found;
mod members;
mod on_device;
mod stage;
mod table;
mod told;

pub(crate) use changes::{Changes, file, is_plain_change};
pub(crate) use stage::Subscriptions;
pub(crate) use told::Events;
