// Clusters of blocks: the block's number, a barrier, and addresses in the shared memory of other
// blocks. Devices of compute capability below 9.0 have no clusters: there, each block is a cluster.
#pragma once
#include "layout.cuh"

__device__ __forceinline__ u32 cluster_block() {
    u32 block = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
#endif
    return block;
}

__device__ __forceinline__ u32 cluster_blocks() {
    u32 blocks = 1;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
#endif
    return blocks;
}

// Barrier for all threads of the cluster that have not ended. After it, their writes are visible.
__device__ __forceinline__ void cluster_sync() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// The address in the shared memory of the cluster's block `block` that corresponds to `mine`, an
// address in this block's shared memory.
template <class T>
__device__ __forceinline__ T* in_block(T* mine, u32 block) {
#if __CUDA_ARCH__ >= 900
    u64 there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(mine), "r"(block));
    return (T*)there;
#else
    return mine;
#endif
}
