// Finds the grouped order of the rows of segments whose keys are close together: the place of each
// row and the heads (FORMAT.md, section 6.13). One block a segment.
//
// A counting sort in one pass. ORDER_RANKERS sets of counters fit shared memory; each belongs to
// one warp (ranker), which ranks a contiguous part of the rows. If one instruction counts several
// rows of a key, the change of the counter shows it, and only these rows are ordered by lane.
#include "codec/encode_segment.cuh"
#include "codec/rank.cuh"

static const u32 ORDER_WARPS = ENCODE_ORDER_THREADS / 32;
// The maximum number of distinct keys, and the words of a set of counters (two counters a word).
static const u32 KEYS_MAX = ENCODE_ORDER_KEYS;
static const u32 COUNTER_WORDS = KEYS_MAX / 2;
// BATCH_ROWS: the rows that a warp ranks at a time; to count rows, the block loads as many at a
// time. RANKER_ROWS: the rows of each ranker except the last.
static const u32 BATCH_ROWS = 32 * ORDER_COUNTED;
static const u32 RANKER_ROWS =
    (SEGMENT_ROWS / BATCH_ROWS + ORDER_RANKERS - 1) / ORDER_RANKERS * BATCH_ROWS;

struct OrderMemory {
    u32 counters[ORDER_RANKERS][COUNTER_WORDS];
    u32 heads[SEGMENT_ROWS / 32];
    u32 sums[ORDER_WARPS];
    u32 least[ORDER_WARPS];
    u32 most[ORDER_WARPS];
};
static_assert(sizeof(OrderMemory) == ENCODE_ORDER_BYTES, "the host gives so much");
static_assert(BATCH_ROWS == 2 * ENCODE_ORDER_THREADS, "one load of a block is of one ranker");

// Zeroes the counters, and marks the first place of every tile as a head.
__device__ __forceinline__ void block_clear(OrderMemory& memory) {
    uint4* counters = (uint4*)memory.counters;
    for (u32 at = threadIdx.x; at < ORDER_RANKERS * COUNTER_WORDS / 4; at += ENCODE_ORDER_THREADS)
        counters[at] = make_uint4(0, 0, 0, 0);
    for (u32 word = threadIdx.x; word < SEGMENT_ROWS / 32; word += ENCODE_ORDER_THREADS)
        memory.heads[word] = word % TILE_WORDS == 0 ? 1 : 0;
    __syncthreads();
}

// The number of a key's counter: low bits that distinguish it from the other keys of its segment.
__device__ __forceinline__ u32 counter_of(u64 key) { return (u32)key & (KEYS_MAX - 1); }

// The number that, added to a counter's word, adds 1 to the counter, which is a half of the word.
__device__ __forceinline__ u32 one_of(u32 counter) { return 1 + counter % 2 * 0xffff; }

// Counts all keys, writes the counter of each row to `places`, and the counter of the least key,
// rounded down to an even number, to `first`. Returns false if the keys are too far apart.
template <class K, bool IS_WHOLE>
__device__ __forceinline__ bool block_count_keys(const K* keys, u32 rows, u16* places,
                                           OrderMemory& memory, u32& first) {
    Neighbours<K, 2> two[ORDER_PAIRS];
#pragma unroll
    for (u32 index = 0; index < ORDER_PAIRS; index++)
        two[index] = load_rows<K, 2, IS_WHOLE>(keys, index * BATCH_ROWS + 2 * threadIdx.x, rows);
    block_clear(memory);
    // A key whose distance from `base` exceeds 32 bits is too far from the first key.
    const u64 some = keys[0], base = some > KEYS_MAX ? some - KEYS_MAX : 0;
    u32 least = ~0u, most = 0, far = 0;
#pragma unroll 1
    for (u32 start = 0; start < rows; start += ORDER_PAIRS * BATCH_ROWS) {
#pragma unroll
        for (u32 index = 0; index < ORDER_PAIRS; index++) {
            u32 batch = start + index * BATCH_ROWS, row = batch + 2 * threadIdx.x;
            u64 one = two[index].v[0] - base, other = two[index].v[1] - base;
            u32 low = counter_of(two[index].v[0]), high = counter_of(two[index].v[1]);
            // Loads the keys of the next round while those of this round are counted.
            u32 following = batch + ORDER_PAIRS * BATCH_ROWS;
            if (following < rows)
                two[index] = load_rows<K, 2, IS_WHOLE>(keys, following + 2 * threadIdx.x, rows);
            far |= (u32)(one >> 32) | (u32)(other >> 32);
            least = min(least, min((u32)one, (u32)other));
            most = max(most, max((u32)one, (u32)other));
            u32* counters = memory.counters[batch / RANKER_ROWS];
            if (IS_WHOLE || row < rows) {
                // `places` is padded to whole tiles.
                ((u32*)places)[row / 2] = low | high << 16;
                atomicAdd(counters + low / 2, one_of(low));
            }
            if (IS_WHOLE || row + 1 < rows)
                atomicAdd(counters + high / 2, one_of(high));
        }
        // Detects most segments whose keys are too far apart before all rows are read.
        if (__syncthreads_or(far != 0 || most >= 2 * KEYS_MAX)) return false;
    }
    least = warp_min(least);
    most = warp_max(most);
    if (lane() == 0) memory.least[threadIdx.x / 32] = least;
    if (lane() == 0) memory.most[threadIdx.x / 32] = most;
    __syncthreads();
    u32 warp = lane() % ORDER_WARPS;
    // Relative to `base` made even.
    least = warp_min(memory.least[warp]) + (u32)base % 2 & ~1u;
    most = warp_max(memory.most[warp]) + (u32)base % 2;
    first = counter_of((base & ~1ull) + least);
    return most - least < KEYS_MAX;
}

