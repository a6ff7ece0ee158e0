//! The CUDA toolkit and its compiler, for this package and for others with kernels of their own.
//!
//! The toolkit is found through `CUDA_HOME`, `nvcc` on PATH, the wheel `nvidia-cuda-nvcc` of the
//! Python on PATH, or `/usr/local/cuda`, in this order. `SHOAL_CUDA_ARCHITECTURES` (for instance
//! `90`) lists the compute capabilities to compile for. If it is unset, release builds use all
//! supported ones and add PTX; other builds use one.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, thread};

/// Compute capabilities of release builds; the last gives the PTX for newer ones.
const ARCHITECTURES: [&str; 6] = ["80", "86", "89", "90", "100", "120"];
/// What other builds compile for.
const ARCHITECTURE_DEVELOPING: &str = "90";

/// Where nvcc and its libraries are, and how it compiles.
pub(crate) struct Toolkit {
    pub(crate) root: PathBuf,
    nvcc: PathBuf,
    /// Code generation flags and folders of headers.
    flags: Vec<String>,
}

impl Toolkit {
    /// Finds the toolkit of the environment; panics without one. `includes` are folders of headers.
    pub(crate) fn find(includes: &[&Path]) -> Self {
        println!("cargo::rerun-if-env-changed=CUDA_HOME");
        println!("cargo::rerun-if-env-changed=SHOAL_CUDA_ARCHITECTURES");
        let tried = [
            env::var_os("CUDA_HOME").map(PathBuf::from),
            from_path(),
            from_wheel(),
            Some(PathBuf::from("/usr/local/cuda")),
        ];
        let mut flags = targets();
        flags.extend(includes.iter().map(|folder| format!("-I{}", folder.display())));
        for root in tried.into_iter().flatten() {
            let nvcc = root.join("bin/nvcc");
            if nvcc.is_file() {
                return Self { root, nvcc, flags };
            }
        }
        panic!(
            "feature `cuda` needs nvcc 13.0: set CUDA_HOME to a CUDA toolkit, put nvcc on PATH, or \
             install the wheels nvidia-cuda-nvcc, nvidia-nvvm, nvidia-cuda-crt, \
             nvidia-cuda-runtime and nvidia-cuda-cccl, each ==13.0.*, for the python3 on PATH"
        );
    }

    /// Compiles entry points to fatbins, `kernels/NAME.cu` to `NAME.fatbin` in a folder, on all
    /// cores.
    pub(crate) fn fatbins(&self, names: &[&str], out: &Path) {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let left = Mutex::new(names.iter());
        thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    let next = || left.lock().expect("no compiler panics while it takes").next();
                    while let Some(name) = next() {
                        let to = out.join(name).with_extension("fatbin");
                        let folder = to.parent().expect("a fatbin is in a folder");
                        std::fs::create_dir_all(folder).expect("OUT_DIR can be written");
                        self.compile(&["-fatbin"], &format!("kernels/{name}.cu"), &to);
                    }
                });
            }
        });
    }

    /// Compiles a file with further flags.
    pub(crate) fn compile(&self, flags: &[&str], source: &str, to: &Path) {
        let mut nvcc = Command::new(&self.nvcc);
        // No fused multiply-add: answers must agree with the CPU to the bit.
        nvcc.args(["-O3", "-std=c++17", "-fmad=false", "-lineinfo", "-Werror", "all-warnings"]);
        run(nvcc.args(&self.flags).args(flags).arg(source).arg("-o").arg(to));
    }
}

/// Code generation flags of nvcc.
fn targets() -> Vec<String> {
    let given = env::var("SHOAL_CUDA_ARCHITECTURES").ok();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let list: Vec<&str> = match &given {
        Some(given) => given.split(',').map(str::trim).collect(),
        None if is_release => ARCHITECTURES.to_vec(),
        None => vec![ARCHITECTURE_DEVELOPING],
    };
    let mut flags: Vec<String> = list
        .iter()
        .map(|number| format!("-gencode=arch=compute_{number},code=sm_{number}"))
        .collect();
    if given.is_none()
        && is_release
        && let Some(last) = list.last()
    {
        flags.push(format!("-gencode=arch=compute_{last},code=compute_{last}"));
    }
    flags
}

fn from_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let nvcc = env::split_paths(&path).map(|folder| folder.join("nvcc")).find(|it| it.is_file())?;
    Some(nvcc.canonicalize().ok()?.parent()?.parent()?.to_owned())
}

fn from_wheel() -> Option<PathBuf> {
    let script = "import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], 'cu13'))";
    let output = Command::new("python3").args(["-c", script]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?} ended with {status}");
}
