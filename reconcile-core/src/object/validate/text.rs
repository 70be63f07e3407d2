//! One rule for a short text: length, alphabet, and what it starts and ends with.

use crate::Faults;

/// A text of the RFC 1123 family.
pub(super) struct Rule {
    /// What it is called, as the start of a message that has to tell two rules of one field apart.
    what: &'static str,
    /// The most bytes.
    limit: usize,
    /// Upper-case letters and `_` as well.
    wide: Wide,
    /// What a dot does.
    dots: Dots,
}

#[derive(PartialEq)]
enum Wide {
    Yes,
    No,
}

#[derive(PartialEq)]
enum Dots {
    /// Not allowed.
    No,
    /// As any other inner character.
    Inner,
    /// Between parts, each of which keeps the rule for first and last characters.
    Parts,
}

/// The name of an object: an RFC 1123 subdomain. 253 bytes is what is left of a DNS name's 255 on the wire.
pub(super) const NAME: Rule = Rule { what: "the name", limit: 253, wide: Wide::No, dots: Dots::Parts };
/// A namespace: an RFC 1123 label, whose length DNS keeps in six bits.
pub(super) const NAMESPACE: Rule = Rule { what: "the namespace", limit: 63, wide: Wide::No, dots: Dots::No };
/// The part of a label or annotation name before the slash.
pub(super) const LABEL_PREFIX: Rule =
    Rule { what: "the prefix", limit: 253, wide: Wide::No, dots: Dots::Parts };
/// The name of a label or annotation, without prefix.
pub(super) const LABEL_NAME: Rule = Rule { what: "the name", limit: 63, wide: Wide::Yes, dots: Dots::Inner };
/// The value of a label that is not empty.
pub(super) const LABEL_VALUE: Rule =
    Rule { what: "the value", limit: 63, wide: Wide::Yes, dots: Dots::Inner };

impl Rule {
    /// Adds each way in which `text` breaks the rule.
    pub(super) fn check(&self, path: &str, text: &str, faults: &mut Faults) {
        let what = self.what;
        if text.is_empty() {
            faults.add(path, format!("{what} must not be empty"));
            return;
        }
        if text.len() > self.limit {
            faults.add(path, format!("{what} has {} bytes, at most {} are allowed", text.len(), self.limit));
        }
        if let Some(bad) = text.chars().find(|c| !self.allows(*c)) {
            faults.add(path, format!("{what} {} contains {bad:?}: use {}", shown(text), self.alphabet()));
            return; // a bad first or last character is this fault already
        }
        let framed = |part: &str| {
            let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            ends(part.chars().next()) && ends(part.chars().next_back())
        };
        let fine = if self.dots == Dots::Parts { text.split('.').all(framed) } else { framed(text) };
        if !fine {
            let parts = if self.dots == Dots::Parts { ", and so must every part between dots" } else { "" };
            faults.add(
                path,
                format!("{what} {} must start and end with a letter or digit{parts}", shown(text)),
            );
        }
    }

    fn allows(&self, c: char) -> bool {
        match c {
            'a'..='z' | '0'..='9' | '-' => true,
            '.' => self.dots != Dots::No,
            'A'..='Z' | '_' => self.wide == Wide::Yes,
            _ => false,
        }
    }

    fn alphabet(&self) -> &'static str {
        match (&self.wide, &self.dots) {
            (Wide::Yes, _) => "letters, digits, '-', '_' and '.'",
            (Wide::No, Dots::No) => "lower-case letters, digits and '-'",
            (Wide::No, _) => "lower-case letters, digits, '-' and '.'",
        }
    }
}

/// The longest part of a text that is repeated in a path or message. A bad name may be a whole file.
const SHOWN: usize = 64;

/// A text in quotes, escaped and shortened, for paths and messages.
pub(in crate::object) fn shown(text: &str) -> String {
    let mut out = String::from("\"");
    let mut rest = text.chars();
    for c in rest.by_ref().take(SHOWN) {
        // Only what would break out of the quotes, or the line: a name in another script stays legible.
        out.extend(c.escape_debug());
    }
    let left = rest.count();
    out.push('"');
    if left > 0 {
        out.push_str(&format!("… and {left} more characters"));
    }
    out
}
