//! Engines on a device that fails.
//!
//! A failed kernel ends the context for its whole process, so the test starts itself in a separate
//! process; a hang of that process is a failure.

use std::env;
use std::fmt::Debug;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::{
    Backend as _, CycleInput, EngineError, EngineOptions, Projection, Query, QueryKind, Request,
    Snapshot, Space,
};

use super::bench::Bench;
use super::probe::Probe;
use crate::backend::CudaBackend;

/// Set in the failing process.
const FAILS: &str = "SHOAL_TEST_DEVICE_FAILS";
const NAME: &str = "launch::tests::failure::a_failed_device_ends_its_engines";
const NOW_MS: i64 = 1_704_067_200_000;
/// Longer than the process takes on any machine.
const HANG: Duration = Duration::from_secs(120);

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_failed_device_ends_its_engines() {
    if env::var_os(FAILS).is_some() {
        return on_a_device_that_fails();
    }
    let program = env::current_exe().unwrap();
    let child = Command::new(program)
        .args(["--exact", NAME, "--include-ignored", "--nocapture"])
        .env(FAILS, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = ended(child).wait_with_output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
    assert!(printed.contains("1 passed"), "the process ran the test: {printed}");
}

/// The process once it has ended; ends it if it hangs.
fn ended(mut child: Child) -> Child {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > HANG {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("the process hangs: {}", String::from_utf8_lossy(&output.stdout));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn cycle(object: u64) -> CycleInput {
    let mut columns = FixColumns::default();
    columns.push_row(FixRow::new(object, NOW_MS, 1, 2));
    let kind = QueryKind::Get(vec![object]);
    let query = Query { kind, filter: None, projection: Projection::Fixes, limit: None };
    CycleInput {
        system_ms: NOW_MS,
        time_max_ms: NOW_MS,
        requests: vec![Request::Fixes(columns)].into(),
        queries: vec![query],
        ..CycleInput::default()
    }
}

fn is_device<T: Debug>(result: &Result<T, EngineError>, what: &str) {
    assert!(matches!(result, Err(EngineError::Device(_))), "{what}: {result:?}");
}

fn on_a_device_that_fails() {
    let bench = Bench::new();
    let gpu = bench.gpu.clone();
    let start = || CudaBackend::new(&gpu, EngineOptions::new(Space::geographic()));
    let (mut busy, mut idle, mut fresh) = (start().unwrap(), start().unwrap(), start().unwrap());
    busy.run(cycle(1)).unwrap();
    idle.run(cycle(1)).unwrap();
    let flying = busy.submit(cycle(2)).unwrap();
    Probe::load(&bench).fail(&bench);
    // Results from before the fault may still be returned.
    let _ = busy.wait(flying);
    // More cycles than the memory for cycles in flight can hold, so none may wait for that memory.
    for turn in 0..8 {
        is_device(&busy.run(cycle(3)), &format!("cycle {turn} after the fault"));
        is_device(&idle.run(cycle(3)), &format!("cycle {turn} of an idle engine"));
    }
    is_device(&busy.export(), "export");
    is_device(&fresh.export(), "export of an engine without cycles");
    let snapshot = Snapshot { term: 0, epoch: 1, clock_ms: NOW_MS, batches: Vec::new() };
    is_device(&fresh.import(snapshot), "import");
    is_device(&fresh.run(cycle(3)), "first cycle");
    is_device(&start(), "another engine");
    is_device(&gpu.pinned_bytes(&[1, 2, 3]), "pinned memory");
    for engine in [&busy, &idle, &fresh] {
        // These return no errors; they must return.
        let _ = (engine.objects(), engine.due_ms(), engine.memory_bytes());
    }
    drop((busy, idle, fresh));
}
