//! Which objects of a cycle does the host look at, and what became of them?
//!
//! Those that were or are in a cell of a region that remembers, or may have passed through one that
//! judges every fix (`ways.rs`), and those that stand to one: the device watches a bit of each
//! slot.

use cudarc::driver::CudaStream;
use shoal_engine::layout::Answered;
use shoal_engine::stage::subscription::Observation;
use shoal_engine::{EngineError, EventKind};

use super::judge::Seen;
use super::pieces::{PIECE, Piece, Pieces};
use super::stands::Stands;
use super::ways::Trajectories;
use crate::launch::{DeviceBuffer, IndexArgument, Kernels, Memory, SceneArgument};
use crate::pipeline::query_answers::row;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Touched {
    /// A bit a slot.
    watched: DeviceBuffer<u32>,
    /// Slots that there are bits for.
    slots: usize,
    /// Of each object its record before the cycle and after it.
    touches: Pieces,
    objects: DeviceBuffer<u64>,
    begins: DeviceBuffer<u32>,
}

impl Touched {
    pub(super) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self {
            watched: DeviceBuffer::new(memory, 1)?,
            slots: 0,
            touches: Pieces::new(memory, 2)?,
            objects: DeviceBuffer::new(memory, 1)?,
            begins: DeviceBuffer::new(memory, 1)?,
        })
    }

    /// Makes room for a cycle with so many listed objects, on so many slots.
    pub(super) fn fit(&mut self, written: usize, slots: usize) -> Result<(), EngineError> {
        self.touches.fit(written)?;
        if self.watched.fit(slots.div_ceil(32))? {
            self.forget();
        }
        Ok(())
    }

    /// That slots are other objects' from now on.
    pub(super) fn forget(&mut self) {
        self.slots = 0;
    }

    /// Has the device watch whom the host has stands of; `slots` there are.
    pub(super) fn watch(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        stands: &mut Stands,
        (index, key): (&IndexArgument, u64),
        slots: usize,
    ) -> Result<(), EngineError> {
        let mut watches = stands.take_watches();
        if self.slots < slots {
            self.watched.fill(stream, 0, self.watched.len())?;
            self.slots = 32 * self.watched.len();
            watches = stands.watched().into_iter().map(|object| (object, true)).collect();
        }
        let (objects, begins): (Vec<u64>, Vec<u32>) =
            watches.into_iter().map(|(object, begins)| (object, u32::from(begins))).unzip();
        for (objects, begins) in objects.chunks(PIECE).zip(begins.chunks(PIECE)) {
            self.objects.fit(objects.len())?;
            self.begins.fit(begins.len())?;
            self.objects.upload(stream, 0, objects)?;
            self.begins.upload(stream, 0, begins)?;
            let lists = (&self.objects, &self.begins, objects.len());
            let watched = (&self.watched, slots);
            kernels.subscription_watch(stream, (index, key), lists, watched)?;
        }
        Ok(())
    }

    /// Queues counting the objects of a scene that the host looks at; with `ways` also those that
    /// may have passed through a region that judges every fix.
    pub(super) fn count(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        (scene, length): (&SceneArgument, u32),
        ways: Option<&Trajectories>,
    ) -> Result<(), EngineError> {
        let (watched, ways) = ((&self.watched, self.slots), ways.map(Trajectories::argument));
        kernels.subscription_touched(stream, scene, watched, ways, &self.touches.marks)?;
        self.touches.count(stream, length)
    }

    /// The objects that were counted, ascending. Waits.
    pub(super) fn take(
        &self,
        (kernels, stream): (&Kernels, &CudaStream),
        scene: &SceneArgument,
    ) -> Result<Vec<Seen>, EngineError> {
        let write = |piece: Piece<'_>| {
            let touches = (piece.records, piece.first, piece.length);
            kernels.subscription_touches(stream, scene, piece.places, touches)
        };
        self.touches.take(stream, write, |touch| seen_of(&touch[0], &touch[1]))
    }
}

fn seen_of(before: &Answered, after: &Answered) -> Seen {
    let before = (before.found != 0).then(|| row(before));
    Seen { object: after.object, before, after: look_of(after), arrived: Vec::new() }
}

/// What became of an object; nothing where it is not and was not.
pub(super) fn look_of(stand: &Answered) -> Option<Observation> {
    if stand.found != 0 {
        return Some(Observation::Live { row: row(stand), is_written: stand.reserved != 0 });
    }
    let reason = EventKind::of(stand.reserved as u8).filter(|kind| kind.ends_membership())?;
    Some(Observation::Gone { row: row(stand), reason })
}
