//! Does the wire read as users of the gRPC ecosystem expect?
//!
//! Our own lint in the manner of `buf`: names of packages, files, messages, fields, values and
//! calls, options for other languages, and a comment on everything. Each rule reports every place
//! that breaks it.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_types::source_code_info::Location;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

/// Phrases that read as translated. The manual uses the words of Postgres and Redis.
const BANNED: [&str; 8] =
    [" who ", "whoever", " told", "which is none", "is no more", "goes on", "gone on", "tell "];

/// The files of `shoal.v1`, without the files of Google.
fn files() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(shoal_proto::DESCRIPTORS).unwrap();
    set.file.into_iter().filter(|file| file.package() == "shoal.v1").collect()
}

/// What breaks a rule, and where.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, holds: bool, place: &str, rule: &str) {
        if !holds {
            self.0.push(format!("{place}: {rule}"));
        }
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}

fn is_pascal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && !name
            .chars()
            .zip(name.chars().skip(1))
            .any(|(a, b)| a.is_ascii_uppercase() && b.is_ascii_uppercase())
}

fn is_snake(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(legal)
        && !name.contains("__")
        && !name.ends_with('_')
}

/// `EventKind` as `EVENT_KIND`.
fn upper_snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

#[test]
fn files_name_a_package_for_every_language() {
    let mut faults = Faults::default();
    assert!(files().len() >= 5, "our files are not in the descriptors");
    for file in files() {
        let name = file.name().to_owned();
        let stem = name.strip_prefix("shoal/v1/").and_then(|rest| rest.strip_suffix(".proto"));
        faults.check(stem.is_some_and(is_snake), &name, "lies in shoal/v1 under a snake_case name");
        faults.check(file.syntax() == "proto3", &name, "is proto3");
        let options = file.options.clone().unwrap_or_default();
        faults.check(options.go_package() == "shoal/v1;shoalv1", &name, "sets go_package");
        faults.check(options.java_package() == "shoal.v1", &name, "sets java_package");
        faults.check(options.java_multiple_files(), &name, "sets java_multiple_files");
        faults.check(options.csharp_namespace() == "Shoal.V1", &name, "sets csharp_namespace");
    }
    faults.none();
}

fn check_message(faults: &mut Faults, message: &DescriptorProto) {
    let place = message.name();
    faults.check(is_pascal(place), place, "is PascalCase");
    for field in &message.field {
        let place = format!("{place}.{}", field.name());
        faults.check(is_snake(field.name()), &place, "is snake_case");
    }
    for oneof in &message.oneof_decl {
        // Each `optional` field has its own oneof, whose name begins with an underscore.
        let name = oneof.name().trim_start_matches('_');
        faults.check(is_snake(name), &format!("{place}.{name}"), "is snake_case");
    }
    faults.check(message.nested_type.is_empty(), place, "has no nested message");
    faults.check(message.enum_type.is_empty(), place, "has no nested enum");
}

fn check_enum(faults: &mut Faults, values: &EnumDescriptorProto) {
    let place = values.name();
    faults.check(is_pascal(place), place, "is PascalCase");
    let prefix = upper_snake(place) + "_";
    for (index, value) in values.value.iter().enumerate() {
        let named = value.name().starts_with(&prefix);
        faults.check(named, value.name(), &format!("begins with {prefix}"));
        faults.check(value.number() == index as i32, value.name(), "numbers have no holes");
    }
    let first = values.value[0].name();
    faults.check(first == prefix + "UNSPECIFIED", first, "the value 0 is UNSPECIFIED");
}

fn check_service(faults: &mut Faults, service: &ServiceDescriptorProto) -> Vec<String> {
    let place = service.name();
    faults.check(is_pascal(place) && place.ends_with("Service"), place, "ends with Service");
    let mut used = Vec::new();
    for method in &service.method {
        let name = method.name();
        faults.check(is_pascal(name), name, "is PascalCase");
        let (input, output) = (method.input_type(), method.output_type());
        let expected = (format!(".shoal.v1.{name}Request"), format!(".shoal.v1.{name}Response"));
        faults.check(input == expected.0, name, "takes the request of its name");
        faults.check(output == expected.1, name, "returns the response of its name");
        used.extend([input.to_owned(), output.to_owned()]);
    }
    used
}

