//! Each stage on the device against its twin on the host, one by one: the same input, every output
//! compared. On a machine with an NVIDIA GPU run them with `--include-ignored`.

mod dispatch;
mod query;
mod scene;
mod update;
