//! The names of the objects of a run in a named fleet, and the numbers that the server gives them.
//!
//! A workload knows objects by number: `car-17` is its object 17, and `car-17.2` the same object
//! after two renames. The oracle knows objects by the numbers of the server. They are learned from
//! the server, and whatever it sends must agree with them: a name keeps its number, and a number
//! has one name.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Bits of an object's number in its workload; the bits above count its renames.
const OBJECT_BITS: u32 = 48;
/// Maximum number of renames of an object.
const RENAMES_MAX: u64 = 1 << 15;
/// The object of rows that must be refused. It has no name.
const OBJECT_RESERVED: u64 = u64::MAX;
/// Added to an object without a number, so that it differs from every number.
const UNNUMBERED: u64 = 1 << 63;
/// Bytes of the longest name.
pub const NAME_BYTES_MAX: usize = "car-281474976710655.65535".len();

/// The object after another rename; `None` for one that cannot be renamed.
#[must_use]
pub fn renamed(object: u64) -> Option<u64> {
    let renames = object >> OBJECT_BITS;
    (renames < RENAMES_MAX).then(|| object + (1 << OBJECT_BITS))
}

/// Writes the name of an object; nothing for the reserved object.
pub fn write_name(object: u64, mut out: impl Write) -> std::io::Result<()> {
    let (renames, base) = (object >> OBJECT_BITS, object & ((1 << OBJECT_BITS) - 1));
    match renames {
        _ if object == OBJECT_RESERVED => Ok(()),
        0 => write!(out, "car-{base}"),
        _ => write!(out, "car-{base}.{renames}"),
    }
}

/// Bytes of the name of an object.
#[must_use]
pub fn name_bytes(object: u64) -> usize {
    let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let (renames, base) = (object >> OBJECT_BITS, object & ((1 << OBJECT_BITS) - 1));
    match renames {
        _ if object == OBJECT_RESERVED => 0,
        0 => "car-".len() + digits(base),
        _ => "car-.".len() + digits(base) + digits(renames),
    }
}

/// The name of an object; empty for the reserved object.
#[must_use]
pub fn name_of(object: u64) -> String {
    let mut name = Vec::with_capacity(NAME_BYTES_MAX);
    write_name(object, &mut name).expect("a vector takes every byte");
    String::from_utf8(name).expect("ASCII")
}

/// The object with a name.
fn object_of(name: &str) -> Option<u64> {
    let (base, renames) = match name.strip_prefix("car-")?.split_once('.') {
        Some((base, renames)) => (base.parse::<u64>().ok()?, renames.parse::<u64>().ok()?),
        None => (name.strip_prefix("car-")?.parse::<u64>().ok()?, 0),
    };
    let object = renames.checked_mul(1 << OBJECT_BITS)?.checked_add(base)?;
    (name_of(object) == name).then_some(object)
}

/// What is known of the names of a fleet.
#[derive(Debug, Default)]
pub struct Names(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The number of each object.
    numbers: HashMap<u64, u64>,
    /// The object of each number.
    objects: HashMap<u64, u64>,
}

