//! Which objects of a cycle does the host look at, and what became of them?
//!
//! Those that were or are in a cell of a region that remembers, or may have passed through one that
//! judges every fix (`ways.rs`), and those that stand to one: the device watches a bit of each
//! slot. Their records come in pieces of a fixed length.

use cudarc::driver::CudaStream;
use shoal_engine::layout::Answered;
use shoal_engine::stage::subscription::Look;
use shoal_engine::{EngineError, EventKind};

use super::judge::Seen;
use super::stands::Stands;
use super::ways::Ways;
use crate::launch::{
    DeviceBuffer, IndexArgument, Kernels, Memory, PinnedBuffer, SceneArgument, Scratch, fault,
};
use crate::pipeline::answers::row;

/// Objects of one piece.
const PIECE: usize = 1 << 16;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Touched {
    /// A bit a slot.
    watched: DeviceBuffer<u32>,
    /// Slots that there are bits for.
    slots: usize,
    marks: DeviceBuffer<u32>,
    places: DeviceBuffer<u32>,
    touches: DeviceBuffer<Answered>,
    length_here: PinnedBuffer<u32>,
    objects: DeviceBuffer<u64>,
    begins: DeviceBuffer<u32>,
    scratch: Scratch,
}

impl Touched {
    pub(super) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self {
            watched: DeviceBuffer::new(memory, 1)?,
            slots: 0,
            marks: DeviceBuffer::new(memory, 1)?,
            places: DeviceBuffer::new(memory, 1)?,
            touches: DeviceBuffer::new(memory, 1)?,
            length_here: PinnedBuffer::new(memory, 1)?,
            objects: DeviceBuffer::new(memory, 1)?,
            begins: DeviceBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    /// Makes room for a cycle with so many listed objects, on so many slots.
    pub(super) fn fit(&mut self, written: usize, slots: usize) -> Result<(), EngineError> {
        self.marks.fit(written + 1)?;
        self.places.fit(written + 1)?;
        self.touches.fit(2 * PIECE)?;
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
        ways: Option<&Ways>,
    ) -> Result<(), EngineError> {
        let (watched, ways) = ((&self.watched, self.slots), ways.map(Ways::argument));
        kernels.subscription_touched(stream, scene, watched, ways, &self.marks)?;
        self.scratch.sum_before(stream, &self.marks, &self.places, length + 1)?;
        let here = &mut self.length_here.as_mut_slice()[..1];
        self.places.download(stream, length as usize, here)
    }

    /// The objects that were counted, ascending. Waits.
    pub(super) fn take(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        scene: &SceneArgument,
    ) -> Result<Vec<Seen>, EngineError> {
        stream.synchronize().map_err(fault)?;
        let length = self.length_here.as_slice()[0];
        let mut seen = Vec::with_capacity(length as usize);
        let mut piece = vec![Answered::default(); 2 * PIECE.min(length as usize)];
        for first in (0..length).step_by(PIECE) {
            let count = (length - first).min(PIECE as u32);
            let touches = (&self.touches, first, count);
            kernels.subscription_touches(stream, scene, &self.places, touches)?;
            let piece = &mut piece[..2 * count as usize];
            self.touches.download(stream, 0, piece)?;
            stream.synchronize().map_err(fault)?;
            seen.extend(piece.chunks_exact(2).map(|touch| seen_of(&touch[0], &touch[1])));
        }
        Ok(seen)
    }
}

fn seen_of(before: &Answered, after: &Answered) -> Seen {
    let before = (before.found != 0).then(|| row(before));
    Seen { object: after.object, before, after: look_of(after), arrived: Vec::new() }
}

/// What became of an object; nothing where it is not and was not.
pub(super) fn look_of(stand: &Answered) -> Option<Look> {
    if stand.found != 0 {
        return Some(Look::Here { row: row(stand), is_written: stand.reserved != 0 });
    }
    let reason = EventKind::of(stand.reserved as u8).filter(|kind| kind.is_leave())?;
    Some(Look::Gone { row: row(stand), reason })
}
