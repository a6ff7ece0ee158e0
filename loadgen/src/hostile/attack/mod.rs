//! The attacks. The future of an attack does not end by itself: it attacks until it is dropped.
//!
//! To keep attackers cheap, messages are encoded once, and answers are decoded only as far as
//! counting requires.

pub mod connections;
pub mod http;
pub mod messages;
pub mod overload;
pub mod perform;
pub mod queries;
pub mod raw_call;
pub mod reports;
pub mod sessions;
pub mod strangers;
pub mod target;
pub mod unread;

pub use perform::attack;
pub use target::Target;
