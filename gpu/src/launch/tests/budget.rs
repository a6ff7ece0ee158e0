//! What happens where memory ends? Input that there is no room for is refused and the engine goes
//! on; growth in the middle of a cycle ends it, and its memory is there for others.

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::conformance::random::Random;
use shoal_engine::{
    Backend as _, CycleInput, EngineError, EngineOptions, Projection, Query, QueryKind, Request,
    Space,
};

use crate::backend::CudaBackend;
use crate::device::Gpu;

const NOW_MS: i64 = 1_704_067_200_000;
const MIB: u64 = 1 << 20;
/// Enough for an engine, not for much in it.
const BUDGET_BYTES: u64 = 64 * MIB;
/// Rows whose columns alone are more.
const ROWS_MANY: u64 = 3_000_000;
/// Rows that get to the device, where their records find no room.
const ROWS_SEVERAL: u64 = 700_000;

fn gpu() -> Gpu {
    Gpu::open().unwrap_or_else(|error| panic!("{error}"))
}

fn options() -> EngineOptions {
    EngineOptions::new(Space::geographic())
}

/// New objects `first` on.
fn cycle(first: u64, rows: u64) -> CycleInput {
    let mut random = Random::new(first);
    let mut columns = FixColumns::with_capacity(rows as usize);
    for object in first..first + rows {
        let x = random.quanta(-1_800_000_000, 1_799_999_999);
        let y = random.quanta(-900_000_000, 900_000_000);
        columns.push_row(FixRow::new(object, NOW_MS, x, y));
    }
    let kind = QueryKind::Get((0..10).collect());
    let query = Query { kind, filter: None, projection: Projection::Ids, limit: None };
    CycleInput {
        system_ms: NOW_MS,
        time_max_ms: NOW_MS,
        requests: vec![Request::Fixes(columns)],
        queries: vec![query],
    }
}

/// The text of an error that is of memory.
fn text<T: std::fmt::Debug>(result: Result<T, EngineError>, of: &str) -> String {
    match result {
        Err(error @ EngineError::OutOfMemory { needed_bytes, budget_bytes, left_bytes, .. }) => {
            assert!(needed_bytes > left_bytes && left_bytes <= budget_bytes, "{error}");
            let text = error.to_string();
            assert!(text.contains(of), "{text} names {of}");
            text
        }
        other => panic!("{other:?} is not of memory"),
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn input_without_room_is_refused_and_the_engine_goes_on() {
    let gpu = gpu();
    let mut engine = CudaBackend::with_budget(&gpu, options(), BUDGET_BYTES).unwrap();
    assert_eq!(engine.run(cycle(0, 3)).unwrap().objects, 3);
    let used_bytes = engine.memory_bytes();
    // More often than there are arenas: none is lost.
    for turn in 1..8 {
        let refused = engine.submit(cycle(1_000, ROWS_MANY));
        let text = text(refused, "the fleet's memory on the device");
        assert!(text.contains(&BUDGET_BYTES.to_string()), "{text}");
        let output = engine.run(cycle(3 * turn, 3)).unwrap();
        assert_eq!((output.epoch, output.objects), (turn + 1, 3 * turn + 3), "nothing is lost");
        let known: Vec<u64> = (0..10.min(3 * turn)).collect();
        assert_eq!(output.answers.get(0).objects, known, "nor of what is asked");
    }
    assert!(engine.memory_bytes() <= used_bytes + MIB, "nor is any memory");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn growth_beyond_the_budget_ends_the_engine_alone() {
    let gpu = gpu();
    let mut engine = CudaBackend::with_budget(&gpu, options(), BUDGET_BYTES).unwrap();
    let mut other = CudaBackend::with_budget(&gpu, options(), BUDGET_BYTES).unwrap();
    engine.run(cycle(0, 3)).unwrap();
    let ticket = engine.submit(cycle(1_000, ROWS_SEVERAL)).unwrap();
    text(engine.wait(ticket), "the fleet's memory on the device");
    for _ in 0..8 {
        let ended = engine.run(cycle(5, 1)).unwrap_err();
        assert!(matches!(ended, EngineError::Device(_)), "{ended}");
        assert!(ended.to_string().contains("out of memory"), "{ended} gives the reason");
    }
    assert!(matches!(engine.export(), Err(EngineError::Device(_))));
    assert_eq!(other.run(cycle(0, 3)).unwrap().objects, 3);
    drop(engine);
    assert_eq!(other.run(cycle(3, 3)).unwrap().objects, 6);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn fleets_of_a_device_are_not_promised_the_same_bytes() {
    let run = |gpu: &Gpu| {
        let mut engine = CudaBackend::new(gpu, options())?;
        engine.run(cycle(0, ROWS_SEVERAL)).map(|output| (output.objects, engine))
    };
    // What one such fleet takes, and a device whose share is enough for one and not for two.
    let needed_bytes = run(&gpu()).unwrap().1.memory_bytes();
    let gpu = gpu().with_share(needed_bytes / 2 * 3);
    let (objects, one) = run(&gpu).unwrap();
    assert_eq!(objects, ROWS_SEVERAL);
    text(run(&gpu), "the device's memory for all fleets");
    drop(one);
    assert_eq!(run(&gpu).unwrap().0, ROWS_SEVERAL, "what was given back is there");
}
