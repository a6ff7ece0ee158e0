//! Sentences of NMEA 0183 (IEC 61162-1): `$` or `!`, an address, fields, and a checksum.

/// A sentence, and the text of its time of receipt, if the line has one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sentence<'line> {
    /// The last three characters of the address, as in `RMC` of `GPRMC`; the whole address of a
    /// proprietary sentence.
    pub(super) kind: &'line str,
    pub(super) fields: Vec<&'line str>,
    /// From the TAG block, or before or after the sentence.
    pub(super) received: Option<&'line str>,
}

/// What separates a time from the sentence.
const SEPARATORS: [char; 7] = [' ', '\t', ',', ';', '|', '[', ']'];

/// True if a line begins as one with a sentence does.
pub(in crate::input) fn looks_like_sentence(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.starts_with('\\') || start(&line).is_some()
}

/// Where the sentence of a line begins: at `$` or `!` before an address and a comma.
fn start(line: &str) -> Option<usize> {
    line.match_indices(['$', '!']).map(|(at, _)| at).find(|at| {
        let address = line[at + 1..].split(',').next().unwrap_or_default();
        let is_address = address.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
        is_address && (4..=8).contains(&address.len()) && line.len() > at + 1 + address.len()
    })
}

impl<'line> Sentence<'line> {
    /// Reads the sentence of a line.
    ///
    /// # Errors
    /// There is none, or its checksum is missing or wrong.
    pub(super) fn of(line: &'line str) -> Result<Self, String> {
        let at = start(line).ok_or("it has no sentence, which begins with $ or ! and a name")?;
        let (before, sentence) = line.split_at(at);
        let (body, after) = sentence[1..]
            .split_once('*')
            .ok_or("the sentence has no checksum: it is cut, or from another program")?;
        check(after, body, "the sentence")?;
        if start(&after[2..]).is_some() {
            return Err(
                "another sentence follows on the line, whose line end is missing".to_owned()
            );
        }
        let (address, fields) = body.split_once(',').unwrap_or((body, ""));
        let is_proprietary = address.starts_with('P') || address.len() != 5;
        let kind = if is_proprietary { address } else { &address[2..] };
        let received =
            tag_time(before)?.or_else(|| time_before(before)).or(time_after(&after[2..]));
        Ok(Self { kind, fields: fields.split(',').collect(), received })
    }

    /// A field; empty if there is none.
    pub(super) fn field(&self, index: usize) -> &'line str {
        self.fields.get(index).copied().unwrap_or_default()
    }
}

/// The field `c` of a TAG block (NMEA 0183 version 4): the time in Unix seconds or milliseconds.
///
/// # Errors
/// The checksum of the block is missing or wrong.
fn tag_time(before: &str) -> Result<Option<&str>, String> {
    let block = before.trim_start().strip_prefix('\\').and_then(|rest| rest.split('\\').next());
    let Some(block) = block else { return Ok(None) };
    let (body, stated) = block.split_once('*').ok_or("the TAG block has no checksum")?;
    check(stated, body, "the TAG block")?;
    Ok(body.split(',').find_map(|field| field.strip_prefix("c:")))
}

/// Compares a checksum of two hexadecimal digits with that of what it stands for.
fn check(stated: &str, body: &str, what: &str) -> Result<(), String> {
    let stated = stated.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let stated = stated.ok_or("the checksum is no hexadecimal number of two digits")?;
    let found = body.bytes().fold(0, |sum, byte| sum ^ byte);
    if stated == found {
        return Ok(());
    }
    Err(format!("the checksum is {stated:02X}, that of {what} {found:02X}"))
}

/// A time before the sentence: all that is there, or its first part.
fn time_before(before: &str) -> Option<&str> {
    if before.contains('\\') {
        return None;
    }
    let whole = before.trim_matches(SEPARATORS);
    let first = whole.split([',', ';', '|', '\t']).next();
    first.map(|text| text.trim_matches(SEPARATORS)).filter(|text| is_time(text))
}

