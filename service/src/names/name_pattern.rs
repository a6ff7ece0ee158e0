//! Patterns of names: `*` stands for any characters, `?` for one, and `\` before a character for
//! that character.
//!
//! What follows the first wildcard is matched by simulating an automaton, 64 of whose states are
//! bits of a word (Baeza-Yates and Gonnet, "A New Approach to Text Searching", CACM 35, 1992): the
//! time is that of reading the name, whatever the pattern.

/// Maximum number of bytes of a pattern: a name of which every character is escaped fits.
const PATTERN_BYTES_MAX: usize = 512;

/// A pattern that selects objects by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// The bytes before the first wildcard.
    prefix: Box<[u8]>,
    rest: Automaton,
}

/// Matches parts, which are bytes and single characters. State `n` means that the first `n` parts
/// have matched what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Automaton {
    parts: usize,
    /// For each word of states: the states that remain with any byte, because a `*` follows.
    stays: Box<[u64]>,
    /// The states that remain with a byte that continues a character, because `?` came before.
    continues: Box<[u64]>,
    /// The states whose next part is `?`.
    any_character: Box<[u64]>,
    /// The bytes of the pattern, ascending.
    bytes: Box<[u8]>,
    /// For each of `bytes`, the states whose next part is that byte.
    next: Box<[u64]>,
}

/// Sets a bit of words.
fn set(words: &mut [u64], bit: usize) {
    words[bit / 64] |= 1 << (bit % 64);
}

