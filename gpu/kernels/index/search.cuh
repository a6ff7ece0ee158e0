// Search of the tree by a part of a warp for each request, without branches.
//
// A node has NODE_KEYS places: of a leaf the keys, then fillers; of an inner node the left padding
// key, then the greatest keys of all children but the last. The children of node n are nodes
// n * NODE_KEYS and following of the level below: a node has no pointer.
#pragma once
#include "index/key.cuh"
#include "primitives/warp.cuh"

// By type of key.
template <class Key>
struct Node {
    static const u32 KEYS = INDEX_NODE_BYTES / sizeof(Key);
};

// The number of keys of a node below `key`; of an inner node without its padding key. THREADS
// neighbouring threads have the same node and key; all get the number. All threads of a warp call.
template <class Key, int THREADS, bool IS_INNER>
__device__ __forceinline__ u32 keys_below(const Key* node, const Key& key) {
    const int KEYS = Node<Key>::KEYS;
    const int EACH = KEYS > THREADS ? KEYS / THREADS : 1;
    u32 member = threadIdx.x % THREADS;
    u32 first = member * EACH % KEYS;
    Key keys[EACH];
    load_keys(node + first, keys);
    bool counts = THREADS <= KEYS || member < KEYS;
    u32 below = 0;
    // Votes of two keys cost less than a sum over the threads; of more keys, they cost more.
    const bool VOTES = EACH <= 2 && THREADS > 1;
    u32 group = THREADS == 32 ? WHOLE_WARP : ((1u << (THREADS % 32)) - 1u)
        << (lane() / THREADS * THREADS);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        bool is = counts && !(IS_INNER && first + i == 0) && is_below(keys[i], key);
        if (VOTES) below += __popc(__ballot_sync(WHOLE_WARP, is) & group);
        else below += is;
    }
    if (!VOTES) {
#pragma unroll
        for (int step = 1; step < THREADS; step *= 2)
            below += __shfl_xor_sync(WHOLE_WARP, below, step);
    }
    return below;
}

// The place of the first key not below `key`, the place behind the last if all are: leaf times
// NODE_KEYS plus position in the leaf. Called as `keys_below`.
template <class Key, int THREADS>
__device__ __forceinline__ u32 lower_bound(const KeyTree& tree, const Key& key) {
    const u32 KEYS = Node<Key>::KEYS;
    const Key* inner = (const Key*)tree.inner;
    u32 node = 0;
    for (u32 level = tree.levels; level > 0; level--) {
        const Key* places = inner + (u64)(tree.firsts[level - 1] + node) * KEYS;
        node = node * KEYS + keys_below<Key, THREADS, true>(places, key);
    }
    const Key* leaf = (const Key*)tree.leaves + (u64)node * KEYS;
    return node * KEYS + keys_below<Key, THREADS, false>(leaf, key);
}

// Whether a place has a key.
template <class Key>
__device__ __forceinline__ bool has_key(const KeyTree& tree, u32 place) {
    u32 leaf = place / Node<Key>::KEYS, at = place % Node<Key>::KEYS;
    return leaf < tree.leaf_count && at < tree.lengths[leaf];
}
