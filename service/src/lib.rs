//! The server, which runs the engine. The package `shoal-cli` is its command line.
//!
//! `server` starts and stops everything, `rpc` serves the calls, `fleet` runs one engine thread per
//! fleet with its queues, `persistence` stores cycles, and `cycle` has the types that both use.
//! Input from clients is validated here, once; the engine receives positions in quanta. The command
//! line also uses `csv_fix`, `json`, `timestamp`, `fleet_space` and `line_queue`.

pub mod access;
mod address_places;
mod answer_budget;
mod connections;
pub mod csv_fix;
pub mod cycle;
mod duration;
pub mod engine_choice;
pub mod error;
pub mod file_watch;
pub mod fleet;
mod fleet_request;
pub mod fleet_space;
pub mod follower;
mod foreign_status;
pub mod http;
pub mod json;
pub mod limits;
pub mod line_queue;
mod listeners;
pub mod metrics;
mod monitoring;
pub mod names;
pub mod persistence;
mod record;
mod refusals;
pub mod right;
pub mod rpc;
pub mod server;
mod server_options;
pub mod shares;
pub mod status;
pub mod subscription;
mod threads;
pub mod timestamp;
pub mod tls;
mod windows;

pub use engine_choice::EngineChoice;
pub use error::ServiceError;
pub use limits::ServerLimits;
pub use listeners::Listeners;
pub use server::{ServerOptions, run};
