// Tuning of the codec's kernels. A number without an origin is a choice that no recorded
// measurement backs. A number of blocks that must fit a multiprocessor bounds the registers of a
// thread.
#pragma once
#include "layout.cuh"

// Decoding without slots: warps of a block, and blocks that must fit a multiprocessor. Measured on an
// H200; more registers for fewer warps are slower.
static const u32 DECODE_WARPS = 4;
static const u32 DECODE_BLOCKS_32 = 8;
static const u32 DECODE_BLOCKS_64 = 4;
static const u32 DECODE_SMALL_BLOCKS_32 = 4;
// Decoding with slots: blocks of one warp that must fit a multiprocessor. Measured on an H200.
static const u32 SLOT_BLOCKS_32 = 20;
static const u32 SLOT_BLOCKS_64 = 12;
static const u32 SMALL_SLOT_BLOCKS_32 = 16;
// Common trees: warps of a block, and blocks that must fit a multiprocessor.
static const u32 RUNS_WARPS = 4;
static const u32 RUNS_BLOCKS = 6;
static const u32 REPEATS_BLOCKS = 8;
// Packed words of a tile's runs (codes and lengths) that fit shared memory; few tiles have more.
static const u32 PACKED_WORDS = 384;

// Grouped order by digits: threads of a block, blocks that must fit a multiprocessor, and rows of a
// thread whose keys are loaded together.
static const u32 GROUP_THREADS = 256;
static const u32 GROUP_BLOCKS = 3;
static const u32 GROUP_KEYS = 8;
// Grouped order by clusters: blocks that must fit a multiprocessor.
static const u32 ORDER_BLOCKS = 2;
// Counters per code in a block. Two-byte counters of codes of CODEC_COUNTED_BITS bits use
// COUNTERS_WIDE, all others COUNTERS_MANY. Two-byte counters do not overflow, but with fewer
// counters more warps wait for each other.
static const u32 COUNTERS_MANY = 8;
static const u32 COUNTERS_WIDE = 4;
// Rows of a thread that are counted before their ranks are computed. If more than COUNT_SHARED of a
// warp's rows of a batch share a counter, all lanes are compared bit by bit.
static const u32 COUNT_ROWS = 8;
static const u32 COUNT_SHARED = 3 * COUNT_ROWS;
// Neighbouring rows that a thread stores at once.
static const u32 SCATTER_NEIGHBOURS = 4;

// Encoding of a tile by a block: its threads.
static const u32 TILE_THREADS = 256;
// The maximum number of groups of heads that encode_sparse.cuh encodes.
static const u32 SPARSE_GROUPS = 4;
// Tiles whose sizes a thread sums up at a time.
static const u32 OFFSETS_EACH = 16;
// Words that a lane copies to a section at a time.
static const u32 PLACED_WORDS = 8;
// Permutation of values to grouped order: groups of four rows that a thread loads together, and
// groups of four that it prefetches to shared memory.
static const u32 GROUP_BATCH = 2;
static const u32 GROUP_AHEAD = 4;
// Places of the hash table that are probed before the column counts as having too many values.
static const u32 TRIED_MAX = 256;
// Warps of a block that rank rows. Each has its own counters. Their number is limited because two
// blocks must fit the shared memory of a multiprocessor.
static const u32 ORDER_RANKERS = 6;
// Pairs of rows whose loads are in flight together, and rows that are counted together.
static const u32 ORDER_PAIRS = 16;
static const u32 ORDER_COUNTED = 16;
// If more than ORDER_MANY of a warp's rows of a batch share a counter, all lanes are compared bit
// by bit.
static const u32 ORDER_MANY = 3 * 16;