// Replaces the count of each key and ranker by the position of the first of these rows, and marks
// heads. Keys ascend from counter `first` on, cyclically.
__device__ __forceinline__ void block_start_keys(OrderMemory& memory, u32 first) {
    u32 before = 0, warp = threadIdx.x / 32;
    for (u32 start = 0; start < COUNTER_WORDS; start += ENCODE_ORDER_THREADS) {
        u32 word = (first / 2 + start + threadIdx.x) % COUNTER_WORDS;
        u32 counts[ORDER_RANKERS], low = 0, high = 0;
#pragma unroll
        for (u32 ranker = 0; ranker < ORDER_RANKERS; ranker++) {
            counts[ranker] = memory.counters[ranker][word];
            low += counts[ranker] & 0xffff;
            high += counts[ranker] >> 16;
        }
        u32 to = warp_sum_to(low + high);
        if (lane() == 31) memory.sums[warp] = to;
        __syncthreads();
        u32 other = memory.sums[lane() % ORDER_WARPS], others = warp_sum_to(other);
        u32 begin = before + to - low - high + __shfl_sync(WHOLE_WARP, others - other, warp);
        before += __shfl_sync(WHOLE_WARP, others, ORDER_WARPS - 1);
        u32 second = begin + low;
        if (low > 0) atomicOr(memory.heads + begin / 32, 1u << begin % 32);
        if (high > 0) atomicOr(memory.heads + second / 32, 1u << second % 32);
#pragma unroll
        for (u32 ranker = 0; ranker < ORDER_RANKERS; ranker++) {
            memory.counters[ranker][word] = (begin & 0xffff) | second << 16;
            begin += counts[ranker] & 0xffff;
            second += counts[ranker] >> 16;
        }
        __syncthreads();
    }
}

// Loads the counters of a lane's rows in the batch that begins at row `start`. The result for a row
// beyond the last is KEYS_MAX.
template <bool IS_WHOLE>
__device__ __forceinline__ void load_counters(const u16* places, u32 start, u32 rows,
                                              u32 (&counters)[ORDER_COUNTED]) {
#pragma unroll
    for (u32 index = 0; index < ORDER_COUNTED; index++) {
        u32 row = start + 32 * index + lane();
        counters[index] = places[IS_WHOLE || row < rows ? row : rows - 1];
        if (!IS_WHOLE && row >= rows) counters[index] = KEYS_MAX;
    }
}

