//! The rule that names of objects follow.

use crate::limits::NAME_BYTES_MAX;

/// Confirms that a text is a name: 1 to 256 bytes without control characters.
///
/// # Errors
/// What is wrong, without the name itself.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    const _: () = assert!(NAME_BYTES_MAX == 256, "the messages state the limit");
    if name.is_empty() {
        Err("the name is empty")
    } else if name.len() > NAME_BYTES_MAX {
        Err("the name has more than 256 bytes")
    } else if name.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        Ok(())
    } else if name.chars().any(char::is_control) {
        Err("the name has a control character")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_texts_without_control_characters() {
        for name in ["a", " ", "truck-42", "Käthe", "トラック", &"n".repeat(256)] {
            assert_eq!(check_name(name), Ok(()), "{name:?}");
        }
        for (name, part) in [("", "empty"), (&"ä".repeat(129)[..], "256 bytes")] {
            assert!(check_name(name).unwrap_err().contains(part), "{name:?}");
        }
        for name in ["a\nb", "\0", "\u{7f}", "x\u{85}"] {
            assert!(check_name(name).unwrap_err().contains("control"), "{name:?}");
        }
    }
}
