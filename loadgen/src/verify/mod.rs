//! Verification: replays acknowledged changes in the order of epochs on the engine's model.
//!
//! `ledger` determines complete epochs, `difference` compares the server's replies with the
//! model's, `past` holds every change for questions about the past, `past_answer` compares answers
//! to them, and `verifier` is the thread that runs the model and the comparisons.

pub mod difference;
pub mod event;
pub mod ledger;
pub mod past;
pub mod past_answer;
pub mod verifier;

pub use event::{Acked, Answered, Removed, SentRows};
pub use ledger::Ledger;
pub use past::Past;
pub use past_answer::{PastAnswer, PastAnswered};
pub use verifier::{Expected, Verdict, Verifier, VerifierLink};
