//! Compiles the kernels of `shoal-bench index` if feature `cuda` is enabled. The server does not
//! contain these kernels.

use std::env;
use std::path::{Path, PathBuf};

use toolkit::Toolkit;

#[path = "../gpu/build/toolkit.rs"]
#[allow(dead_code, reason = "nothing is linked here")]
mod toolkit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Without the feature there is nothing to build.
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    for watched in ["kernels", "../gpu/build/toolkit.rs", "../gpu/kernels/index"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let variable = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let layout = variable("DEP_SHOAL_PRIMITIVES_INCLUDE");
    let toolkit = Toolkit::find(&[&layout, Path::new("../gpu/kernels")]);
    toolkit.fatbins(&["contenders_words", "contenders_pairs"], &variable("OUT_DIR"));
}
