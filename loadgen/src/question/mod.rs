//! How are queries asked, and how do their answers come back?
//!
//! `chooser` draws questions, `asker` paces and sends them, `answers` reads a Batch stream,
//! `single` asks one call after the other. Nothing here judges an answer.

pub mod answers;
pub mod asker;
pub mod asking;
pub mod chooser;
pub mod options;
pub mod seen;
pub mod single;

pub use answers::{AnswerReader, QuestionTally};
pub use asker::Asker;
pub use asking::Turn;
pub use chooser::{Chooser, Question};
pub use seen::SeenObjects;
pub use single::SingleAsker;
