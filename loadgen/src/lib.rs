//! The load generator: the library behind the binary `shoal-loadgen`.
//!
//! `plan` defines a run, `report` sends rows and reads acks, `query` sends queries and reads
//! answers, `history` asks about the past, `subscription` follows regions, `verify` compares with
//! the engine's model, `measure` counts and summarizes, `run` connects them. `hostile` attacks a
//! server and measures a run at the same time.

pub mod args;
pub mod connect;
pub mod error;
pub mod fleet;
pub mod history;
pub mod hostile;
pub mod in_flight;
pub mod limits;
pub mod login;
pub mod measure;
pub mod names;
pub mod plan;
pub mod query;
pub mod report;
pub mod run;
pub mod session;
pub mod shares;
pub mod subscription;
pub mod tasks;
pub mod verify;

pub use args::{CommandLine, LoadCommand, RunArgs};
pub use error::LoadError;
pub use hostile::{AttackArgs, HostileArgs, HostileSummary, attack, run_hostile};
pub use in_flight::InFlight;
pub use measure::Summary;
pub use plan::RunPlan;
pub use run::run;
