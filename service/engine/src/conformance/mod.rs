//! The conformance suite: the contract of [`crate::Backend`] as tests of any backend.
//!
//! [`conformance_suite!`](crate::conformance_suite) makes one test of each hand-made case and of
//! each random seed. Each runs on the backend and on the model side by side, and every output is
//! compared exactly.

mod builders;
pub mod cases;
mod compare;
mod continuous_queries;
mod generate;
mod operations;
mod suite;
mod trial;

pub use compare::first_difference;
pub use continuous_queries::{continuous_queries, crowded_queries};
pub use operations::{many_objects, operations_per_seed, random_operations};
pub use trial::{Make, Trial};
