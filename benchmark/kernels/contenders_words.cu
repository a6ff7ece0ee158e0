// The other index structures, for 64-bit keys.
#include "layout.cuh"
typedef u64 Key;
#include "contenders.cuh"
