//! Subscribers that verify that every event arrives once and in order.
//!
//! `regions` gives each session its circles, `follower` rebuilds memberships from a stream and
//! counts its faults, `compare` compares them with range queries, `epoch_times` measures the
//! latency of events, `subscriber` is one session from opening to closing.

pub mod compare;
pub mod counts;
pub mod epoch_times;
pub mod follower;
pub mod members;
pub mod plan;
pub mod regions;
pub mod sequence;
pub mod spawn;
pub mod stream;
pub mod subscriber;
pub mod tally;

pub use counts::Counts;
pub use epoch_times::EpochTimes;
pub use follower::Follower;
pub use plan::SubscriptionPlan;
pub use regions::SessionRegions;
pub use subscriber::Subscriber;
pub use tally::{FollowTally, Followed};
