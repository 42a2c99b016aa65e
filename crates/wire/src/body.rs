//! Params and results on their way out.

use bytes::Bytes;
use std::ops::Range;

/// JSON text with replacements for parts of it. A large text is never copied for that.
#[derive(Debug, Clone, Default)]
pub struct Body {
    text: Bytes,
    /// The edits in the order of their places, which do not overlap.
    edits: Vec<BodyEdit>,
    /// Where the value of `_meta.progressToken` is in the text, if that is known.
    token: Option<Range<usize>>,
}

/// New text for a part of a body.
#[derive(Debug, Clone)]
pub(super) struct BodyEdit {
    /// The part, as offsets in the text.
    pub(super) place: Range<usize>,
    /// The replacement.
    pub(super) value: Bytes,
}

impl Body {
    /// Makes a body of a text and its edits, which are in order and do not overlap.
    pub(super) fn edited(text: Bytes, edits: Vec<BodyEdit>) -> Self {
        Self { text, edits, token: None }
    }

    /// Says where in the text the value of the progress token is.
    pub(super) fn with_token(self, token: Option<Range<usize>>) -> Self {
        Self { token, ..self }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        let grown: usize = self.edits.iter().map(|edit| edit.value.len()).sum();
        let replaced: usize = self.edits.iter().map(|edit| edit.place.len()).sum();
        self.text.len() + grown - replaced
    }

    /// Returns whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the whole text to `out`.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        let mut done = 0;
        for BodyEdit { place, value } in &self.edits {
            out.extend_from_slice(&self.text[done..place.start]);
            out.extend_from_slice(value);
            done = place.end;
        }
        out.extend_from_slice(&self.text[done..]);
    }

    /// Returns the whole text in parts, none of which is empty or a copy.
    pub(super) fn parts(&self) -> Vec<Bytes> {
        let mut parts = Vec::with_capacity(2 * self.edits.len() + 2);
        let mut done = 0;
        for BodyEdit { place, value } in &self.edits {
            parts.push(self.text.slice(done..place.start));
            parts.push(value.clone());
            done = place.end;
        }
        parts.push(self.text.slice(done..));
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Returns the whole text. It is copied if there are edits.
    pub fn join(&self) -> Bytes {
        if self.edits.is_empty() {
            return self.text.clone();
        }
        let mut text = Vec::with_capacity(self.len());
        self.write_to(&mut text);
        text.into()
    }

    /// Sets the progress token where it is known to be.
    ///
    /// # Errors
    ///
    /// Returns the body itself if it is not known.
    pub(super) fn set_progress_token(mut self, value: Bytes) -> Result<Self, Self> {
        let Some(place) = self.token.take() else { return Err(self) };
        let at = self.edits.partition_point(|edit| edit.place.start < place.start);
        self.edits.insert(at, BodyEdit { place, value });
        Ok(self)
    }
}

impl From<Bytes> for Body {
    fn from(text: Bytes) -> Self {
        Self { text, edits: Vec::new(), token: None }
    }
}

/// Joins pieces of text in a buffer of exactly their length, which needs one allocation.
pub(super) fn concat<'a>(pieces: impl Iterator<Item = &'a [u8]> + Clone) -> Bytes {
    let mut text = Vec::with_capacity(pieces.clone().map(<[u8]>::len).sum());
    pieces.for_each(|piece| text.extend_from_slice(piece));
    text.into()
}
