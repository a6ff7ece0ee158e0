//! Is every answer right? An oracle fed with what was acknowledged, in the order of epochs.
//!
//! `ledger` knows which epochs are complete, `oracle` is the state after one of them, `expected`
//! answers by one scan over it, `difference` compares, `verifier` is the thread that does it all.

pub mod difference;
pub mod event;
pub mod expected;
pub mod id_hash;
pub mod ledger;
pub mod oracle;
pub mod outcome;
pub mod verifier;

pub use event::{Acked, Answered, GotAnswer, Removed, SentRows};
pub use ledger::Ledger;
pub use oracle::Oracle;
pub use outcome::Outcome;
pub use verifier::{Verdict, Verifier, VerifierLink};
