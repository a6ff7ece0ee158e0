//! How does the command line talk to a server? Nothing here knows flags beyond those of a
//! connection.

pub mod answer;
pub mod ask;
pub mod block;
pub mod connection;
pub mod fleet;
pub mod moment;
pub mod output;
pub mod polygon;
pub mod report;
pub mod rows;
pub mod status;
pub mod summary;
pub mod tally;
pub mod watch;
