//! Compiles the protos in `proto/` with protox (no system protoc) and renders from the descriptors
//! the messages and services, the servers of raw messages (`src/raw.rs`) and the field numbers.

use std::fmt::Write as _;
use std::{env, fs, io, path::PathBuf};

use prost::Message as _;
use prost_types::{FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto};
use tonic_prost_build::manual;

const FILES: [&str; 7] = [
    "shoal/v1/error.proto",
    "shoal/v1/fleet.proto",
    "shoal/v1/history.proto",
    "shoal/v1/log.proto",
    "shoal/v1/position.proto",
    "shoal/v1/query.proto",
    "shoal/v1/subscription.proto",
];
const PACKAGE: &str = "shoal.v1";
/// Services with methods whose server handles encoded messages.
const RAW_SERVICES: [&str; 2] = ["PositionService", "SubscriptionService"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"]).map_err(io::Error::other)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("fields.rs"), field_numbers(&descriptors))?;
    let services = descriptors.file.iter().flat_map(|file| &file.service);
    let raw = services.filter(|service| RAW_SERVICES.contains(&service.name()));
    let raw: Vec<_> = raw.map(raw_service).collect();
    manual::Builder::new().build_client(false).compile(&raw);
    tonic_prost_build::configure()
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .bytes(".shoal.v1.ReportRequest.block")
        .bytes(".shoal.v1.ReportOnceRequest.block")
        .bytes(".shoal.v1.FetchCheckpointResponse.data")
        .bytes(".shoal.v1.GroupPart.data")
        .compile_fds(descriptors)
}

/// A module for each message with a constant for each field.
fn field_numbers(descriptors: &FileDescriptorSet) -> String {
    let mut code = String::new();
    let ours = descriptors.file.iter().filter(|file| file.package() == PACKAGE);
    for message in ours.flat_map(|file| &file.message_type) {
        let name = message.name();
        let _ = writeln!(code, "/// Fields of `{name}`.\npub mod {} {{", snake_case(name));
        for field in &message.field {
            let (name, number) = (field.name(), field.number());
            let constant = name.to_uppercase();
            let _ =
                writeln!(code, "/// Number of `{name}`.\npub const {constant}: u32 = {number};");
        }
        code.push_str("}\n");
    }
    code
}

fn raw_service(service: &ServiceDescriptorProto) -> manual::Service {
    let builder = manual::Service::builder().name(service.name()).package(PACKAGE);
    service
        .method
        .iter()
        .fold(builder, |builder, method| builder.method(raw_method(method)))
        .build()
}

fn raw_method(method: &MethodDescriptorProto) -> manual::Method {
    let bytes = "::bytes::Bytes".to_owned();
    let rust_type = |name: &str| name.replace(".shoal.v1.", "crate::v1::");
    let (request, response) = (rust_type(method.input_type()), rust_type(method.output_type()));
    let (request, response, codec) = match method.name() {
        "Report" | "ReportOnce" => (bytes, response, "crate::raw::RawRequestCodec"),
        "Subscribe" => (request, bytes, "crate::raw::RawResponseCodec"),
        _ => (request, response, "tonic_prost::ProstCodec"),
    };
    let mut builder = manual::Method::builder()
        .name(snake_case(method.name()))
        .route_name(method.name())
        .input_type(request)
        .output_type(response)
        .codec_path(codec);
    if method.client_streaming() {
        builder = builder.client_streaming();
    }
    if method.server_streaming() {
        builder = builder.server_streaming();
    }
    builder.build()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
