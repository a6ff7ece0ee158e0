//! Reads the workspace sources for the tests of the house rules.
//!
//! It matches lines, not Rust syntax, so that a text search finds the same places.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file.
#[derive(Debug)]
pub struct SourceFile {
    /// Path from the root of the workspace, with forward slashes.
    pub path: String,
    /// The text.
    pub text: String,
}

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// All files with this name ending outside of build and hidden folders, ordered by path.
///
/// # Panics
/// If a folder or file cannot be read.
#[must_use]
pub fn sources(ending: &str) -> Vec<SourceFile> {
    let mut found = Vec::new();
    collect(&root(), ending, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<SourceFile>) {
    let entries = fs::read_dir(folder).expect("the workspace's folders can be read");
    for entry in entries {
        let path = entry.expect("a folder's entries can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let is_foreign = ["venv", "node_modules"].contains(&name.as_str());
            if !name.starts_with('.') && !name.starts_with("target") && !is_foreign {
                collect(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            let path = path.strip_prefix(root()).expect("below the root").to_string_lossy();
            found.push(SourceFile { path: path.replace('\\', "/"), text });
        }
    }
}

/// A use of `unsafe`: a block, an implementation, a function, a trait or foreign declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafePlace {
    /// Counted from 1.
    pub line: usize,
    /// Whether `SAFETY:` precedes a use, or `# Safety` a declaration.
    pub is_argued: bool,
}

/// Maximum number of lines between a use of `unsafe` and the start of its safety comment.
const ARGUMENT_LINES: usize = 10;

impl SourceFile {
    /// Every use of `unsafe` in code, at any position of a line. Unsafe function types do not
    /// count.
    #[must_use]
    pub fn unsafe_places(&self) -> Vec<UnsafePlace> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut found = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let above = &lines[number.saturating_sub(ARGUMENT_LINES)..number];
            for (at, word) in code.match_indices(KEYWORD) {
                let is_word = !code[..at].ends_with(|before: char| {
                    before.is_alphanumeric() || before == '_' || before == '"'
                });
                let rest = &code[at + word.len()..];
                let is_declared = ["fn ", "trait "].iter().any(|it| rest.starts_with(it));
                let is_used = rest.starts_with(['{'])
                    || ["impl", "extern \"C\" {"].iter().any(|it| rest.starts_with(it));
                if is_word && (is_declared || is_used) {
                    let argument = if is_declared { "# Safety" } else { "SAFETY:" };
                    let is_argued = above.iter().any(|line| line.contains(argument));
                    found.push(UnsafePlace { line: number + 1, is_argued });
                }
            }
        }
        found
    }
}

/// Split, so that this file itself has no match.
const KEYWORD: &str = concat!("uns", "afe ");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_use_of_unsafe_is_found_with_its_argument() {
        let text = "// SAFETY: a\nlet x = U { y() };\n/// # Safety\npub U fn z();\n\
            type F = U extern \"C\" fn(u8);\n// U {\nlet s = \"U {\";\n";
        let text = text.replace("U ", KEYWORD);
        let filler = "\n".repeat(ARGUMENT_LINES);
        let text =
            format!("{text}{filler}let z = {KEYWORD}{{ y() }};\n{KEYWORD}impl A for B {{}}\n");
        let source = SourceFile { path: "a.rs".into(), text };
        let found: Vec<_> =
            source.unsafe_places().iter().map(|place| (place.line, place.is_argued)).collect();
        assert_eq!(found, [(2, true), (4, true), (18, false), (19, false)]);
    }
}
