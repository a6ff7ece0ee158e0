// Decodes columns whose trees need slots, which are tiles in shared memory. A block is one warp and
// decodes one tile.
#include "codec/tree.cuh"

template <class T, int SLOTS>
__device__ __forceinline__ void warp_decode_slots(const Codec& codec, const CodecColumn* columns,
                                             u32 length, u32 tiles) {
    __shared__ TileMemory<T, SLOTS> memory;
    if (blockIdx.x < tiles) warp_decode_one(codec, columns, length, blockIdx.x, memory);
}

// For trees with one slot: one node for keyed differences, runs, or exceptions of a dictionary.
extern "C" __global__ void __launch_bounds__(32, SLOT_BLOCKS_32)
    codec_slot_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u32, 1>(codec, columns, length, tiles);
}

// As `codec_slot_32`, with more registers for loads, for launches with few tiles.
extern "C" __global__ void __launch_bounds__(32, SMALL_SLOT_BLOCKS_32)
    codec_small_slot_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u32, 1>(codec, columns, length, tiles);
}

extern "C" __global__ void __launch_bounds__(32, SLOT_BLOCKS_64)
    codec_slot_64(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u64, 1>(codec, columns, length, tiles);
}

// For trees with up to CODEC_SLOTS slots: all that the format allows.
extern "C" __global__ void __launch_bounds__(32)
    codec_slots_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u32, CODEC_SLOTS>(codec, columns, length, tiles);
}

extern "C" __global__ void __launch_bounds__(32)
    codec_slots_64(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u64, CODEC_SLOTS>(codec, columns, length, tiles);
}
