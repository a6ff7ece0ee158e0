// Other index structures over the same sorted keys of type `Key`, for comparison by `shoal-bench
// index`. The server does not use them. One thread serves one request unless a kernel says
// otherwise.
#pragma once
#include "index/search.cuh"

__device__ __forceinline__ u64 thread_number() {
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

// Returns the place of the first key not below `key` among the `length` ascending keys that begin
// at place `low`; `low` + `length` if there is none. The search has no branches.
__device__ __forceinline__ u32 first_not_below(const Key* keys, u32 low, u32 length,
                                               const Key& key) {
    while (length > 1) {
        u32 half = length / 2;
        low += is_below(load_key(keys + low + half - 1), key) ? half : 0;
        length -= half;
    }
    return low + (length == 1 && is_below(load_key(keys + low), key));
}

// Binary search in the sorted keys.
extern "C" __global__ void contender_lower_bound(const Key* keys, u32 length, const Key* requests,
                                                 u32 count, u32* found) {
    u64 request = thread_number();
    if (request < count)
        found[request] = first_not_below(keys, 0, length, load_key(requests + request));
}

// The Eytzinger layout: the children of place k are places 2k and 2k + 1, and the root is place 1.
// The answer is place 0 if all keys are below the request.
extern "C" __global__ void contender_eytzinger(const Key* places, u32 length, const Key* requests,
                                               u32 count, u32* found) {
    u64 request = thread_number();
    if (request >= count) return;
    Key key = load_key(requests + request);
    u64 at = 1;
    while (at <= length) at = 2 * at + is_below(load_key(places + at), key);
    // The answer is the last node from which the path went left.
    found[request] = (u32)(at >> __ffsll(~at));
}

// The k-ary layout: a node has KEYS = Leaf::KEYS keys and KEYS + 1 children; the children of node n
// are nodes n * (KEYS + 1) + 1 and following. Four threads serve one request. The answer is a
// place, or `length` if all keys are below the request.
extern "C" __global__ void contender_k_ary(const Key* places, u32 length, const Key* requests,
                                           u32 count, u32* found) {
    const u32 KEYS = Leaf<Key>::KEYS;
    u64 request = thread_number() / 4;
    Key keys[1] = {load_key(requests + min(request, (u64)count - 1))};
    u32 place = length;
    u64 node = 0;
    // All threads of a warp must call warp_keys_below, so they continue until the longest path of
    // the warp ends. Paths differ in length by at most one.
    while (true) {
        bool is_inside = node * KEYS < length;
        if (__all_sync(WHOLE_WARP, !is_inside)) break;
        const Key* there[1] = {places + (is_inside ? node : 0) * KEYS};
        u32 counts[1];
        warp_keys_below<Key, 4, (int)KEYS, false>(there, keys, counts);
        u32 below = counts[0];
        if (!is_inside) continue;
        u64 candidate = node * KEYS + below;
        // The last node is padded with fillers, which are not answers.
        if (below < KEYS && candidate < length) place = (u32)candidate;
        node = node * (KEYS + 1) + 1 + below;
    }
    if (request < count && thread_number() % 4 == 0) found[request] = place;
}

__device__ __forceinline__ u64 prefix_of(u64 key) { return key; }
__device__ __forceinline__ u64 prefix_of(const ObjectTime& key) { return key.object; }

// An offset table: bucket b has the keys at [offsets[b], offsets[b + 1]); the bucket of a key is
// (prefix - least) >> shift. The prefix of an ObjectTime is its object; a u64 is its own prefix.
extern "C" __global__ void contender_offsets(const Key* keys, u32 length, const u32* offsets,
                                             u32 buckets, u64 least, u32 shift,
                                             const Key* requests, u32 count, u32* found) {
    u64 request = thread_number();
    if (request >= count) return;
    Key key = load_key(requests + request);
    u64 prefix = prefix_of(key);
    u64 bucket = prefix < least ? 0 : (prefix - least) >> shift;
    if (bucket >= buckets) {
        found[request] = length;
        return;
    }
    u32 first = prefix < least ? 0 : __ldg(offsets + bucket), end = __ldg(offsets + bucket + 1);
    found[request] = first_not_below(keys, first, end - first, key);
}

__device__ __forceinline__ u64 mixed(u64 word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
    return word ^ (word >> 31);
}

__device__ __forceinline__ u64 hash_of(u64 key) { return mixed(key); }
__device__ __forceinline__ u64 hash_of(const ObjectTime& key) {
    return mixed(key.object * 0x9e3779b97f4a7c15ull + (u64)key.time);
}

// Fills a hash table with linear probing. It has `mask` + 1 slots, each with a key and its rank; a
// slot with rank INDEX_NO_PLACE is free. One thread inserts one key.
extern "C" __global__ void contender_hash_fill(const Key* keys, u32 length, Key* slots, u32* ranks,
                                               u64 mask) {
    u64 rank = thread_number();
    if (rank >= length) return;
    Key key = load_key(keys + rank);
    u64 slot = hash_of(key) & mask;
    while (atomicCAS(ranks + slot, INDEX_NO_PLACE, (u32)rank) != INDEX_NO_PLACE)
        slot = (slot + 1) & mask;
    slots[slot] = key;
}

// Writes the rank of each request's key, or INDEX_NO_PLACE if the key is not in the table.
extern "C" __global__ void contender_hash(const Key* slots, const u32* ranks, u64 mask,
                                          const Key* requests, u32 count, u32* found) {
    u64 request = thread_number();
    if (request >= count) return;
    Key key = load_key(requests + request);
    u64 slot = hash_of(key) & mask;
    while (true) {
        u32 rank = __ldg(ranks + slot);
        if (rank == INDEX_NO_PLACE || is_equal(load_key(slots + slot), key)) {
            found[request] = rank;
            return;
        }
        slot = (slot + 1) & mask;
    }
}

// The experiment of the source that the index is based on: a node is a left padding key and
// SOURCE_KEYS keys; a block of SOURCE_KEYS threads serves one request. Each thread reads the
// greatest key of one child. `nodes` has `levels` levels, leaves first; `firsts` has the number of
// the first node of each level.
static const u32 SOURCE_KEYS = 64;

template <bool HAS_BORDER>
__device__ __forceinline__ void source_find(const Key* nodes, const u32* firsts, u32 levels,
                                            const Key* requests, u32* found) {
    __shared__ u32 child;
    Key key = load_key(requests + blockIdx.x);
    u32 node = 0, thread = threadIdx.x;
    for (u32 level = levels; level > 0; level--) {
        const Key* places = nodes + (u64)(firsts[level - 1] + node) * (SOURCE_KEYS + 1);
        bool is_below_mine = is_below(load_key(places + 1 + thread), key);
        bool is_below_left;
        if (HAS_BORDER) {
            // Thread 0 has no neighbour.
            if (thread == 0) is_below_left = true;
            else is_below_left = is_below(load_key(places + thread), key);
        } else {
            is_below_left = is_below(load_key(places + thread), key);
        }
        // For exactly one thread, its own key is not below the request and the key to its left is
        // below.
        if (is_below_left && !is_below_mine) child = thread;
        __syncthreads();
        node = node * SOURCE_KEYS + child;
        __syncthreads();
    }
    if (thread == 0) found[blockIdx.x] = node;
}

extern "C" __global__ void source_find_border(const Key* nodes, const u32* firsts, u32 levels,
                                              const Key* requests, u32* found) {
    source_find<true>(nodes, firsts, levels, requests, found);
}

extern "C" __global__ void source_find_padded(const Key* nodes, const u32* firsts, u32 levels,
                                              const Key* requests, u32* found) {
    source_find<false>(nodes, firsts, levels, requests, found);
}
