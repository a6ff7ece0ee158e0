// Entry points of the tree for keys of type `Key`, which the including file defines.
#pragma once
#include "index/search.cuh"

static const u32 LEAF_KEYS = Leaf<Key>::KEYS;
// Threads per request, except in the kernels `index_find_<COUNT>`.
static const int THREADS = 4;

// The tree of a launch: its list of levels is read in place, not copied to each thread's memory.
#define TREE const __grid_constant__ KeyTree tree

// Fills the leaves with `length` sorted keys, `fill` per leaf, and with their values; if `values`
// is null, the value of a key is its rank. A thread a place.
extern "C" __global__ void index_leaves(TREE, const Key* keys, const u32* values,
                                        u32 length, u32 fill) {
    u64 place = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u32 leaf = (u32)(place / LEAF_KEYS), at = (u32)(place % LEAF_KEYS);
    if (leaf >= tree.leaf_count) return;
    u64 rank = (u64)leaf * fill + at;
    bool has = at < fill && rank < length;
    Key key;
    if (has) key = load_key(keys + rank);
    else set_greatest(key);
    ((Key*)tree.leaves)[place] = key;
    tree.values[place] = !has ? 0 : values == nullptr ? (u32)rank : values[rank];
    if (at == 0) {
        u64 first = (u64)leaf * fill;
        tree.lengths[leaf] = first >= length ? 0 : (u32)min((u64)fill, length - first);
    }
}

// Builds all keys of all inner nodes, a thread a key. The thread's number determines the level, the
// node, the place and the leaf whose greatest key is copied, so no level waits for the one below.
extern "C" __global__ void index_inner(TREE, u32 nodes, u32 fill) {
    u32 number = blockIdx.x * blockDim.x + threadIdx.x;
    u32 node = number / FAN_OUT, at = number % FAN_OUT;
    if (node >= nodes) return;
    u32 level = 0;
    u64 spanned = 1;
    while (level + 1 < tree.levels && node >= tree.firsts[level + 1]) {
        level++;
        spanned *= FAN_OUT;
    }
    u64 leaf = ((u64)(node - tree.firsts[level]) * FAN_OUT + at) * spanned;
    Key key;
    if (at == 0) set_least(key);
    // The last leaf has no upper bound, so a request above all keys ends in this leaf.
    else if (leaf >= tree.leaf_count) set_greatest(key);
    // All leaves but the last have `fill` keys.
    else key = load_key((const Key*)tree.leaves + (leaf - 1) * LEAF_KEYS + fill - 1);
    ((Key*)tree.inner)[number] = key;
}

// Writes the place of the first key not below each request. A group of COUNT threads searches for
// EACH requests at once: with two, one from each half of the list.
template <int COUNT, int EACH>
__device__ __forceinline__ void warp_find(const KeyTree& tree, const Key* requests, u32 length,
                                     u32* found) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u32 groups = (length + EACH - 1) / EACH;
    // Surplus threads search for the last request too, because votes need whole warps.
    u64 group = min(thread / COUNT, (u64)groups - 1);
    u32 at[EACH], places[EACH];
    Key keys[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        at[i] = (u32)min(group + (u64)i * groups, (u64)length - 1);
        keys[i] = load_key(requests + at[i]);
    }
    warp_lower_bounds<Key, COUNT>(tree, keys, places);
    if (thread % COUNT != 0) return;
#pragma unroll
    for (int i = 0; i < EACH; i++) found[at[i]] = places[i];
}

#define FIND(COUNT, EACH)                                                              \
    extern "C" __global__ void index_find_##COUNT(TREE, const Key* requests, u32 length, \
                                                  u32* found) {                          \
        warp_find<COUNT, EACH>(tree, requests, length, found);                                \
    }
FIND(1, 1)
FIND(2, 2)
FIND(4, 2)
FIND(8, 2)
FIND(16, 2)
FIND(32, 2)

