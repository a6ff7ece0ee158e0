// Encoding bytes and text: computes the ranks of a chunk's bytes for `stateless` and the codes of a
// chunk for `lzw` (FORMAT.md, sections 6.18 and 6.19). Other kernels write the tiles from these.
#include "codec/code.cuh"
#include "codec/encode_bits.cuh"

static const u32 TILE_VALUES = 1024;
static const u32 BYTES = CODE_SYMBOLS_MAX;
// The code of the first entry, and the maximum number of entries of a chunk.
static const u32 ENTRY_FIRST = 256;
static const u32 ENTRIES_MAX = 65536 - ENTRY_FIRST;
// Bits of an entry's key (code << 8 | byte), and bits of the hash that an entry stores.
static const u32 KEY_BITS = 24;
static const u32 TAG_BITS = 24;
// The hash of a string is (the hash without its last byte) * HASH_FACTOR + (the last byte) + 1. The
// factor is FNV's prime.
static const u32 HASH_FACTOR = 0x01000193;
// Bytes in the ring of hashes; a power of two.
static const u32 AHEAD = 64;
// Lanes that look up extensions of a string. Few, because most strings are short and every lookup
// reads another sector of memory.
static const u32 LOOKUPS = 8;

// Writes the rank of every byte value of a chunk by descending frequency, equally frequent ones in
// ascending order, and to `tables` the bytes of the first `entries` ranks. One block a chunk, a
// thread a byte value.
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

    // Moves on to tile `next`; writes the number of codes of the tiles before it.
    __device__ __forceinline__ void reach(u32 next) {
        for (; tile < next; tile++, in_tile = 0)
            if (lane() == 0) counts[tile] = (unsigned short)in_tile;
    }
    // Appends the `code` of lane `writer` to the tile that contains byte `start`, where the code's
    // string begins.
    __device__ __forceinline__ void put(u32 start, u32 writer, u32 code) {
        reach(start / TILE_VALUES);
        if (lane() == writer) codes[tile * TILE_VALUES + in_tile] = (unsigned short)code;
        in_tile++;
        all++;
    }
};

// A hash table of the entries of a chunk, by the hash of their strings. A slot is 0 if free; else
// it has, from the upper bits down, the entry's number from 1 on, TAG_BITS bits of the hash, and
// the key code << 8 | byte.
struct Entries {
    u64* slots;
    u32 slot_bits;
    u32 length;

    __device__ __forceinline__ void clear() {
        __syncwarp();
        for (u32 at = lane(); at < 1u << slot_bits; at += 32) slots[at] = 0;
        length = 0;
        __syncwarp();
    }
    __device__ __forceinline__ u32 place(u32 hash) const {
        return hash * 0x9e3779b1u >> (32 - slot_bits);
    }
    __device__ __forceinline__ u32 next(u32 place) const {
        return (place + 1) & ((1u << slot_bits) - 1);
    }
    static __device__ __forceinline__ u32 tag(u64 slot) {
        return (u32)(slot >> KEY_BITS) % (1u << TAG_BITS);
    }
    static __device__ __forceinline__ u32 key(u64 slot) { return (u32)slot % (1u << KEY_BITS); }
    static __device__ __forceinline__ u32 code(u64 slot) {
        return ENTRY_FIRST - 1 + (u32)(slot >> (KEY_BITS + TAG_BITS));
    }
};

// The bytes of a chunk, and a ring with an entry for each of the next bytes: the hash of the chunk
// up to and including the byte, and the byte.
struct Text {
    const unsigned char* bytes;
    u32 length;
    uint2* ring;
    // HASH_FACTOR to the power of the lane plus 1.
    u32 power;
    // The position of the first byte after the bytes in the ring, the hash of all bytes before it,
    // and this lane's byte among the 32 bytes from it on.
    u32 end;
    u32 hash;
    u32 next;

    __device__ __forceinline__ void load() {
        next = end + lane() < length ? bytes[end + lane()] : 0;
    }
    // Extends the ring at least to byte `to`; bytes after the end of the chunk are 0.
    __device__ __forceinline__ void reach(u32 to) {
        while (end < to) {
            u32 sum = next + 1, factor = HASH_FACTOR;
#pragma unroll
            for (u32 step = 1; step < 32; step *= 2) {
                u32 below = __shfl_up_sync(WHOLE_WARP, sum, step);
                if (lane() >= step) sum += below * factor;
                factor *= factor;
            }
            sum += hash * power;
            __syncwarp();
            ring[(end + lane()) % AHEAD] = make_uint2(sum, next);
            hash = __shfl_sync(WHOLE_WARP, sum, 31);
            end += 32;
            load();
            __syncwarp();
        }
    }
    __device__ __forceinline__ uint2 at(u32 byte) const { return ring[byte % AHEAD]; }
};

