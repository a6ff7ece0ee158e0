//! Stage subscription: the events of the continuous queries, found by the device.

mod arrivals;
mod bins;
mod cells;
mod changed_queries;
mod changes;
mod device_events;
mod event_limit;
mod events;
mod host_evaluation;
mod host_queries;
mod members;
mod modified_objects;
mod on_device;
mod pieces;
mod query_table;
mod stage;
mod trajectories;

pub(crate) use changes::{Changes, file};
pub(crate) use events::Events;
pub(crate) use stage::Subscriptions;
