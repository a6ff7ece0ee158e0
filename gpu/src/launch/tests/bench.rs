//! The setup of device tests: the device, memory with its own budget, a stream, and copies of lists
//! in both directions.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::device::Gpu;
use crate::launch::{DeviceBuffer, Memory, Plain};

/// Lengths around which launches differ: nothing, one, a warp, and four blocks of threads.
pub(crate) const BOUNDARIES: [usize; 8] = [0, 1, 31, 32, 33, 1_023, 1_024, 1_025];

/// A device for tests.
pub(crate) struct Bench {
    pub(crate) gpu: Gpu,
    pub(crate) memory: Memory,
    pub(crate) stream: Arc<CudaStream>,
}

impl Bench {
    /// Panics without a device: only tests that are ignored by default call it.
    pub(crate) fn new() -> Self {
        let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
        gpu.context.bind_to_thread().expect("the device can be made current");
        let memory = gpu.memory(1 << 30);
        let stream = gpu.context.new_stream().expect("there is a stream");
        Self { gpu, memory, stream }
    }

    pub(crate) fn wait(&self) {
        self.stream.synchronize().expect("the device works");
    }

    /// A list of `length` zeros.
    pub(crate) fn zeros<T: Plain>(&self, length: usize) -> DeviceBuffer<T> {
        DeviceBuffer::new(&self.memory, length).expect("there is memory")
    }

    /// A copy of a list on the device.
    pub(crate) fn upload<T: Plain>(&self, values: &[T]) -> DeviceBuffer<T> {
        let buffer = self.zeros(values.len());
        buffer.upload(&self.stream, 0, values).expect("values can be copied");
        self.wait();
        buffer
    }

    /// The first `length` values of a list on the device, after the work queued on the stream.
    pub(crate) fn download<T: Plain + Default>(
        &self,
        buffer: &DeviceBuffer<T>,
        length: usize,
    ) -> Vec<T> {
        let mut values = vec![T::default(); length];
        buffer.download(&self.stream, 0, &mut values).expect("values can be copied");
        self.wait();
        values
    }
}

/// One ignored test for each of ten seeds: `seeds!(function)` with `fn function(seed: u64)`.
macro_rules! seeds {
    ($run:ident) => {
        $crate::launch::tests::seeds!($run: seed_0 0, seed_1 1, seed_2 2, seed_3 3, seed_4 4,
            seed_5 5, seed_6 6, seed_7 7, seed_8 8, seed_9 9);
    };
    ($run:ident: $($name:ident $seed:literal),+) => {
        mod $run {
            $(
                #[test]
                #[ignore = "needs an NVIDIA GPU"]
                fn $name() {
                    super::$run($seed);
                }
            )+
        }
    };
}
pub(crate) use seeds;
