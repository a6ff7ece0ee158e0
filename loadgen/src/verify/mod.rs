//! Verification: replays what was acknowledged, in the order of epochs, on the engine's model.
//!
//! `ledger` determines which epochs are complete, `difference` compares the server's replies with
//! the model's, `verifier` is the thread that does it.

pub mod difference;
pub mod event;
pub mod ledger;
pub mod verifier;

pub use event::{Acked, Answered, Removed, SentRows};
pub use ledger::Ledger;
pub use verifier::{Verdict, Verifier, VerifierLink};
