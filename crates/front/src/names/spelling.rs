//! Names as models spell them: in another case, with other separators, or as our texts show them. Pure.
//!
//! An exact name always counts before any other spelling. Where several names are equally near, none of them is taken.

use base::text;

/// What our texts and models write between a group and its tool.
const SEPARATORS: [&str; 4] = ["__", "/", ".", ":"];

/// The known names that a spelling may mean.
#[derive(Debug, PartialEq, Eq)]
pub enum Match<T> {
    /// None is near enough.
    None,
    /// This one.
    One(T),
    /// Any of these.
    Several(Vec<T>),
}

impl<T> Match<T> {
    /// Returns the match if there is exactly one.
    pub fn unique(self) -> Option<T> {
        match self {
            Self::One(found) => Some(found),
            Self::None | Self::Several(_) => None,
        }
    }
}

/// Finds what `written` names, among things with their names: one of exactly this name, else one whose name differs in
/// case, else one that our texts show so, else one that differs in case and in what stands between letters and digits.
pub fn find<'n, T>(known: impl Iterator<Item = (T, &'n str)> + Clone, written: &str) -> Match<T> {
    if let Some((exact, _)) = known.clone().find(|(_, name)| *name == written) {
        return Match::One(exact);
    }
    let plain_written = plain(written);
    let degrees: [&dyn Fn(&str) -> bool; 3] = [
        &|name| name.eq_ignore_ascii_case(written),
        &|name| text::visible(name) == written || text::name(name) == written,
        &|name| plain(name) == plain_written,
    ];
    for is_near in degrees {
        let mut near = known.clone().filter(|(_, name)| is_near(name)).map(|(candidate, _)| candidate);
        match (near.next(), near.next()) {
            (None, _) => {}
            (Some(one), None) => return Match::One(one),
            (Some(first), Some(second)) => {
                return Match::Several([first, second].into_iter().chain(near).collect());
            }
        }
    }
    Match::None
}

/// Returns a name without its case, and with `_` for everything that is no letter or digit, as exposed names have it.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    name.chars().map(plain).collect()
}

/// Returns what `written` calls the tool, if it begins with the name of the group: `fs / x`, `fs/x`, `fs.x`, `fs:x`,
/// `fs__x`.
pub(crate) fn without_group<'w>(group: &str, written: &'w str) -> Option<&'w str> {
    let shown = text::name(group);
    let rest = [group, &shown].into_iter().find_map(|group| {
        let (start, rest) = written.split_at_checked(group.len())?;
        start.eq_ignore_ascii_case(group).then_some(rest)
    })?;
    let rest = rest.trim_start();
    let tool = SEPARATORS.iter().find_map(|separator| rest.strip_prefix(separator))?.trim_start();
    (!tool.is_empty()).then_some(tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found<'n>(known: &[&'n str], written: &str) -> Match<&'n str> {
        find(known.iter().map(|name| (*name, *name)), written)
    }

    #[test]
    fn exact_names_count_before_other_spellings() {
        let known = ["get-sum", "get_sum", "Get-Sum", "list files", "read_file"];
        for exact in known {
            assert_eq!(found(&known, exact), Match::One(exact));
        }
        assert_eq!(found(&known, "GET_SUM"), Match::One("get_sum"));
        assert_eq!(found(&known, "get.sum"), Match::Several(vec!["get-sum", "get_sum", "Get-Sum"]));
        assert_eq!(found(&known, "GET-SUM"), Match::Several(vec!["get-sum", "Get-Sum"]));
        assert_eq!(found(&known, "list_files"), Match::One("list files"));
        assert_eq!(found(&known, "\"list files\""), Match::One("list files"));
        assert_eq!(found(&known, "read-file"), Match::One("read_file"));
        for other in ["readfile", "read_files", "", "_"] {
            assert_eq!(found(&known, other), Match::None, "{other}");
        }
    }

    #[test]
    fn a_group_before_the_tool_is_found_in_every_notation() {
        for written in ["fs / x", "fs/x", "fs.x", "fs:x", "fs__x", "FS/x", "fs : x"] {
            assert_eq!(without_group("fs", written), Some("x"), "{written}");
        }
        assert_eq!(without_group("my fs", "\"my fs\" / \"a b\""), Some("\"a b\""));
        assert_eq!(without_group("my fs", "my fs/a/b"), Some("a/b"));
        for written in ["fs", "fs/", "fsx", "fs x", "x", "é", "f", "fs-x"] {
            assert_eq!(without_group("fs", written), None, "{written}");
        }
    }

    proptest! {
        #[test]
        fn any_name_finds_itself_and_no_text_causes_a_panic(
            known in proptest::collection::vec("[aA_./ -]{0,4}|.{0,6}", 0..6),
            written in "[aA_./: -]{0,6}|.{0,8}",
        ) {
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            for name in &names {
                prop_assert_eq!(found(&names, name), Match::One(*name));
                prop_assert!(without_group(name, &written).is_none_or(|tool| written.ends_with(tool)));
            }
            if let Match::One(one) = found(&names, &written) {
                prop_assert!(one == written || !names.contains(&written.as_str()));
            }
        }
    }
}
