// Decodes a tile by a whole tree. The tree is a list of steps, leaves first, which the host
// compiled from the plan; each step transforms one tile in the registers of a warp.
//
// For a node with two children, the values of one child are stored in a slot, a tile in shared
// memory. Any kernel may call `warp_decode_tile`. The host has checked plans, and places and
// lengths of sections; everything else is checked here.
#pragma once
#include "codec/huffman.cuh"
#include "codec/keyed.cuh"
#include "codec/node.cuh"
#include "codec/stateless.cuh"
#include "warp/search.cuh"

// Shared memory of one warp.
template <class T, int SLOTS>
struct TileMemory {
    alignas(16) CodecStep steps[CODEC_STEPS];
    alignas(16) T slots[SLOTS][TILE_VALUES];
    // For rearranging tiles.
    alignas(16) T tile[TILE_VALUES];
    u32 few[CODE_FEW];
    Places places;
    Heads heads;
};

template <class T>
struct TileMemory<T, 0> {
    alignas(16) CodecStep steps[CODEC_STEPS];
    // For the exceptions of a patch, one run at a time.
    alignas(16) T tile[RUN_VALUES];
};

template <class T>
__device__ __forceinline__ void warp_store_slot(T* slot, u32 count, const Tile<T>& tile) {
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        // Slots are whole tiles, so values beyond `count` may be written.
        if (k * RUN_VALUES < count) store_four((u8*)slot, place_of(k), 8 * sizeof(T), tile.v[k]);
    }
    __syncwarp();
}

// An integer type with 16 bits for the count of each slot.
template <bool ARE_MANY>
struct SlotCounts {
    typedef u32 Bits;
};

template <>
struct SlotCounts<true> {
    typedef u64 Bits;
};

// The number of values of the present node and, if it is sparse, of its parents. At most three
// counts of 16 bits each, packed so that they stay in registers.
template <int SLOTS>
struct Counts {
    typedef typename SlotCounts<(SLOTS > 2)>::Bits Bits;

    // A stack of counts, the present one in the lowest bits.
    u64 entered;
    // The number of values in each slot.
    Bits kept;

    __device__ u32 now() const { return (u32)entered & 0xffff; }
    __device__ void enter(u32 count) { entered = entered << 16 | count; }
    __device__ void leave() { entered >>= 16; }
    __device__ void store(u32 slot) {
        kept = (kept & ~((Bits)0xffff << 16 * slot)) | (Bits)now() << 16 * slot;
    }
    __device__ u32 of(u32 slot) const { return (u32)(kept >> 16 * slot) & 0xffff; }
};

// Reads the number of values of a sparse child and makes it the present count. Returns false if the
// format refuses it.
template <class Memory, int SLOTS>
__device__ __forceinline__ bool enter_sparse(const Codec& codec, const CodecColumn& column,
                                             const CodecStep& step, u32 tile, Memory& memory,
                                             Counts<SLOTS>& counts) {
    u32 count = ((const u16*)(codec.input + step.first))[tile];
    if (step.extra == CODEC_HEADS) {
        wait_for_previous();
        const u32* heads = (const u32*)(codec.output + column.heads) + (u64)tile * TILE_WORDS;
        if (memory.heads.find(heads, counts.now()) != count) return false;
    } else {
        bool has_no_run = step.extra == CODEC_RUNS && count == 0 && counts.now() > 0;
        if (count > counts.now() || has_no_run) return false;
    }
    counts.enter(count);
    return true;
}

