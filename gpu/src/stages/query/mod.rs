//! Stage query: counts the matches of a cycle's queries, then writes and builds their answers.

pub(crate) mod answers;
pub(crate) mod batch;
pub(crate) mod nearest;
pub(crate) mod parts;
pub(crate) mod stage;
pub(crate) mod warp;
pub(crate) mod work;
