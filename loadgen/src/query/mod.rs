//! Queries and their answers.
//!
//! `chooser` draws queries, `query_sender` paces and sends them, `answers` reads a Batch stream,
//! `single_sender` sends sequential calls. `verify` compares the answers.

pub mod answers;
pub mod chooser;
pub mod options;
pub mod query_sender;
pub mod seen_objects;
pub mod single_sender;
pub mod turn;

pub use answers::{AnswerReader, QueryTally};
pub use chooser::{Chooser, QueryMessage};
pub use query_sender::QuerySender;
pub use seen_objects::SeenObjects;
pub use single_sender::SingleSender;
pub use turn::Turn;
