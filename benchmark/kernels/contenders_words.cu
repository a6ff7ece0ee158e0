// Other structures of 64-bit keys.
#include "layout.cuh"
typedef u64 Key;
#include "contenders.cuh"
