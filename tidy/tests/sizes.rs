//! Limits on the sizes of files, functions and lines, and other source rules of ARCHITECTURE.md,
//! section "House rules".

use shoal_tidy::{Source, sources};

const FILE_LINES_MAX: usize = 500;
const TEST_FILE_LINES_MAX: usize = 800;
const FILE_LINES_MEDIAN_MAX: usize = 200;
const FUNCTION_LINES_MAX: usize = 70;
const FUNCTION_LINES_P95_MAX: usize = 45;
const LINE_CHARACTERS_MAX: usize = 100;
const MODULE_DOC_LINES_MAX: usize = 8;
/// Files up to this length, and tests, may open with one line of documentation.
const ONE_LINE_DOC_FILE_LINES_MAX: usize = 120;

fn rust() -> Vec<Source> {
    let files = sources(".rs");
    assert!(files.len() > 20, "the workspace was not found");
    files
}

fn nothing_found(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn files_are_small() {
    let mut lengths = Vec::new();
    let mut faults = Vec::new();
    for file in rust() {
        let lines = file.text.lines().count();
        let limit = if file.is_test() { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
        if lines > limit {
            faults.push(format!("{}: {lines} lines, the limit is {limit}", file.path));
        }
        lengths.push(lines);
    }
    lengths.sort_unstable();
    assert!(lengths[lengths.len() / 2] <= FILE_LINES_MEDIAN_MAX, "the median file is too long");
    nothing_found(&faults);
}

#[test]
fn functions_are_small() {
    let mut lengths = Vec::new();
    let mut faults = Vec::new();
    for file in rust() {
        for (line, lines) in file.functions() {
            if lines > FUNCTION_LINES_MAX {
                faults.push(format!("{}:{line}: a function of {lines} lines", file.path));
            }
            lengths.push(lines);
        }
    }
    assert!(lengths.len() > 100, "functions are not recognised");
    lengths.sort_unstable();
    let p95 = lengths[lengths.len() * 95 / 100];
    assert!(p95 <= FUNCTION_LINES_P95_MAX, "95 % of functions are up to {p95} lines long");
    nothing_found(&faults);
}

#[test]
fn lines_are_short() {
    let mut faults = Vec::new();
    for file in rust() {
        for (number, line) in file.text.lines().enumerate() {
            if line.chars().count() > LINE_CHARACTERS_MAX {
                faults.push(format!("{}:{}: too long", file.path, number + 1));
            }
        }
    }
    nothing_found(&faults);
}

#[test]
fn every_file_opens_with_documentation() {
    let mut faults = Vec::new();
    for file in rust() {
        let doc = file.text.lines().take_while(|line| line.starts_with("//!")).count();
        let is_short = file.text.lines().count() <= ONE_LINE_DOC_FILE_LINES_MAX;
        let least = if file.is_test() || is_short { 1 } else { 2 };
        if doc < least || doc > MODULE_DOC_LINES_MAX {
            faults.push(format!("{}: opens with {doc} lines of documentation", file.path));
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
    const OPENED: [(&str, &str); 3] = [
        ("service/engine/src/cpu/prefetch.rs", "service/engine/src/cpu/prefetch.rs"),
        ("gpu/src/launch/mod.rs", "gpu/src/launch/"),
        ("benchmark/src/codec/nvcomp.rs", "benchmark/src/codec/nvcomp.rs"),
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
