//! The command line of the binary `shoal`: a file for each command, and what commands share.
//!
//! Calls to a server go through `shoal-client`; `serve` runs the server of `shoal-service`.

pub mod cert;
pub mod codec;
mod command;
pub mod config;
pub mod connection;
pub mod error;
mod file_edit;
pub mod fleets;
pub mod geoparquet;
pub mod history;
pub mod input;
pub mod log;
pub mod login;
pub mod logs;
mod measures;
pub mod names;
pub mod object_ids;
pub mod output;
pub mod polygon;
pub mod profile;
pub mod promote;
pub mod query;
pub mod refusal_finder;
pub mod remove;
pub mod replay;
pub mod report;
pub mod report_summary;
mod run;
pub mod serve;
pub mod stats;
mod stop_signal;
pub mod token;
pub mod unfence;
pub mod values;
pub mod watch;

pub use command::{Cli, ClientCommand, Command, ConnectedCommand};
pub use run::run;
