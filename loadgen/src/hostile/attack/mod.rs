//! The attacks. Each function takes what it needs, builds its messages at once, and gives a future
//! that attacks until it is dropped.
//!
//! An attacker is cheap where it can be: messages are encoded once, and answers are not decoded
//! beyond what counts them.

pub mod connections;
pub mod messages;
pub mod perform;
pub mod queries;
pub mod raw_call;
pub mod reports;
pub mod sessions;
pub mod target;
pub mod unread;

pub use perform::attack;
pub use target::Target;
