//! A field, value or call that was published is never changed or removed.
//!
//! `published.txt` lists every one of them, a line each. A line that no longer describes the protos
//! fails the test; a new one must be recorded on purpose, with `SHOAL_RECORD_PROTOS=yes`. Only
//! `shoal.v1` is ours to keep.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

fn listing() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(shoal_proto::DESCRIPTORS).unwrap();
    let mut lines = BTreeSet::new();
    for file in set.file.iter().filter(|file| file.package() == "shoal.v1") {
        let package = format!("{}.", file.package());
        file.message_type.iter().for_each(|message| add_message(&mut lines, &package, message));
        file.enum_type.iter().for_each(|values| add_enum(&mut lines, &package, values));
        file.service.iter().for_each(|service| add_service(&mut lines, &package, service));
    }
    lines
}

fn add_message(lines: &mut BTreeSet<String>, scope: &str, message: &DescriptorProto) {
    let name = format!("{scope}{}", message.name());
    lines.insert(format!("message {name}"));
    for field in &message.field {
        lines.insert(format!("field {name}.{}", field_line(field, message)));
    }
    let scope = format!("{name}.");
    message.nested_type.iter().for_each(|nested| add_message(lines, &scope, nested));
    message.enum_type.iter().for_each(|values| add_enum(lines, &scope, values));
}

fn field_line(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    let label = match (field.label(), field.proto3_optional()) {
        (Label::Repeated, _) => "repeated".to_owned(),
        (_, true) => "optional".to_owned(),
        _ => match field.oneof_index {
            Some(index) => format!("oneof {}", message.oneof_decl[index as usize].name()),
            None => "singular".to_owned(),
        },
    };
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        other => other.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    format!("{} = {} {kind} {label}", field.name(), field.number())
}

fn add_enum(lines: &mut BTreeSet<String>, scope: &str, values: &EnumDescriptorProto) {
    for value in &values.value {
        let number = value.number();
        lines.insert(format!("value {scope}{}.{} = {number}", values.name(), value.name()));
    }
}

fn add_service(lines: &mut BTreeSet<String>, scope: &str, service: &ServiceDescriptorProto) {
    let stream = |streams: bool| if streams { "stream " } else { "" };
    for method in &service.method {
        lines.insert(format!(
            "rpc {scope}{}.{}({}{}) returns ({}{})",
            service.name(),
            method.name(),
            stream(method.client_streaming()),
            method.input_type().trim_start_matches('.'),
            stream(method.server_streaming()),
            method.output_type().trim_start_matches('.'),
        ));
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/published.txt")
}

#[test]
fn what_was_published_stands() {
    let found = listing();
    let text = fs::read_to_string(path()).unwrap_or_default();
    let published: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let lost: Vec<_> = published.difference(&found).collect();
    assert!(lost.is_empty(), "published and changed or gone: {lost:#?}");
    let new: Vec<_> = found.difference(&published).collect();
    if new.is_empty() {
        return;
    }
    let record = std::env::var("SHOAL_RECORD_PROTOS").is_ok_and(|value| value == "yes");
    assert!(record, "not recorded yet (SHOAL_RECORD_PROTOS=yes records them): {new:#?}");
    let lines: Vec<&str> = found.iter().map(String::as_str).collect();
    fs::write(path(), lines.join("\n") + "\n").unwrap();
}

#[test]
fn numbers_and_names_are_used_once() {
    for prefix in ["field ", "value "] {
        let mut seen = BTreeSet::new();
        for line in listing().iter().filter_map(|line| line.strip_prefix(prefix)) {
            let (name, rest) = line.split_once(" = ").unwrap();
            let (scope, _) = name.rsplit_once('.').unwrap();
            let number = rest.split(' ').next().unwrap();
            assert!(seen.insert(format!("{scope} {number}")), "{scope} has {number} twice");
        }
    }
}
