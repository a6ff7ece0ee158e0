//! The objects that the host evaluates in a cycle, with their outcomes.
//!
//! An object is listed if it is in a cell of a query of the host before or after the cycle, if it
//! may have crossed a query that evaluates every fix (`trajectories.rs`), or if it has a
//! membership, for which the device has one bit per slot.

use cudarc::driver::CudaStream;
use shoal_engine::layout::AnswerRecord;
use shoal_engine::stage::subscription::Observation;
use shoal_engine::{EngineError, EventKind};

use super::host_evaluation::ObservedObject;
use super::host_queries::HostQueries;
use super::pieces::{PIECE, Piece, Pieces};
use super::trajectories::Trajectories;
use crate::launch::{DeviceBuffer, IndexArgument, Kernels, Memory, SceneArgument};
use crate::state::record::row;

/// See the file's head.
#[derive(Debug)]
pub(super) struct ModifiedObjects {
    /// One bit per slot: 1 if the object has a membership.
    watched: DeviceBuffer<u32>,
    /// Number of slots with a bit.
    slots: usize,
    /// For each object: its record before the cycle and its outcome.
    observed: Pieces,
    objects: DeviceBuffer<u64>,
    begins: DeviceBuffer<u32>,
}

impl ModifiedObjects {
    pub(super) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self {
            watched: DeviceBuffer::new(memory, 1)?,
            slots: 0,
            observed: Pieces::new(memory, 2)?,
            objects: DeviceBuffer::new(memory, 1)?,
            begins: DeviceBuffer::new(memory, 1)?,
        })
    }

    /// Reserves memory for a cycle with `written` listed objects on `slots` slots.
    pub(super) fn fit(&mut self, written: usize, slots: usize) -> Result<(), EngineError> {
        self.observed.fit(written)?;
        if self.watched.fit(slots.div_ceil(32))? {
            self.forget();
        }
        Ok(())
    }

    /// Invalidates the bits after slots were renumbered.
    pub(super) fn forget(&mut self) {
        self.slots = 0;
    }

    /// Uploads the changes of the watched objects; there are `slots` slots.
    pub(super) fn watch(
        &mut self,
        kernels: &Kernels,
        stream: &CudaStream,
        queries: &mut HostQueries,
        index: &IndexArgument,
        slots: usize,
    ) -> Result<(), EngineError> {
        let mut watches = queries.take_watches();
        if self.slots < slots {
            self.watched.fill(stream, 0, self.watched.len())?;
            self.slots = 32 * self.watched.len();
            watches = queries.watched().map(|object| (object, true)).collect();
        }
        let (objects, begins): (Vec<u64>, Vec<u32>) =
            watches.into_iter().map(|(object, begins)| (object, u32::from(begins))).unzip();
        for (objects, begins) in objects.chunks(PIECE).zip(begins.chunks(PIECE)) {
            self.objects.fit(objects.len())?;
            self.begins.fit(begins.len())?;
            self.objects.upload(stream, 0, objects)?;
            self.begins.upload(stream, 0, begins)?;
            kernels.subscription_watch(
                stream,
                index,
                &self.objects,
                &self.begins,
                objects.len(),
                &self.watched,
                slots,
            )?;
        }
        Ok(())
    }

    /// Queues counting the objects of a scene that the host evaluates; with `trajectories` also
    /// those that may have crossed a region that evaluates every fix.
    pub(super) fn count(
        &mut self,
        kernels: &Kernels,
        stream: &CudaStream,
        scene: &SceneArgument,
        length: u32,
        trajectories: Option<&Trajectories>,
    ) -> Result<(), EngineError> {
        let (watched, trajectories) =
            ((&self.watched, self.slots), trajectories.map(Trajectories::argument));
        kernels.subscription_mark_observed(
            stream,
            scene,
            watched,
            trajectories,
            &self.observed.marks,
        )?;
        self.observed.count(stream, length)
    }

    /// The objects that were counted, ascending. Waits.
    pub(super) fn take(
        &self,
        (kernels, stream): (&Kernels, &CudaStream),
        scene: &SceneArgument,
    ) -> Result<Vec<ObservedObject>, EngineError> {
        let write = |piece: Piece<'_>| {
            kernels.subscription_observe(
                stream,
                scene,
                piece.places,
                piece.records,
                piece.first,
                piece.length,
            )
        };
        self.observed.take(stream, write, |pair| object_of(&pair[0], &pair[1]))
    }
}

fn object_of(before: &AnswerRecord, after: &AnswerRecord) -> ObservedObject {
    let before = (before.found != 0).then(|| row(before));
    let (object, after) = (after.object, observation_of(after));
    ObservedObject { object, before, after, changes: Vec::new() }
}

/// The outcome of an object; `None` if it existed neither before nor after the cycle.
pub(super) fn observation_of(object: &AnswerRecord) -> Option<Observation> {
    if object.found != 0 {
        return Some(Observation::Live { row: row(object), is_written: object.reserved != 0 });
    }
    let reason = EventKind::of(object.reserved as u8).filter(|kind| kind.ends_membership())?;
    Some(Observation::Gone { row: row(object), reason })
}
