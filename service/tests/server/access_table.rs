//! The table of rights has each method of each service, and no other.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use shoal_service::access::{METHODS, Needs, method_right};
use shoal_service::right::Right;

/// Paths of all methods of all services that a server offers.
pub(crate) fn offered() -> BTreeSet<String> {
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
                let names = service.method.into_iter().map(|method| method.name().to_owned());
                names.map(move |name| format!("{service_name}{name}")).collect::<Vec<_>>()
            })
        })
        .collect()
}

#[test]
fn each_method_has_a_row_and_each_row_a_method() {
    let rows: BTreeSet<String> = METHODS.iter().map(|row| row.path.to_owned()).collect();
    assert_eq!(rows.len(), METHODS.len(), "a path occurs twice");
    let offered = offered();
    let missing: Vec<_> = offered.difference(&rows).collect();
    assert!(missing.is_empty(), "methods without a row in access/rights_table.rs: {missing:#?}");
    let surplus: Vec<_> = rows.difference(&offered).collect();
    assert!(surplus.is_empty(), "rows without a method: {surplus:#?}");
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
