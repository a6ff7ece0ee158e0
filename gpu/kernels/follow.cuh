// How does a launch begin while the one before it still runs? The host says so of a launch; devices
// below 9.0 let each wait for the whole of the one before.
//
// What a kernel does before it waits reads nothing that launches of its chain write, and writes
// nothing that they read. Every kernel of a chain waits, so that whoever waits for it has waited
// for all.
#pragma once
#include "layout.cuh"

// The next launch may begin once all blocks of this one have said so, and waits by itself.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits until the launch before has ended and what it wrote can be read.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
