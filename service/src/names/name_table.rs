//! The names of a fleet: name to number and number to name.
//!
//! Numbers ascend from 1 and are never used twice. A client may see the number of a name that the
//! log loses in a crash or that a follower has not received, so numbers are skipped when a term
//! begins. Names are looked up in groups
//! under a shared lock, so that streams do not wait for each other and the cache misses of a group
//! overlap; new names are added under the exclusive lock, taken once per group. The hash has a
//! random key, so that clients cannot choose names that collide. A name takes 25 to 47 bytes in
//! addition to its text.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::name_changes::NameChanges;
use super::name_parts::NameParts;
use super::name_pattern::NamePattern;
use super::name_section::{self, SECTION_NUMBERS};
use super::name_texts::{GROUP_NUMBERS, NameTexts};

/// The least count of numbers that are skipped when a term begins: more than the names that can
/// wait for the log, each with a row.
const TERM_NUMBERS_MIN: u64 = 1 << 30;

/// A term skips up to this many more groups of numbers, by its own number, which is random. So a
/// server that begins a term after the same names as another one does not give its numbers, unless
/// both terms begin in one of the few groups that a term fills.
const TERM_GROUPS: u64 = 1 << 25;

/// The greatest number of a name.
const NUMBER_MAX: u64 = 1 << 63;

/// Bytes of the key and the length of a name in a message.
const FIELD_HEAD_BYTES: usize = 3;

/// Names that are tested against a pattern while the lock is held: a fraction of a millisecond.
const SCANNED_AT_ONCE: u64 = 1 << 13;

/// Names that are forgotten at once: their numbers are in one record of the log.
const FORGOTTEN_MAX: usize = 4 << 20;

/// Names that are looked up together.
const GROUP: usize = 32;

/// See the file's head.
#[derive(Debug)]
pub struct NameTable {
    names: RwLock<Names>,
    hasher: RandomState,
    names_max: usize,
    /// Whether changes are collected for a log.
    is_logged: bool,
    /// Whether `changes` is not empty.
    has_changes: AtomicBool,
}

#[derive(Debug)]
struct Names {
    parts: NameParts,
    texts: NameTexts,
    /// New names get numbers above this.
    floor: u64,
    /// Whether new names get no numbers, because the log ends.
    is_closed: bool,
    /// Changes that [`NameTable::take_changes`] has not returned yet.
    changes: NameChanges,
}

impl Names {
    #[inline]
    fn find(&self, hash: u64, name: &str) -> Option<u64> {
        self.parts.candidates(hash).find(|number| self.texts.name(*number) == Some(name))
    }

    /// The number of the next new name.
    fn next_number(&self) -> u64 {
        self.texts.last_number().max(self.floor) + 1
    }

    /// Writes the number of each name of a group to `numbers`; 0 for a name that is not there.
    fn find_group(&self, names: &[&str], hashes: &[u64], numbers: &mut [u64]) {
        // The first loop reads the slots, the second one the texts. No iteration depends on another
        // one of its loop, so the cache misses of several names overlap.
        for (number, hash) in numbers.iter_mut().zip(hashes) {
            *number = self.parts.candidates(*hash).next().unwrap_or(0);
        }
        for ((number, hash), name) in numbers.iter_mut().zip(hashes).zip(names) {
            if *number != 0 && self.texts.name(*number) != Some(name) {
                *number = self.find(*hash, name).unwrap_or(0);
            }
        }
    }
}

impl NameTable {
    /// An empty table that accepts at most `names_max` names.
    #[must_use]
    pub fn new(names_max: usize) -> Self {
        let (texts, changes) = (NameTexts::default(), NameChanges::default());
        let (parts, is_closed) = (NameParts::new(), false);
        let names = RwLock::new(Names { parts, texts, floor: 0, is_closed, changes });
        let (hasher, has_changes) = (RandomState::new(), AtomicBool::new(false));
        Self { names, hasher, names_max, is_logged: false, has_changes }
    }

    /// Like [`Self::new`], for a fleet with a log: the table collects its changes for
    /// `take_changes`.
    #[must_use]
    pub fn logged(names_max: usize) -> Self {
        Self { is_logged: true, ..Self::new(names_max) }
    }