// Writes the codes of a chunk. Each code stands for the longest string with a code that begins at
// its place. This string, extended by the byte after it, becomes a new entry.
//
// Lane i below LOOKUPS looks up the known string extended by i + 1 bytes, so that all extensions
// are found in one access. An extension is an entry only if all shorter ones are.
__device__ __forceinline__ void warp_write_codes(Text& text, Entries& entries, Codes& out) {
    u32 start = 0, end = 1, code = 0, known = 0;
    bool is_first = true;
    while (start < text.length) {
        text.reach(end + LOOKUPS);
        // The hashes of all bytes up to the end of the known string, and up to this lane's byte.
        uint2 last = text.at(end - 1), mine = text.at(end + lane());
        if (is_first) code = last.y, known = last.y + 1;
        u32 hash = mine.x + (known - last.x) * text.power, place = entries.place(hash);
        bool is_byte = lane() < LOOKUPS && end + lane() < text.length;
        u64 slot = is_byte ? entries.slots[place] : 0;
        while (slot != 0 && Entries::tag(slot) != hash % (1u << TAG_BITS)) {
            place = entries.next(place);
            slot = entries.slots[place];
        }
        u32 before, key, found;
        for (;;) {
            before = __shfl_up_sync(WHOLE_WARP, Entries::code(slot), 1);
            if (lane() == 0) before = code;
            key = before << 8 | mine.y;
            bool is_found = slot != 0 && Entries::key(slot) == key;
            u32 others = __ballot_sync(WHOLE_WARP, !is_found);
            u32 taken = __ballot_sync(WHOLE_WARP, !is_found && slot != 0);
            found = (u32)__ffs((int)others) - 1;
            if ((taken >> found & 1) == 0) break;
            // The slot belongs to another string whose hash has the same stored bits; continues.
            while (lane() == found && slot != 0 && Entries::key(slot) != key) {
                place = entries.next(place);
                slot = entries.slots[place];
            }
            __syncwarp();
        }
        is_first = found < LOOKUPS;
        end += found;
        if (is_first) {
            out.put(start, found, before);
            if (end < text.length && entries.length < ENTRIES_MAX) {
                entries.length++;
                u64 entry = (u64)entries.length << TAG_BITS | hash % (1u << TAG_BITS);
                if (lane() == found) entries.slots[place] = entry << KEY_BITS | key;
            }
            start = end;
            end++;
        } else {
            code = __shfl_sync(WHOLE_WARP, before, LOOKUPS);
            known = __shfl_sync(WHOLE_WARP, hash, LOOKUPS - 1);
        }
        __syncwarp();
    }
    out.reach((text.length + TILE_VALUES - 1) / TILE_VALUES);
}

// Writes the codes of all chunks of a column of bytes, 1,024 places a tile, the number of codes of
// each tile, and their sum to `total`, which is initially 0. A warp encodes one chunk after another
// with a table of 2^`slot_bits` places, at most half of which are taken.
extern "C" __global__ void __launch_bounds__(32)
    encode_strings(EncodeTask task, u32 chunk_tiles, u64* slots, u32 slot_bits,
                   unsigned short* codes, unsigned short* counts, u64* total) {
    __shared__ uint2 ring[AHEAD];
    u32 chunks = (task.tiles + chunk_tiles - 1) / chunk_tiles, most = chunk_tiles * TILE_VALUES;
    Entries entries = {slots + ((u64)blockIdx.x << slot_bits), slot_bits, 0};
    u32 power = HASH_FACTOR;
    for (u32 below = 0; below < lane(); below++) power *= HASH_FACTOR;
    for (u32 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        entries.clear();
        u32 first = chunk * most, left = task.rows - first, length = left < most ? left : most;
        Text text = {(const unsigned char*)task.values + first, length, ring, power, 0, 0, 0};
        text.load();
        Codes out = {codes + first, counts + chunk * chunk_tiles, 0, 0, 0};
        warp_write_codes(text, entries, out);
        if (lane() == 0) atomicAdd(total, (u64)out.all);
    }
}
