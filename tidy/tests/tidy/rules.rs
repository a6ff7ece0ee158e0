//! Source rules of ARCHITECTURE.md, section "House rules".

use std::collections::BTreeMap;
use std::fs;

use shoal_tidy::{SourceFile, root, sources};

fn rust() -> Vec<SourceFile> {
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
    /// Files that may permit unsafe code, and the folder or file that each permission covers.
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

/// Code blocks, tables and headings are exempt.
#[test]
fn markdown_is_wrapped_at_110_characters() {
    let mut faults = Vec::new();
    for file in sources(".md") {
        let mut is_code = false;
        for (number, line) in file.text.lines().enumerate() {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            let is_whole = is_code || is_fence || line.starts_with(['|', '#']);
            let is_breakable = line.trim().contains(' ');
            if !is_whole && is_breakable && line.chars().count() > 110 {
                faults.push(format!("{}:{}: more than 110 characters", file.path, number + 1));
            }
        }
    }
    nothing_found(&faults);
}

/// A code span with a slash that looks like a file or folder must exist below the root, or below a
/// folder that the guides abbreviate.
#[test]
fn paths_in_the_guides_exist() {
    const GUIDES: [&str; 8] = [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "GLOSSARY.md",
        "README.md",
        "docs/access.md",
        "docs/http.md",
        "gpu/DESIGN.md",
        "service/DESIGN.md",
    ];
    const PARENTS: [&str; 11] = [
        "",
        "service/",
        "service/src/",
        "service/codec/",
        "service/codec/src/",
        "service/engine/",
        "service/engine/src/",
        "gpu/",
        "gpu/kernels/",
        "gpu/src/",
        "map/",
    ];
    const ENDINGS: [&str; 8] = ["/", ".rs", ".md", ".proto", ".ts", ".cu", ".cuh", ".py"];
    let (mut found, mut faults) = (0, Vec::new());
    for guide in GUIDES {
        let text = fs::read_to_string(root().join(guide)).unwrap();
        // Code is every second part.
        for named in text.split('`').skip(1).step_by(2) {
            let is_path = named.contains('/') && ENDINGS.iter().any(|it| named.ends_with(it));
            let is_other = named.contains([' ', '<', '*', ':']) || named.starts_with(['/', '.']);
            if !is_path || is_other {
                continue;
            }
            found += 1;
            if !PARENTS.iter().any(|parent| root().join(parent).join(named).exists()) {
                faults.push(format!("{guide}: {named} does not exist"));
            }
        }
    }
    assert!(found > 150, "{found} paths");
    nothing_found(&faults);
}

/// A public type name is defined once in all packages. Types declared by macros are not checked.
#[test]
fn no_name_of_a_public_type_is_defined_twice() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust().into_iter().filter(|file| file.path.contains("/src/")) {
        for line in file.text.lines() {
            let mut words: Vec<&str> = line.split_whitespace().take(4).collect();
            words.retain(|word| *word != "unsafe");
            if let ["pub", "struct" | "enum" | "trait" | "type" | "union", name, ..] = words[..] {
                let name = name.split(|at: char| !at.is_alphanumeric() && at != '_').next();
                let name = name.unwrap_or_default().to_owned();
                places.entry(name).or_default().push(file.path.clone());
            }
        }
    }
    assert!(places.len() > 300, "only {} types are recognised", places.len());
    let twice = places.into_iter().filter(|(_, files)| files.len() > 1);
    let faults: Vec<String> = twice.map(|(name, files)| format!("{name}: {files:?}")).collect();
    nothing_found(&faults);
}
