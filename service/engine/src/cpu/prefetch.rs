//! Prefetches memory that is needed soon; the only unsafe code of the CPU backend.
//!
//! A prefetch is a hint that changes no value. On processors without a stable intrinsic it does
//! nothing.
#![allow(unsafe_code, reason = "the prefetch intrinsic takes a raw pointer; see SAFETY below")]

/// Bytes of a cache line on the processors that matter here.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: usize = 64;

/// Prefetches every cache line of `slice[index]`, if there is such an element.
#[inline(always)]
pub(super) fn read<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = slice.get(index) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = core::ptr::from_ref(item).cast::<i8>();
        for line in (0..size_of::<T>()).step_by(CACHE_LINE_BYTES) {
            // SAFETY: the pointer stays inside a live reference's object, and a prefetch neither
            // reads nor writes memory as far as the program can tell.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(line)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
