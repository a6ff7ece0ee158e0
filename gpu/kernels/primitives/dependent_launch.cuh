// Programmatic dependent launch: a launch begins while the one before it in its stream still runs. The
// host enables it for a launch; on devices below 9.0 each launch waits for the whole of the one before.
//
// Before it waits, a kernel reads nothing that launches of its chain write, and writes nothing that
// they read. Every kernel of a chain waits, so waiting for one waits for all before it.
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