// Runs a step of a tree without slots. Returns false if the format refuses the tile.
template <class T, u32 AT_ONCE>
__device__ __forceinline__ bool warp_plain_step(const Codec& codec, const CodecColumn& column,
                                  const CodecStep& step, u32 number, u32 count,
                                  T (&memory)[AT_ONCE], Tile<T>& tile) {
    const u8* input = codec.input;
    switch (step.code) {
        case CODEC_AFL: return warp_read_afl(input, step, column.tiles, number, count, tile);
        case CODEC_RAW: read_raw(input, step, number, count, tile); return true;
        case CODEC_CONST: read_const((T)step.parameter, tile); return true;
        case CODEC_DELTA: warp_apply_delta(input, step, number, tile); break;
        case CODEC_DELTA2: warp_apply_delta2(input, step, number, tile); break;
        case CODEC_SCALE: apply_plus(section_value<T>(input, step, number), tile); break;
        case CODEC_DIVISOR: apply_linear((T)step.parameter, (T)step.extra, tile); break;
        case CODEC_FLOAT_TO_INT:
            apply_float(__longlong_as_double((i64)step.parameter), tile);
            return true;
        case CODEC_PATCH:
            if (!warp_apply_patch(input, step, column.tiles, number, count, memory, tile))
                return false;
            break;
        case CODEC_DICT: {
            if (column.codes != NO_COLUMN) {
                // Entries ascend, so codes have the same order as values.
                u8* codes = codec.output + column.codes + (u64)number * TILE_VALUES * 2;
                store_tile(codes, count, 16, tile);
            }
            wait_for_previous();
            return warp_apply_dict((const T*)(codec.output + step.first), step.extra, count, tile);
        }
        default: return false;
    }
    narrow(tile, step.bits);
    return true;
}

// Runs any step. Returns false if the format refuses the tile.
template <class T, int SLOTS>
__device__ __forceinline__ bool warp_slot_step(const Codec& codec, const CodecColumn& column,
                                          const CodecStep& step, u32 number,
                                          TileMemory<T, SLOTS>& memory, Counts<SLOTS>& counts,
                                          Tile<T>& tile) {
    const u8* input = codec.input;
    switch (step.code) {
        case CODEC_COUNT:
            return enter_sparse(codec, column, step, number, memory, counts);
        case CODEC_STORE:
            warp_store_slot(memory.slots[step.slot], counts.now(), tile);
            counts.store(step.slot);
            if (step.extra != 0) counts.leave();
            return true;
        case CODEC_RLE: {
            u32 runs = counts.now();
            counts.leave();
            return warp_apply_rle(memory.slots[step.slot], runs, counts.now(), memory.places, tile);
        }
        case CODEC_KEYED_DELTA:
        case CODEC_KEYED_DELTA2: {
            bool is_second = step.code == CODEC_KEYED_DELTA2;
            unstore(tile, step.extra);
            warp_sum_runs(memory.slots[step.slot], memory.heads, is_second, memory.tile, tile);
            narrow(tile, step.bits);
            return true;
        }
        case CODEC_DICT_OR:
            wait_for_previous();
            return warp_apply_dict_or((const T*)(codec.output + step.first), step.extra,
                                 memory.slots[step.slot], counts.of(step.slot), counts.now(),
                                 memory.places, tile);
        case CODEC_GFC: return warp_read_gfc(input, step, column.tiles, number, counts.now(), tile);
        case CODEC_HUFFMAN:
        case CODEC_HUFFMAN_LONG:
            wait_for_previous();
            return warp_read_huffman(input, (const u32*)(codec.output + step.parameter), step,
                                column.tiles, number, counts.now(), memory.few, memory.tile, tile);
        case CODEC_STATELESS:
            return warp_read_stateless(input, step, column.tiles, number, counts.now(), memory.tile,
                                  tile);
        default:
            return warp_plain_step(codec, column, step, number, counts.now(), memory.tile, tile);
    }
}

template <class T>
__device__ __forceinline__ bool warp_slot_step(const Codec& codec, const CodecColumn& column,
                                          const CodecStep& step, u32 number,
                                          TileMemory<T, 0>& memory, Counts<0>& counts,
                                          Tile<T>& tile) {
    return warp_plain_step(codec, column, step, number, counts.now(), memory.tile, tile);
}

