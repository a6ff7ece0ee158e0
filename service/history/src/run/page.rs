//! Pages of runs in memory: still encoded, least recently used evicted first.
//!
//! A page is read, verified and parsed once while it stays in the cache. Tiles are decoded by each
//! query.

use std::sync::{Arc, Mutex, PoisonError};

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
    /// Its checksum, which also tells it from other pages at its place.
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
    /// Memory that it takes, about.
    fn bytes(&self) -> usize {
        match self {
            Self::Fixes(block) => block.bytes().len(),
            Self::Table(table) => table.bytes().len(),
            Self::Index(index) => index.memory_bytes(),
        }
    }
}

/// Number of a run and of its page; `None` is its index.
pub(crate) type PageKey = (u64, Option<u32>);

/// Pages of all runs of a history.
#[derive(Debug)]
pub(crate) struct PageCache {
    pages: Mutex<Pages>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Pages {
    by_key: LruCache<PageKey, Page>,
    bytes: usize,
}

impl PageCache {
    /// An empty cache of so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let pages = Pages { by_key: LruCache::unbounded(), bytes: 0 };
        Self { pages: Mutex::new(pages), bytes_max }
    }

    /// The page, loaded by `load` if it is absent. Two threads may load the same page at once.
    pub(crate) fn get<E>(
        &self,
        key: PageKey,
        load: impl FnOnce() -> Result<Page, E>,
    ) -> Result<Page, E> {
        if let Some(page) = self.pages().by_key.get(&key) {
            return Ok(page.clone());
        }
        let page = load()?;
        let mut pages = self.pages();
        pages.bytes += page.bytes();
        if let Some(other) = pages.by_key.put(key, page.clone()) {
            pages.bytes -= other.bytes();
        }
        while pages.bytes > self.bytes_max
            && let Some((_, oldest)) = pages.by_key.pop_lru()
        {
            pages.bytes -= oldest.bytes();
        }
        Ok(page)
    }

    /// Bytes of the pages that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.pages().bytes
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_page_makes_room() {
        let page = || Page::Index(Arc::new(RunIndex::default()));
        let bytes = page().bytes();
        let cache = PageCache::new(2 * bytes);
        let get = |run| {
            let mut was_absent = false;
            let load = || -> Result<Page, ()> {
                was_absent = true;
                Ok(page())
            };
            cache.get((run, None), load).unwrap();
            was_absent
        };
        assert_eq!([1, 2, 1, 3].map(get), [true, true, false, true]);
        assert_eq!([1, 3, 2].map(get), [false, false, true], "page 2 made room for page 3");
        assert_eq!(cache.bytes(), 2 * bytes);
    }
}
