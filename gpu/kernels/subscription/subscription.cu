// The kernels of stage subscription: they build the tables of cells, then find the events of a
// cycle's records. A group that evaluates an object is one thread, or OBJECT_THREADS threads if
// bins are long.
#include "block/block.cuh"
#include "subscription/subscription.cuh"

// Claims the bins of added references. One thread a reference.
extern "C" __global__ void subscription_claim(const u64* cells, const u32* references, u32 length,
                                              const u32* numbers, NewBins table, u32* claimed) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length && renumbered(numbers, references[at]) != NO_REFERENCE)
        claim_bin(table, cells[at], claimed);
}

// Claims the bins of an older table. One thread a bin.
extern "C" __global__ void subscription_claim_bins(Bins old, const u32* numbers, NewBins table,
                                                   u32* claimed) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at > old.mask || old.bins[at].cell == NO_CELL) return;
    Bin bin = old.bins[at];
    for (u32 next = 0; next < bin.count; next++)
        if (renumbered(numbers, old.references[bin.start + next]) != NO_REFERENCE)
            claim_bin(table, bin.cell, claimed);
}

// Writes the number of references of each bin, and a 0 after the last. One thread a bin, and one
// for the 0.
extern "C" __global__ void subscription_counts(NewBins table, u32* counts) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at > table.mask + 1) return;
    bool counts_some = at <= table.mask && table.bins[at].cell != NO_CELL;
    counts[at] = counts_some ? table.bins[at].count + 1 : 0;
}

// Sets where the references of each bin begin and resets their count. One thread a bin.
extern "C" __global__ void subscription_starts(NewBins table, const u32* starts) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at > table.mask) return;
    table.bins[at].start = starts[at];
    table.bins[at].count = 0;
}

// Files added references. One thread a reference.
extern "C" __global__ void subscription_file(const u64* cells, const u32* references, u32 length,
                                             const u32* numbers, NewBins table) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 reference = at < length ? renumbered(numbers, references[at]) : NO_REFERENCE;
    if (reference != NO_REFERENCE) file_reference(table, cells[at], reference);
}

// Files the references of an older table. One thread a bin.
extern "C" __global__ void subscription_file_bins(Bins old, const u32* numbers, NewBins table) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at > old.mask || old.bins[at].cell == NO_CELL) return;
    Bin bin = old.bins[at];
    for (u32 next = 0; next < bin.count; next++) {
        u32 reference = renumbered(numbers, old.references[bin.start + next]);
        if (reference != NO_REFERENCE) file_reference(table, bin.cell, reference);
    }
}

// Ends queries, or suppresses their events for a cycle. One thread a mark; a mark is twice the
// query's number, plus 1 if the query ends.
extern "C" __global__ void subscription_mark(DeviceQuery* queries, const u32* marks, u32 length,
                                             u32 epoch) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    DeviceQuery* marked = queries + marks[at] / 2;
    marked->suppressed_epoch = epoch;
    if ((marks[at] & 1u) != 0) marked->flags = 0;
}

// Each thread with `yes` appends its slot and the slot's object to the lists, and merges the bits
// of the object's id into `gathered->bits`. Called by all threads of a block.
__device__ inline void block_gather(bool yes, u32 slot, const Records& records,
                                    WrittenObjects* gathered, u64* objects, u32* slots) {
    u64 object = yes ? records.objects[slot] : 0;
    u32 place = block_append(yes, &gathered->length);
    if (yes) {
        objects[place] = object;
        slots[place] = slot;
    }
    u64 bits = warp_or(object);
    if (lane() == 0 && (bits & ~*(volatile u64*)&gathered->bits) != 0)
        atomicOr((u64*)&gathered->bits, bits);
}

// Lists the objects of the cycle's removals and of its rows except refused and late ones. An object
// may be listed more than once. Evaluation skips objects whose record was not written. One thread
// an arrival.
extern "C" __global__ void subscription_gather(const u32* arrived, u32 rows, Index index,
                                               Records records, WrittenObjects* gathered,
                                               u64* objects, u32* slots) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    u32 slot = arrival < rows ? resolve(index, arrived[arrival]) : NO_SLOT;
    block_gather(slot != NO_SLOT, slot, records, gathered, objects, slots);
}

// Lists the objects that the cycle ended, also those without a row or removal. An object may then
// be listed twice. Any number of threads; each handles every `threads`th moved slot.
extern "C" __global__ void subscription_gather_ended(const u32* moved, const DispatchReport* report,
                                                     Records records, WrittenObjects* gathered,
                                                     u64* objects, u32* slots) {
    u32 moves = report->moves, threads = gridDim.x * blockDim.x;
    u32 first = blockIdx.x * blockDim.x + threadIdx.x;
    for (u32 base = 0; base < moves; base += threads) {
        u32 slot = base + first < moves ? moved[base + first] : NO_SLOT;
        bool ended = slot != NO_SLOT
            && records.versions[2ull * slot + newest(records, slot)].alive == 0;
        block_gather(ended, slot, records, gathered, objects, slots);
        // The next round overwrites shared memory that threads of this round may still read.
        __syncthreads();
    }
}

