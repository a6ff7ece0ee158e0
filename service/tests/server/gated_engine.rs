//! An engine that blocks while its gate is shut, and fails on command.

use std::sync::{Arc, Condvar, Mutex};

use shoal_codec::FixColumns;
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{
    Backend, CycleInput, CycleOutput, EngineError, EngineOptions, ExportHeader, GridUpdates,
    Snapshot, Ticket,
};
use shoal_service::ServerOptions;
use shoal_service::engine_choice::EngineFactory;
use shoal_service::server::Environment;

use crate::running::Running;

#[derive(Default)]
struct Switches {
    is_shut: bool,
    fails: bool,
    shortage: Shortage,
    /// Engines of ended fleets.
    ended: Vec<Box<dyn Backend>>,
    /// Engines that wait for the gate.
    waiting: usize,
}

/// The allocation that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Shortage {
    #[default]
    Nothing,
    /// The input of a cycle, at submission.
    Input,
    /// The changes of a cycle, reported on waiting.
    Changes,
    /// The answers of a cycle.
    Answers,
}

/// Starts an engine.
pub(crate) type MakeEngine = fn(EngineOptions) -> Box<dyn Backend>;

/// Controls the engines of a server.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Switches>, Condvar)>);

impl Gate {
    /// Starts a server whose engines wait at a gate.
    pub(crate) async fn start(options: ServerOptions) -> (Self, Running) {
        let gate = Self::default();
        let server = Running::start_in(gate.environment(), options).await;
        (gate, server)
    }

    fn set(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    /// Blocks the next cycle.
    pub(crate) fn shut(&self) {
        self.set(|switches| switches.is_shut = true);
    }

    /// Lets cycles run.
    pub(crate) fn open(&self) {
        self.set(|switches| switches.is_shut = false);
    }

    /// Fails the next cycle like a lost device.
    pub(crate) fn fail(&self) {
        self.set(|switches| switches.fails = true);
    }

    /// Makes this allocation fail in every cycle.
    pub(crate) fn set_shortage(&self, shortage: Shortage) {
        self.set(|switches| switches.shortage = shortage);
    }

    /// Whether an engine waits at the gate: later requests are not in its cycle.
    pub(crate) fn is_stopping_one(&self) -> bool {
        self.0.0.lock().unwrap().waiting > 0
    }

    /// The engine of the most recently ended fleet.
    pub(crate) fn ended_engine(&self) -> Box<dyn Backend> {
        self.0.0.lock().unwrap().ended.pop().expect("a fleet ended")
    }

    fn pass(&self) -> Result<Shortage, EngineError> {
        let mut switches = self.0.0.lock().unwrap();
        switches.waiting += 1;
        let mut switches = self.0.1.wait_while(switches, |switches| switches.is_shut).unwrap();
        switches.waiting -= 1;
        match (switches.fails, switches.shortage) {
            (true, _) => Err(EngineError::Device("unplugged".into())),
            (_, Shortage::Input) => Err(full()),
            (_, shortage) => Ok(shortage),
        }
    }

    /// An environment whose engines wait at this gate.
    pub(crate) fn environment(&self) -> Environment {
        self.environment_of(|options| Box::new(CpuBackend::new(options)))
    }

    /// The same with engines started by `make`.
    pub(crate) fn environment_of(&self, make: MakeEngine) -> Environment {
        let gate = self.clone();
        let start = move |options: EngineOptions| {
            let engine = GatedEngine { inner: Some(make(options)), gate: gate.clone() };
            Ok(Box::new(engine) as Box<dyn Backend>)
        };
        let engines = EngineFactory::new("gated", Arc::new(start));
        Environment::new(engines)
    }
}

/// An out-of-memory error.
fn full() -> EngineError {
    EngineError::OutOfMemory {
        budget: "the fleet's memory",
        budget_bytes: 100,
        needed_bytes: 30,
        left_bytes: 20,
    }
}

/// The ticket of refused cycles.
const REFUSED: Ticket = Ticket(u64::MAX);

struct GatedEngine {
    /// `None` once the engine is dropped.
    inner: Option<Box<dyn Backend>>,
    gate: Gate,
}

impl GatedEngine {
    fn inner(&self) -> &dyn Backend {
        &**self.inner.as_ref().unwrap()
    }

    fn inner_mut(&mut self) -> &mut dyn Backend {
        &mut **self.inner.as_mut().unwrap()
    }
}

impl Drop for GatedEngine {
    fn drop(&mut self) {
        let inner = self.inner.take();
        self.gate.set(|switches| switches.ended.extend(inner));
    }
}

impl Backend for GatedEngine {
    fn options(&self) -> &EngineOptions {
        self.inner().options()
    }

    fn answer_lag(&self) -> u64 {
        self.inner().answer_lag()
    }

    fn submit(&mut self, input: CycleInput) -> Result<Ticket, EngineError> {
        match self.gate.pass()? {
            Shortage::Changes => Ok(REFUSED),
            _ => self.inner_mut().submit(input),
        }
    }

    fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError> {
        if ticket == REFUSED {
            return Err(full());
        }
        let output = self.inner_mut().wait(ticket)?;
        if self.gate.0.0.lock().unwrap().shortage == Shortage::Answers {
            let answers = Default::default();
            return Ok(CycleOutput { answers, unanswered: Some(full()), ..output });
        }
        Ok(output)
    }

    fn begin_export(&mut self) -> Result<ExportHeader, EngineError> {
        self.inner_mut().begin_export()
    }

    fn export_next(&mut self, rows_max: usize) -> Result<Option<FixColumns>, EngineError> {
        self.inner_mut().export_next(rows_max)
    }

    fn end_export(&mut self) {
        self.inner_mut().end_export();
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError> {
        self.inner_mut().import(snapshot)
    }

    fn due_ms(&self) -> Option<i64> {
        self.inner().due_ms()
    }

    fn objects(&self) -> u64 {
        self.inner().objects()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner().memory_bytes()
    }

    fn grid_updates(&self) -> GridUpdates {
        self.inner().grid_updates()
    }
}
