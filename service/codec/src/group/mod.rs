//! Encoding `group`: rows grouped by key. Its child's values pass unchanged; what the node says
//! to the whole tree is done in `grouping.rs`.

pub(crate) mod spec;
