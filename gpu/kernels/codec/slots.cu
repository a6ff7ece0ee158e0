// Decodes columns whose trees take slots, tiles in shared memory. Blocks of one warp, one a tile.
#include "codec/tree.cuh"

template <class T, int SLOTS>
__device__ __forceinline__ void warp_decode_slots(const Codec& codec, const CodecColumn* columns,
                                             u32 length, u32 tiles) {
    __shared__ TileMemory<T, SLOTS> memory;
    if (blockIdx.x < tiles) warp_decode_one(codec, columns, length, blockIdx.x, memory);
}

// One slot: keyed differences, runs, exceptions of a dictionary.
extern "C" __global__ void __launch_bounds__(32, SLOT_BLOCKS_32)
    codec_slot_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u32, 1>(codec, columns, length, tiles);
}

// The same with more registers for loads, for launches with few tiles.
extern "C" __global__ void __launch_bounds__(32, SMALL_SLOT_BLOCKS_32)
    codec_small_slot_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u32, 1>(codec, columns, length, tiles);
}

extern "C" __global__ void __launch_bounds__(32, SLOT_BLOCKS_64)
    codec_slot_64(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u64, 1>(codec, columns, length, tiles);
}

// Up to CODEC_SLOTS slots: anything that the format allows.
extern "C" __global__ void __launch_bounds__(32)
    codec_slots_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u32, CODEC_SLOTS>(codec, columns, length, tiles);
}

extern "C" __global__ void __launch_bounds__(32)
    codec_slots_64(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_slots<u64, CODEC_SLOTS>(codec, columns, length, tiles);
}
