//! What does a client see under load? The library behind the binary `shoal-loadgen`.
//!
//! `plan` says what a run does, `report` sends rows and reads acks, `question` asks and reads
//! answers, `subscription` follows regions, `verify` compares with an oracle, `measure` counts and
//! tells, `run` holds it together.

pub mod args;
pub mod connect;
pub mod error;
pub mod fleet;
pub mod limits;
pub mod measure;
pub mod plan;
pub mod question;
pub mod report;
pub mod run;
pub mod session;
pub mod shares;
pub mod subscription;
pub mod tasks;
pub mod verify;

pub use args::{Command, CommandLine, RunArgs};
pub use error::LoadError;
pub use measure::Summary;
pub use plan::Plan;
pub use run::run;
