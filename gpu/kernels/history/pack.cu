// Packs decoded columns of tiles: first computes their bounds, then writes the bits of each column
// to its place. One warp a column of a tile.
#include "history/run.cuh"

// A decoded value, mapped so that unsigned comparison gives the order of the column's type.
__device__ __forceinline__ u32 decoded_at(const u8* decoded, const RunInput& input, u32 row) {
    const u8* values = decoded + input.values;
    u32 value = input.bits == 16 ? ((const u16*)values)[row] : ((const u32*)values)[row];
    return value ^ (input.is_signed << 31);
}

// Writes the least value, the bits per value and the number of words of each of `length` columns;
// `words` gets a 0 after the last number.
extern "C" __global__ void run_pack_bounds(const u8* decoded, const RunInput* inputs, u32 length,
                                           RunColumn* columns, u32* words) {
    u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (at == length && lane() == 0) words[at] = 0;
    if (at >= length) return;
    const RunInput input = inputs[at];
    u32 least = 0, bits = 0;
    if (input.bits != 0) {
        least = 0xffffffffu;
        u32 most = 0;
        for (u32 row = lane(); row < input.rows; row += 32) {
            u32 value = decoded_at(decoded, input, row);
            least = min(least, value);
            most = max(most, value);
        }
        for (u32 step = 16; step > 0; step /= 2) {
            least = min(least, __shfl_xor_sync(WHOLE_WARP, least, step));
            most = max(most, __shfl_xor_sync(WHOLE_WARP, most, step));
        }
        bits = 32 - __clz(most - least);
        least ^= input.is_signed << 31;
    }
    if (lane() != 0) return;
    columns[at].least = least + input.base;
    columns[at].bits = bits;
    words[at] = (input.rows * bits + 31) / 32;
}

// Writes the words of each column to `packed`, starting at `places[column]`.
extern "C" __global__ void run_pack(const u8* decoded, const RunInput* inputs, u32 length,
                                    RunColumn* columns, const u32* places, u32* packed) {
    u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (at >= length) return;
    const RunInput input = inputs[at];
    u32 bits = columns[at].bits, least = (columns[at].least - input.base) ^ (input.is_signed << 31);
    u32* words = packed + places[at];
    if (lane() == 0) columns[at].words = (u64)words;
    u32 count = places[at + 1] - places[at];
    for (u32 number = lane(); number < count; number += 32) {
        u32 first_bit = 32 * number, word = 0;
        for (u32 row = first_bit / bits; row < input.rows && row * bits < first_bit + 32; row++) {
            u32 value = decoded_at(decoded, input, row) - least;
            i32 shift = (i32)(row * bits) - (i32)first_bit;
            word |= shift >= 0 ? value << shift : value >> -shift;
        }
        words[number] = word;
    }
}
