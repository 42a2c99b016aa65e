//! The names of the types that a signature declares.

use std::collections::HashMap;

/// A longer name of a type is cut.
const MAX_NAME_CHARACTERS: usize = 40;

/// The references whose targets have a name. No two types have the same one.
#[derive(Default)]
pub(crate) struct TypeNames<'s> {
    /// The references and their names, in the order in which they got them.
    names: Vec<(&'s str, String)>,
    /// The places of the references in `names`.
    places: HashMap<&'s str, usize>,
    /// The names that are taken, and the number with which the search for the next one like it begins.
    taken: HashMap<String, usize>,
}

impl<'s> TypeNames<'s> {
    /// Returns the name of a reference's target, if it has one.
    pub(crate) fn get(&self, reference: &str) -> Option<&str> {
        Some(&self.names[*self.places.get(reference)?].1)
    }

    /// Returns the reference at `index`, in the order in which they were added, and its name. `None` if there are
    /// fewer.
    pub(crate) fn nth(&self, index: usize) -> Option<(&'s str, String)> {
        self.names.get(index).cloned()
    }

    /// Gives the target of a reference a name, and returns it. The reference must have none yet. If the name is taken,
    /// a number follows it.
    pub(crate) fn add(&mut self, reference: &'s str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain: String =
            last.chars().filter(|c| c.is_alphanumeric() || *c == '_').take(MAX_NAME_CHARACTERS).collect();
        let plain = if plain.is_empty() { "Arguments".to_owned() } else { plain };
        let mut name = plain.clone();
        while self.taken.contains_key(&name) {
            let next = self.taken.entry(plain.clone()).or_insert(2);
            name = format!("{plain}{next}");
            *next += 1;
        }
        self.taken.insert(name.clone(), 2);
        self.places.insert(reference, self.names.len());
        self.names.push((reference, name.clone()));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_however_many_references_end_alike() {
        let references: Vec<_> = (0..20_000).map(|n| format!("#/$defs/{n}/T")).collect();
        let mut names = TypeNames::default();
        assert_eq!(names.add("#/$defs/T3"), "T3");
        for reference in &references {
            names.add(reference);
        }
        assert_eq!(
            ["#/$defs/0/T", "#/$defs/1/T", "#/$defs/2/T"].map(|of| names.get(of).unwrap()),
            ["T", "T2", "T4"]
        );
        assert_eq!(names.taken.len(), 20_001);
        assert_eq!(names.nth(1), Some(("#/$defs/0/T", "T".to_owned())));
    }
}