#[test]
fn names_follow_the_style_of_protobuf() {
    let mut faults = Faults::default();
    let mut used = BTreeMap::<String, usize>::new();
    for file in files() {
        file.message_type.iter().for_each(|message| check_message(&mut faults, message));
        file.enum_type.iter().for_each(|values| check_enum(&mut faults, values));
        for service in &file.service {
            for message in check_service(&mut faults, service) {
                *used.entry(message).or_default() += 1;
            }
        }
    }
    for (message, calls) in used {
        faults.check(calls == 1, &message, "belongs to one call");
    }
    faults.none();
}

/// Numbers in the paths of a descriptor: which list of its parent an element stands in.
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const SERVICE: i32 = 6;
const ELEMENT: i32 = 2;
const ONEOF: i32 = 8;

/// Path and name of everything in a file that has a comment.
fn commented(file: &FileDescriptorProto) -> Vec<(Vec<i32>, String)> {
    let mut places = Vec::new();
    for (message, at) in file.message_type.iter().zip(0..) {
        places.push((vec![MESSAGE, at], message.name().to_owned()));
        for (field, index) in message.field.iter().zip(0..) {
            let name = format!("{}.{}", message.name(), field.name());
            places.push((vec![MESSAGE, at, ELEMENT, index], name));
        }
        for (oneof, index) in message.oneof_decl.iter().zip(0..) {
            if !oneof.name().starts_with('_') {
                let name = format!("{}.{}", message.name(), oneof.name());
                places.push((vec![MESSAGE, at, ONEOF, index], name));
            }
        }
    }
    for (values, at) in file.enum_type.iter().zip(0..) {
        places.push((vec![ENUM, at], values.name().to_owned()));
        for (value, index) in values.value.iter().zip(0..) {
            places.push((vec![ENUM, at, ELEMENT, index], value.name().to_owned()));
        }
    }
    for (service, at) in file.service.iter().zip(0..) {
        places.push((vec![SERVICE, at], service.name().to_owned()));
        for (method, index) in service.method.iter().zip(0..) {
            places.push((vec![SERVICE, at, ELEMENT, index], method.name().to_owned()));
        }
    }
    places
}

#[test]
fn everything_has_a_comment_in_plain_english() {
    let mut faults = Faults::default();
    for file in files() {
        let locations = file.source_code_info.clone().unwrap_or_default().location;
        let comments: BTreeMap<Vec<i32>, &Location> =
            locations.iter().map(|location| (location.path.clone(), location)).collect();
        for (path, name) in commented(&file) {
            let location = comments.get(&path).copied();
            let comment = location.map_or("", |location| location.leading_comments().trim());
            faults.check(!comment.is_empty(), &name, "has a comment");
            faults.check(
                comment.is_empty() || comment.ends_with(['.', ')']),
                &name,
                "a comment is of whole sentences",
            );
            let text = format!(" {} ", comment.to_lowercase().replace('\n', " "));
            for phrase in BANNED {
                faults.check(!text.contains(phrase), &name, &format!("says {phrase:?}"));
            }
        }
    }
    faults.none();
}

#[test]
fn every_message_is_used() {
    let mut defined = BTreeSet::new();
    let mut used = BTreeSet::new();
    for file in files() {
        for message in &file.message_type {
            defined.insert(format!(".shoal.v1.{}", message.name()));
            used.extend(message.field.iter().map(|field| field.type_name().to_owned()));
        }
        for method in file.service.iter().flat_map(|service| &service.method) {
            used.extend([method.input_type().to_owned(), method.output_type().to_owned()]);
        }
    }
    let idle: Vec<_> = defined.difference(&used).collect();
    assert!(idle.is_empty(), "defined and never used: {idle:?}");
}
