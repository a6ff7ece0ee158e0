//! Stage subscription: the events of the continuous queries, found by the device.

mod arrivals;
mod changed_queries;
mod device_events;
mod event_limit;
mod events;
mod host_evaluation;
mod host_queries;
mod members;
mod modified_objects;
mod pieces;
mod stage;
mod trajectories;

pub(crate) use events::Events;
pub(crate) use members::MemberSearch;
pub(crate) use stage::SubscriptionStage;
