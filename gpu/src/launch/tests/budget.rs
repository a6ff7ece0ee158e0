//! Cycles beyond a memory budget: input, objects and answers without memory are refused, and the
//! engine continues.
//!
//! The reference is the model, which never receives refused requests.

use std::sync::Arc;

use shoal_codec::{Block, BlockCodec as _, BlockPlan, Budget, CpuCodec, FixColumns, FixRow};
use shoal_engine::{
    Backend as _, CycleInput, EngineError, EngineOptions, Model, Projection, Query, QueryKind,
    Region, Request, Space,
};
use shoal_testkit::Random;

use crate::backend::CudaBackend;
use crate::device::Gpu;
use crate::launch::DeviceBuffer;

const NOW_MS: i64 = 1_704_067_200_000;
const MIB: u64 = 1 << 20;
/// Enough for an engine with little data.
const BUDGET_BYTES: u64 = 64 * MIB;
/// Rows whose columns alone exceed the budget.
const ROWS_MANY: u64 = 3_000_000;
/// Rows whose columns fit, but not their records.
const ROWS_SEVERAL: u64 = 700_000;
/// Rows that fit several times.
const ROWS_FEW: u64 = 20_000;
const FLEET: &str = "the fleet's memory on the device";

fn gpu() -> Gpu {
    Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"))
}

fn options() -> EngineOptions {
    EngineOptions::new(Space::geographic())
}

/// New objects from `first` on.
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
        requests: vec![Request::Fixes(columns)].into(),
        queries: vec![query],
        ..CycleInput::default()
    }
}

/// A query for all objects.
fn everything(projection: Projection) -> Query {
    let all = Region::rectangle(&Space::geographic(), -180.0, -90.0, 180.0, 90.0).unwrap();
    Query { kind: QueryKind::Range(all), filter: None, projection, limit: None }
}

/// Compares the whole state and its answers.
fn is_as(engine: &mut CudaBackend, model: &mut Model) {
    let snapshot = engine.export().unwrap();
    let rows = snapshot.batches.iter().flat_map(|batch| (0..batch.len()).map(|row| batch.row(row)));
    assert!(rows.eq(model.records().values().copied()), "the state is the model's");
    answers_as(engine, model, vec![everything(Projection::Fixes), everything(Projection::Ids)]);
}

/// Compares the answers of both engines in a cycle without changes.
fn answers_as(engine: &mut CudaBackend, model: &mut Model, queries: Vec<Query>) {
    let input = CycleInput { queries, requests: Arc::default(), ..cycle(0, 0) };
    let (found, expected) = (engine.run(input.clone()).unwrap(), model.run(input).unwrap());
    assert_eq!(found.unanswered, None);
    assert_eq!((found.epoch, found.answer_epoch), (expected.epoch, expected.epoch - 1));
    for (found, expected) in found.answers.iter().zip(expected.answers.iter()) {
        assert_eq!((found.total, found.objects), (expected.total, expected.objects));
        assert!(found.fixes == expected.fixes, "records of answers");
    }
    assert_eq!(found.answers.len(), expected.answers.len());
}

