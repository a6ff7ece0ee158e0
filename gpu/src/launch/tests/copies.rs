//! Copies whose host memory is changed, dropped or read right after they were queued.
//!
//! A long fill on the same stream delays every copy, so a copy that did not own its memory would
//! read the change.

use super::bench::Bench;
use crate::launch::{Arena, DeviceBuffer, DeviceSlice, PinnedBuffer};

/// Lengths in values: 0, 1, the least of a staging buffer, and more than its greatest.
const LENGTHS: [usize; 4] = [0, 1, 1 << 14, (1 << 20) + 7];

/// Bytes of a fill.
const FILLED: usize = 1 << 28;

/// Keeps the stream busy for some milliseconds.
fn delay(bench: &Bench, filled: &DeviceBuffer<u8>) {
    for _ in 0..64 {
        filled.fill(&bench.stream, 1, FILLED).unwrap();
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn lists_of_ordinary_memory_are_taken_before_an_upload_returns() {
    let bench = Bench::new();
    let filled = bench.zeros(FILLED);
    for length in LENGTHS {
        let values: Vec<u32> = (0..length as u32).collect();
        let mut changed = values.clone();
        let to = bench.zeros::<u32>(length);
        delay(&bench, &filled);
        // More uploads than the ring has buffers.
        for _ in 0..12 {
            to.upload(&bench.stream, 0, &changed).unwrap();
        }
        changed.fill(0);
        drop(changed);
        assert_eq!(bench.download(&to, length), values, "{length} values");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn pinned_values_are_written_and_read_behind_their_copies() {
    let bench = Bench::new();
    let filled = bench.zeros(FILLED);
    for length in LENGTHS {
        let values: Vec<u32> = (1..=length as u32).collect();
        let device = bench.zeros::<u32>(length);
        let mut pinned = PinnedBuffer::<u32>::new(&bench.memory, length).unwrap();
        pinned.as_mut_slice()[..length].copy_from_slice(&values);
        delay(&bench, &filled);
        device.upload(&bench.stream, 0, pinned.part(0..length)).unwrap();
        pinned.as_mut_slice().fill(0);
        delay(&bench, &filled);
        device.download(&bench.stream, 0, pinned.first(length)).unwrap();
        assert_eq!(pinned.as_slice()[..length], values, "{length} values");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_slice_is_of_no_use_once_its_memory_was_taken_back() {
    let bench = Bench::new();
    let mut arena = Arena::new(&bench.memory);
    let kept = arena.allocate::<u32>(10).unwrap();
    let mark = arena.mark();
    let released = arena.allocate::<u32>(10).unwrap();
    arena.release(mark);
    let later = arena.allocate::<u32>(10).unwrap();
    let is_stale = |slice: DeviceSlice<u32>| std::panic::catch_unwind(|| slice.address()).is_err();
    assert!(!is_stale(kept) && is_stale(released) && !is_stale(later));
    arena.clear().unwrap();
    assert!(is_stale(kept) && is_stale(later));
    drop(arena);
    assert!(is_stale(kept));
}
