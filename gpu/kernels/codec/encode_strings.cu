// Encoding bytes and text: the ranks of a chunk's bytes for `stateless`, the codes of a chunk for `lzw`
// (FORMAT.md, sections 6.18 and 6.19). Other kernels write tiles from both.
#include "codec/code.cuh"
#include "codec/encode_bits.cuh"

static const u32 TILE_VALUES = 1024;
static const u32 BYTES = CODE_SYMBOLS_MAX;
// The code of the first entry, and entries of a chunk at most.
static const u32 ENTRY_FIRST = 256;
static const u32 ENTRIES_MAX = 65536 - ENTRY_FIRST;
// Bits of a code and a byte.
static const u32 KEY_BITS = 24;
// Bytes that a warp holds.
static const u32 WINDOW = 128;

// The rank of every byte of a chunk by frequency, the lesser of equally frequent ones first, and the
// bytes of the first `entries` ranks. One block a chunk, a thread a byte.
extern "C" __global__ void __launch_bounds__(BYTES)
    encode_ranks(EncodeTask task, u32 chunk_tiles, u32 entries, unsigned char* ranks,
                 unsigned char* tables) {
    __shared__ u32 counts[BYTES];
    u32 byte = threadIdx.x;
    counts[byte] = 0;
    __syncthreads();
    u32 most = chunk_tiles * TILE_VALUES, first = blockIdx.x * most;
    u32 end = task.rows - first < most ? task.rows : first + most;
    for (u32 at = first + byte; at < end; at += BYTES)
        atomicAdd(&counts[read_pattern<u32>(task.values, task.bits, at) % BYTES], 1);
    __syncthreads();
    u32 mine = counts[byte], rank = 0;
    for (u32 other = 0; other < BYTES; other++)
        rank += counts[other] > mine || (counts[other] == mine && other < byte) ? 1 : 0;
    ranks[(u64)blockIdx.x * BYTES + byte] = (unsigned char)rank;
    if (rank < entries) tables[(u64)blockIdx.x * entries + rank] = (unsigned char)byte;
}

// The bytes of a chunk in order, by a whole warp.
struct Bytes {
    const unsigned char* from;
    u32 length;
    // Four of the WINDOW bytes that begin at a multiple of it.
    u32 window;

    __device__ __forceinline__ u32 at(u32 place) {
        if (place % WINDOW == 0) {
            u32 mine = place + 4 * lane();
            window = 0;
            for (u32 byte = 0; byte < 4; byte++)
                if (mine + byte < length) window |= (u32)from[mine + byte] << 8 * byte;
        }
        u32 word = __shfl_sync(WHOLE_WARP, window, place % WINDOW / 4);
        return word >> 8 * (place % 4) & 0xff;
    }
};

// The codes of a chunk, tile by tile.
struct Codes {
    unsigned short* codes;
    unsigned short* counts;
    u32 tile;
    u32 in_tile;
    u32 all;

    // Completes tiles before `next`.
    __device__ __forceinline__ void reach(u32 next) {
        for (; tile < next; tile++, in_tile = 0)
            if (lane() == 0) counts[tile] = (unsigned short)in_tile;
    }
    // Appends the code of a string that begins at byte `start`.
    __device__ __forceinline__ void put(u32 start, u32 code) {
        reach(start / TILE_VALUES);
        if (lane() == 0) codes[tile * TILE_VALUES + in_tile] = (unsigned short)code;
        in_tile++;
        all++;
    }
};

// The entries of a chunk by hash: entry from 1 on << KEY_BITS | code << 8 | byte, 0 for none. All lanes
// read and write the same places, so that each reads what it wrote itself.
struct Entries {
    u64* slots;
    u32 mask;
    u32 length;

    __device__ __forceinline__ void clear() {
        __syncwarp();
        for (u32 at = lane(); at <= mask; at += 32) slots[at] = 0;
        length = 0;
        __syncwarp();
    }
    // The entry of a key from 1 on; 0 if there was none, which is added.
    __device__ __forceinline__ u32 find_or_add(u32 key) {
        u32 at = key * 0x9e3779b1u >> 15 & mask;
        while (true) {
            u64 slot = slots[at];
            if (slot == 0) break;
            if ((u32)slot % (1u << KEY_BITS) == key) return (u32)(slot >> KEY_BITS);
            at = (at + 1) & mask;
        }
        // No lane reads the place after another has written it.
        __syncwarp();
        if (length < ENTRIES_MAX) slots[at] = (u64)++length << KEY_BITS | key;
        return 0;
    }
};

// The codes of all chunks of a column of bytes, 1,024 places a tile, the number of each tile, and the
// number of all in `total`, which is 0 before. One warp encodes a chunk after the other; `slot_bits`
// are those of the places of its entries, of which at most half are taken.
extern "C" __global__ void __launch_bounds__(32)
    encode_strings(EncodeTask task, u32 chunk_tiles, u64* slots, u32 slot_bits,
                   unsigned short* codes, unsigned short* counts, u64* total) {
    u32 chunks = (task.tiles + chunk_tiles - 1) / chunk_tiles, most = chunk_tiles * TILE_VALUES;
    Entries entries = {slots + ((u64)blockIdx.x << slot_bits), (1u << slot_bits) - 1, 0};
    for (u32 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        entries.clear();
        u32 first = chunk * most, left = task.rows - first;
        Bytes bytes = {(const unsigned char*)task.values + first, left < most ? left : most, 0};
        Codes out = {codes + first, counts + chunk * chunk_tiles, 0, 0, 0};
        u32 code = bytes.at(0), start = 0;
        for (u32 place = 1; place < bytes.length; place++) {
            u32 byte = bytes.at(place), entry = entries.find_or_add(code << 8 | byte);
            if (entry != 0) {
                code = ENTRY_FIRST - 1 + entry;
                continue;
            }
            out.put(start, code);
            code = byte;
            start = place;
        }
        out.put(start, code);
        out.reach((bytes.length + TILE_VALUES - 1) / TILE_VALUES);
        if (lane() == 0) atomicAdd(total, (u64)out.all);
    }
}