// Writes the place of the last key not above each request, INDEX_NO_PLACE if there is none.
extern "C" __global__ void index_find_last(TREE, const Key* requests, u32 length,
                                           u32* found) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 request = thread / THREADS;
    Key key = load_key(requests + min(request, (u64)length - 1));
    u32 place = warp_lower_bound<Key, THREADS>(tree, key);
    if (request >= length || thread % THREADS != 0) return;
    bool is_it =
        has_key<Key>(tree, place) && is_equal(load_key((const Key*)tree.leaves + place), key);
    if (!is_it && place == 0) place = INDEX_NO_PLACE;
    else if (!is_it && place % LEAF_KEYS > 0) place--;
    else if (!is_it) place = place - LEAF_KEYS + tree.lengths[place / LEAF_KEYS - 1] - 1;
    found[request] = place;
}

// Calls `take(place, index)` for each key in [low, high), where `index` counts from 0; each call is
// made by one thread of the warp. Returns the number of keys. Called by all threads of a warp.
template <class Take>
__device__ u32 warp_scan(const KeyTree& tree, const Key& low, const Key& high, Take take) {
    u32 first = warp_lower_bound<Key, THREADS>(tree, low),
        end = warp_lower_bound<Key, THREADS>(tree, high);
    u32 seen = 0;
    for (u32 place = first; place < end; place += 32) {
        bool is = place + lane() < end && has_key<Key>(tree, place + lane());
        u32 votes = __ballot_sync(WHOLE_WARP, is);
        if (is) take(place + lane(), seen + __popc(votes & lanes_below()));
        seen += __popc(votes);
    }
    return seen;
}

// Counts the keys in each range [low, high), where `bounds` has low and high of each. A warp a
// range.
extern "C" __global__ void index_scan_count(TREE, const Key* bounds, u32 ranges,
                                            u32* counts) {
    u32 range = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (range >= ranges) return;
    u32 count = warp_scan(tree, load_key(bounds + 2 * range), load_key(bounds + 2 * range + 1),
                     [](u32, u32) {});
    if (lane() == 0) counts[range] = count;
}

// Writes the keys and values of each range to the lists, starting at `places[range]`.
extern "C" __global__ void index_scan_write(TREE, const Key* bounds, u32 ranges,
                                            const u64* places, Key* keys, u32* values) {
    u32 range = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (range >= ranges) return;
    u64 first = places[range];
    warp_scan(tree, load_key(bounds + 2 * range), load_key(bounds + 2 * range + 1),
         [&](u32 place, u32 index) {
             keys[first + index] = load_key((const Key*)tree.leaves + place);
             values[first + index] = tree.values[place];
         });
}

// Inserts entries with distinct, ascending keys into leaves with room; replaces the value of a key
// that exists. `places` has the lower bound of each key. The thread of a leaf's first entry inserts
// all entries of this leaf, or none if they do not all fit. `refused` is initially 1 and remains 1
// for entries that were not inserted.
extern "C" __global__ void index_insert(TREE, const Key* keys, const u32* values, u32 length,
                                        const u32* places, u32* refused) {
    u32 first = blockIdx.x * blockDim.x + threadIdx.x;
    if (first >= length) return;
    u32 last_leaf = tree.leaf_count - 1;
    u32 leaf = min(places[first] / LEAF_KEYS, last_leaf);
    if (first > 0 && min(places[first - 1] / LEAF_KEYS, last_leaf) == leaf) return;
    Key* there = (Key*)tree.leaves + (u64)leaf * LEAF_KEYS;
    u32* there_values = tree.values + (u64)leaf * LEAF_KEYS;
    u32 old = tree.lengths[leaf], end = first, added = 0;
    for (; end < length && min(places[end] / LEAF_KEYS, last_leaf) == leaf; end++) {
        u32 at = places[end] - leaf * LEAF_KEYS;
        added += !(at < old && is_equal(there[at], keys[end]));
        if (old + added > LEAF_KEYS) return;
    }
    // Fills the leaf from the back, so that each key moves once. `to` is one past the next place to
    // fill.
    u32 to = old + added, from = old;
    for (u32 entry = end; entry-- > first;) {
        u32 at = places[entry] - leaf * LEAF_KEYS;
        bool replaces = at < old && is_equal(there[at], keys[entry]);
        while (from > at + (replaces ? 1 : 0)) {
            to--;
            from--;
            there[to] = there[from];
            there_values[to] = there_values[from];
        }
        to--;
        if (replaces) from--;
        there[to] = keys[entry];
        there_values[to] = values[entry];
        refused[entry] = 0;
    }
    tree.lengths[leaf] = old + added;
}
