// The other index structures, for keys that are an object and a time.
#include "layout.cuh"
typedef ObjectTime Key;
#include "contenders.cuh"
