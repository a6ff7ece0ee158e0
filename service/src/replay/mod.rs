//! How does a recorded day become live traffic? A client inside the server's process, on its own
//! address, through the same calls that any client uses.

mod advice;
mod player;
mod replayer;
mod status_line;
mod survey;

pub use advice::Advice;
pub use player::{Pace, play};
pub use replayer::Replayer;
pub use status_line::StatusLine;
pub use survey::Survey;
