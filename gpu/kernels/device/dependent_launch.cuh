// Programmatic dependent launch: a launch begins while the previous one in its stream still runs. The
// host enables it per launch; on devices below 9.0 each launch waits until the previous one has ended.
//
// Before it waits, a kernel must not read memory that an earlier launch of its chain writes, and
// must not write memory that an earlier launch reads. Every kernel of a chain waits for the
// previous one, so a wait includes all earlier kernels.
#pragma once
#include "layout.cuh"

// Allows the next launch to begin once all blocks of this one have called this function.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits until the previous launch has ended and its writes are visible.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