// Decodes tile `number` of a column to `tile`, and writes its number of values to `count`. Returns
// false if the format refuses it; its values are then undefined. Called by all threads of a warp;
// each warp has its own `memory`.
template <class T, int SLOTS>
__device__ __forceinline__ bool warp_decode_tile(const Codec& codec, const CodecColumn& column,
                                            u32 number, TileMemory<T, SLOTS>& memory, u32& count,
                                            Tile<T>& tile) {
    u32 left = column.rows - number * TILE_VALUES;
    count = left < TILE_VALUES ? left : TILE_VALUES;
    Counts<SLOTS> counts = {count, 0};
    // Loaded together, because every step waits for the previous one.
    static_assert(sizeof(CodecStep) == 3 * sizeof(uint4), "three loads a step");
    const CodecStep* steps = codec.steps + column.first_step;
    u32 loads = 3 * (column.steps < CODEC_STEPS ? column.steps : CODEC_STEPS);
    for (u32 at = lane(); at < loads; at += 32)
        ((uint4*)memory.steps)[at] = ((const uint4*)steps)[at];
    __syncwarp();
    for (u32 index = 0; index < column.steps; index++) {
        const CodecStep step = index < CODEC_STEPS ? memory.steps[index] : steps[index];
        if (!warp_slot_step(codec, column, step, number, memory, counts, tile)) return false;
    }
    return true;
}

// The column of tile `tile` of a launch: the last column whose first tile is not after it.
__device__ __forceinline__ u32 warp_column_of(const CodecColumn* columns, u32 length, u32 tile) {
    return warp_last_not_above(length, tile, [&](u32 at) { return columns[at].first_tile; });
}

// Whether one of a lane's four valid values lies outside the column's limits.
template <class T>
__device__ __forceinline__ bool are_outside(const CodecColumn& column, u32 k, u32 count,
                                            const T (&v)[4]) {
    bool outside = false;
#pragma unroll
    for (u32 j = 0; j < 4; j++)
        outside |= place_of(k) + j < count && (u32)v[j] - column.least > column.span;
    return outside;
}

// Whether one of the first `count` values of a tile lies outside the column's limits.
template <class T>
__device__ __forceinline__ bool warp_is_outside(const CodecColumn& column, u32 count,
                                           const Tile<T>& tile) {
    bool outside = false;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) outside |= are_outside(column, k, count, tile.v[k]);
    return __any_sync(WHOLE_WARP, outside);
}

// Stores the codes of a tile and their entries, whichever the column requests. Returns false if a
// code has no entry.
__device__ __forceinline__ bool warp_store_entries(const Codec& codec, const CodecColumn& column,
                                              u32 number, u32 count, const Tile<u32>& tile) {
    u32 most = 0;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            if (place_of(k) + j < count) most = tile.v[k][j] > most ? tile.v[k][j] : most;
    if (__any_sync(WHOLE_WARP, most >= column.entries)) return false;
    u64 first = (u64)number * TILE_VALUES;
    if (column.codes != NO_COLUMN)
        store_tile(codec.output + column.codes + first * 2, count, 16, tile);
    if (column.output == NO_COLUMN) return true;
    wait_for_previous();
    const u64* table = (const u64*)(codec.output + column.table);
    u8* to = codec.output + column.output + first * 8;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 place = place_of(k);
        u64 four[4];
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            four[j] = table[place + j < count ? tile.v[k][j] : 0];
        store_some(to, k, count, 64, four);
    }
    return true;
}

__device__ __forceinline__ bool warp_store_entries(const Codec&, const CodecColumn&, u32, u32,
                                              const Tile<u64>&) {
    return false;
}

// Decodes tile `tile` of a launch and stores it to its column's output. Marks the request as failed
// if the tile is refused.
template <class T, int SLOTS>
__device__ __forceinline__ void warp_decode_one(const Codec& codec, const CodecColumn* columns,
                                           u32 length, u32 tile, TileMemory<T, SLOTS>& memory) {
    let_next_begin();
    const CodecColumn& column = columns[warp_column_of(columns, length, tile)];
    u32 number = tile - column.first_tile, count;
    Tile<T> values;
    bool is_right = warp_decode_tile(codec, column, number, memory, count, values);
    wait_for_previous();
    if (is_right && column.checks != 0) is_right = !warp_is_outside(column, count, values);
    bool has_table = column.table != NO_COLUMN;
    if (is_right && has_table) is_right = warp_store_entries(codec, column, number, count, values);
    if (!is_right) {
        if (lane() == 0) codec.failed[(u64)column.request * codec.stride] = 1;
        return;
    }
    if (has_table || column.output == NO_COLUMN) return;
    u64 bytes = (u64)number * TILE_VALUES * (column.bits / 8);
    store_tile(codec.output + column.output + bytes, count, column.bits, values);
}
