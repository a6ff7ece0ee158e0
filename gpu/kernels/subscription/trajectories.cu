// Trajectories for regions that evaluate every fix: computes the box of each object's rows in a
// cycle and copies the rows that the host evaluates. One thread an arrival.
#include "dispatch/dispatch.cuh"
#include "subscription/subscription.cuh"

__device__ inline void lower(u32* least, u32 value) {
    if (value < *(volatile u32*)least) atomicMin(least, value);
}

// Extends the box of every object to the positions of its rows.
extern "C" __global__ void trajectories_widen(Input input, Rules rules, Rows rows, Index index,
                                              u32* boxes) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    if (arrival >= rules.rows) return;
    u32 slot = resolve(index, rows.slots[arrival]);
    if (slot == NO_SLOT) return;
    const RequestDescriptor& request = input.requests[request_of(input, rules.requests, arrival)];
    if (request.kind == REQUEST_REMOVE) return;
    u32 row = arrival - request.first_arrival;
    u32 x = biased(read_x(input, request, row));
    u32 y = biased(read_y(input, request, row));
    u32* box = boxes + 4ull * slot;
    lower(box, x);
    lower(box + 1, y);
    lower(box + 2, ~x);
    lower(box + 3, ~y);
}

// Marks the arrivals of objects whose bit is set, and writes a 0 after the last mark. Refused rows
// have no slot and are not marked. One thread an arrival, and one for the 0.
extern "C" __global__ void trajectories_mark(u32 length, Rows rows, Index index, const u32* passing,
                                             u32* marks) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    if (arrival > length) return;
    u32 slot = NO_SLOT;
    if (arrival < length) slot = resolve(index, rows.slots[arrival]);
    marks[arrival] = slot != NO_SLOT && (passing[slot / 32] >> slot % 32 & 1u) != 0 ? 1u : 0u;
}

// Writes the records of `length` marked arrivals from marked arrival `first` on. `reserved` is the
// number of the arrival. `found` is 1 for rows, 0 for removals, which have only their object.
extern "C" __global__ void trajectories_rows(Input input, Rules rules, const u32* places, u32 first,
                                             u32 length, AnswerRecord* rows) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    if (arrival >= rules.rows) return;
    u32 place = place_in_piece(places, arrival, first, length);
    if (place == NO_PLACE) return;
    const RequestDescriptor& request = input.requests[request_of(input, rules.requests, arrival)];
    u32 number = arrival - request.first_arrival;
    AnswerRecord answer = {};
    if (request.kind == REQUEST_REMOVE) {
        answer.object = at<u64>(input, request.object_at, number);
    } else {
        Row row = read_row(input, request, number);
        answer = answered(read_optional(input, request, number));
        answer.object = row.object;
        answer.time_ms = row.time_ms;
        answer.x = row.x;
        answer.y = row.y;
        answer.state = read_state(input, request, number);
        answer.found = 1;
    }
    answer.reserved = arrival;
    rows[place] = answer;
}