/// The text of an error, which must concern memory.
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
fn input_without_memory_is_refused_and_the_engine_continues() {
    let gpu = gpu();
    let mut engine = CudaBackend::with_budget(&gpu, options(), BUDGET_BYTES).unwrap();
    assert_eq!(engine.run(cycle(0, 3)).unwrap().objects, 3);
    let used_bytes = engine.memory_bytes();
    // More cycles than there are arenas, so a lost arena would be noticed.
    for turn in 1..8 {
        let refused = engine.submit(cycle(1_000, ROWS_MANY));
        let text = text(refused, FLEET);
        assert!(text.contains(&BUDGET_BYTES.to_string()), "{text}");
        let output = engine.run(cycle(3 * turn, 3)).unwrap();
        assert_eq!((output.epoch, output.objects), (turn + 1, 3 * turn + 3), "nothing is lost");
        let known: Vec<u64> = (0..10.min(3 * turn)).collect();
        assert_eq!(output.answers.get(0).objects, known, "nor of answers");
    }
    assert!(engine.memory_bytes() <= used_bytes + MIB, "nor is any memory");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn objects_without_memory_are_refused_and_the_engine_continues() {
    let gpu = gpu();
    let mut engine = CudaBackend::with_budget(&gpu, options(), BUDGET_BYTES).unwrap();
    let mut model = Model::new(options());
    for turn in 0..8 {
        let refused = engine.submit(cycle(1_000, ROWS_SEVERAL)).unwrap();
        let next = engine.submit(cycle(3 * turn, 3)).unwrap();
        text(engine.wait(refused), FLEET);
        let output = engine.wait(next).unwrap();
        let expected = model.run(cycle(3 * turn, 3)).unwrap();
        assert_eq!((output.epoch, output.objects), (expected.epoch, expected.objects), "no trace");
        assert_eq!(output.requests, expected.requests);
        assert_eq!((output.answer_epoch, engine.objects()), (expected.epoch - 1, expected.objects));
        is_as(&mut engine, &mut model);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn an_engine_fills_its_budget_and_still_answers() {
    let gpu = gpu();
    let mut engine = CudaBackend::with_budget(&gpu, options(), BUDGET_BYTES).unwrap();
    let mut model = Model::new(options());
    let mut objects = 0;
    let refused = loop {
        match engine.run(cycle(objects, ROWS_FEW)) {
            Ok(output) => objects = output.objects,
            Err(error) => break error,
        }
        model.run(cycle(objects - ROWS_FEW, ROWS_FEW)).unwrap();
    };
    text(Err::<(), _>(refused), FLEET);
    assert!(objects >= 2 * ROWS_FEW, "{objects} objects is little for {BUDGET_BYTES} bytes");
    // Objects with records still accept rows and blocks, and removals.
    let mut known = cycle(0, ROWS_FEW / 2);
    let requests = Arc::get_mut(&mut known.requests).unwrap();
    if let Some(Request::Fixes(columns)) = requests.first_mut() {
        columns.time_ms.iter_mut().for_each(|time_ms| *time_ms += 1);
        columns.x.reverse();
        let (plan, tag, mut bytes) = (BlockPlan::fixes(), options().space.tag(), Vec::new());
        CpuCodec.encode_planned(columns, &plan, &tag, 0, &mut bytes).unwrap();
        let block = Block::parse(bytes.into(), &Budget::default()).unwrap();
        requests.push(Request::Block(block));
    }
    known.time_max_ms += 1;
    let removals = vec![Request::Remove((10..1_010).collect())];
    let removed = CycleInput { requests: removals.into(), ..cycle(0, 0) };
    for input in [known, removed, cycle(0, ROWS_FEW)] {
        let (found, expected) = (engine.run(input.clone()).unwrap(), model.run(input).unwrap());
        assert_eq!(found.requests, expected.requests);
        assert_eq!((found.epoch, found.objects), (expected.epoch, expected.objects));
    }
    let queries = [cycle(0, 0).queries, vec![everything(Projection::Count)]].concat();
    answers_as(&mut engine, &mut model, queries);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn answers_without_memory_are_refused_and_changes_apply() {
    let gpu = gpu();
    let mut engine = CudaBackend::with_budget(&gpu, options(), BUDGET_BYTES).unwrap();
    let mut model = Model::new(options());
    engine.run(cycle(0, ROWS_FEW)).unwrap();
    model.run(cycle(0, ROWS_FEW)).unwrap();
    let many = (BUDGET_BYTES / ROWS_FEW / 8) as usize;
    for (turn, projection) in (0..6).zip([Projection::Ids, Projection::Fixes].into_iter().cycle()) {
        let input = CycleInput {
            queries: vec![everything(projection); many / (1 + turn as usize % 3)],
            ..cycle(ROWS_FEW + 3 * turn, 3)
        };
        let output = engine.run(input).unwrap();
        let unanswered = output.unanswered.clone();
        text(unanswered.map_or(Ok(()), Err), FLEET);
        assert_eq!(output.answers.len(), 0, "all or none");
        let expected = model.run(cycle(ROWS_FEW + 3 * turn, 3)).unwrap();
        assert_eq!(output.requests, expected.requests);
        assert_eq!((output.epoch, output.objects), (expected.epoch, expected.objects));
        is_as(&mut engine, &mut model);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_grid_without_memory_is_built_later() {
    const SHARE_BYTES: u64 = 256 * MIB;
    const ROWS: u64 = 3_000;
    let gpu = gpu().with_share(SHARE_BYTES);
    let mut engine = CudaBackend::new(&gpu, options()).unwrap();
    let mut model = Model::new(options());
    let run = |engine: &mut CudaBackend, model: &mut Model, input: CycleInput| {
        let (found, expected) = (engine.run(input.clone()).unwrap(), model.run(input).unwrap());
        assert_eq!(found.requests, expected.requests);
        assert_eq!((found.epoch, found.objects), (expected.epoch, expected.objects));
        found.unanswered
    };
    // The lists grow by rows of one object, whose grid is small.
    for _ in 0..5 {
        let mut one = cycle(0, ROWS);
        if let Some(Request::Fixes(columns)) = Arc::make_mut(&mut one.requests).first_mut() {
            columns.object.fill(0);
        }
        assert_eq!(run(&mut engine, &mut model, one), None);
    }
    let left = SHARE_BYTES - engine.memory_bytes();
    let rest = DeviceBuffer::<u8>::new(&gpu.memory(SHARE_BYTES), left as usize).unwrap();
    assert_eq!(run(&mut engine, &mut model, cycle(1, ROWS)), None, "answers of the previous grid");
    for turn in 1..5 {
        let unanswered = run(&mut engine, &mut model, cycle(ROWS + 3 * turn, 3));
        text(unanswered.map_or(Ok(()), Err), "the device's memory for all fleets");
    }
    drop(rest);
    assert_eq!(run(&mut engine, &mut model, cycle(2 * ROWS, 3)), None);
    is_as(&mut engine, &mut model);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn an_export_without_memory_is_refused_and_the_engine_continues() {
    const SHARE_BYTES: u64 = 256 * MIB;
    let gpu = gpu().with_share(SHARE_BYTES);
    let mut engine = CudaBackend::new(&gpu, options()).unwrap();
    let mut model = Model::new(options());
    let run = |engine: &mut CudaBackend, model: &mut Model, input: CycleInput| {
        let (found, expected) = (engine.run(input.clone()).unwrap(), model.run(input).unwrap());
        assert_eq!(found.requests, expected.requests);
    };
    // The lists of the second cycle are those of the third.
    (0..2).for_each(|_| run(&mut engine, &mut model, cycle(0, ROWS_FEW)));
    // Enough for a small cycle, and too little for the records.
    let left = SHARE_BYTES - engine.memory_bytes() - 24 * ROWS_FEW;
    let rest = DeviceBuffer::<u8>::new(&gpu.memory(SHARE_BYTES), left as usize).unwrap();
    text(engine.begin_export(), "the device's memory for all fleets");
    assert_eq!(engine.export_next(usize::MAX), Ok(None));
    run(&mut engine, &mut model, cycle(0, 3));
    drop(rest);
    let used_bytes = engine.memory_bytes();
    // An export that is ended early returns its memory.
    assert_eq!(engine.begin_export().unwrap().objects, ROWS_FEW);
    assert!(engine.memory_bytes() >= used_bytes + 48 * ROWS_FEW);
    assert!(engine.export_next(100).unwrap().is_some());
    engine.end_export();
    assert_eq!(engine.memory_bytes(), used_bytes);
    is_as(&mut engine, &mut model);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn fleets_of_a_device_are_not_promised_the_same_bytes() {
    let run = |gpu: &Gpu| {
        let mut engine = CudaBackend::new(gpu, options())?;
        engine.run(cycle(0, ROWS_SEVERAL)).map(|output| (output.objects, engine))
    };
    // A device whose budget is enough for one fleet, but not for two.
    let needed_bytes = run(&gpu()).unwrap().1.memory_bytes();
    let gpu = gpu().with_share(needed_bytes / 2 * 3);
    let (objects, one) = run(&gpu).unwrap();
    assert_eq!(objects, ROWS_SEVERAL);
    text(run(&gpu), "the device's memory for all fleets");
    drop(one);
    assert_eq!(run(&gpu).unwrap().0, ROWS_SEVERAL, "released memory is available");
}
