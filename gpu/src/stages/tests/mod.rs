//! Each stage on the device against its model on the host: the same input, every output compared.
//! Run on a machine with an NVIDIA GPU with `--include-ignored`.

mod dispatch;
mod query;
mod scene;
mod update;