/// A time after the checksum, as the last field.
fn time_after(after: &str) -> Option<&str> {
    let last = after.rsplit([',', ';', '|', '\t']).next();
    last.map(|text| text.trim_matches(SEPARATORS)).filter(|text| is_time(text))
}

/// True for a Unix time, or a text with a date.
fn is_time(text: &str) -> bool {
    let is_number = text.parse::<f64>().is_ok();
    let is_date = text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(['-', '/', ':']);
    (is_number && text.len() >= 9) || is_date
}

#[cfg(test)]
mod tests {
    use super::*;

    const AIS: &str = "!AIVDM,1,1,,A,13u?etPv2;0n:dDPwUM1U1Cb069D,0*24";

    fn received(line: &str) -> Option<&str> {
        Sentence::of(line).unwrap().received
    }

    #[test]
    fn sentences_have_kinds_and_fields() {
        let line = "$GPRMC,225446.33,A,4916.45,N,12311.12,W,000.5,054.7,191194,020.3,E,A*2B";
        let sentence = Sentence::of(line).unwrap();
        assert_eq!((sentence.kind, sentence.field(2), sentence.field(99)), ("RMC", "4916.45", ""));
        assert_eq!(Sentence::of("$PGRME,15.0,M,45.0,M,25.0,M*1C").unwrap().kind, "PGRME");
        for (line, fault) in [
            ("hello", "it has no sentence"),
            ("$GPRMC,225446.33,A,4916.45", "no checksum"),
            ("$GPRMC,1*2B", "the checksum is 2B"),
            ("$GPRMC,1*2", "no hexadecimal number of two digits"),
        ] {
            let found = Sentence::of(line).unwrap_err();
            assert!(found.contains(fault), "{line}: {found}");
        }
    }

    #[test]
    fn the_time_of_receipt_is_in_a_tag_block_before_or_after() {
        assert_eq!(received(AIS), None);
        for (line, time) in [
            (format!("\\s:station,c:1696241893*4B\\{AIS}"), "1696241893"),
            (format!("\\g:1-2-73874,c:1696241893000*29\\{AIS}"), "1696241893000"),
            (format!("1696241893 {AIS}"), "1696241893"),
            (format!("[2026-01-31 12:00:00] {AIS}"), "2026-01-31 12:00:00"),
            (format!("2026-01-31T12:00:00Z;station 7;{AIS}"), "2026-01-31T12:00:00Z"),
            (format!("{AIS},1696241893"), "1696241893"),
            (format!("{AIS},s28089,d-098,T49.17,r003669945,1166055598"), "1166055598"),
        ] {
            assert_eq!(received(&line), Some(time), "{line}");
        }
        assert_eq!(received(&format!("{AIS},r003669945")), None);
        assert_eq!(received(&format!("feed {AIS}")), None);
        assert_eq!(received(&format!("192.168.100.10 {AIS},1696241893")), Some("1696241893"));
        let tag = Sentence::of(&format!("\\s:station,c:1696241893*5D\\{AIS}")).unwrap_err();
        assert!(tag.starts_with("the checksum is 5D, that of the TAG block"), "{tag}");
        let two = Sentence::of(&format!("{AIS}{AIS}")).unwrap_err();
        assert!(two.contains("another sentence follows"), "{two}");
    }

    #[test]
    fn lines_with_sentences_look_like_it() {
        for line in [AIS, "$GNGGA,1", "\\c:1*00\\!AIVDM,1", "1696241893 !AIVDM,1"] {
            assert!(looks_like_sentence(line.as_bytes()), "{line}");
        }
        for line in ["id,t,lon,lat", "id;price $;x", "$,!", "a!b,c", "{}"] {
            assert!(!looks_like_sentence(line.as_bytes()), "{line}");
        }
    }
}
