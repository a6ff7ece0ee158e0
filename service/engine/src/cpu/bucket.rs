//! A bucket: a fixed number of objects of one cell, in two cache lines.
//!
//! A cell is a head bucket and a chain of overflow buckets. Only the head may be partly filled, so
//! an insertion and the filling of a hole never walk the chain. A crowded cell is refined instead:
//! its head then holds no object and points at a block of smaller cells.

/// Objects of one bucket; they fill two cache lines.
pub(super) const BUCKET_OBJECTS: usize = 10;
/// The end of a chain.
pub(super) const NO_BUCKET: u32 = u32::MAX;
/// Value of [`Bucket::overflow`] in the head of a refined cell.
const REFINED: u16 = u16::MAX;

/// Positions of up to [`BUCKET_OBJECTS`] objects.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(super) struct Bucket {
    pub(super) count: u16,
    /// In a head, the number of overflow buckets, counted up to a limit, or [`REFINED`].
    pub(super) overflow: u16,
    /// The next bucket of the chain, or [`NO_BUCKET`]; in a refined cell the first of its smaller
    /// cells.
    pub(super) next: u32,
    /// In the head of a refined cell the first element is the number of objects of its smaller
    /// cells.
    pub(super) slots: [u32; BUCKET_OBJECTS],
    pub(super) x: [i32; BUCKET_OBJECTS],
    pub(super) y: [i32; BUCKET_OBJECTS],
}

const _: () = assert!(size_of::<Bucket>() == 128, "a bucket is two cache lines");

impl Bucket {
    pub(super) const EMPTY: Self = Self {
        count: 0,
        overflow: 0,
        next: NO_BUCKET,
        slots: [0; BUCKET_OBJECTS],
        x: [0; BUCKET_OBJECTS],
        y: [0; BUCKET_OBJECTS],
    };

    /// The head of a refined cell.
    pub(super) fn refined(block: u32, objects: u32) -> Self {
        let mut head = Self { overflow: REFINED, next: block, ..Self::EMPTY };
        head.slots[0] = objects;
        head
    }

    /// Objects of the smaller cells, when this cell is refined.
    #[inline(always)]
    pub(super) fn objects_below(&self) -> u32 {
        debug_assert!(self.block().is_some(), "others hold their objects");
        self.slots[0]
    }

    /// Adds to the objects of the smaller cells of this refined cell.
    #[inline(always)]
    pub(super) fn add_below(&mut self, objects: i32) {
        self.slots[0] = self.slots[0].wrapping_add_signed(objects);
    }

    /// The first of the smaller cells, when this cell is refined.
    #[inline(always)]
    pub(super) fn block(&self) -> Option<u32> {
        (self.overflow == REFINED).then_some(self.next)
    }

    pub(super) fn is_full(&self) -> bool {
        self.count as usize == BUCKET_OBJECTS
    }

    /// Adds an object to a bucket that is not full.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: u32, x: i32, y: i32) {
        let at = self.count as usize;
        self.slots[at] = slot;
        self.x[at] = x;
        self.y[at] = y;
        self.count += 1;
    }

    /// Takes the last object of a bucket that is not empty.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> (u32, i32, i32) {
        self.count -= 1;
        let at = self.count as usize;
        (self.slots[at], self.x[at], self.y[at])
    }

    /// A mask with one bit set for each object of the bucket.
    #[inline(always)]
    pub(super) fn mask(&self) -> u32 {
        (1 << self.count) - 1
    }

    /// Index of a slot in this bucket; `None` if the bucket does not contain it.
    #[inline(always)]
    pub(super) fn position(&self, slot: u32) -> Option<usize> {
        // A fixed-length comparison becomes a few vector instructions; entries past `count` are
        // masked out.
        let mut hits = 0_u32;
        for (at, entry) in self.slots.iter().enumerate() {
            hits |= u32::from(*entry == slot) << at;
        }
        hits &= self.mask();
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }
}
