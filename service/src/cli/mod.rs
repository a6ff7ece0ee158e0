//! What can be typed? Flags and their help, one file a command; the work is in `client` and
//! `server`.

pub mod codec;
mod command;
pub mod connection;
pub mod error;
pub mod fleets;
pub mod get;
pub mod nearest;
pub mod question;
pub mod range;
pub mod remove;
pub mod report;
mod run;
pub mod serve;
pub mod stats;
pub mod values;
pub mod watch;

pub use command::{Cli, Client, ClientCommand, Command};
pub use run::run;
