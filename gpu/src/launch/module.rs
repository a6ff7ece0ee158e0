//! The compiled kernels, and how one is launched.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DriverError, result};
use cudarc::nvrtc::Ptx;
use shoal_engine::EngineError;

use super::memory::fault;

/// Threads of a block, of every kernel: none needs shared memory.
pub(super) const BLOCK_THREADS: u32 = 256;
/// Threads of a warp.
pub(super) const WARP: u64 = 32;
/// Blocks of kernels that take their work from a list on the device.
pub(super) const LIST_BLOCKS: u64 = 1024;

/// Whether the driver's library can be loaded.
pub(crate) fn has_driver() -> bool {
    // SAFETY: looks for a library by name and calls nothing in it.
    unsafe { cudarc::driver::sys::is_culib_present() }
}

macro_rules! kernels {
    ($($file:literal: $($name:ident),+;)+) => {
        /// Every entry point, by name.
        #[derive(Debug)]
        pub(crate) struct Kernels { $($(pub(super) $name: CudaFunction,)+)+ }

        impl Kernels {
            /// Loads the fatbins that the build embedded.
            pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
                // SAFETY: the engine's own events order its streams; cudarc's would add to every
                // copy.
                unsafe {
                    context.disable_event_tracking();
                }
                $(
                    let image = include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".fatbin"));
                    let module = context.load_module(Ptx::from_binary(image.to_vec()))?;
                    $(let $name = module.load_function(stringify!($name))?;)+
                )+
                Ok(Self { $($($name,)+)+ })
            }
        }
    };
}

kernels! {
    "dispatch": dispatch_verify, dispatch_find, dispatch_order, dispatch_settle, dispatch_expire,
        ordered_keys, ordered_settle, ordered_missing, ordered_clear;
    "update": update_keys, update_spans, update_holes, update_marks, update_insert, update_close,
        update_locate, update_sample, rebuild_keys, rebuild_spans, rebuild_rooms, rebuild_cells,
        rebuild_fill, dispatch_unknown;
    "query": query_rows, query_items, query_count, query_bounds, query_write,
        query_write_many, query_sort, query_sort_long, query_fixes,
        query_get, query_export, index_fill;
}

/// Launches `threads` threads; the arguments are pointers to values laid out as the kernel's
/// parameters.
pub(super) fn launch(
    function: &CudaFunction,
    stream: &CudaStream,
    threads: u64,
    arguments: &mut [*mut c_void],
) -> Result<(), EngineError> {
    if threads == 0 {
        return Ok(());
    }
    let blocks = threads.div_ceil(u64::from(BLOCK_THREADS));
    let blocks = u32::try_from(blocks).map_err(|_| EngineError::Limit {
        what: "threads of a launch",
        value: threads,
        limit: u64::from(u32::MAX) * u64::from(BLOCK_THREADS),
    })?;
    // SAFETY: the typed wrappers give the parameters of this very kernel, and buffers as long as
    // the kernel reads and writes.
    unsafe {
        result::launch_kernel(
            function.cu_function(),
            (blocks, 1, 1),
            (BLOCK_THREADS, 1, 1),
            0,
            stream.cu_stream(),
            arguments,
        )
    }
    .map_err(fault)
}

/// Pointers to arguments.
macro_rules! arguments {
    ($($value:expr),+ $(,)?) => {
        &mut [$(std::ptr::from_ref(&$value).cast_mut().cast::<std::ffi::c_void>(),)+]
    };
}
pub(super) use arguments;
