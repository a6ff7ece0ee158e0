//! The library of the binary `shoal`: a server around the engine, and its command line.
//!
//! `server` starts and stops everything, `rpc` has one file per call, `fleet` one engine thread per
//! fleet with its queues. Everything from the wire is validated here, once; the engine sees quanta.

mod answer_budget;
pub mod cli;
pub mod config;
mod connections;
pub mod engine_choice;
pub mod error;
pub mod fleet;
mod follower;
mod foreign_status;
pub mod limits;
pub mod logs;
pub mod metrics;
mod monitoring;
pub mod persistence;
pub mod replay;
pub mod rpc;
pub mod server;
pub mod status;
pub mod subscription;
mod threads;

pub use engine_choice::EngineChoice;
pub use error::ServiceError;
pub use limits::ServerLimits;
pub use server::{ServerOptions, run};
