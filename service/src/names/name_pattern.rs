//! Patterns of names: `*` stands for any characters, `?` for one, and `\` before a character for
//! that character.

/// Maximum number of bytes of a pattern: a name of which every character is escaped fits.
const PATTERN_BYTES_MAX: usize = 512;

/// A pattern that selects objects by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// The bytes before the first wildcard.
    prefix: Box<[u8]>,
    /// What follows them.
    rest: Box<[Part]>,
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
        let rest = parts.split_off(prefix.len()).into();
        Ok(Self { prefix, rest })
    }

    /// Whether a name matches. Takes at most the length of the pattern times that of the name in
    /// steps.
    #[inline]
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        name.as_bytes().strip_prefix(&*self.prefix).is_some_and(|rest| self.matches_rest(rest))
    }

    fn matches_rest(&self, name: &[u8]) -> bool {
        let (mut at, mut from) = (0, 0);
        // Where to continue if what follows the last `*` does not match.
        let mut retry = None;
        while from < name.len() {
            match self.rest.get(at) {
                Some(Part::Any) => {
                    at += 1;
                    retry = Some((at, from));
                    continue;
                }
                Some(Part::One) => {
                    (at, from) = (at + 1, from + character(name[from]));
                    continue;
                }
                Some(Part::Byte(byte)) if *byte == name[from] => {
                    (at, from) = (at + 1, from + 1);
                    continue;
                }
                Some(Part::Byte(_)) | None => {}
            }
            let Some((after, tried)) = retry else { return false };
            (at, from) = (after, tried + character(name[tried]));
            retry = Some((after, from));
        }
        self.rest[at..].iter().all(|part| *part == Part::Any)
    }
}

/// Bytes of the character of UTF-8 that begins with this byte.
fn character(first: u8) -> usize {
    match first {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
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

    #[test]
    fn patterns_match_as_the_rule_says() {
        let mut random = Random::new(1);
        let mut matched = 0;
        for _ in 0..100_000 {
            let of = |random: &mut Random, from: &[&str], count: u32| -> String {
                (0..count).map(|_| from[random.below(from.len() as u64) as usize]).collect()
            };
            let count = 1 + random.below(6);
            let pattern =
                of(&mut random, &["a", "ä", "*", "?", "\\*", "\\?", "\\\\", "\\a"], count);
            let count = random.below(7);
            let name = of(&mut random, &["a", "ä", "*", "?", "\\", "🚚"], count);
            let (of_pattern, of_name): (Vec<_>, Vec<_>) =
                (pattern.chars().collect(), name.chars().collect());
            let expected = naive(&of_pattern, &of_name);
            let found = NamePattern::parse(&pattern).unwrap().matches(&name);
            assert_eq!(found, expected, "{pattern} {name}");
            matched += u32::from(found);
        }
        assert!(matched > 4_000, "{matched}");
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for (text, part) in [("", "0 bytes"), (&"a".repeat(513), "513 bytes"), ("a\\", "escapes")] {
            assert!(NamePattern::parse(text).unwrap_err().contains(part), "{text}");
        }
        assert!(NamePattern::parse(&"\\*".repeat(256)).unwrap().matches(&"*".repeat(256)));
        let slow = NamePattern::parse(&"a*".repeat(250)).unwrap();
        assert!(!slow.matches(&format!("{}b", "a".repeat(255))[..200]));
    }
}
