//! Builds the live map with npm where the feature `map` is on, and lists its files for
//! `src/http/pages.rs`. Without the feature it does nothing.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, io};

/// The oldest Node.js that builds the map.
const NODE_VERSION_MIN: u32 = 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_MAP").is_none() {
        return;
    }
    let sources = Path::new("../map");
    for path in ["src", "build", "package.json", "package-lock.json", "../proto/proto"] {
        println!("cargo::rerun-if-changed={}", sources.join(path).display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let page = out.join("map");
    check_node();
    install(sources);
    run(
        Command::new("node").arg("build/build.mjs").arg(&page).current_dir(sources),
        "building the map",
    );
    let list = list_files(&page).expect("the build has written the map");
    fs::write(out.join("map_files.rs"), list).expect("OUT_DIR can be written");
}

/// Ends with a message that says what to do if there is no usable Node.js.
fn check_node() {
    let needs = format!(
        "the feature `map` needs Node.js {NODE_VERSION_MIN} or newer with npm: install it, or \
         build without the feature"
    );
    let printed = Command::new("node").arg("--version").output();
    let version = printed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let Ok(version) = version else { fail(&format!("node cannot be run; {needs}")) };
    let major = version.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    if major.parse().unwrap_or(0) < NODE_VERSION_MIN {
        fail(&format!("node is {}; {needs}", version.trim()));
    }
    if Command::new("npm").arg("--version").output().is_err() {
        fail(&format!("npm cannot be run; {needs}"));
    }
}

/// Installs the packages of the lock file, unless that was done since it changed.
fn install(sources: &Path) {
    let changed = |path: &str| fs::metadata(sources.join(path)).and_then(|it| it.modified());
    let installed = changed("node_modules/.package-lock.json");
    let wanted = changed("package-lock.json").expect("map/ has a lock file");
    if installed.is_ok_and(|installed| installed >= wanted) {
        return;
    }
    run(
        Command::new("npm").args(["ci", "--ignore-scripts"]).current_dir(sources),
        "installing the packages of the map",
    );
}

fn run(command: &mut Command, what: &str) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            fail(&format!("{what} failed:\n{}", String::from_utf8_lossy(&text)));
        }
        Err(error) => fail(&format!("{what} failed: {error}")),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("error: {message}");
    exit(1);
}

/// A slice of the files as Rust source.
fn list_files(page: &Path) -> io::Result<String> {
    let mut list = String::from("&[\n");
    let mut paths: Vec<_> = fs::read_dir(page.join("map"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    paths.insert(0, page.join("index.html"));
    for path in paths {
        let mut hasher = DefaultHasher::new();
        fs::read(&path)?.hash(&mut hasher);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let served = if name == "index.html" { String::new() } else { format!("map/{name}") };
        let etag = format!("\"{:016x}\"", hasher.finish());
        let _ = writeln!(
            list,
            "File {{ path: {served:?}, bytes: include_bytes!({:?}), etag: {etag:?} }},",
            path.display().to_string(),
        );
    }
    list.push(']');
    Ok(list)
}
