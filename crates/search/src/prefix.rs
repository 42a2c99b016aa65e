//! Prefix search in a sorted map.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Returns the entries whose keys begin with `prefix`, in the order of the keys.
pub(crate) fn entries_with_prefix<'m, T>(
    map: &'m BTreeMap<String, T>,
    prefix: &str,
) -> impl Iterator<Item = (&'m String, &'m T)> {
    let from = (Bound::Included(prefix), Bound::Unbounded);
    map.range::<str, _>(from).take_while(move |(key, _)| key.starts_with(prefix))
}
