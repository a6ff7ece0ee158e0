//! The binary `shoal` as its users run it: commands, outputs, signals, files.
#![allow(clippy::unwrap_used, reason = "a test fails on a missing value")]

mod access;
mod client_commands;
mod client_config;
mod client_output;
mod client_watch;
mod codec;
mod connections;
mod formats;
mod full_outputs;
mod history_files;
mod hostile_memory;
mod http_guide;
mod kill;
mod log;
mod names;
mod promotion;
mod replay;
mod shoal;