impl Names {
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects of a message, once each, whose numbers are unknown.
    pub fn unknown(&self, objects: &[u64]) -> Vec<u64> {
        let known = self.known();
        let is_unknown = |object: &u64| !known.numbers.contains_key(object);
        let mut unknown: Vec<u64> = objects.iter().copied().filter(is_unknown).collect();
        unknown.retain(|object| *object != OBJECT_RESERVED);
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// The objects of a message whose numbers are known.
    pub fn known_of(&self, objects: &[u64]) -> Vec<u64> {
        let known = self.known();
        objects.iter().copied().filter(|object| known.numbers.contains_key(object)).collect()
    }

    /// Replaces objects by their numbers. An object without a number gets one that no object has;
    /// the reserved object stays.
    pub fn number(&self, objects: &mut [u64]) {
        let known = self.known();
        for object in objects.iter_mut().filter(|object| **object != OBJECT_RESERVED) {
            let unnumbered = UNNUMBERED | (*object & !UNNUMBERED);
            *object = known.numbers.get(object).copied().unwrap_or(unnumbered);
        }
    }

    /// Learns the numbers of names from a message of the server. Returns the first contradiction
    /// to what is known.
    #[must_use]
    pub fn learn(&self, numbers: &[u64], names: &[String]) -> Option<String> {
        if numbers.len() != names.len() {
            return Some(format!("{} objects have {} names", numbers.len(), names.len()));
        }
        let contradiction = |known: &Known, number: u64, name: &str| {
            let Some(object) = object_of(name) else {
                return Err(format!("object {number} has name {name:?}, which was never sent"));
            };
            match (known.numbers.get(&object), known.objects.get(&number)) {
                (Some(right), _) if *right != number => {
                    Err(format!("{name} has number {number}, and {right} before"))
                }
                (_, Some(other)) if *other != object => {
                    Err(format!("object {number} has name {name}, and {} before", name_of(*other)))
                }
                (Some(_), Some(_)) => Ok(None),
                _ if number == 0 => Err(format!("{name} has number 0")),
                _ => Ok(Some((object, number))),
            }
        };
        let known = self.known();
        let pairs = || numbers.iter().zip(names);
        let is_new = |(number, name): (&u64, &String)| {
            contradiction(&known, *number, name).transpose().is_some()
        };
        if !pairs().any(is_new) {
            return None;
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (number, name) in pairs() {
            match contradiction(&known, *number, name) {
                Err(text) => return Some(text),
                Ok(None) => {}
                Ok(Some((object, number))) => {
                    known.numbers.insert(object, number);
                    known.objects.insert(number, object);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_and_objects_are_one_to_one() {
        let largest = (1 << OBJECT_BITS) - 1;
        let of = |renames: u64, base: u64| (renames << OBJECT_BITS) | base;
        for object in [0, 9, 10, 17, largest, of(1, 0), of(2, 17), of(65_535, largest - 1)] {
            let name = name_of(object);
            assert_eq!(object_of(&name), Some(object), "{name}");
            assert_eq!(name.len(), name_bytes(object), "{name}");
            assert!(name.len() <= NAME_BYTES_MAX);
        }
        assert_eq!(name_of(of(2, 17)), "car-17.2");
        assert_eq!((name_of(OBJECT_RESERVED).as_str(), name_bytes(OBJECT_RESERVED)), ("", 0));
        for name in ["", "17", "car-", "car-017", "car-17.0", "car-17.", "car-+1", "car-1.99999"] {
            assert_eq!(object_of(name), None, "{name}");
        }
        assert_eq!(renamed(17), Some(of(1, 17)));
        assert_eq!(renamed(of(RENAMES_MAX, 17)), None);
    }

    #[test]
    fn contradictions_are_found() {
        let names = Names::default();
        let learn = |number: u64, name: &str| names.learn(&[number], &texts(&[name]));
        assert_eq!(names.learn(&[5, 6, 5], &texts(&["car-1", "car-2", "car-1"])), None);
        assert_eq!(learn(5, "car-1"), None);
        for (number, name, word) in [
            (6, "car-1", "5 before"),
            (5, "car-3", "car-1 before"),
            (7, "truck-1", "never sent"),
            (7, "", "never sent"),
            (0, "car-7", "number 0"),
        ] {
            let text = learn(number, name).unwrap_or_default();
            assert!(text.contains(word), "{text}");
        }
        assert!(names.learn(&[7], &[]).is_some());
        assert_eq!(learn(7, "car-7"), None, "a contradiction changes nothing");
    }

    #[test]
    fn numbers_replace_objects_and_unknown_ones_stay_apart() {
        let names = Names::default();
        assert_eq!(names.learn(&[9], &texts(&["car-4"])), None);
        assert_eq!(names.unknown(&[7, 4, 5, 7, OBJECT_RESERVED]), [5, 7]);
        let mut objects = [4, 5, 6, OBJECT_RESERVED];
        names.number(&mut objects);
        assert_eq!(objects[0], 9);
        assert!(objects[1] != objects[2] && objects[1] > UNNUMBERED && objects[2] > UNNUMBERED);
        assert_eq!(objects[3], OBJECT_RESERVED);
    }
}
