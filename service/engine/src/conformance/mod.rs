//! Does a backend keep the contract of [`crate::Backend`]? The suite that every one of them runs.
//!
//! [`conformance_suite!`](crate::conformance_suite) makes one test of each hand-made case and of
//! each random seed. Everything runs on the backend and on the model side by side and is compared
//! exactly; what a case expects beyond that, it says.

pub mod cases;
mod compare;
mod generate;
mod operations;
pub mod random;
mod rows;
mod standing;
mod suite;
mod trial;

pub use compare::first_difference;
pub use operations::{many_objects, operations_per_seed, random_operations};
pub use standing::{crowded_regions, standing_regions};
pub use trial::{Make, Trial};
