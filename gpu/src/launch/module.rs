//! The compiled kernels and their launches: as wide as fits, or narrower for an experiment.
//!
//! The width is a property of loaded kernels, so launches do not depend on it.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DriverError, result, sys};
use cudarc::nvrtc::Ptx;
use shoal_engine::EngineError;
use shoal_engine::layout::{
    CODEC_ORDER_BYTES, CODEC_ORDER_THREADS, CODEC_SCATTER_BUFFERS, CODEC_SCATTER_BYTES,
    CODEC_SCATTER_THREADS, CODEC_STRING_THREADS, Grid, REBUILD_BLOCK_BYTES, REBUILD_COUNT_THREADS,
    REBUILD_EACH, REBUILD_ENTRY_BYTES, REBUILD_THREADS, Rules,
};

use super::argument_layout::{
    AnswerListsArgument, BinsArgument, CellsArgument, IndexArgument, InputArgument,
    MatchesArgument, MovedArgument, NewBinsArgument, Pointer, QueriesArgument, RecordsArgument,
    RowsArgument, SceneArgument, SpareArgument, TrajectoriesArgument, ViewArgument,
};
use super::codec_decode::{DECODE_THREADS, SLOT_THREADS};
use super::memory::{DeviceBuffer, fault};
use super::plain::Plain;
pub(super) use crate::tuning::BLOCK_THREADS;
use crate::tuning::{LaunchLimits, Width};

/// Threads of a warp.
pub(super) const WARP: u64 = 32;
/// Blocks of a cluster that every device with clusters supports.
const CLUSTER_BLOCKS_MAX: u32 = 8;

/// Maximum number of parameters of a kernel.
const PARAMETERS_MAX: usize = 16;

/// Shared memory of a multiprocessor that a block may use.
pub(super) const SHARED_BYTES_MAX: sys::CUdevice_attribute =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;

/// Whether the driver's library can be loaded.
pub(crate) fn has_driver() -> bool {
    // SAFETY: looks for a library by name and calls nothing in it.
    unsafe { sys::is_culib_present() }
}

macro_rules! kernels {
    ($($file:literal: $($name:ident),+;)+) => {
        /// Every entry point, by name.
        #[derive(Debug)]
        pub(crate) struct Kernels {
            $($(pub(super) $name: Kernel,)+)+
            /// Whether the device can run blocks in clusters that read each other's shared memory,
            /// has enough shared memory for them, and can begin a launch while the previous one
            /// runs.
            pub(super) has_clusters: bool,
        }

        impl Kernels {
            /// Loads the embedded fatbins, for launches of this width.
            fn load_for(context: &Arc<CudaContext>, width: Width) -> Result<Self, DriverError> {
                // SAFETY: the engine's own events order its streams; cudarc's events would slow
                // every copy.
                unsafe {
                    context.disable_event_tracking();
                }
                use sys::CUdevice_attribute as Attribute;
                let clusters = Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
                let shared_bytes = context.attribute(SHARED_BYTES_MAX)?.unsigned_abs();
                let has_clusters =
                    context.attribute(clusters)? != 0 && shared_bytes >= CODEC_ORDER_BYTES;
                $(
                    let image = include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".fatbin"));
                    let module = context.load_module(Ptx::from_binary(image.to_vec()))?;
                    let of_file = width_of($file, width, shared_bytes);
                    $(let $name = Kernel::new(module.load_function(stringify!($name))?, of_file)?;)+
                )+
                Ok(Self { $($($name,)+)+ has_clusters })
            }

            #[cfg(test)]
            fn all(&self) -> Vec<(&'static str, &Kernel)> {
                vec![$($((stringify!($name), &self.$name),)+)+]
            }
        }
    };
}

