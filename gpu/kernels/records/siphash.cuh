// The hash of a 64-bit word under the engine's secret key; equals `HashKey::hash` of the engine.
//
// SipHash-1-3 of eight bytes. Clients choose ids and cells, but without the key they cannot choose
// values that collide.
#pragma once
#include "layout.cuh"

__device__ inline u64 rotated(u64 word, u32 by) { return word << by | word >> (64 - by); }

struct SipState {
    u64 v0, v1, v2, v3;

    __device__ inline void round() {
        v0 += v1;
        v2 += v3;
        v1 = rotated(v1, 13) ^ v0;
        v3 = rotated(v3, 16) ^ v2;
        v0 = rotated(v0, 32) + v3;
        v2 += v1;
        v3 = rotated(v3, 21) ^ v0;
        v1 = rotated(v1, 17) ^ v2;
        v2 = rotated(v2, 32);
    }
    __device__ inline void take(u64 block) {
        v3 ^= block;
        round();
        v0 ^= block;
    }
};

__device__ inline u64 siphash(const u64 (&key)[HASH_KEY_WORDS], u64 word) {
    SipState state = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
                      key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull};
    state.take(word);
    // The last block has the length in bytes, 8, in its highest byte.
    state.take(8ull << 56);
    state.v2 ^= 0xff;
    state.round();
    state.round();
    state.round();
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}
