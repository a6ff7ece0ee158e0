//! Plays a recorded file into the server: a client in the server's process that uses the same calls
//! as any client.

mod advice;
mod player;
mod replayer;
mod status_line;
mod survey;
mod time_order;

pub use advice::Addresses;
pub use replayer::Replayer;