// Replaces, in `places`, the counters of a ranker's rows by the places of these rows, which begin
// at row `from`.
template <bool IS_WHOLE>
__device__ __forceinline__ void warp_rank_rows(u32* counters, u32 from, u32 rows, u16* places) {
    volatile u32* words = counters;
    u32 end = from + RANKER_ROWS < rows ? from + RANKER_ROWS : rows, next[ORDER_COUNTED];
    if (from < end) load_counters<IS_WHOLE>(places, from, rows, next);
#pragma unroll 1
    for (u32 start = from; start < end; start += BATCH_ROWS) {
        u32 counter[ORDER_COUNTED], place[ORDER_COUNTED], now[ORDER_COUNTED], shared[ORDER_COUNTED],
            sharing = 0;
#pragma unroll
        for (u32 index = 0; index < ORDER_COUNTED; index++) counter[index] = next[index];
        // Loads the next batch while this one is counted.
        u32 following = start + BATCH_ROWS;
        load_counters<IS_WHOLE>(places, following < end ? following : from, rows, next);
#pragma unroll
        for (u32 index = 0; index < ORDER_COUNTED; index++) {
            u32 word = counter[index] % KEYS_MAX / 2, shift = counter[index] % 2 * 16;
            u32 one = IS_WHOLE || counter[index] < KEYS_MAX ? 1u << shift : 0;
            place[index] = atomicAdd(counters + word, one);
            __syncwarp();
            now[index] = words[word];
            __syncwarp();
        }
#pragma unroll
        for (u32 index = 0; index < ORDER_COUNTED; index++) {
            u32 shift = counter[index] % 2 * 16;
            place[index] = place[index] >> shift & 0xffff;
            now[index] = now[index] >> shift & 0xffff;
            bool is_shared = now[index] != (place[index] + 1 & 0xffff);
            bool is_row = IS_WHOLE || counter[index] < KEYS_MAX;
            shared[index] = __ballot_sync(WHOLE_WARP, is_shared && is_row);
            sharing += __popc(shared[index]);
        }
        if (sharing > ORDER_MANY) {
            warp_compare_all(counter, 2 * KEYS_MAX, shared);
#pragma unroll
            for (u32 index = 0; index < ORDER_COUNTED; index++)
                place[index] = now[index] - __popc(shared[index] >> lane());
        } else if (sharing > 0) {
#pragma unroll
            for (u32 index = 0; index < ORDER_COUNTED; index++)
                warp_settle(counter[index], now[index], shared[index], place[index]);
        }
#pragma unroll
        for (u32 index = 0; index < ORDER_COUNTED; index++) {
            u32 row = start + 32 * index + lane();
            if (IS_WHOLE || row < rows) places[row] = (u16)place[index];
        }
    }
}

template <class K, bool IS_WHOLE>
__device__ __forceinline__ void block_order_segment(const K* keys, u32 rows, u16* places,
                                                    u32* heads, u64* failed) {
    extern __shared__ uint4 shared[];
    OrderMemory& memory = *(OrderMemory*)shared;
    u32 first, warp = threadIdx.x / 32;
    bool is_found = block_count_keys<K, IS_WHOLE>(keys, rows, places, memory, first);
    if (threadIdx.x == 0) failed[blockIdx.x] = is_found ? 0 : 1;
    if (!is_found) return;
    block_start_keys(memory, first);
    for (u32 word = threadIdx.x; 32 * word < rows; word += ENCODE_ORDER_THREADS)
        heads[word] = memory.heads[word];
    if (warp < ORDER_RANKERS)
        warp_rank_rows<IS_WHOLE>(memory.counters[warp], warp * RANKER_ROWS, rows, places);
}

template <class K>
__device__ __forceinline__ void block_order_keys(const EncodeTask& task, u16* places, u32* heads,
                                           u64* failed) {
    u64 first = (u64)blockIdx.x * SEGMENT_ROWS;
    u32 rows = rows_of_segment(task.rows);
    const K* keys = (const K*)task.values + first;
    places += first;
    heads += first / 32;
    if (rows == SEGMENT_ROWS) block_order_segment<K, true>(keys, rows, places, heads, failed);
    else block_order_segment<K, false>(keys, rows, places, heads, failed);
}

// Keys are the values of the task. Sets `failed` of a segment to 1 if its keys are too far apart,
// else to 0.
extern "C" __global__ void __launch_bounds__(ENCODE_ORDER_THREADS, 2)
    encode_order(EncodeTask task, u16* places, u32* heads, u64* failed) {
    if (task.bits == 64) block_order_keys<u64>(task, places, heads, failed);
    else if (task.bits == 32) block_order_keys<u32>(task, places, heads, failed);
    else if (task.bits == 16) block_order_keys<u16>(task, places, heads, failed);
    else block_order_keys<u8>(task, places, heads, failed);
}
