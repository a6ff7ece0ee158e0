//! Launches that use a hash table to number the distinct values of a column that has few of them.
//!
//! The caller clears the table: free places have all bits set, numbers are 0.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::EncodeTask;

use super::argument_layout::TableArgument;
use super::codec_encode::{EncodeKernels, strided};
use super::codec_encode_memory::DeviceSlice;
use super::module::{WARP, arguments, launch};

/// A hash table of distinct values on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashTable {
    /// The values by place. `keys` and `codes` have the same length, a power of two plus one.
    pub(crate) keys: DeviceSlice<u64>,
    pub(crate) codes: DeviceSlice<u32>,
    /// Number of claimed values; 1 if there were too many; 1 if the pattern of free places is a
    /// value.
    pub(crate) found: DeviceSlice<u32>,
    /// Greatest number of distinct values.
    pub(crate) limit: u32,
}

impl HashTable {
    fn slots(&self) -> u32 {
        self.keys.len() as u32 - 1
    }

    fn argument(&self) -> TableArgument {
        let slots = self.slots();
        assert!(slots.is_power_of_two() && slots > self.limit, "a value ends every search");
        assert_eq!(self.codes.len(), self.keys.len(), "a code a place");
        assert_eq!(self.found.len(), 3, "three numbers");
        let (keys, codes) = (self.keys.pointer(), self.codes.pointer());
        TableArgument { keys, codes, found: self.found.pointer(), slots, limit: self.limit }
    }
}

impl EncodeKernels {
    /// Finds all values of a task; sets a flag of the table if there are too many.
    pub(crate) fn hash_values(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        table: &HashTable,
    ) -> Result<(), EngineError> {
        let table = table.argument();
        let arguments = arguments![*task, table];
        launch(&self.hash_values, stream, strided(task), arguments)
    }

    /// Lists the values with their places, in no particular order. Also writes their number, the
    /// least value and the greatest value.
    pub(crate) fn hash_list(
        &self,
        stream: &CudaStream,
        table: &HashTable,
        keys: DeviceSlice<u64>,
        places: DeviceSlice<u32>,
        length: DeviceSlice<u32>,
        ends: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        assert!(keys.len().min(places.len()) >= table.limit as usize, "all that may be");
        assert!(length.len() >= 1 && ends.len() >= 2, "a number, and two");
        let (keys, places) = (keys.address(), places.address());
        let (length, ends) = (length.address(), ends.address());
        let threads = u64::from(table.slots() + 1).next_multiple_of(WARP);
        let table = table.argument();
        let arguments = arguments![table, keys, places, length, ends];
        launch(&self.hash_list, stream, threads, arguments)
    }

    /// Numbers the places, which are listed in the order of their values.
    pub(crate) fn hash_number(
        &self,
        stream: &CudaStream,
        table: &HashTable,
        places: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        let (numbers, places) = (places.len() as u32, places.address());
        let table = table.argument();
        let arguments = arguments![table, places, numbers];
        launch(&self.hash_number, stream, numbers.into(), arguments)
    }

    /// The code of every row; all values are in the table.
    pub(crate) fn hash_codes(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        table: &HashTable,
        codes: DeviceSlice<u16>,
    ) -> Result<(), EngineError> {
        assert!(codes.len() >= task.rows as usize, "a code a row");
        let codes = codes.address();
        let table = table.argument();
        let arguments = arguments![*task, table, codes];
        launch(&self.hash_codes, stream, strided(task), arguments)
    }
}
