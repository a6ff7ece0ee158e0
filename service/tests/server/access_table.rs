//! The table of rights has each method of each service, and no other.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{FileDescriptorSet, MethodDescriptorProto};
use shoal_service::access::{METHODS, Needs, method_right};
use shoal_service::right::Right;

/// Paths of all methods of all services that a server offers, and whether the request of each is a
/// stream.
fn offered() -> BTreeMap<String, bool> {
    let sets = [
        shoal_proto::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let files = sets.iter().flat_map(|set| FileDescriptorSet::decode(*set).unwrap().file);
    files
        .flat_map(|file| {
            let package = file.package().to_owned();
            file.service.into_iter().flat_map(move |service| {
                let service_name = format!("/{package}.{}/", service.name());
                let path = move |method: &MethodDescriptorProto| {
                    (format!("{service_name}{}", method.name()), method.client_streaming())
                };
                service.method.iter().map(path).collect::<Vec<_>>()
            })
        })
        .collect()
}

#[test]
fn each_method_has_a_row_and_each_row_a_method() {
    let rows: BTreeMap<_, _> = METHODS.iter().map(|row| (row.path.to_owned(), row.waits)).collect();
    assert_eq!(rows.len(), METHODS.len(), "a path occurs twice");
    let offered = offered();
    let missing: Vec<_> = offered.iter().filter(|(path, _)| !rows.contains_key(*path)).collect();
    assert!(missing.is_empty(), "methods without a row in access/rights_table.rs: {missing:#?}");
    assert_eq!(rows, offered, "rows without a method, or with another kind of request");
}

#[test]
fn what_changes_the_server_needs_admin() {
    for row in METHODS {
        assert_eq!(method_right(row.path), Some(&row));
        let method = row.path.rsplit('/').next().unwrap();
        let changes_fleets = ["CreateFleet", "RenameFleet", "ClearFleet", "DeleteFleet", "Erase"];
        if changes_fleets.contains(&method) {
            assert_eq!(row.needs, Needs::Fleet(Right::Admin), "{}", row.path);
        }
        if row.path.starts_with("/shoal.v1.LogService/") {
            assert_eq!(row.needs, Needs::Server(Right::Admin), "{}", row.path);
        }
    }
    assert_eq!(method_right("/shoal.v1.FleetService/Unknown"), None);
}
