//! Does a backend keep the contract of [`crate::Backend`]? The suite that every one of them runs.

pub mod random;
