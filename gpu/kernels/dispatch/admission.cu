// Admission: lists the rows that may exceed the object limit for the host, which decides in order of
// arrival, and marks the rows that the host refuses.
//
// Runs only in cycles that may exceed the limit, after decoding and before slots are claimed.
// One thread an arrival unless said otherwise.
#include "dispatch/dispatch.cuh"

// Sets `best` to 1 for the objects that the cycle removes. A cycle with removals uses the
// `ordered_` kernels, which reset these marks.
extern "C" __global__ void admission_mark(Input input, Rules rules, Rows rows, Index index) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    if (arrival >= rules.rows) return;
    const RequestDescriptor& request = input.requests[request_of(input, rules.requests, arrival)];
    if (request.kind != REQUEST_REMOVE) return;
    u64 object = read_object(input, request, arrival - request.first_arrival);
    u32 slot = object != NO_OBJECT ? find(index, object) : NO_SLOT;
    if (slot != NO_SLOT) rows.best[slot] = 1;
}

// Lists the removals, and each valid row whose object possibly does not exist when the row arrives.
// This is possible if the object did not exist at the start of the cycle, if the cycle
// removes it, or if the row arrives at `cleared_from` or later.
extern "C" __global__ void admission_list(Input input, Rules rules, Rows rows, Index index,
                                          Records records, u32 cleared_from,
                                          AdmissionRequest* admission_requests, u32* length) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    u32 number = arrival < rules.rows ? request_of(input, rules.requests, arrival) : 0;
    const RequestDescriptor& request = input.requests[number];
    bool is_listed = false;
    AdmissionRequest admission_request = {};
    if (arrival < rules.rows && input.outcomes[number].failed == 0) {
        u32 row = arrival - request.first_arrival;
        u64 object = read_object(input, request, row);
        bool is_removal = request.kind == REQUEST_REMOVE, counts = object != NO_OBJECT;
        if (!is_removal) {
            Row read = read_validated(input, rules, request, row, object);
            counts = validate(rules, read, read_optional(input, request, row)) == 0;
        }
        if (counts) {
            u32 slot = find(index, object);
            bool existed = slot != NO_SLOT
                && records.versions[2ull * slot + newest(records, slot)].alive != 0;
            bool is_kept = existed && rows.best[slot] == 0 && arrival < cleared_from;
            is_listed = is_removal || !is_kept;
            admission_request.object = object;
            admission_request.arrival = arrival;
            admission_request.flags = (existed ? ADMISSION_EXISTED : 0u)
                | (is_removal ? ADMISSION_REMOVAL : 0u);
        }
    }
    u32 place = block_append(is_listed, length);
    if (is_listed) admission_requests[place] = admission_request;
}

// Marks rows as refused before they are validated. If ids are a dictionary, marks the row's entry:
// the limit refuses either all rows of an object in a block or none. One thread a refused row.
extern "C" __global__ void admission_refuse(Input input, Rules rules, Rows rows,
                                            const u32* refused, u32 length) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 arrival = refused[at];
    const RequestDescriptor& request = input.requests[request_of(input, rules.requests, arrival)];
    if (has_codes(request)) {
        u32 code = read_code(input, request, arrival - request.first_arrival);
        rows.entry_slots[request.first_entry + code] = {NO_SLOT, REFUSED_OBJECT_LIMIT};
    } else {
        rows.refusals[arrival] = REFUSED_OBJECT_LIMIT;
    }
}
