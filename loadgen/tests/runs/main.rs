//! Runs against a server in this process, and the parts of the load generator that judge them.
#![allow(clippy::unwrap_used, reason = "a test fails on a missing value")]

mod attacks;
mod fleets;
mod follower;
mod hostile;
mod in_process;
mod mixes;
mod names;
mod past;
mod replica;
mod subscriptions;
mod verifier;
mod workloads;
