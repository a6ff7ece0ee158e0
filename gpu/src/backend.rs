//! The CUDA backend: packs cycles, sends them to its driver's thread and returns their outputs.
//!
//! Answers lag one cycle: queries of cycle k see the state after k - 1 while k is applied. A failed
//! device ends the engine; every later call returns its error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use cudarc::driver::CudaStream;
use shoal_codec::FixColumns;
use shoal_engine::stage::settle;
use shoal_engine::stage::subscription::Class;
use shoal_engine::{
    Backend, CycleInput, CycleOutput, EngineError, EngineOptions, ExportHeader, GridUpdates,
    Snapshot, SubscriptionChange, Ticket, limits,
};

use crate::device::Gpu;
use crate::launch::{Memory, fault};
use crate::stages::{
    Arena, Command, Context, CycleResult, Driver, QueryParts, StageSpan, Staged, Status, Timeline,
};
use crate::state::records_export::RecordsExport;
use crate::state::regions::changes;
use crate::tuning::Tuning;

/// One fleet on a device.
#[derive(Debug)]
pub struct CudaBackend {
    options: EngineOptions,
    memory: Memory,
    copy_in: Arc<CudaStream>,
    commands: Option<Sender<Command>>,
    arenas: Receiver<Arena>,
    /// The arena of the next cycle.
    spare: Option<Arena>,
    outputs: Receiver<Result<CycleResult, EngineError>>,
    /// Lists of the cycle being packed.
    query_parts: QueryParts,
    status: Arc<Status>,
    timeline: Arc<Timeline>,
    thread: Option<JoinHandle<()>>,
    submitted: u64,
    /// The epoch of the next cycle.
    epoch_next: u64,
    /// Upper bound of the continuous queries after the submitted cycles.
    regions_max: usize,
    /// Whether a continuous query with membership states was ever set.
    keeps_states: bool,
    /// Whether a row or an imported record ever had a validity.
    has_validity: bool,
    /// By ticket: outputs received before the caller waits for them.
    received_outputs: BTreeMap<u64, Result<CycleResult, EngineError>>,
    /// Tickets that the caller has not waited for yet.
    owed: Vec<u64>,
    received: u64,
    export: Option<RecordsExport>,
    failed: Option<EngineError>,
}

impl CudaBackend {
    /// An engine without objects, whose budget is the budget of all fleets of the device.
    ///
    /// # Errors
    /// [`EngineError::Device`] and [`EngineError::OutOfMemory`].
    pub fn new(gpu: &Gpu, options: EngineOptions) -> Result<Self, EngineError> {
        Self::with_budget(gpu, options, Self::usual_budget_bytes(gpu))
    }

    /// The default budget of an engine: that of all fleets together.
    #[must_use]
    pub fn usual_budget_bytes(gpu: &Gpu) -> u64 {
        gpu.budget_bytes()
    }

    /// An engine with a budget of `budget_bytes`, out of the budget that all fleets of a device
    /// share, [`Gpu::budget_bytes`].
    ///
    /// # Errors
    /// As [`CudaBackend::new`].
    pub fn with_budget(
        gpu: &Gpu,
        options: EngineOptions,
        budget_bytes: u64,
    ) -> Result<Self, EngineError> {
        Self::with_tuning(gpu, options, budget_bytes, Tuning::default())
    }

    /// As [`CudaBackend::with_budget`], with settings for experiments.
    ///
    /// # Errors
    /// As [`CudaBackend::new`], and [`EngineError::Limit`] for an invalid grid.
    pub fn with_tuning(
        gpu: &Gpu,
        options: EngineOptions,
        budget_bytes: u64,
        tuning: Tuning,
    ) -> Result<Self, EngineError> {
        tuning.check()?;
        gpu.context.bind_to_thread().map_err(fault)?;
        let gpu = &match tuning.resident_threads {
            Some(threads) => gpu.narrow(threads)?,
            None => gpu.clone(),
        };
        let memory = gpu.memory(budget_bytes);
        let (commands, received) = channel();
        let (free, arenas) = channel();
        for _ in 0..=limits::CYCLES_IN_FLIGHT_MAX {
            // Cannot fail: this function holds the receiver.
            let _ = free.send(Arena::new(&memory)?);
        }
        let (outputs, output) = channel();
        let status = Arc::new(Status::default());
        let timeline = Arc::new(Timeline::default());
        let context = Context {
            gpu: gpu.clone(),
            options: options.clone(),
            memory: memory.clone(),
            timeline: timeline.clone(),
            status: status.clone(),
        };
        let driver = Driver::new(context, tuning, free, outputs)?;
        let thread = std::thread::Builder::new().name("cuda-driver".to_owned());
        let thread = thread.spawn(move || driver.run(&received));
        Ok(Self {
            copy_in: gpu.context.new_stream().map_err(fault)?,
            options,
            memory,
            commands: Some(commands),
            arenas,
            spare: None,
            outputs: output,
            query_parts: QueryParts::default(),
            status,
            timeline,
            thread: Some(thread.map_err(|error| EngineError::Device(error.to_string()))?),
            submitted: 0,
            epoch_next: 1,
            regions_max: 0,
            keeps_states: false,
            has_validity: false,
            received_outputs: BTreeMap::new(),
            owed: Vec::new(),
            received: 0,
            export: None,
            failed: None,
        })
    }

