//! `shoal-loadgen hostile`: attacks a server while a well-behaved client uses it.
//!
//! `run` measures the well-behaved client during each attack, `attacker` is the process of an
//! attack, `attack` is what that process does, `http_client` measures the HTTP API, `process_stats`
//! reads memory and CPU time, `summary` is the table.

pub mod args;
pub mod attack;
pub mod attacker;
pub mod http_client;
pub mod process_stats;
pub mod run;
pub mod summary;

pub use args::{Attack, AttackArgs, HostileArgs};
pub use attack::attack;
pub use run::run_hostile;
pub use summary::HostileSummary;
