// Branch-free search of the tree; a group of threads of a warp searches for each request.
//
// A leaf has LEAF_KEYS places: the keys, then fillers. An inner node has FAN_OUT places: a padding
// key (the least key), then the greatest keys of all children but the last. The children of node n
// are nodes n * FAN_OUT to n * FAN_OUT + FAN_OUT - 1 of the level below, so a node has no pointers.
#pragma once
#include "index/key.cuh"
#include "warp/warp.cuh"

static const u32 FAN_OUT = INDEX_FAN_OUT;

// Number of places of a leaf, by the type of its keys.
template <class Key>
struct Leaf {
    static const u32 KEYS = INDEX_LEAF_BYTES / sizeof(Key);
};

// Writes to `below[i]` the number of keys of node `nodes[i]`, which has PLACES places, that are
// less than `keys[i]`. If IS_INNER, the padding key is not counted. THREADS neighbouring threads
// pass the same nodes and keys and get the same numbers. All threads of a warp call it. All nodes
// are loaded before any is compared, so that the latencies overlap.
template <class Key, int THREADS, int PLACES, bool IS_INNER, int NODES>
__device__ __forceinline__ void warp_keys_below(const Key* (&nodes)[NODES],
                                                const Key (&keys)[NODES], u32 (&below)[NODES]) {
    const int EACH = PLACES > THREADS ? PLACES / THREADS : 1;
    u32 member = threadIdx.x % THREADS;
    u32 first = member * EACH % PLACES;
    Key there[NODES][EACH];
#pragma unroll
    for (int node = 0; node < NODES; node++) load_keys(nodes[node] + first, there[node]);
    bool counts = THREADS <= PLACES || member < PLACES;
    // With up to two keys per thread, votes cost less than a sum over the threads. With more keys,
    // votes cost more.
    const bool VOTES = EACH <= 2 && THREADS > 1;
    u32 group = THREADS == 32 ? WHOLE_WARP : ((1u << (THREADS % 32)) - 1u)
        << (lane() / THREADS * THREADS);
#pragma unroll
    for (int node = 0; node < NODES; node++) {
        below[node] = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            bool is = counts && !(IS_INNER && first + i == 0)
                && is_below(there[node][i], keys[node]);
            if (VOTES) below[node] += __popc(__ballot_sync(WHOLE_WARP, is) & group);
            else below[node] += is;
        }
        if (!VOTES) {
#pragma unroll
            for (int step = 1; step < THREADS; step *= 2)
                below[node] += __shfl_xor_sync(WHOLE_WARP, below[node], step);
        }
    }
}

// For each search key, the place of the first key that is not less, or the place after the last key
// if all are less. A place is leaf times LEAF_KEYS plus position in the leaf. Called as
// `warp_keys_below`.
template <class Key, int THREADS, int NODES>
__device__ __forceinline__ void warp_lower_bounds(const KeyTree& tree, const Key (&keys)[NODES],
                                             u32 (&found)[NODES]) {
    const u32 LEAF_KEYS = Leaf<Key>::KEYS;
    const Key* places[NODES];
    u32 below[NODES];
#pragma unroll
    for (int node = 0; node < NODES; node++) found[node] = 0;
    for (u32 level = tree.levels; level > 0; level--) {
        const Key* first = (const Key*)tree.inner + (u64)tree.firsts[level - 1] * FAN_OUT;
#pragma unroll
        for (int node = 0; node < NODES; node++) places[node] = first + (u64)found[node] * FAN_OUT;
        warp_keys_below<Key, THREADS, FAN_OUT, true>(places, keys, below);
#pragma unroll
        for (int node = 0; node < NODES; node++) found[node] = found[node] * FAN_OUT + below[node];
    }
#pragma unroll
    for (int node = 0; node < NODES; node++)
        places[node] = (const Key*)tree.leaves + (u64)found[node] * LEAF_KEYS;
    warp_keys_below<Key, THREADS, (int)LEAF_KEYS, false>(places, keys, below);
#pragma unroll
    for (int node = 0; node < NODES; node++) found[node] = found[node] * LEAF_KEYS + below[node];
}

// As `warp_lower_bounds`, for one key.
template <class Key, int THREADS>
__device__ __forceinline__ u32 warp_lower_bound(const KeyTree& tree, const Key& key) {
    Key keys[1] = {key};
    u32 found[1];
    warp_lower_bounds<Key, THREADS>(tree, keys, found);
    return found[0];
}

// Whether a place holds a key of the tree rather than a filler.
template <class Key>
__device__ __forceinline__ bool has_key(const KeyTree& tree, u32 place) {
    u32 leaf = place / Leaf<Key>::KEYS, at = place % Leaf<Key>::KEYS;
    return leaf < tree.leaf_count && at < tree.lengths[leaf];
}