    /// Returns a recorder of the times at which stages run on the device.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder {
            memory: self.memory.clone(),
            timeline: self.timeline.clone(),
            stream: self.copy_in.clone(),
        }
    }

    fn stage(&mut self, mut input: CycleInput) -> Result<Staged, EngineError> {
        self.memory.bind()?;
        let changes = std::mem::take(&mut input.subscriptions);
        for change in &changes {
            if let SubscriptionChange::Set { subscription, .. } = change {
                self.keeps_states |= Class::of(subscription) != Class::Plain;
            }
        }
        let changes = changes::file(&self.options.space, changes);
        if self.spare.is_none() {
            // There is one arena more than cycles in flight, so one is idle or will be returned.
            self.spare = Some(self.arenas.recv().map_err(|_| self.disconnected())?);
        }
        let staged = crate::stages::stage(
            &self.memory,
            &self.copy_in,
            &self.timeline,
            self.epoch_next,
            &mut self.spare,
            input,
            &mut self.query_parts,
        );
        if staged.is_err() && self.spare.is_none() {
            // The arena that could not grow was dropped. Without a new one, the next cycle would
            // wait forever.
            self.spare = Some(Arena::new(&self.memory)?);
        }
        staged.map(|staged| {
            self.has_validity |= staged.has_validity;
            Staged { changes, has_validity: self.has_validity, ..staged }
        })
    }

    fn send(&mut self, command: Command) -> Result<(), EngineError> {
        let sent = self.commands.as_ref().map(|commands| commands.send(command));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.disconnected()) }
    }

    /// Checks a cycle's changes of continuous queries. Requests the list of queries from the driver
    /// only if the cycle may exceed their limit.
    fn check_regions(&mut self, input: &CycleInput) -> Result<(), EngineError> {
        let added = input.subscriptions.len();
        if self.regions_max + added > limits::REGIONS_MAX {
            let (reply, answer) = channel();
            self.send(Command::Regions(reply))?;
            let regions = answer.recv().map_err(|_| self.disconnected())?;
            input.check_regions(regions.len(), |region| regions.contains(&region))?;
            self.regions_max = regions.len();
        }
        self.regions_max += added;
        Ok(())
    }

    /// Fails if an earlier error ended the engine.
    fn is_running(&self) -> Result<(), EngineError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Records the error if it is a device error, which ends the engine; returns the error.
    fn note(&mut self, error: EngineError) -> EngineError {
        if matches!(error, EngineError::Device(_)) {
            self.failed.get_or_insert_with(|| error.clone());
        }
        error
    }

    /// Stores the outputs that are left; returns the error that ended the engine.
    fn disconnected(&mut self) -> EngineError {
        // The channel is closed, so its last message ends this loop.
        while let Ok(output) = self.outputs.recv() {
            self.store(output);
        }
        let ended = || EngineError::Device("the engine's thread has ended".to_owned());
        self.failed.get_or_insert_with(ended).clone()
    }

    /// Stores an output until its ticket is waited for.
    fn store(&mut self, output: Result<CycleResult, EngineError>) {
        self.received += 1;
        if output.is_err() {
            // The next cycle takes the epoch of the failed one.
            self.epoch_next -= 1;
        }
        let output = output.map_err(|error| self.note(error));
        self.received_outputs.insert(self.received, output);
    }

    /// Receives outputs up to that of `ticket`, stores the others and returns this one.
    fn receive(&mut self, ticket: u64) -> Result<CycleResult, EngineError> {
        loop {
            if let Some(output) = self.received_outputs.remove(&ticket) {
                return output;
            }
            self.is_running()?;
            match self.outputs.recv() {
                Ok(output) => self.store(output),
                Err(_) => return Err(self.disconnected()),
            }
        }
    }
}

/// The recording of some cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// When each stage of each cycle ran.
    pub spans: Vec<StageSpan>,
    /// Bytes copied to the device.
    pub in_bytes: u64,
    /// Bytes copied from the device.
    pub out_bytes: u64,
}

