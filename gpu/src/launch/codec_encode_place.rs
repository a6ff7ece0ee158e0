//! The launch that moves the sections of an encoded column to their places.
//!
//! One launch moves staged words and all other sections, because separate copies have more latency
//! than work. The host need not know the lengths of sections of words: the device shifts the
//! sections that follow them.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{self, EncodeTask};

pub(crate) use super::argument_layout::SectionPlacesArgument as Places;
use super::codec_encode::EncodeKernels;
use super::codec_encode_memory::DeviceSlice;
use super::module::{WARP, arguments, launch};

impl Places {
    /// `sections` sections of words, whose places are not set.
    pub(crate) fn new(sections: usize) -> Self {
        assert!(sections <= layout::ENCODE_SECTIONS as usize, "{sections} sections of words");
        let (addresses, copies) = (<[u64; 16]>::default(), <[u64; 32]>::default());
        let (directories, words) = (addresses, addresses);
        let (from, to, bytes) = (copies, copies, copies);
        let (shares, behind) = (<[u32; 32]>::default(), <[u32; 32]>::default());
        let (totals, sections, copies) = (0, sections as u32, 0);
        Self { totals, directories, words, from, to, bytes, shares, behind, sections, copies }
    }

    /// Places for sections of words whose lengths the host does not know. The places are set as if
    /// these sections, which are in order, were empty; the device shifts them by the lengths in
    /// `totals`.
    pub(crate) fn moving(totals: DeviceSlice<u64>) -> Self {
        Self { totals: totals.address(), ..Self::new(totals.len()) }
    }

    /// Sets the directory of a section, eight bytes per tile; padding follows it.
    pub(crate) fn directory(&mut self, section: usize, to: DeviceSlice<u8>) {
        self.directories[section] = to.address();
    }

    /// Sets the words of a section; padding follows them.
    pub(crate) fn words(&mut self, section: usize, to: DeviceSlice<u8>) {
        self.words[section] = to.address();
    }

    /// Adds a section at `from` that follows `behind` sections of words; padding follows it.
    pub(crate) fn copy(&mut self, from: DeviceSlice<u8>, to: DeviceSlice<u8>, behind: usize) {
        assert_eq!(from.len(), to.len(), "a section of the same length");
        let at = self.copies as usize;
        (self.from[at], self.to[at]) = (from.address(), to.address());
        self.bytes[at] = from.len() as u64;
        self.behind[at] = behind as u32;
        self.copies += 1;
    }

    /// Sets the share of each section that the warp of a tile copies.
    fn shared(mut self, tiles: u32) -> Self {
        for (share, bytes) in self.shares.iter_mut().zip(self.bytes) {
            // At most two words a value.
            *share = (bytes / 4).div_ceil(tiles.into()) as u32;
        }
        self
    }
}

impl EncodeKernels {
    /// Moves staged words and other sections to their places, with zeros after each.
    pub(crate) fn encode_place(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        offsets: DeviceSlice<u32>,
        places: &Places,
    ) -> Result<(), EngineError> {
        let sections = places.sections as usize;
        assert!(offsets.len() >= sections * task.tiles as usize, "an offset a tile");
        let set = [&places.directories[..sections], &places.words[..sections]];
        assert!(set.iter().all(|addresses| !addresses.contains(&0)), "a place each");
        let (offsets, threads) = (offsets.address(), u64::from(task.tiles) * WARP);
        let places = places.shared(task.tiles);
        launch(&self.encode_place, stream, threads, arguments![*task, offsets, places])
    }
}
