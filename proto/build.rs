//! Compiles the protos in `proto/` with protox (no system protoc) and generates the tonic services.

use std::{env, fs, io, path::PathBuf};

use prost::Message as _;

const FILES: [&str; 5] = [
    "shoal/v1/error.proto",
    "shoal/v1/fleet.proto",
    "shoal/v1/position.proto",
    "shoal/v1/query.proto",
    "shoal/v1/subscription.proto",
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"]).map_err(io::Error::other)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .bytes(".shoal.v1.ReportRequest.block")
        .bytes(".shoal.v1.ReportOnceRequest.block")
        .compile_fds(descriptors)
}
