//! The threads that pack the inputs of cycles, for all fleets.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Most threads; packing is bound by memory.
const THREADS_MAX: usize = 16;

/// Half as many as there are cores. Threads that wait for the device occupy cores as well: with a
/// packing thread on every core, some threads would wait for a time slice, longer than a cycle.
static WORKERS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let named = ThreadPoolBuilder::new().thread_name(|number| format!("cuda-pack-{number}"));
    named.num_threads((cores / 2).clamp(1, THREADS_MAX)).build().ok()
});

/// Runs parallel work on these threads; on those of the process if they cannot be started.
pub(crate) fn in_parallel<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match &*WORKERS {
        Some(workers) => workers.install(work),
        None => work(),
    }
}
