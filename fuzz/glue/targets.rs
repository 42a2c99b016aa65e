//! What is fuzzed: one function for each kind of input that others control.
//!
//! # Theory of operation
//!
//! A target takes any bytes, and panics if the code that reads them breaks a rule: a round trip that loses something, a
//! bound that does not hold, a validity on which serde_json disagrees. The files beside this one have them. Each is a module
//! of the crate that it tests, and exists only in tests and under `cfg(fuzzing)`, which cargo-fuzz sets.
//!
//! `fuzz/` has a binary for each target, and a small corpus. `cargo test` runs every target with the corpus and with some
//! hundred mutations of it; `.ci/long` runs the binaries for minutes.

pub use auth::fuzz::oauth_metadata;
pub use config::fuzz::{config, variables};
pub use front::passthrough::fuzz::routing;
#[cfg(unix)]
pub use process::warden::fuzz::warden;
pub use schema::fuzz::{schema, signatures};
pub use upstream::transport::remote::fuzz::sse;
pub use wire::fuzz::{batches, wire};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;
    use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::{Path, PathBuf};

    /// The mutations of the corpora in one run of the tests.
    const CASES: u32 = 400;

    fn fuzz_dir() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
    }

    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(fuzz_dir().join("corpus").join(target)).unwrap();
        let corpus: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
        assert!(corpus.len() >= 3, "the corpus of {target} has {} files", corpus.len());
        corpus
    }

    /// A change of an input, as fuzzers make them.
    #[derive(Debug, Clone)]
    enum Mutation {
        Insert(Index, Vec<u8>),
        Flip(Index, u8),
        Remove(Index, Index),
        Repeat(Index, Index),
        /// Inserts a part of another input of the corpus.
        Splice(Index, Index, Index, Index),
    }

    fn mutation() -> impl Strategy<Value = Mutation> {
        let index = any::<Index>;
        let tokens: Vec<&[u8]> = vec![
            b"\"",
            b"\\",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"\n",
            b"\r",
            b" ",
            b"\0",
            b"\xff",
            b"\xef\xbb\xbf",
            b"null",
            b"1e400",
            b"-0",
            b"\\u0000",
            b"\\ud800",
            "\u{202e}".as_bytes(),
            b"${",
            b"$$",
            b"id",
            b"data:",
            b"//",
            b"127.0.0.1",
            b"[::1]",
            b"__",
            b"$ref",
            b"\xff\xff\xff\xff",
        ];
        prop_oneof![
            (index(), proptest::sample::select(tokens))
                .prop_map(|(at, token)| Mutation::Insert(at, token.to_vec())),
            (index(), proptest::collection::vec(any::<u8>(), 1..4))
                .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
            (index(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip(at, 1 << bit)),
            (index(), index()).prop_map(|(from, to)| Mutation::Remove(from, to)),
            (index(), index()).prop_map(|(from, to)| Mutation::Repeat(from, to)),
            (index(), index(), index(), index())
                .prop_map(|(at, other, from, to)| Mutation::Splice(at, other, from, to)),
        ]
    }

    /// The range between two indexes of an input, in either order.
    fn range(input: &[u8], a: Index, b: Index) -> std::ops::Range<usize> {
        let (a, b) = (a.index(input.len() + 1), b.index(input.len() + 1));
        a.min(b)..a.max(b)
    }

    fn mutate(mut input: Vec<u8>, mutations: Vec<Mutation>, corpus: &[Vec<u8>]) -> Vec<u8> {
        for mutation in mutations {
            let at = |index: Index| index.index(input.len() + 1);
            let (at, inserted) = match mutation {
                Mutation::Insert(index, bytes) => (at(index), bytes),
                Mutation::Flip(index, bit) => {
                    if !input.is_empty() {
                        let at = index.index(input.len());
                        input[at] ^= bit;
                    }
                    continue;
                }
                Mutation::Remove(a, b) => {
                    input.drain(range(&input, a, b));
                    continue;
                }
                Mutation::Repeat(a, b) => {
                    let range = range(&input, a, b);
                    (range.end, input[range].to_vec())
                }
                Mutation::Splice(index, other, a, b) => {
                    let other = &corpus[other.index(corpus.len())];
                    (at(index), other[range(other, a, b)].to_vec())
                }
            };
            input.splice(at..at, inserted);
            input.truncate(1 << 16);
        }
        input
    }

    /// Runs a target with its corpus and with mutations of it.
    fn check(name: &str, target: fn(&[u8])) {
        let corpus = corpus(name);
        for input in &corpus {
            target(input);
        }
        let cases = (any::<Index>(), proptest::collection::vec(mutation(), 1..12));
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
        // The same mutations each time, so that a change is not blamed for an input that was never tried. `.ci/long` tries
        // others.
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let outcome = TestRunner::new_with_rng(config, rng).run(&cases, |(start, mutations)| {
            let input = mutate(corpus[start.index(corpus.len())].clone(), mutations, &corpus);
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
            outcome.map_err(|_| TestCaseError::fail(format!("fails with b\"{}\"", input.escape_ascii())))
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    macro_rules! targets {
        ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
            $($(#[$attribute])* #[test] fn $name() { check(stringify!($name), super::$name); })*

            #[test]
            fn every_target_has_a_binary_and_a_corpus() {
                let names = [$(stringify!($name)),*];
                let manifest = std::fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
                for (dir, what) in [("corpus", "a corpus"), ("fuzz_targets", "a binary")] {
                    let mut found: Vec<_> = std::fs::read_dir(fuzz_dir().join(dir)).unwrap()
                        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
                        .collect();
                    found.sort();
                    let mut expected = names.to_vec();
                    expected.sort();
                    assert_eq!(found, expected, "the targets with {what}");
                }
                for name in names {
                    assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
                }
            }
        };
    }

    targets!(
        wire,
        batches,
        config,
        variables,
        routing,
        sse,
        oauth_metadata,
        schema,
        signatures,
        #[cfg(unix)]
        warden
    );
}