kernels! {
    "dispatch/admission": admission_mark, admission_list, admission_refuse;
    "dispatch/dispatch": dispatch_newcomers, dispatch_verify, dispatch_entries, dispatch_match,
        dispatch_find, dispatch_order, dispatch_settle_entries, dispatch_settle,
        dispatch_expire;
    "dispatch/ordered": ordered_keys, ordered_settle, ordered_missing, ordered_clear;
    "update/update": update_keys, update_spans, update_holes, update_grow, update_insert,
        update_close, update_locate, update_publish, update_sample;
    "update/rebuild": rebuild_bins, rebuild_counts, rebuild_capacities, rebuild_cells;
    "update/rebuild_place": rebuild_partition, rebuild_fill;
    "query/query": query_rows, query_candidate_rows, query_work, query_count,
        query_count_rectangles, query_withhold, query_bounds, query_write, query_write_many,
        query_fixes, query_get;
    "records/records": records_unknown, records_index, records_export;
    "query/warp_query": warp_query_count, warp_query_write, warp_query_write_medium,
        warp_query_write_many;
    "query/nearest": nearest_rank, nearest_owners, nearest_take;
    "subscription/subscription": subscription_claim, subscription_claim_bins, subscription_counts,
        subscription_starts, subscription_file, subscription_file_bins, subscription_mark,
        subscription_gather, subscription_gather_ended, subscription_count,
        subscription_count_many, subscription_tally, subscription_write, subscription_write_many,
        subscription_heads, subscription_columns, subscription_fixes, subscription_outcomes,
        subscription_mark_observed, subscription_observe, subscription_watch;
    "subscription/trajectories": trajectories_widen, trajectories_mark, trajectories_rows;
    "query/sort": sort_short, sort_medium, sort_long, sort_tiles, sort_merge;
    "codec/decode": codec_open, codec_plain_32, codec_small_plain_32, codec_plain_64;
    "codec/slots": codec_slot_32, codec_small_slot_32, codec_slot_64, codec_slots_32,
        codec_slots_64;
    "codec/strings": codec_strings;
    "codec/runs": codec_runs_32, codec_repeats_32;
    "codec/scatter": codec_scatter;
    "codec/group": codec_range, codec_count, codec_move, codec_heads;
    "codec/order": codec_order_codes, codec_order_keys;
}

/// The width of a file's kernels on a device with this shared memory per block. Kernels that sort,
/// rebuild or decode have a fixed number of threads per block. A kernel of the codec that needs
/// more memory is not launched; every supported device has enough to rebuild grids.
fn width_of(file: &str, width: Width, shared_bytes: u32) -> Width {
    match file {
        "update/rebuild" => Width::of_blocks(REBUILD_COUNT_THREADS),
        "update/rebuild_place" => {
            let bytes =
                |threads| threads * REBUILD_EACH * REBUILD_ENTRY_BYTES + REBUILD_BLOCK_BYTES;
            let threads = match bytes(REBUILD_THREADS) <= shared_bytes {
                true => REBUILD_THREADS,
                false => REBUILD_THREADS / 2,
            };
            Width::with_shared(threads, bytes(threads))
        }
        "query/sort" | "codec/group" => Width::FULL,
        "codec/decode" | "codec/runs" => Width::of_blocks(DECODE_THREADS),
        "codec/scatter" => {
            let buffers = CODEC_SCATTER_BUFFERS.min(shared_bytes / CODEC_SCATTER_BYTES);
            Width::with_shared(CODEC_SCATTER_THREADS, buffers * CODEC_SCATTER_BYTES)
        }
        "codec/slots" => Width::of_blocks(SLOT_THREADS),
        "codec/strings" => Width::of_blocks(CODEC_STRING_THREADS),
        "codec/order" => {
            Width::with_shared(CODEC_ORDER_THREADS, CODEC_ORDER_BYTES.min(shared_bytes))
        }
        _ => width,
    }
}

/// A kernel and the width of its launches.
#[derive(Debug)]
pub(super) struct Kernel {
    function: CudaFunction,
    block_threads: u32,
    pub(super) dynamic_shared_bytes: u32,
    /// Size of each parameter as compiled; known after the first launch.
    parameter_bytes: OnceLock<Vec<usize>>,
}

impl Kernel {
    pub(super) fn new(function: CudaFunction, width: Width) -> Result<Self, DriverError> {
        let declared_bytes = function.shared_size_bytes()?.unsigned_abs();
        let dynamic_shared_bytes = width.dynamic_shared_bytes(declared_bytes);
        if dynamic_shared_bytes > 0 {
            use sys::CUfunction_attribute_enum as Attribute;
            let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(most, dynamic_shared_bytes as i32)?;
        }
        let (block_threads, parameter_bytes) = (width.block_threads, OnceLock::new());
        Ok(Self { function, block_threads, dynamic_shared_bytes, parameter_bytes })
    }

    /// Pointers to the arguments of a launch, as the driver reads them.
    ///
    /// # Panics
    /// If their number or sizes differ from those of the kernel's parameters.
    fn pointers(&self, arguments: &[Argument<'_>]) -> [*mut c_void; PARAMETERS_MAX] {
        let expected = self.parameter_bytes.get_or_init(|| parameter_bytes(&self.function));
        let bytes = arguments.iter().map(|argument| argument.bytes);
        assert!(bytes.eq(expected.iter().copied()), "parameters of {expected:?} bytes");
        let mut pointers = [null_mut(); PARAMETERS_MAX];
        for (pointer, argument) in pointers.iter_mut().zip(arguments) {
            *pointer = argument.value.cast_mut();
        }
        pointers
    }

    pub(super) fn block_threads(&self) -> u32 {
        self.block_threads
    }

    /// Warps of a block.
    pub(super) fn warps(&self) -> u32 {
        self.block_threads / WARP as u32
    }
}

impl Kernels {
    /// The kernels of a fleet.
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        Self::load_for(context, Width::FULL)
    }