// Writes the number of events of each object, and a 0 after the last; lists the objects with
// events; adds up the events with records, and the visited references of a sample of the blocks. A
// group of threads an object.
template <u32 GROUP>
__device__ inline void block_count_events(const Scene& scene, u32* counts, u32* busy,
                                    EventCounts* event_counts) {
    u32 entry = group_entry<GROUP>(), count = 0, fixes = 0, visited = 0;
    if (entry < scene.length) {
        visited = warp_evaluate_object<GROUP>(scene, entry, [&](u32 kind, u32 number, u32 flags) {
            count += kind != 0;
            fixes += kind != 0 && (flags & QUERY_FIXES) != 0;
        });
    }
    __syncwarp();
    for (u32 step = GROUP / 2; step > 0; step /= 2)
        count += __shfl_xor_sync(WHOLE_WARP, count, step);
    bool is_first = threadIdx.x % GROUP == 0;
    if (entry <= scene.length && is_first) counts[entry] = count;
    bool is_busy = is_first && count != 0;
    u32 place = block_append(is_busy, &event_counts->busy);
    if (is_busy) busy[place] = entry;
    u64 sum = warp_sum(fixes);
    if (lane() == 0 && sum != 0) atomicAdd((u64*)&event_counts->fixes, sum);
    // Only a sample of the blocks counts references.
    if (blockIdx.x % SAMPLED_BLOCKS != 0) return;
    sum = warp_sum(is_first ? visited : 0);
    if (lane() == 0 && sum != 0) atomicAdd((u64*)&event_counts->visited, sum);
}

// Memory latency limits this kernel, so its launch bounds limit the registers to run more threads.
extern "C" __global__ void __launch_bounds__(EVALUATE_THREADS, EVALUATE_BLOCKS)
    subscription_count(Scene scene, u32* counts, u32* busy, EventCounts* event_counts) {
    block_count_events<1>(scene, counts, busy, event_counts);
}

extern "C" __global__ void subscription_count_many(Scene scene, u32* counts, u32* busy,
                                                   EventCounts* event_counts) {
    block_count_events<OBJECT_THREADS>(scene, counts, busy, event_counts);
}

// Counts the events of each region. A group of threads an object.
extern "C" __global__ void subscription_tally(Scene scene, u32* tallies) {
    u32 entry = group_entry<OBJECT_THREADS>();
    if (entry >= scene.length) return;
    warp_evaluate_object<OBJECT_THREADS>(scene, entry, [&](u32 kind, u32 number, u32 flags) {
        if (kind != 0) atomicAdd(tallies + number, 1u);
    });
}

// Writes the events of the `length` objects in `busy`. The key of an event has the kind in its
// upper and the region's number in its lower bits; its value is the object's entry. A group of
// threads an object.
template <u32 GROUP>
__device__ inline void warp_write_events(const Scene& scene, const u32* busy, u32 length,
                                    const u64* offsets, u32* keys, u32* entries) {
    u32 at_list = group_entry<GROUP>();
    if (at_list >= length) return;
    u32 entry = busy[at_list], member = threadIdx.x % GROUP;
    u64 place = offsets[entry];
    warp_evaluate_object<GROUP>(scene, entry, [&](u32 kind, u32 number, u32 flags) {
        u32 votes = warp_group_votes<GROUP>(kind != 0);
        if (kind != 0) {
            u64 at = place + __popc(votes & ((1u << member) - 1u));
            keys[at] = kind << EVENT_KIND_SHIFT | number;
            entries[at] = entry;
        }
        place += __popc(votes);
    });
}

extern "C" __global__ void __launch_bounds__(EVALUATE_THREADS, EVALUATE_BLOCKS)
    subscription_write(Scene scene, const u32* busy, u32 length, const u64* offsets, u32* keys,
                       u32* entries) {
    warp_write_events<1>(scene, busy, length, offsets, keys, entries);
}

extern "C" __global__ void subscription_write_many(Scene scene, const u32* busy, u32 length,
                                                   const u64* offsets, u32* keys, u32* entries) {
    warp_write_events<OBJECT_THREADS>(scene, busy, length, offsets, keys, entries);
}

__device__ inline u32 number_of(u32 key) { return key & ((1u << EVENT_KIND_SHIFT) - 1u); }

// Marks the first event of each region in `heads` and the events with a record in `fixes`; writes a
// 0 after the last mark of both. One thread an event, and one for the 0.
extern "C" __global__ void subscription_heads(const u32* keys, u32 length,
                                              const DeviceQuery* queries, u32* heads, u32* fixes) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at > length) return;
    u32 number = at < length ? number_of(keys[at]) : 0;
    heads[at] = at < length && (at == 0 || number_of(keys[at - 1]) != number);
    if (fixes != nullptr)
        fixes[at] = at < length && (queries[number].flags & QUERY_FIXES) != 0;
}

