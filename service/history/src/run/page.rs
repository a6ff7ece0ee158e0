//! A cache of encoded pages of runs. The least recently used page is evicted first.
//!
//! A page is read, verified and parsed once while it stays in the cache. Tiles are decoded by each
//! query.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use shoal_codec::{Block, Table};

use super::run_index::RunIndex;
use crate::wire::{Reader, Writer};

/// A page as the index of its run lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) bytes: u32,
    /// Its rows.
    pub(crate) rows: u32,
    /// Its checksum, which also distinguishes the page from another one in its place.
    pub(crate) crc: u32,
    /// Object of its first row.
    pub(crate) first_object: u64,
}

impl PageEntry {
    /// Bytes in an index.
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.offset);
        out.u32(self.bytes);
        out.u32(self.rows);
        out.u32(self.crc);
        out.u32(0);
        out.u64(self.first_object);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Self {
        let offset = from.u64();
        let [bytes, rows, crc, _] = [from.u32(), from.u32(), from.u32(), from.u32()];
        Self { offset, bytes, rows, crc, first_object: from.u64() }
    }
}

/// A page of a run, or its index.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// Fixes.
    Fixes(Arc<Block>),
    /// Objects or removals.
    Table(Arc<Table>),
    /// The index.
    Index(Arc<RunIndex>),
}

impl Page {
    /// Approximate memory use in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Fixes(block) => block.bytes().len(),
            Self::Table(table) => table.bytes().len(),
            Self::Index(index) => index.memory_bytes(),
        }
    }
}

/// A page of a run of a history, or its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    history: u64,
    run: u64,
    /// `None` is the index.
    page: Option<u32>,
}

/// Memory for encoded pages of runs. All histories that are opened with its clones share it.
#[derive(Clone, Debug)]
pub struct PageMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pages: Mutex<Pages>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Pages {
    by_key: LruCache<PageKey, Page>,
    bytes: usize,
    /// Number of caches that were opened.
    histories: u64,
}

/// The pages of one history. They leave the memory when the history is dropped.
#[derive(Debug)]
pub(crate) struct PageCache {
    memory: PageMemory,
    history: u64,
}

impl PageMemory {
    /// Creates a memory of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let pages = Pages { by_key: LruCache::unbounded(), bytes: 0, histories: 0 };
        Self(Arc::new(Shared { pages: Mutex::new(pages), bytes_max }))
    }

    /// Bytes of the pages that are held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pages().bytes
    }

    /// Creates the cache of a history. Each gets a unique number, because a new history numbers its
    /// runs from 1 again.
    pub(crate) fn open(&self) -> PageCache {
        let mut pages = self.pages();
        pages.histories += 1;
        PageCache { memory: self.clone(), history: pages.histories }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageCache {
    /// A page of a run, or its index, loaded by `load` if it is absent. Two threads may load the
    /// same page at once.
    pub(crate) fn get<E>(
        &self,
        (run, page): (u64, Option<u32>),
        load: impl FnOnce() -> Result<Page, E>,
    ) -> Result<Page, E> {
        let key = PageKey { history: self.history, run, page };
        if let Some(page) = self.memory.pages().by_key.get(&key) {
            return Ok(page.clone());
        }
        let page = load()?;
        let mut pages = self.memory.pages();
        pages.bytes += page.bytes();
        if let Some(other) = pages.by_key.put(key, page.clone()) {
            pages.bytes -= other.bytes();
        }
        while pages.bytes > self.memory.0.bytes_max
            && let Some((_, oldest)) = pages.by_key.pop_lru()
        {
            pages.bytes -= oldest.bytes();
        }
        Ok(page)
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let mut pages = self.memory.pages();
        let own = pages.by_key.iter().map(|(key, _)| *key);
        let own: Vec<PageKey> = own.filter(|key| key.history == self.history).collect();
        for key in own {
            let page = pages.by_key.pop(&key);
            pages.bytes -= page.map_or(0, |page| page.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a page was absent.
    fn was_absent(cache: &PageCache, run: u64) -> bool {
        let mut was_absent = false;
        let load = || -> Result<Page, ()> {
            was_absent = true;
            Ok(Page::Index(Arc::new(RunIndex::default())))
        };
        cache.get((run, None), load).unwrap();
        was_absent
    }

    fn page_bytes() -> usize {
        Page::Index(Arc::new(RunIndex::default())).bytes()
    }

    #[test]
    fn the_least_recently_used_page_makes_room() {
        let memory = PageMemory::new(2 * page_bytes());
        let cache = memory.open();
        let get = |run| was_absent(&cache, run);
        assert_eq!([1, 2, 1, 3].map(get), [true, true, false, true]);
        assert_eq!([1, 3, 2].map(get), [false, false, true], "page 2 made room for page 3");
        assert_eq!(memory.bytes(), 2 * page_bytes());
    }

    #[test]
    fn histories_share_the_memory_and_not_their_pages() {
        let memory = PageMemory::new(3 * page_bytes());
        let (one, other) = (memory.open(), memory.open());
        assert_eq!([&one, &other, &one].map(|cache| was_absent(cache, 1)), [true, true, false]);
        assert!(was_absent(&other, 2));
        drop(other);
        assert_eq!(memory.bytes(), page_bytes());
        let anew = memory.open();
        assert_eq!([&anew, &one].map(|cache| was_absent(cache, 1)), [true, false]);
    }
}
