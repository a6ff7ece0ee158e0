//! Replication: a follower copies the fleets of a leader, and may take its place.
//!
//! `replication` manages the role of the server; `fleet_list` keeps its fleets equal to the
//! leader's; `fleet_stream` copies one log; `group_assembly` turns messages into cycles;
//! `promotion` makes a follower the leader; `fence` stops the former leader. The leader's side of
//! the streams is in `rpc/follow.rs`.

mod fence;
mod fleet_copy;
mod fleet_list;
mod fleet_stream;
mod group_assembly;
#[cfg(test)]
mod group_fuzz;
mod leader_link;
mod leader_stream;
mod log_description;
mod promotion;
mod replication;

pub use leader_link::LeaderLink;
pub(crate) use log_description::describe_log;
pub(crate) use replication::{Replication, claim_role};
