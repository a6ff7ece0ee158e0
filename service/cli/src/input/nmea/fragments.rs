//! AIS messages that are split into several sentences.

use std::collections::VecDeque;

use super::sentence::Sentence;

/// Most messages that wait for their next sentence.
const OPEN_MAX: usize = 32;
/// Most lines from the first to the last sentence of a message.
const LINES_MAX: u64 = 1_000;
/// Most sentences of a message.
const PARTS_MAX: u8 = 9;

/// The payload of an AIS message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Payload {
    /// Characters of six bits.
    pub(super) text: String,
    /// Bits at the end that are none of the message.
    pub(super) fill_bits: usize,
    /// The time of receipt of its first sentence.
    pub(super) received: Option<String>,
    /// The line of its first sentence.
    pub(super) line: u64,
}

/// A message whose next sentence is awaited.
#[derive(Debug)]
struct Open {
    /// Sequence number and channel.
    key: (String, String),
    parts: u8,
    next_part: u8,
    payload: Payload,
}

/// Puts the sentences of messages together.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    open: VecDeque<Open>,
    /// Sentences of messages of which another sentence is missing.
    lost: u64,
}

impl Fragments {
    /// Takes a sentence of `VDM` or `VDO`; returns the message that it completes.
    ///
    /// # Errors
    /// The sentence has wrong fields.
    pub(super) fn take(&mut self, of: &Sentence<'_>, line: u64) -> Result<Option<Payload>, String> {
        let number = |index: usize, name: &str| {
            let number = of.field(index).parse::<u8>();
            number.map_err(|_| format!("{name} `{}` is no number", of.field(index)))
        };
        let (parts, part) =
            (number(0, "the number of sentences")?, number(1, "the sentence number")?);
        let fill_bits = number(5, "the number of fill bits")?;
        if part == 0 || part > parts || parts > PARTS_MAX || fill_bits > 5 {
            return Err(format!(
                "it cannot be sentence {part} of {parts} with {fill_bits} fill bits"
            ));
        }
        let payload = Payload {
            text: of.field(4).to_owned(),
            fill_bits: usize::from(fill_bits),
            received: of.received.map(str::to_owned),
            line,
        };
        if parts == 1 {
            return Ok(Some(payload));
        }
        let key = (of.field(2).to_owned(), of.field(3).to_owned());
        // Numbers of messages are used again and again.
        while self.open.front().is_some_and(|open| line - open.payload.line > LINES_MAX) {
            self.open.pop_front();
            self.lost += 1;
        }
        let open = self.open.iter().position(|open| open.key == key);
        let found = open.and_then(|at| self.open.remove(at));
        if part == 1 {
            self.lost += u64::from(found.is_some());
            if self.open.len() == OPEN_MAX {
                self.open.pop_front();
                self.lost += 1;
            }
            self.open.push_back(Open { key, parts, next_part: 2, payload });
            return Ok(None);
        }
        let Some(mut found) = found.filter(|open| open.next_part == part && open.parts == parts)
        else {
            self.lost += 1;
            return Ok(None);
        };
        found.payload.text.push_str(&payload.text);
        found.payload.fill_bits = payload.fill_bits;
        found.payload.received = found.payload.received.or(payload.received);
        if part == parts {
            return Ok(Some(found.payload));
        }
        found.next_part += 1;
        // In the order of their first lines.
        let later = |open: &Open| open.payload.line > found.payload.line;
        let at = self.open.iter().position(later).unwrap_or(self.open.len());
        self.open.insert(at, found);
        Ok(None)
    }

    /// Sentences of messages of which another sentence is missing so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost + self.open.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(fragments: &mut Fragments, fields: &str) -> Result<Option<String>, String> {
        let fields = fields.split(',').collect();
        let sentence = Sentence { kind: "VDM", fields, received: None };
        Ok(fragments.take(&sentence, 1)?.map(|payload| payload.text))
    }

    #[test]
    fn sentences_of_one_message_are_joined_even_if_others_are_between() {
        let mut fragments = Fragments::default();
        assert_eq!(take(&mut fragments, "1,1,,A,abc,0"), Ok(Some("abc".to_owned())));
        assert_eq!(take(&mut fragments, "2,1,3,A,a,0"), Ok(None));
        assert_eq!(take(&mut fragments, "3,1,3,B,x,0"), Ok(None));
        assert_eq!(take(&mut fragments, "2,2,3,A,b,2"), Ok(Some("ab".to_owned())));
        assert_eq!(take(&mut fragments, "3,2,3,B,y,0"), Ok(None));
        assert_eq!(take(&mut fragments, "3,3,3,B,z,0"), Ok(Some("xyz".to_owned())));
        assert_eq!(fragments.lost(), 0);
    }

    #[test]
    fn messages_with_a_missing_sentence_are_counted_and_bounded() {
        let mut fragments = Fragments::default();
        assert_eq!(take(&mut fragments, "2,2,1,A,b,0"), Ok(None));
        for sequence in 0..100 {
            assert_eq!(take(&mut fragments, &format!("2,1,{sequence},A,a,0")), Ok(None));
        }
        assert_eq!((fragments.lost(), fragments.open.len()), (101, OPEN_MAX));
        for fields in ["2,3,1,A,a,0", "x,1,1,A,a,0", "1,1,,A,a,7", "1,0,,A,a,0", "1,1,,A"] {
            assert!(take(&mut fragments, fields).is_err(), "{fields}");
        }
        let late =
            Sentence { kind: "VDM", fields: vec!["2", "2", "99", "A", "b", "0"], received: None };
        assert_eq!(fragments.take(&late, 1_002), Ok(None));
        assert_eq!((fragments.lost(), fragments.open.len()), (102, 0));
    }
}