    /// The kernels as on a device of an older generation.
    #[cfg(test)]
    pub(crate) fn without_clusters(self) -> Self {
        Self { has_clusters: false, ..self }
    }

    /// The kernels with launches that keep about `resident_threads` threads resident; see
    /// [`crate::Tuning::resident_threads`].
    pub(crate) fn narrow(
        context: &Arc<CudaContext>,
        resident_threads: u32,
    ) -> Result<Self, DriverError> {
        use sys::CUdevice_attribute as Attribute;
        let number = |attribute| context.attribute(attribute).map(i32::unsigned_abs);
        let limits = LaunchLimits {
            multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes: number(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            block_shared_bytes_max: number(SHARED_BYTES_MAX)?,
            block_reserved_bytes: number(
                Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
            )?,
        };
        Self::load_for(context, Width::narrow(resident_threads, &limits))
    }
}

/// Size of each parameter of a kernel. Queries until the driver returns an error for the parameter
/// after the last.
///
/// # Panics
/// If there are more than [`PARAMETERS_MAX`].
fn parameter_bytes(function: &CudaFunction) -> Vec<usize> {
    let size = |place: usize| {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function is loaded, and the call writes two numbers.
        let found = unsafe {
            let function = function.cu_function();
            sys::cuFuncGetParamInfo(function, place, &raw mut offset, &raw mut bytes)
        };
        found.result().is_ok().then_some(bytes)
    };
    let sizes: Vec<usize> = (0..).map_while(size).collect();
    assert!(sizes.len() <= PARAMETERS_MAX, "a kernel has {} parameters", sizes.len());
    sizes
}

/// An argument of a launch: a value of the host that the driver copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Argument<'a> {
    value: *const c_void,
    bytes: usize,
    borrowed: PhantomData<&'a ()>,
}

impl<'a> Argument<'a> {
    pub(super) fn of<T: Copy>(value: &'a T) -> Self {
        let (value, bytes) = ((&raw const *value).cast(), size_of::<T>());
        Self { value, bytes, borrowed: PhantomData }
    }
}

/// Launches `threads` threads with the parameters of the kernel, in the order of declaration.
///
/// # Panics
/// If number or sizes of the arguments differ from those of the parameters.
pub(super) fn launch(
    kernel: &Kernel,
    stream: &CudaStream,
    threads: u64,
    arguments: &[Argument<'_>],
) -> Result<(), EngineError> {
    if threads == 0 {
        return Ok(());
    }
    let blocks = threads.div_ceil(u64::from(kernel.block_threads));
    let blocks = u32::try_from(blocks).map_err(|_| EngineError::Limit {
        what: "threads of a launch",
        value: threads,
        limit: u64::from(u32::MAX) * u64::from(kernel.block_threads),
    })?;
    let mut pointers = kernel.pointers(arguments);
    // SAFETY: there is a pointer for each parameter, to a borrowed value of its size. The typed
    // wrappers pass buffers as long as the kernel reads and writes.
    unsafe {
        result::launch_kernel(
            kernel.function.cu_function(),
            (blocks, 1, 1),
            (kernel.block_threads, 1, 1),
            kernel.dynamic_shared_bytes,
            stream.cu_stream(),
            &mut pointers,
        )
    }
    .map_err(fault)
}

/// How the blocks of a launch run relative to each other and to the previous launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) blocks: u32,
    /// Threads of a block, if fewer than the kernel's.
    pub(super) threads: Option<u32>,
    /// Blocks of a cluster, a divisor of the number of blocks; 1 without clusters.
    pub(super) cluster: u32,
    /// True if the launch may begin while the previous one in its stream runs; its kernel waits for
    /// the writes of the previous launch.
    pub(super) follows: bool,
}

