//! Texts of files and clients as people may see them in a terminal.

use std::borrow::Cow;

/// A text with an escape in place of each character that controls a terminal, changes the direction
/// of what follows, or takes no place: `\u{202e}`. Joiners stay, because Persian and emoji need
/// them.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// As [`printable`], but ends of lines and tabs stay: for output that was put together already.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, separators of lines, and the format characters of Unicode (category Cf)
/// except joiners and those that are drawn.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_all_others_stay() {
        for text in ["", "truck-42", "Käthe", "トラック", "می\u{200c}خواهم", "e\u{301}", "../x \\"]
        {
            assert_eq!(printable(text), text);
        }
        for (text, shown) in [
            ("a\nb\t\u{1b}[31m", "a\\nb\\t\\u{1b}[31m"),
            ("\u{202e}x\u{85}", "\\u{202e}x\\u{85}"),
            ("a\u{200b}\u{feff}", "a\\u{200b}\\u{feff}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("a\tb\r\n\u{9b}2J\n"), "a\tb\\r\n\\u{9b}2J\n");
    }
}
