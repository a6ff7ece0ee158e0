//! The command line of `shoal`: one file per command. Calls to a server go through `shoal-client`.

pub mod cert;
pub mod codec;
mod command;
pub mod connection;
pub mod error;
pub mod file_rows;
pub mod fleet_space;
pub mod fleets;
pub mod geoparquet;
pub mod history;
pub mod log;
mod measures;
pub mod object_ids;
pub mod output;
pub mod polygon;
pub mod promote;
pub mod query;
pub mod remove;
pub mod report;
pub mod report_summary;
mod run;
pub mod serve;
pub mod stats;
pub mod timestamp;
pub mod token;
pub mod unfence;
pub mod values;
pub mod watch;

pub use command::{Cli, ClientCommand, Command, ConnectedCommand};
pub use run::run;
