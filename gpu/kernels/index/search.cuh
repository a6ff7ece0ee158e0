// Search of the tree by a part of a warp for each request, without branches.
//
// A leaf has LEAF_KEYS places: the keys, then fillers. An inner node has FAN_OUT places: the left
// padding key, then the greatest keys of all children but the last. The children of node n are nodes
// n * FAN_OUT and following of the level below: a node has no pointer.
#pragma once
#include "index/key.cuh"
#include "warp/warp.cuh"

static const u32 FAN_OUT = INDEX_FAN_OUT;

// The places of a leaf for a type of key.
template <class Key>
struct Leaf {
    static const u32 KEYS = INDEX_LEAF_BYTES / sizeof(Key);
};

// For each of NODES nodes with PLACES places, the number of its keys that are less than the search
// key at the same index; IS_INNER excludes the padding key. THREADS neighbouring threads have the
// same nodes and keys, and all get the numbers. Called by all threads of a warp. Nodes are loaded
// together, so that their latencies overlap.
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
    // Votes of two keys cost less than a sum over the threads; of more keys, they cost more.
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

// As `warp_lower_bounds`, of one key.
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