/// As [`launch`], with blocks as `run` defines; each has `shared_bytes` of dynamic shared memory.
pub(super) fn launch_run(
    kernel: &Kernel,
    stream: &CudaStream,
    run: Run,
    shared_bytes: u32,
    arguments: &[Argument<'_>],
) -> Result<(), EngineError> {
    assert!(shared_bytes <= kernel.dynamic_shared_bytes, "{shared_bytes} bytes of a block");
    let Run { blocks, threads, cluster, follows } = run;
    let threads = threads.unwrap_or(kernel.block_threads);
    assert!(threads <= kernel.block_threads, "{threads} threads of a block");
    assert!(cluster <= CLUSTER_BLOCKS_MAX && blocks.is_multiple_of(cluster), "whole clusters");
    if blocks == 0 {
        return Ok(());
    }
    use sys::CUlaunchAttributeID as Id;
    use sys::CUlaunchAttributeValue as Value;
    let dimension = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: cluster, y: 1, z: 1 };
    let attribute = |id, value| sys::CUlaunchAttribute { id, pad: [0; 4], value };
    let mut attributes = Vec::with_capacity(2);
    if cluster > 1 {
        let value = Value { clusterDim: dimension };
        attributes.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value));
    }
    if follows {
        let value = Value { programmaticStreamSerializationAllowed: 1 };
        let id = Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes.push(attribute(id, value));
    }
    let config = sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared_bytes,
        hStream: stream.cu_stream(),
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    };
    let (function, mut pointers) = (kernel.function.cu_function(), kernel.pointers(arguments));
    // SAFETY: as above; the attributes live as long as the call.
    unsafe { sys::cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), null_mut()) }
        .result()
        .map_err(fault)
}

/// A value in the form that a kernel takes: itself, or the address of a buffer.
pub(super) trait Parameter {
    type Value;

    fn value(&self) -> Self::Value;
}

impl<P: Parameter> Parameter for &P {
    type Value = P::Value;

    fn value(&self) -> Self::Value {
        (*self).value()
    }
}

impl<T: Plain> Parameter for DeviceBuffer<T> {
    type Value = u64;

    fn value(&self) -> u64 {
        self.address()
    }
}

impl<T> Parameter for Pointer<T> {
    type Value = u64;

    fn value(&self) -> u64 {
        self.address
    }
}

macro_rules! parameters {
    ($($name:ty),+ $(,)?) => {
        $(
            impl Parameter for $name {
                type Value = Self;

                fn value(&self) -> Self {
                    *self
                }
            }
        )+
    };
}

parameters!(
    u32,
    u64,
    f32,
    Grid,
    Rules,
    AnswerListsArgument,
    BinsArgument,
    CellsArgument,
    IndexArgument,
    InputArgument,
    MatchesArgument,
    MovedArgument,
    NewBinsArgument,
    QueriesArgument,
    RecordsArgument,
    RowsArgument,
    SceneArgument,
    SpareArgument,
    TrajectoriesArgument,
    ViewArgument,
);

/// Launches a kernel with a number of threads and its parameters, in the order of declaration.
macro_rules! enqueue {
    ($kernel:expr, $stream:expr, $threads:expr; $($parameter:expr),+) => {
        $crate::launch::module::launch(&$kernel, $stream, u64::from($threads), &[$(
            $crate::launch::module::Argument::of(
                &$crate::launch::module::Parameter::value(&$parameter)
            ),
        )+])
    };
}
pub(super) use enqueue;

/// The arguments of a launch.
macro_rules! arguments {
    ($($value:expr),+ $(,)?) => {
        &[$($crate::launch::module::Argument::of(&$value),)+]
    };
}
pub(super) use arguments;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// Threads of a kernel that the driver allows on one multiprocessor.
    fn resident(kernel: &Kernel) -> u32 {
        let (threads, bytes) = (kernel.block_threads, kernel.dynamic_shared_bytes as usize);
        let function = &kernel.function;
        threads
            * function.occupancy_max_active_blocks_per_multiprocessor(threads, bytes, None).unwrap()
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn the_driver_limits_threads_as_requested() {
        let context = crate::Gpu::open(crate::Gpu::FIRST).unwrap().context;
        let count = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors = context.attribute(count).unwrap().unsigned_abs();
        let full = Kernels::load(&context).unwrap();
        for each in [32, 64, 160, 256, 512, 1_024] {
            let narrow = Kernels::narrow(&context, each * multiprocessors).unwrap();
            for ((name, narrow), (_, full)) in narrow.all().into_iter().zip(full.all()) {
                // Sorts, rebuilds and the codec are never narrow.
                let is_wide =
                    ["sort_", "rebuild_", "codec_"].iter().any(|stage| name.starts_with(stage));
                let each = if is_wide { u32::MAX } else { each };
                let (found, most) = (resident(narrow), resident(full));
                assert_eq!(found, each.min(most), "{name}, {each} on each of {multiprocessors}");
            }
        }
    }
}
