//! Packages depend on each other only along the edges of ARCHITECTURE.md, and never on forbidden
//! crates.
//!
//! Dev-dependencies are not restricted.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Each package and the workspace packages that it may use.
const ALLOWED: [(&str, &[&str]); 15] = [
    ("shoal-codec", &[]),
    ("shoal-position-log", &["shoal-codec"]),
    ("shoal-history", &["shoal-codec", "shoal-position-log"]),
    ("shoal-table", &["shoal-codec"]),
    ("shoal-workload", &["shoal-table"]),
    ("shoal-engine", &["shoal-codec", "shoal-testkit"]),
    ("shoal-proto", &[]),
    ("shoal-client", &["shoal-codec", "shoal-proto"]),
    ("shoal-testkit", &["shoal-codec"]),
    ("shoal-gpu", &["shoal-codec", "shoal-engine", "shoal-history"]),
    (
        "shoal-service",
        &[
            "shoal-client",
            "shoal-codec",
            "shoal-engine",
            "shoal-gpu",
            "shoal-history",
            "shoal-position-log",
            "shoal-proto",
            "shoal-table",
        ],
    ),
    (
        "shoal-cli",
        &[
            "shoal-client",
            "shoal-codec",
            "shoal-engine",
            "shoal-gpu",
            "shoal-history",
            "shoal-position-log",
            "shoal-service",
            "shoal-table",
        ],
    ),
    (
        "shoal-loadgen",
        &[
            "shoal-client",
            "shoal-codec",
            "shoal-engine",
            "shoal-proto",
            "shoal-table",
            "shoal-workload",
        ],
    ),
    (
        "shoal-benchmark",
        &[
            "shoal-codec",
            "shoal-engine",
            "shoal-gpu",
            "shoal-history",
            "shoal-position-log",
            "shoal-table",
            "shoal-workload",
        ],
    ),
    ("shoal-tidy", &[]),
];

/// Each package and its forbidden dependencies.
const NEVER: [(&str, &[&str]); 9] = [
    ("shoal-client", &["clap", "comfy-table", "tracing"]),
    ("shoal-codec", &["tokio", "tonic", "prost", "clap"]),
    ("shoal-engine", &["tokio", "tonic", "prost", "clap", "cudarc"]),
    ("shoal-gpu", &["tokio", "tonic", "prost", "clap"]),
    ("shoal-history", &["tokio", "tonic", "prost", "clap"]),
    ("shoal-position-log", &["tokio", "tonic", "prost", "clap"]),
    (
        "shoal-service",
        &["clap", "comfy-table", "indicatif", "parquet", "png", "tracing-subscriber"],
    ),
    ("shoal-table", &["tokio", "tonic", "prost", "clap", "indicatif"]),
    ("shoal-workload", &["tokio", "tonic", "prost", "clap"]),
];

/// A forbidden dependency that a feature may turn on: flags for programs with a command line.
const OPTIONAL: (&str, &str) = ("shoal-client", "clap");

fn packages() -> Vec<Package> {
    let mut command = MetadataCommand::new();
    command.manifest_path(shoal_tidy::root().join("Cargo.toml")).no_deps();
    command.exec().expect("cargo metadata runs").packages
}

fn uses(package: &Package) -> Vec<&cargo_metadata::Dependency> {
    let counts = |kind| matches!(kind, DependencyKind::Normal | DependencyKind::Build);
    package.dependencies.iter().filter(|dependency| counts(dependency.kind)).collect()
}

#[test]
fn packages_use_only_permitted_packages() {
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    let packages = packages();
    assert_eq!(packages.len(), ALLOWED.len(), "a package is missing in the table");
    for package in &packages {
        let name = package.name.as_str();
        let permitted = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        for dependency in uses(package) {
            let is_ours = dependency.name.starts_with("shoal-");
            let is_allowed = !is_ours || permitted.contains(&dependency.name.as_str());
            assert!(is_allowed, "{name} must not use {}", dependency.name);
        }
    }
}

#[test]
fn packages_have_no_forbidden_dependency() {
    let packages = packages();
    for (name, never) in NEVER {
        let package = packages.iter().find(|package| package.name.as_str() == name);
        let package = package.unwrap_or_else(|| panic!("{name} is missing"));
        let default = package.features.get("default").into_iter().flatten();
        assert!(default.into_iter().all(|on| on != OPTIONAL.1), "{name} has flags by default");
        for dependency in uses(package) {
            let is_optional = dependency.optional && OPTIONAL == (name, &dependency.name);
            let is_forbidden = never.contains(&dependency.name.as_str()) && !is_optional;
            assert!(!is_forbidden, "{name} uses {}", dependency.name);
            let has_clap = dependency.features.iter().any(|feature| feature == OPTIONAL.1);
            let is_turned_on =
                dependency.name == OPTIONAL.0 && has_clap && never.contains(&OPTIONAL.1);
            assert!(!is_turned_on, "{name} turns the flags of {} on", OPTIONAL.0);
        }
    }
}

#[test]
fn no_server_has_the_testkit() {
    const FEATURE: &str = "shoal-engine/conformance";
    for package in packages() {
        let name = package.name.as_str();
        let turned_on = package.features.values().flatten().any(|feature| feature == FEATURE);
        assert!(!turned_on, "a feature of {name} turns the conformance suite on");
        for dependency in uses(&package).into_iter().filter(|used| used.name == "shoal-engine") {
            let has_suite = dependency.features.iter().any(|feature| feature == "conformance");
            assert!(!has_suite, "{name} has the conformance suite outside of its tests");
        }
        for dependency in uses(&package).into_iter().filter(|used| used.name == "shoal-testkit") {
            assert_eq!(name, "shoal-engine", "{name} has the testkit outside of its tests");
            // The conformance suite, which only tests turn on.
            assert!(dependency.optional, "{name} always has the testkit");
            let turns_on = |of: &&String| *of == "dep:shoal-testkit";
            let by = package.features.iter().filter(|(_, on)| on.iter().any(|of| turns_on(&of)));
            assert!(by.map(|(name, _)| name).eq(["conformance"]));
            assert!(!package.features["default"].iter().any(|feature| feature == "conformance"));
        }
    }
}

#[test]
fn the_load_generator_uses_no_backend() {
    let packages = packages();
    let loadgen = packages.iter().find(|package| package.name.as_str() == "shoal-loadgen");
    let loadgen = loadgen.expect("the load generator is a package");
    for dependency in uses(loadgen).into_iter().filter(|used| used.name == "shoal-engine") {
        assert!(!dependency.uses_default_features, "default features include the backends");
        assert!(!dependency.features.iter().any(|feature| feature == "cpu"));
    }
}