/// Whether a byte of UTF-8 is not the first of its character.
fn continues_character(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

impl Automaton {
    fn new(text: impl Iterator<Item = Part>) -> Self {
        let (mut parts, mut stars) = (Vec::new(), Vec::new());
        for part in text {
            match part {
                Part::Any => stars.push(parts.len()),
                part => parts.push(part),
            }
        }
        let words = parts.len() / 64 + 1;
        let none = || vec![0; words].into_boxed_slice();
        let (mut stays, mut continues, mut any_character) = (none(), none(), none());
        stars.into_iter().for_each(|state| set(&mut stays, state));
        let byte = |part: &Part| if let Part::Byte(byte) = part { Some(*byte) } else { None };
        let mut bytes: Vec<u8> = parts.iter().filter_map(byte).collect();
        bytes.sort_unstable();
        bytes.dedup();
        let mut next = vec![0; words * bytes.len()].into_boxed_slice();
        for (state, part) in parts.iter().enumerate() {
            match part {
                Part::Byte(byte) => {
                    let at = bytes.partition_point(|other| other < byte);
                    set(&mut next[at * words..], state);
                }
                _ => {
                    set(&mut any_character, state);
                    set(&mut continues, state + 1);
                }
            }
        }
        let (parts, bytes) = (parts.len(), bytes.into());
        Self { parts, stays, continues, any_character, bytes, next }
    }

    fn matches(&self, name: &[u8]) -> bool {
        if self.parts == 0 {
            return name.is_empty() || self.stays[0] == 1;
        }
        let words = self.stays.len();
        let mut states = [0_u64; PATTERN_BYTES_MAX / 64 + 1];
        states[0] = 1;
        for byte in name {
            let of_byte = self.bytes.binary_search(byte).map(|at| &self.next[at * words..]);
            let continues = continues_character(*byte);
            let (mut carry, mut is_alive) = (0, 0);
            for word in 0..words {
                let state = states[word];
                let mut moves = of_byte.map_or(0, |next| next[word]);
                let mut stays = self.stays[word];
                if continues {
                    stays |= self.continues[word];
                } else {
                    moves |= self.any_character[word];
                }
                let moved = state & moves;
                states[word] = moved << 1 | carry | state & stays;
                carry = moved >> 63;
                is_alive |= states[word];
            }
            if is_alive == 0 {
                return false;
            }
        }
        states[self.parts / 64] >> (self.parts % 64) & 1 == 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    /// One character.
    One,
    /// Any number of characters.
    Any,
}

impl NamePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// What is wrong: an empty pattern, one that is too long, or one that ends with a single `\`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !(1..=PATTERN_BYTES_MAX).contains(&text.len()) {
            return Err(format!("{} bytes; give 1 to {PATTERN_BYTES_MAX}", text.len()));
        }
        let mut parts = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                b'*' => Part::Any,
                b'?' => Part::One,
                b'\\' => Part::Byte(bytes.next().ok_or("it ends with \\, which escapes nothing")?),
                byte => Part::Byte(byte),
            });
        }
        let byte = |part: &Part| if let Part::Byte(byte) = part { Some(*byte) } else { None };
        let prefix: Box<[u8]> = parts.iter().map_while(byte).collect();
        let rest = Automaton::new(parts.into_iter().skip(prefix.len()));
        Ok(Self { prefix, rest })
    }

    /// The pattern of all names.
    #[must_use]
    pub fn any() -> Self {
        Self { prefix: Box::default(), rest: Automaton::new(std::iter::once(Part::Any)) }
    }

    /// Whether a name matches.
    #[inline]
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        name.as_bytes().strip_prefix(&*self.prefix).is_some_and(|rest| self.rest.matches(rest))
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    /// A recursive matcher that follows the rule directly.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['*', rest @ ..] => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            ['?', rest @ ..] => !name.is_empty() && naive(rest, &name[1..]),
            ['\\', c, rest @ ..] | [c, rest @ ..] => {
                name.first() == Some(c) && naive(rest, &name[1..])
            }
        }
    }

    fn of(random: &mut Random, from: &[&str], count: u32) -> String {
        (0..count).map(|_| from[random.below(from.len() as u64) as usize]).collect()
    }

    #[test]
    fn patterns_match_as_the_rule_says() {
        let mut random = Random::new(1);
        let mut matched = 0;
        for round in 0..100_000 {
            // Long ones have states in several words.
            let prefix = if round % 10 == 0 { "ä*b".repeat(40) } else { String::new() };
            let count = 1 + random.below(6);
            let tail = of(&mut random, &["a", "ä", "*", "?", "\\*", "\\?", "\\\\", "\\a"], count);
            let pattern = format!("{prefix}{tail}");
            let count = random.below(7);
            let tail = of(&mut random, &["a", "ä", "*", "?", "\\", "🚚"], count);
            let name = format!("{}{tail}", prefix.replace('*', ""));
            let (of_pattern, of_name): (Vec<_>, Vec<_>) = (
                pattern.chars().skip(3 * 40 * usize::from(!prefix.is_empty())).collect(),
                tail.chars().collect(),
            );
            let found = NamePattern::parse(&pattern).unwrap().matches(&name);
            if prefix.is_empty() {
                assert_eq!(found, naive(&of_pattern, &of_name), "{pattern} {name}");
            } else if naive(&of_pattern, &of_name) {
                assert!(found, "{pattern} {name}");
            }
            matched += u32::from(found);
        }
        assert!(matched > 4_000, "{matched}");
    }

    #[test]
    fn long_patterns_match_to_their_last_part() {
        for count in [62, 63, 64, 65, 127, 128, 255] {
            let name = "a".repeat(count);
            for (pattern, is_match) in [
                (format!("*{}", "a".repeat(count)), true),
                (format!("*{}", "a".repeat(count + 1)), false),
                ("?".repeat(count), true),
                ("?".repeat(count + 1), false),
                (format!("?{}", "*a".repeat(count - 1)), true),
                (format!("?{}b", "*a".repeat(count / 2)), false),
            ] {
                assert_eq!(NamePattern::parse(&pattern).unwrap().matches(&name), is_match);
            }
        }
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for (text, part) in [("", "0 bytes"), (&"a".repeat(513), "513 bytes"), ("a\\", "escapes")] {
            assert!(NamePattern::parse(text).unwrap_err().contains(part), "{text}");
        }
        assert!(NamePattern::parse(&"\\*".repeat(256)).unwrap().matches(&"*".repeat(256)));
        assert!(NamePattern::parse(&"?".repeat(512)).unwrap().matches(&"n".repeat(512)));
    }
}
