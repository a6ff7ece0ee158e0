//! The modules of the server use each other in one direction.
//!
//! Unit tests are not restricted.

use std::collections::{BTreeMap, BTreeSet};

use shoal_tidy::sources;

/// The sources whose top-level modules must not form a cycle.
const SOURCES: &str = "service/src/";

/// The modules that each module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Returns the part of a file before its unit tests, without comments.
fn product(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn uses() -> Uses {
    let mut uses = Uses::new();
    for file in sources(".rs") {
        let Some(path) = file.path.strip_prefix(SOURCES) else { continue };
        let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned();
        let of_module = uses.entry(module.clone()).or_default();
        let text = product(&file.text);
        for used in text.split("crate::").skip(1) {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let used: String = used.chars().take_while(|letter| is_name(*letter)).collect();
            if used != module {
                of_module.insert(used);
            }
        }
        let is_top = !path.contains('/');
        assert!(!is_top || !text.contains("use super::"), "{}: write crate::", file.path);
    }
    uses
}

/// A dependency cycle through `module`, if there is one.
fn circle(uses: &Uses, module: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![module.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in uses.get(way.last()?).into_iter().flatten() {
            let way = [way.clone(), vec![next.clone()]].concat();
            if next == module {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push(way);
            }
        }
    }
    None
}

#[test]
fn modules_of_the_server_have_no_circle() {
    let uses = uses();
    assert!(uses["rpc"].contains("fleet"), "imports are not found");
    for (module, used) in &uses {
        // Neither a list of modules nor a name that lib.rs exports: both would hide an edge.
        let unknown: Vec<_> = used.iter().filter(|used| !uses.contains_key(*used)).collect();
        assert!(unknown.is_empty(), "{module} uses {unknown:?}, which are no modules");
    }
    for module in uses.keys() {
        let found = circle(&uses, module);
        assert_eq!(found, None, "{SOURCES}: a circle through {module}");
    }
}
