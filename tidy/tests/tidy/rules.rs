//! Source rules of ARCHITECTURE.md, section "House rules".

use shoal_tidy::{Source, sources};

fn rust() -> Vec<Source> {
    let files = sources(".rs");
    assert!(files.len() > 20, "the workspace was not found");
    files
}

fn nothing_found(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_file_opens_with_documentation() {
    let mut faults = Vec::new();
    for file in rust() {
        if !file.text.starts_with("//!") {
            faults.push(format!("{}: does not open with documentation", file.path));
        }
    }
    nothing_found(&faults);
}

#[test]
fn file_names_are_specific() {
    const EMPTY_NAMES: [&str; 6] = ["utils", "util", "helpers", "common", "misc", "manager"];
    let mut faults = Vec::new();
    for file in rust() {
        let has_empty_name = file
            .path
            .trim_end_matches(".rs")
            .split('/')
            .any(|part| EMPTY_NAMES.contains(&part) || part.ends_with('2'));
        if has_empty_name {
            faults.push(format!("{}: the name is not specific", file.path));
        }
    }
    nothing_found(&faults);
}

#[test]
fn unsafe_is_allowed_in_named_places_only() {
    /// Files that may allow `unsafe`, and the folder or file that each opens.
    const OPENED: [(&str, &str); 4] = [
        ("service/engine/src/cpu/prefetch.rs", "service/engine/src/cpu/prefetch.rs"),
        ("gpu/src/launch/mod.rs", "gpu/src/launch/"),
        ("benchmark/src/codec/peers/nvcomp.rs", "benchmark/src/codec/peers/nvcomp.rs"),
        ("benchmark/src/index/contenders.rs", "benchmark/src/index/contenders.rs"),
    ];
    let (mut found, mut faults) = (0, Vec::new());
    for file in rust() {
        let path = file.path.as_str();
        if file.text.contains(concat!("allow(", "unsafe_code"))
            && !OPENED.iter().any(|(opens, _)| *opens == path)
        {
            faults.push(format!("{path}: allows unsafe code"));
        }
        for place in file.unsafe_places() {
            found += 1;
            if !OPENED.iter().any(|(_, opened)| path.starts_with(opened)) {
                faults.push(format!("{path}:{}: unsafe outside of the named places", place.line));
            }
            if !place.is_argued {
                faults.push(format!("{path}:{}: unsafe without a safety argument", place.line));
            }
        }
    }
    assert!(found >= 30, "only {found} uses of unsafe are recognised");
    nothing_found(&faults);
}

#[test]
fn every_lint_exception_has_a_reason() {
    let mut faults = Vec::new();
    for file in rust() {
        for (number, line) in file.text.lines().enumerate() {
            let opens = line.trim_start().starts_with("#[allow(")
                || line.trim_start().starts_with("#![allow(")
                || line.trim_start().starts_with("#[expect(");
            let mut rest = file.text.lines().skip(number).take(8);
            if opens && !rest.any(|line| line.contains("reason")) {
                faults.push(format!("{}:{}: no reason", file.path, number + 1));
            }
        }
    }
    nothing_found(&faults);
}
