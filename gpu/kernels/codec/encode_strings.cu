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
// The hash of a string is the sum of its bytes plus 1, each times the power of its place: FNV's prime.
static const u32 HASH_FACTOR = 0x01000193;

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

// The entries of a chunk by the hash of their strings: entry from 1 on << KEY_BITS | code << 8 | byte,
// 0 for none.
struct Entries {
    u64* slots;
    u32 slot_bits;
    u32 length;

    __device__ __forceinline__ u32 mask() const { return (1u << slot_bits) - 1; }
    __device__ __forceinline__ u32 place(u32 hash) const {
        return hash * 0x9e3779b1u >> (32 - slot_bits);
    }
    __device__ __forceinline__ void clear() {
        __syncwarp();
        for (u32 at = lane(); at <= mask(); at += 32) slots[at] = 0;
        length = 0;
        __syncwarp();
    }
    // Adds an entry at a free place, which all lanes have read.
    __device__ __forceinline__ void add(u32 place, u32 key) {
        __syncwarp();
        if (length < ENTRIES_MAX) {
            length++;
            if (lane() == 0) slots[place] = (u64)length << KEY_BITS | key;
        }
        __syncwarp();
    }
};

// A string that has a code.
struct Match {
    u32 code;
    u32 end;
};

// The longest string from byte `start` on that has a code; the string one byte longer becomes an entry.
//
// Lane i reads the place of the string of i + 1 bytes, so that one access finds all entries of a string:
// each is an entry only if all shorter ones are. `power` is HASH_FACTOR to the power of the lane.
__device__ __forceinline__ Match longest(const unsigned char* bytes, u32 length, u32 start,
                                         u32 power, Entries& entries) {
    u32 all = __shfl_sync(WHOLE_WARP, power, 31) * HASH_FACTOR, before = 0;
    Match match = {bytes[start], start + 1};
    for (u32 first = start;; first += 32) {
        u32 at = first + lane(), byte = at < length ? bytes[at] : 0;
        u32 hash = before + warp_sum_to((byte + 1) * power), place = entries.place(hash);
        u64 slot = at > start && at < length ? entries.slots[place] : 0;
        for (; match.end < first + 32; match.end++) {
            if (match.end == length) return match;
            u32 from = match.end - first;
            u32 key = match.code << 8 | __shfl_sync(WHOLE_WARP, byte, from);
            u64 found = __shfl_sync(WHOLE_WARP, slot, from);
            u32 probed = __shfl_sync(WHOLE_WARP, place, from);
            while (found != 0 && (u32)found % (1u << KEY_BITS) != key) {
                probed = (probed + 1) & entries.mask();
                found = entries.slots[probed];
            }
            if (found == 0) {
                entries.add(probed, key);
                return match;
            }
            match.code = ENTRY_FIRST - 1 + (u32)(found >> KEY_BITS);
        }
        before = __shfl_sync(WHOLE_WARP, hash, 31);
        power *= all;
    }
}

// The codes of all chunks of a column of bytes, 1,024 places a tile, the number of each tile, and the
// number of all in `total`, which is 0 before. One warp encodes a chunk after the other; `slot_bits`
// are those of the places of its entries, of which at most half are taken.
extern "C" __global__ void __launch_bounds__(32)
    encode_strings(EncodeTask task, u32 chunk_tiles, u64* slots, u32 slot_bits,
                   unsigned short* codes, unsigned short* counts, u64* total) {
    u32 chunks = (task.tiles + chunk_tiles - 1) / chunk_tiles, most = chunk_tiles * TILE_VALUES;
    Entries entries = {slots + ((u64)blockIdx.x << slot_bits), slot_bits, 0};
    u32 power = 1;
    for (u32 below = 0; below < lane(); below++) power *= HASH_FACTOR;
    for (u32 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        entries.clear();
        u32 first = chunk * most, left = task.rows - first, length = left < most ? left : most;
        const unsigned char* bytes = (const unsigned char*)task.values + first;
        Codes out = {codes + first, counts + chunk * chunk_tiles, 0, 0, 0};
        for (u32 start = 0; start < length;) {
            Match match = longest(bytes, length, start, power, entries);
            out.put(start, match.code);
            start = match.end;
        }
        out.reach((length + TILE_VALUES - 1) / TILE_VALUES);
        if (lane() == 0) atomicAdd(total, (u64)out.all);
    }
}
