// Numbers the distinct values of a column, for dictionaries, and finds heads in grouped order, for
// keyed trees. CUB sorts between the launches. One thread writes one output value unless said
// otherwise.
#include "codec/encode_tile.cuh"

__device__ inline u32 thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Writes the values as a contiguous list of 64-bit keys, with their rows. For a sparse node,
// `before` has the number of values before each tile. One block a tile.
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    encode_keys(EncodeTask task, const u32* before, u64* keys, u32* rows) {
    u32 first = blockIdx.x * TILE_VALUES;
    u32 count = task.rows - first < TILE_VALUES ? task.rows - first : TILE_VALUES;
    if (task.counts != 0) count = ((const unsigned short*)task.counts)[blockIdx.x];
    u32 base = before == nullptr ? first : before[blockIdx.x];
    for (u32 at = threadIdx.x; at < count; at += TILE_THREADS) {
        keys[base + at] = read_pattern<u64>(task.values, task.bits, (u64)first + at);
        rows[base + at] = first + at;
    }
}

// Widens the number of values of each tile to 32 bits.
extern "C" __global__ void encode_widen(const unsigned short* counts, u32* wide, u32 tiles) {
    u32 tile = thread_number();
    if (tile < tiles) wide[tile] = counts[tile];
}

// Writes 1 for each sorted key that begins a run of equal keys, 0 for the others.
extern "C" __global__ void encode_begins(const u64* keys, u32* begins, u32 length) {
    u32 at = thread_number();
    if (at < length) begins[at] = at == 0 || keys[at] != keys[at - 1] ? 1 : 0;
}

// Writes the distinct keys, the start of each key's run, the end of the last run, and to `numbers`
// the number of distinct keys. `before` has the number of runs that begin before each key.
extern "C" __global__ void encode_distinct(const u64* keys, const u32* begins, const u32* before,
                                           u32 length, u64* distinct, u32* starts, u64* numbers) {
    u32 at = thread_number();
    if (at >= length) return;
    if (begins[at] != 0) {
        distinct[before[at]] = keys[at];
        starts[before[at]] = at;
    }
    if (at == length - 1) {
        u32 all = before[at] + begins[at];
        starts[all] = length;
        *numbers = all;
    }
}

// Writes sort keys that order the distinct values by descending frequency, and their numbers.
extern "C" __global__ void encode_frequencies(const u32* starts, u32 numbers, u32* keys,
                                              u32* values) {
    u32 number = thread_number();
    if (number >= numbers) return;
    keys[number] = ~(starts[number + 1] - starts[number]);
    values[number] = number;
}

// Sets `entered` to 1 for the first `limit` of the listed numbers; it is initially 0.
extern "C" __global__ void encode_enter(const u32* listed, u32 limit, u32* entered) {
    u32 at = thread_number();
    if (at < limit) entered[listed[at]] = 1;
}

// Writes the entries of the dictionary and the code of every distinct value: its `rank` if it is an
// entry, else `limit`. If `entered` is null, all values are entries.
extern "C" __global__ void encode_entries(const u64* distinct, const u32* entered, const u32* rank,
                                          u32 numbers, u32 limit, u64* entries, u32* code_of) {
    u32 number = thread_number();
    if (number >= numbers) return;
    bool enters = entered == nullptr || entered[number] != 0;
    u32 code = enters ? (entered == nullptr ? number : rank[number]) : limit;
    if (enters) entries[code] = distinct[number];
    code_of[number] = code;
}

// Writes the code of every row. One thread a sorted key.
extern "C" __global__ void encode_codes(const u32* rows, const u32* begins, const u32* before,
                                        const u32* code_of, u32 length, unsigned short* codes) {
    u32 at = thread_number();
    if (at < length) codes[rows[at]] = (unsigned short)code_of[before[at] + begins[at] - 1];
}

// Writes packed(limit, width) of the differences between each entry and the first. One thread a
// word.
extern "C" __global__ void encode_dictionary(const u64* entries, u32 limit, u32 width,
                                             u32* words) {
    u32 word = thread_number();
    if (word >= (u32)(((u64)limit * width + 31) / 32)) return;
    u64 start = 32 * (u64)word, base = entries[0];
    u32 packed = 0;
    for (u64 at = start / width; at < limit && at * width < start + 32; at++) {
        int shift = (int)((i64)(at * width) - (i64)start);
        u64 value = entries[at] - base;
        packed |= shift >= 0 ? (u32)value << shift : (u32)(value >> -shift);
    }
    words[word] = packed;
}

// Sets a bit for each position of the grouped order that is a head, that is, the first of its
// tile or a position whose key differs from the previous key. Items of `order` have the row in the
// lower 16 bits; if
// the keys of the segment have at most 16 bits, the upper 16 bits are the key. One thread a
// position; the block size is a multiple of 32.
extern "C" __global__ void encode_heads(EncodeTask task, const u32* order,
                                        const CodecRange* ranges, u32* heads) {
    u32 at = thread_number();
    bool is_head = false;
    if (at < task.rows) {
        is_head = at % TILE_VALUES == 0;
        if (!is_head) {
            u32 item = order[at], before = order[at - 1];
            if (ranges[at >> 16].bits <= 16) {
                is_head = (item ^ before) > 0xffff;
            } else {
                u64 first = at & ~0xffffu;
                is_head = read_pattern<u64>(task.values, task.bits, first + (item & 0xffff))
                    != read_pattern<u64>(task.values, task.bits, first + (before & 0xffff));
            }
        }
    }
    u32 votes = __ballot_sync(WHOLE_WARP, is_head);
    if (lane() == 0 && at < task.rows) heads[at / 32] = votes;
}