    /// The number of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u64> {
        self.shared().find(self.hasher.hash_one(name), name)
    }

    /// Appends the numbers of names; 0 for a name that is not there.
    pub fn find_all(&self, names: &[&str], numbers: &mut Vec<u64>) {
        let mut hashes = [0; GROUP];
        for group in names.chunks(GROUP) {
            self.find_group(group, &mut hashes, numbers);
        }
    }

    /// Appends the numbers of names, and assigns the next free numbers to new names. Appends 0 for
    /// a new name beyond the limit.
    pub fn intern_all(&self, names: &[&str], numbers: &mut Vec<u64>) {
        let mut hashes = [0; GROUP];
        for group in names.chunks(GROUP) {
            let from = numbers.len();
            self.find_group(group, &mut hashes, numbers);
            let found = &mut numbers[from..];
            if found.contains(&0) {
                self.add(group, &hashes, found);
            }
        }
    }

    fn find_group(&self, group: &[&str], hashes: &mut [u64; GROUP], numbers: &mut Vec<u64>) {
        for (hash, name) in hashes.iter_mut().zip(group) {
            *hash = self.hasher.hash_one(name);
        }
        let from = numbers.len();
        numbers.resize(from + group.len(), 0);
        self.shared().find_group(group, hashes, &mut numbers[from..]);
    }

    /// Adds the names of a group whose number is 0, unless another thread has added them meanwhile.
    #[cold]
    fn add(&self, group: &[&str], hashes: &[u64], numbers: &mut [u64]) {
        let mut names = self.alone();
        let mut count = names.parts.len();
        for ((number, hash), name) in numbers.iter_mut().zip(hashes).zip(group) {
            if *number != 0 {
                continue;
            }
            if let Some(known) = names.find(*hash, name) {
                *number = known;
            } else if count < self.names_max
                && names.next_number() <= NUMBER_MAX
                && !names.is_closed
            {
                *number = names.next_number();
                names.texts.push_at(*number, name);
                names.parts.insert(*hash, *number);
                count += 1;
                if self.is_logged {
                    names.changes.push(*number, name);
                    self.has_changes.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Removes the names of these numbers, which must ascend; the numbers are never used again.
    /// Names in the changes that the log has not taken yet remain.
    pub fn forget(&self, numbers: &[u64]) {
        let mut names = self.alone();
        let first_new = names.changes.first_new().unwrap_or(u64::MAX);
        let numbers = &numbers[..numbers.partition_point(|number| *number < first_new)];
        self.clear(&mut names, numbers);
        if self.is_logged && !numbers.is_empty() {
            names.changes.forget(numbers);
            self.has_changes.store(true, Ordering::Release);
        }
    }

    /// Whether the table has at least half of the names that it accepts.
    pub(crate) fn is_half_full(&self) -> bool {
        self.len() * 2 >= self.names_max
    }

    /// Forgets the names of all numbers but these, which must ascend, at most [`FORGOTTEN_MAX`] of
    /// them; returns how many that were.
    pub(crate) fn forget_others(&self, kept: &[u64]) -> usize {
        let (mut others, mut first) = (Vec::new(), 0);
        let mut kept = kept.iter().copied().peekable();
        loop {
            let next = self.scan(first, |number, _| {
                while kept.next_if(|kept| *kept < number).is_some() {}
                if kept.peek() != Some(&number) {
                    others.push(number);
                }
            });
            if next == first || others.len() >= FORGOTTEN_MAX {
                break;
            }
            first = next;
        }
        others.truncate(FORGOTTEN_MAX);
        self.forget(&others);
        others.len()
    }

    fn clear(&self, names: &mut Names, numbers: &[u64]) {
        let Names { parts, texts, .. } = names;
        for number in numbers {
            if let Some(name) = texts.name(*number) {
                parts.remove(self.hasher.hash_one(name), *number);
            }
        }
        texts.clear(numbers);
    }

    /// Takes the changes that are not logged yet; the caller must log them. Together with the
    /// changes taken earlier, they contain the names of all requests read so far.
    pub(crate) fn take_changes(&self) -> Option<NameChanges> {
        if !self.has_changes.swap(false, Ordering::Acquire) {
            return None;
        }
        let changes = std::mem::take(&mut self.alone().changes);
        Some(changes).filter(|changes| !changes.is_empty())
    }

    /// Whether there are changes that are not logged yet.
    pub(crate) fn has_changes(&self) -> bool {
        self.has_changes.load(Ordering::Acquire)
    }

    /// Applies changes that are read from a log; numbers that already have a name keep it.
    ///
    /// # Errors
    /// The changes contradict the table, or have too great a number.
    pub(crate) fn restore(&self, changes: &NameChanges) -> Result<(), String> {
        let logged = changes.logged();
        let mut names = self.alone();
        for (number, name) in (logged.first_number..).zip(logged.names()) {
            self.restore_name(&mut names, number, name)?;
        }
        let forgotten: Vec<u64> = logged.forgotten.iter().collect();
        self.clear(&mut names, &forgotten);
        Ok(())
    }

    fn restore_name(&self, names: &mut Names, number: u64, name: &str) -> Result<(), String> {
        let last = names.texts.last_number();
        if number <= last {
            // An older part of the log may contain the name of a number that was forgotten later.
            let is_same = names.texts.name(number).is_none_or(|known| known == name);
            return if is_same { Ok(()) } else { Err(format!("number {number} has two names")) };
        }
        if number > NUMBER_MAX {
            return Err(format!("a name has the number {number}"));
        }
        let hash = self.hasher.hash_one(name);
        if let Some(former) = names.find(hash, name) {
            names.parts.remove(hash, former);
            names.texts.clear(&[former]);
        }
        names.texts.push_at(number, name);
        if !name.is_empty() {
            names.parts.insert(hash, number);
        }
        Ok(())
    }

    /// Skips the numbers that may have been given to names that the log lacks, because `term` has
    /// begun. New names get greater numbers.
    pub(crate) fn skip(&self, term: u64) {
        let mut names = self.alone();
        let skipped = TERM_NUMBERS_MIN + term % TERM_GROUPS * GROUP_NUMBERS;
        let floor = (names.next_number() - 1).next_multiple_of(GROUP_NUMBERS) + skipped;
        names.floor = floor.min(NUMBER_MAX - GROUP_NUMBERS);
    }

    /// Gives no more numbers. Returns whether names are not logged yet: their numbers may have been
    /// seen.
    pub(crate) fn close(&self) -> bool {
        let mut names = self.alone();
        names.is_closed = true;
        names.changes.first_new().is_some()
    }

    /// Adds the names of a section of a checkpoint.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn restore_section(&self, body: &[u8]) -> Result<(), String> {
        let mut names = self.alone();
        let restore = |number, name: &str| self.restore_name(&mut names, number, name);
        let before = name_section::decode(body, restore)?;
        if before > NUMBER_MAX {
            return Err(format!("numbers up to {before} are skipped"));
        }
        names.floor = names.floor.max(before);
        Ok(())
    }

    /// The names of the numbers up to `last_number` as sections of a checkpoint; the last section
    /// has the skipped numbers. A name that is forgotten while the iterator runs may be absent.
    pub(crate) fn sections(&self, last_number: u64) -> impl Iterator<Item = Vec<u8>> {
        let (ranges, floor): (Vec<_>, u64) = {
            let names = self.shared();
            (names.texts.ranges(last_number).collect(), names.floor)
        };
        let firsts = ranges.into_iter().flat_map(|range| {
            let last = *range.end();
            range.step_by(SECTION_NUMBERS as usize).map(move |first| (first, last))
        });
        let named = firsts.filter_map(move |(first, last)| {
            let last = last.min(first + SECTION_NUMBERS - 1);
            let names = self.shared();
            let name = |number| names.texts.name(number).unwrap_or_default();
            // The last number must be known, whether it has a name or not.
            let is_needed = last >= last_number || (first..=last).any(|it| !name(it).is_empty());
            is_needed.then(|| name_section::encode(first, (first..=last).map(name)))
        });
        let skipped = (floor > 0).then(|| name_section::encode(floor + 1, std::iter::empty()));
        named.chain(skipped)
    }

    /// The greatest number that was ever assigned; 0 if none was.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        self.shared().texts.last_number()
    }

    /// Maximum bytes of a name as an element of a list in a message, for all names so far: key,
    /// length and text.
    #[must_use]
    pub(crate) fn field_bytes_max(&self) -> usize {
        FIELD_HEAD_BYTES + self.shared().texts.longest()
    }

    /// Tests the names of some numbers from `first` on, and appends the numbers whose names match,
    /// in ascending order. Returns the number to continue from; it is `first` at the end.
    pub(crate) fn find_matching(
        &self,
        pattern: &NamePattern,
        first: u64,
        found: &mut Vec<u64>,
    ) -> u64 {
        self.scan(first, |number, name| {
            if pattern.matches(name) {
                found.push(number);
            }
        })
    }

    /// Calls `each` with the names of some numbers from `first` on. Returns the number to continue
    /// from; it is `first` at the end.
    pub(crate) fn scan(&self, first: u64, mut each: impl FnMut(u64, &str)) -> u64 {
        let names = self.shared();
        let first = names.texts.next(first);
        let end = names.texts.last_number().min(first.saturating_add(SCANNED_AT_ONCE - 1));
        for number in first..=end {
            if let Some(name) = names.texts.name(number) {
                each(number, name);
            }
        }
        first.max(end + 1)
    }

    /// Calls `each` for every object, with its place and whether its name matches. Names can be
    /// added meanwhile.
    pub(crate) fn test(
        &self,
        pattern: &NamePattern,
        objects: impl IntoIterator<Item = u64>,
        mut each: impl FnMut(usize, bool),
    ) {
        let mut objects = objects.into_iter().enumerate();
        loop {
            let names = self.shared();
            for _ in 0..SCANNED_AT_ONCE {
                let Some((place, object)) = objects.next() else { return };
                each(place, names.texts.name(object).is_some_and(|name| pattern.matches(name)));
            }
        }
    }

    /// Returns a reader of names by number. While it exists, no name can be added or removed.
    #[must_use]
    pub fn reader(&self) -> NameReader<'_> {
        NameReader(self.shared())
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared().parts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory of the whole table, and the part of them that the texts take.
    #[must_use]
    pub fn memory_bytes(&self) -> (u64, u64) {
        let names = self.shared();
        let bytes = names.parts.memory_bytes() + names.texts.memory_bytes();
        (bytes, names.texts.text_bytes())
    }

    // A panic while the lock is held leaves at most one text without a slot: its number is then
    // never found or used again.
    fn shared(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, Names> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names by number, at one moment.
#[derive(Debug)]
pub struct NameReader<'a>(RwLockReadGuard<'a, Names>);

impl NameReader<'_> {
    /// The name of a number, if it has one.
    #[must_use]
    pub fn name(&self, number: u64) -> Option<&str> {
        self.0.texts.name(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};
    use std::thread;

    use super::*;

    fn intern(table: &NameTable, names: &[&str]) -> Vec<u64> {
        let mut numbers = Vec::new();
        table.intern_all(names, &mut numbers);
        numbers
    }

    #[test]
    fn numbers_ascend_from_1_and_stay() {
        let table = NameTable::new(100);
        assert_eq!(intern(&table, &["a", "b", "a", "c"]), [1, 2, 1, 3]);
        assert_eq!(intern(&table, &["c", "ä", "b"]), [3, 4, 2]);
        let mut found = Vec::new();
        table.find_all(&["b", "B", "", "ä"], &mut found);
        assert_eq!(found, [2, 0, 0, 4]);
        assert_eq!((table.find("c"), table.find("d"), table.len()), (Some(3), None, 4));
        let reader = table.reader();
        let names: Vec<_> = (0..6).map(|number| reader.name(number)).collect();
        assert_eq!(names, [None, Some("a"), Some("b"), Some("c"), Some("ä"), None]);
    }

    #[test]
    fn a_forgotten_name_gets_a_new_number() {
        let table = NameTable::new(3);
        assert_eq!(intern(&table, &["a", "b", "c", "d"]), [1, 2, 3, 0]);
        table.forget(&[1, 3, 9]);
        assert_eq!((table.len(), table.find("a"), table.find("b")), (1, None, Some(2)));
        assert_eq!(intern(&table, &["c", "b", "a", "d"]), [4, 2, 5, 0]);
        assert_eq!((table.reader().name(1), table.reader().name(5)), (None, Some("a")));
    }

    #[test]
    fn a_log_and_a_checkpoint_restore_numbers_and_names() {
        let table = NameTable::logged(1 << 20);
        assert_eq!(table.take_changes(), None);
        let names: Vec<String> = (0..70_000).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut numbers, mut logged) = (Vec::new(), Vec::new());
        for some in names.chunks(10_000) {
            table.intern_all(some, &mut numbers);
            logged.extend(table.take_changes());
        }
        // A name that the log has not taken is not forgotten.
        assert_eq!(intern(&table, &["new"]), [70_001]);
        table.forget(&[1, 2, 69_999, 70_001]);
        assert_eq!(intern(&table, &["n1"]), [70_002]);
        let taken = table.last_number();
        logged.extend(table.take_changes());
        assert_eq!(table.take_changes(), None);
        let sections: Vec<_> = table.sections(taken).collect();
        assert_eq!(sections.len(), 2);
        let by_log = NameTable::logged(10);
        logged.iter().for_each(|changes| by_log.restore(changes).unwrap());
        let by_checkpoint = NameTable::logged(10);
        for section in &sections {
            by_checkpoint.restore_section(section).unwrap();
        }
        // The log before the checkpoint may be read again.
        logged[3..].iter().for_each(|changes| by_checkpoint.restore(changes).unwrap());
        for restored in [&by_log, &by_checkpoint] {
            assert_eq!((restored.len(), restored.last_number()), (table.len(), taken));
            let (restored, table) = (restored.reader(), table.reader());
            assert!((0..=taken + 1).all(|number| restored.name(number) == table.name(number)));
        }
        assert_eq!(by_log.find("n0"), None);
        assert_eq!(by_checkpoint.find("n1"), Some(70_002));
        assert_eq!(by_log.take_changes(), None);
        let mut far = NameChanges::default();
        far.push(NUMBER_MAX + 1, "far");
        assert!(by_log.restore(&far).unwrap_err().contains("number 9223372036854775809"));
        let mut other = NameChanges::default();
        other.push(70_002, "other");
        assert!(by_log.restore(&other).unwrap_err().contains("two names"));
    }

    #[test]
    fn numbers_are_skipped_for_terms_and_a_checkpoint_keeps_that() {
        let table = NameTable::logged(10);
        assert_eq!(intern(&table, &["a", "b", "c"]), [1, 2, 3]);
        let mut logged: Vec<_> = table.take_changes().into_iter().collect();
        table.skip(0);
        let (bytes, _) = table.memory_bytes();
        table.skip(TERM_GROUPS + 7);
        let numbers = intern(&table, &["d", "a", "e"]);
        let skipped = 2 * TERM_NUMBERS_MIN + 8 * GROUP_NUMBERS;
        assert_eq!(numbers, [skipped + 1, 1, skipped + 2]);
        assert!(table.memory_bytes().0 < bytes + 50_000, "{bytes} {:?}", table.memory_bytes());
        // The checkpoint has the names before the second term, and that their numbers are skipped.
        let sections: Vec<_> = table.sections(3).collect();
        assert_eq!(sections.len(), 2);
        let restored = NameTable::logged(10);
        sections.iter().for_each(|section| restored.restore_section(section).unwrap());
        assert_eq!((restored.len(), restored.find("d"), restored.find("c")), (3, None, Some(3)));
        let other = intern(&restored, &["other"])[0];
        assert_eq!(other, skipped + 1);
        // A follower takes the numbers of its leader, whatever it has skipped itself.
        let copy = NameTable::logged(10);
        copy.skip(500);
        logged.extend(table.take_changes());
        logged.iter().for_each(|changes| copy.restore(changes).unwrap());
        let (mut next, mut found) = (1, Vec::new());
        loop {
            let after = copy.find_matching(&NamePattern::any(), next, &mut found);
            if after == next {
                break;
            }
            next = after;
        }
        assert_eq!(found, [1, 2, 3, numbers[0], numbers[0] + 1]);
        assert!(intern(&copy, &["f"])[0] > TERM_NUMBERS_MIN + 500 * GROUP_NUMBERS);
    }

    #[test]
    fn different_terms_give_different_numbers() {
        let names: Vec<String> = (0..1_000).map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut given = BTreeSet::new();
        for terms in [&[7][..], &[8], &[7, 9], &[9, 8], &[u64::MAX]] {
            let table = NameTable::logged(1_000);
            terms.iter().for_each(|term| table.skip(*term));
            let numbers = intern(&table, &names);
            assert!(numbers.into_iter().all(|number| given.insert(number)), "{terms:?}");
        }
    }

    #[test]
    fn a_closed_table_says_whether_names_are_not_logged() {
        let table = NameTable::logged(10);
        assert_eq!(intern(&table, &["a"]), [1]);
        assert!(table.close());
        assert_eq!(intern(&table, &["b", "a"]), [0, 1]);
        assert!(table.take_changes().is_some() && !table.close());
    }

    #[test]
    fn numbers_end_at_the_greatest() {
        let table = NameTable::new(1 << 21);
        let section = name_section::encode(NUMBER_MAX - 5, std::iter::empty());
        table.restore_section(&section).unwrap();
        table.skip(3);
        let names: Vec<String> = (0..=GROUP_NUMBERS).map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let numbers = intern(&table, &names);
        assert_eq!(numbers[GROUP_NUMBERS as usize - 1..], [NUMBER_MAX, 0]);
        table.skip(1);
        assert_eq!(intern(&table, &["0", "other"]), [numbers[0], 0]);
        let section = name_section::encode(NUMBER_MAX + 2, std::iter::empty());
        assert!(table.restore_section(&section).unwrap_err().contains("skipped"));
    }

    #[test]
    fn new_names_beyond_the_limit_have_no_number() {
        let table = NameTable::new(2);
        assert_eq!(intern(&table, &["a", "b", "c", "b", "d"]), [1, 2, 0, 2, 0]);
        assert_eq!((table.len(), table.find("c")), (2, None));
    }

    #[test]
    fn threads_agree_on_the_number_of_each_name() {
        let table = NameTable::new(1 << 20);
        let names: Vec<String> = (0..5_000).map(|number| format!("truck-{number}")).collect();
        let found: Vec<HashMap<&str, u64>> = thread::scope(|scope| {
            let (table, names) = (&table, &names);
            let work = |thread: usize| {
                move || {
                    let order = (0..names.len()).map(|at| (at * 7 + thread * 1_000) % names.len());
                    let order: Vec<&str> = order.map(|at| names[at].as_str()).collect();
                    let mut numbers = Vec::new();
                    order.chunks(100).for_each(|some| table.intern_all(some, &mut numbers));
                    order.into_iter().zip(numbers).collect()
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|of_thread| *of_thread == found[0]));
        let numbers: BTreeSet<u64> = found[0].values().copied().collect();
        assert_eq!(numbers, (1..=names.len() as u64).collect());
        let reader = table.reader();
        assert!(found[0].iter().all(|(name, number)| reader.name(*number) == Some(name)));
    }

    #[test]
    fn a_name_takes_less_than_a_hundred_bytes_beside_its_text() {
        let table = NameTable::new(1 << 20);
        let mut numbers = Vec::new();
        for from in (0..300_000).step_by(1_000) {
            let names: Vec<String> = (from..from + 1_000).map(|it| format!("truck-{it}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            table.intern_all(&names, &mut numbers);
        }
        let (bytes, text_bytes) = table.memory_bytes();
        let each = (bytes - text_bytes) / table.len() as u64;
        assert!((20..100).contains(&each), "{each} bytes a name");
    }
}