/// Records when stages run; see [`CudaBackend::recorder`].
#[derive(Clone, Debug)]
pub struct Recorder {
    memory: Memory,
    timeline: Arc<Timeline>,
    stream: Arc<CudaStream>,
}

impl Recorder {
    /// Records from now on.
    ///
    /// # Errors
    /// [`EngineError::Device`].
    pub fn start(&self) -> Result<(), EngineError> {
        self.memory.bind()?;
        self.memory.take_copied();
        self.timeline.start(&self.stream)
    }

    /// Ends the recording and returns it; waits for the stages.
    ///
    /// # Errors
    /// [`EngineError::Device`].
    pub fn stop(&self) -> Result<Recording, EngineError> {
        self.memory.bind()?;
        let spans = self.timeline.stop()?;
        let (in_bytes, out_bytes) = self.memory.take_copied();
        Ok(Recording { spans, in_bytes, out_bytes })
    }
}

impl Backend for CudaBackend {
    fn options(&self) -> &EngineOptions {
        &self.options
    }

    fn answer_lag(&self) -> u64 {
        1
    }

    fn submit(&mut self, mut input: CycleInput) -> Result<Ticket, EngineError> {
        if self.owed.len() >= limits::CYCLES_IN_FLIGHT_MAX {
            return Err(EngineError::TooManyInFlight(self.owed.len()));
        }
        input.check_requests()?;
        self.is_running()?;
        self.check_regions(&input)?;
        if input.rewinds() {
            let (reply, answer) = channel();
            self.send(Command::BegunAnew(reply))?;
            let begun_anew = answer.recv().map_err(|_| self.disconnected())?;
            input.subscriptions.splice(0..0, begun_anew);
        }
        let staged = self.stage(input);
        let staged = staged.map_err(|error| self.note(error))?;
        self.send(Command::Cycle(Box::new(staged)))?;
        self.submitted += 1;
        self.epoch_next += 1;
        self.owed.push(self.submitted);
        Ok(Ticket(self.submitted))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError> {
        let Some(at) = self.owed.iter().position(|owed| *owed == ticket.0) else {
            return Err(EngineError::UnknownTicket(ticket.0));
        };
        self.owed.remove(at);
        let output = self.receive(ticket.0)?.wait();
        output.map_err(|error| self.note(error))
    }

    fn begin_export(&mut self) -> Result<ExportHeader, EngineError> {
        self.is_running()?;
        // Ends an earlier export first, so that its memory and the new one are never held together.
        self.end_export();
        let (reply, answer) = channel();
        self.send(Command::Export(reply))?;
        let begun = answer.recv().map_err(|_| self.disconnected())?;
        let (header, export) = begun.map_err(|error| self.note(error))?;
        self.export = Some(export);
        Ok(header)
    }

    fn export_next(&mut self, rows_max: usize) -> Result<Option<FixColumns>, EngineError> {
        self.is_running()?;
        let Some(export) = &mut self.export else { return Ok(None) };
        let columns = export.next(rows_max).map_err(|error| self.note(error))?;
        if columns.is_none() {
            self.end_export();
        }
        Ok(columns)
    }

    fn end_export(&mut self) {
        self.export = None;
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError> {
        self.is_running()?;
        self.end_export();
        let (reply, answer) = channel();
        let epoch = snapshot.epoch;
        self.has_validity |= snapshot.batches.iter().any(|batch| batch.valid_ms.is_some());
        self.send(Command::Import(snapshot, reply))?;
        let imported = answer.recv().map_err(|_| self.disconnected())?;
        imported.map_err(|error| self.note(error))?;
        self.epoch_next = epoch + 1;
        Ok(())
    }

    fn due_ms(&self) -> Option<i64> {
        let expiry_ms = || {
            // Without a TTL or a validity, a caller need not wait for the cycles in flight.
            if self.options.ttl_ms.is_none() && !self.has_validity {
                return None;
            }
            let (objects, deadline_ms) = self.status.after(self.submitted);
            deadline_ms.filter(|_| objects > 0).and_then(settle::due_ms)
        };
        let states_ms = self.keeps_states.then(|| self.status.due_after(self.submitted)).flatten();
        [expiry_ms(), states_ms].into_iter().flatten().min()
    }

    fn objects(&self) -> u64 {
        self.status.after(self.submitted).0
    }

    fn memory_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    fn grid_updates(&self) -> GridUpdates {
        self.status.grid_updates()
    }
}

impl Drop for CudaBackend {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A driver that panicked has reported it.
            let _ = thread.join();
        }
    }
}