// Writes the sorted events as columns, and the first event of each region. One thread an event.
extern "C" __global__ void subscription_columns(const u32* keys, const u32* entries, u32 length,
                                                const u64* written, const u32* heads,
                                                const DeviceQuery* queries, const u64* regions,
                                                u64* objects, u8* kinds, RegionHead* region_heads) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 key = keys[at], number = number_of(key);
    objects[at] = written[entries[at]];
    kinds[at] = (u8)(key >> EVENT_KIND_SHIFT);
    if (heads[at + 1] != heads[at])
        region_heads[heads[at]] = {regions[number], at, queries[number].flags};
}

// Writes the records of the events that include one: the object's record after the cycle, or its
// last record if it ended. One thread an event.
extern "C" __global__ void subscription_fixes(const u32* entries, u32 length, const u32* places,
                                              const u32* slots, Records records, u64 epoch,
                                              AnswerRecord* fixes) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length || places[at + 1] == places[at]) return;
    u32 slot = slots[entries[at]];
    u32 place = newest(records, slot);
    Version now = load(records.versions + 2ull * slot + place);
    if (now.alive == 0 && event_of(now) != EVENT_EXPIRED) place = 1 - place;
    fixes[places[at]] = record_at(records, slot, place);
}

// The outcome of an object in cycle `epoch`. If the object exists, `found` is 1, and `reserved` is
// 1 if the cycle wrote its record, else 0. If it does not exist, `reserved` is the event that ended
// it in this cycle, or 0 if it did not end in this cycle.
__device__ inline AnswerRecord outcome_of(const Records& records, u32 slot, u64 epoch) {
    u32 place = newest(records, slot);
    Version now = load(records.versions + 2ull * slot + place);
    u32 event = now.alive != 0 || now.epoch != epoch ? 0 : event_of(now);
    if (event != 0 && event != EVENT_EXPIRED) place = 1 - place;
    AnswerRecord answer = record_at(records, slot, place);
    answer.found = now.alive;
    answer.reserved = event != 0 ? event : (now.epoch == epoch ? 1u : 0u);
    return answer;
}

// Writes the outcomes of the objects of a list of slots. One thread a slot.
extern "C" __global__ void subscription_outcomes(Records records, u64 epoch, const u32* slots,
                                                 u32 length, AnswerRecord* outcomes) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length) outcomes[at] = outcome_of(records, slots[at], epoch);
}

// Marks the objects that the host evaluates, each once, and writes a 0 after the last mark. These
// are: objects that the host watches, objects that were or are in a cell of a region that the host
// evaluates, and, if `trajectories` has boxes, objects that may have crossed a region that
// evaluates every fix. If it has boxes, also sets the bit of each marked object's slot in
// `passing`. A group of threads an object.
extern "C" __global__ void subscription_mark_observed(Scene scene, const u32* watched,
                                                      Trajectories trajectories, u32* passing,
                                                      u32* marks) {
    u32 entry = group_entry<OBJECT_THREADS>();
    bool observed = false;
    if (entry < scene.length) {
        warp_evaluate_object<OBJECT_THREADS>(scene, entry, [&](u32 kind, u32 number, u32 flags) {
            observed |= (flags & QUERY_STATEFUL) != 0;
        });
        u32 slot = scene.slots[entry];
        observed |= (watched[slot / 32] >> slot % 32 & 1u) != 0;
        if (trajectories.boxes != nullptr)
            observed |= trajectory_meets<OBJECT_THREADS>(scene, trajectories, slot);
        if (entry > 0 && scene.slots[entry - 1] == slot) observed = false;
    }
    __syncwarp();
    u32 votes = warp_group_votes<OBJECT_THREADS>(observed);
    if (entry > scene.length || threadIdx.x % OBJECT_THREADS != 0) return;
    marks[entry] = votes != 0 ? 1u : 0u;
    if (votes == 0 || trajectories.boxes == nullptr) return;
    u32 slot = scene.slots[entry];
    atomicOr(passing + slot / 32, 1u << slot % 32);
}

// Writes the record before the cycle and the outcome of `length` marked objects, from marked object
// `first` on. One thread an object.
extern "C" __global__ void subscription_observe(Scene scene, const u32* places, u32 first,
                                                u32 length, AnswerRecord* observed) {
    u32 entry = blockIdx.x * blockDim.x + threadIdx.x;
    if (entry >= scene.length) return;
    u32 at = place_in_piece(places, entry, first, length);
    if (at == NO_PLACE) return;
    u32 slot = scene.slots[entry], place = newest(scene.records, slot);
    u64 epoch = scene.records.versions[2ull * slot + place].epoch;
    u32 before = epoch == scene.epoch ? 1 - place : place;
    observed[2ull * at] = record_at(scene.records, slot, before);
    observed[2ull * at + 1] = outcome_of(scene.records, slot, scene.epoch);
}

// Starts (`begins` is 1) or stops (0) watching objects; ignores unknown ids. One thread a change.
extern "C" __global__ void subscription_watch(Index index, const u64* objects,
                                              const u32* begins, u32 length, u32* watched) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 slot = at < length ? find(index, objects[at]) : NO_SLOT;
    if (slot == NO_SLOT) return;
    if (begins[at] != 0) atomicOr(watched + slot / 32, 1u << slot % 32);
    else atomicAnd(watched + slot / 32, ~(1u << slot % 32));
}
