//! Params and results on their way out.

use bytes::Bytes;

/// JSON text in parts, which are written one after the other. What a proxy replaces becomes a part of its own, so that
/// the rest need not be copied.
#[derive(Debug, Clone, Default)]
pub struct Body {
    first: Bytes,
    rest: Vec<Bytes>,
    /// The part that is the value of `_meta.progressToken`, if that is known.
    token: Option<usize>,
}

impl Body {
    /// Makes a body of parts.
    pub(super) fn of(parts: impl IntoIterator<Item = Bytes>) -> Self {
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        Self { first: parts.next().unwrap_or_default(), rest: parts.collect(), token: None }
    }

    /// The length of all parts in bytes.
    pub fn len(&self) -> usize {
        self.parts().map(Bytes::len).sum()
    }

    /// Returns whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The parts.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> + Clone {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The parts, owned.
    pub(super) fn into_parts(self) -> impl Iterator<Item = Bytes> {
        std::iter::once(self.first).chain(self.rest)
    }

    /// The whole text. It is copied if it has several parts.
    pub fn join(&self) -> Bytes {
        match self.rest.is_empty() {
            true => self.first.clone(),
            false => concat(self.parts().map(|part| &part[..])),
        }
    }

    /// Makes the value of the progress token, a slice of one of the parts, a part of its own.
    pub(super) fn split_at_token(self, token: &Bytes) -> Self {
        let address = |text: &[u8]| text.as_ptr() as usize..text.as_ptr() as usize + text.len();
        let wanted = address(token);
        let is_inside = |part: &Bytes| {
            let part = address(part);
            part.start < wanted.start && wanted.end < part.end
        };
        let Some(index) = self.parts().position(is_inside) else { return self };
        let pieces = self.into_parts().flat_map(|part| {
            let start = wanted.start.wrapping_sub(address(&part).start);
            match is_inside(&part) {
                true => [
                    part.slice(..start),
                    part.slice(start..start + token.len()),
                    part.slice(start + token.len()..),
                ],
                false => [part, Bytes::new(), Bytes::new()],
            }
        });
        Self { token: Some(index + 1), ..Self::of(pieces) }
    }

    /// Sets the progress token where it is known to be.
    ///
    /// # Errors
    ///
    /// Returns the body itself if it is not known.
    pub(super) fn set_progress_token(mut self, token: Bytes) -> Result<Self, Self> {
        match self.token.and_then(|index| self.rest.get_mut(index - 1)) {
            Some(part) => {
                *part = token;
                Ok(self)
            }
            None => Err(self),
        }
    }
}

impl From<Bytes> for Body {
    fn from(text: Bytes) -> Self {
        Self { first: text, rest: Vec::new(), token: None }
    }
}

/// Joins pieces of text in a buffer of exactly their length, which needs one allocation.
pub(super) fn concat<'a>(pieces: impl Iterator<Item = &'a [u8]> + Clone) -> Bytes {
    let mut text = Vec::with_capacity(pieces.clone().map(<[u8]>::len).sum());
    pieces.for_each(|piece| text.extend_from_slice(piece));
    text.into()
}
