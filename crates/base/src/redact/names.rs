//! What the name of a variable, header, option or member says about its value.

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// Every value is a secret, however short.
    Password,
    /// A value is a secret, unless it is an ordinary word or a small number.
    Secret,
    /// A value is a secret if it looks like one.
    Perhaps,
    /// A user and a password, as in `ann:hunter2`.
    Login,
    /// It identifies something, often by random characters.
    Id,
    /// It says nothing.
    Plain,
}

/// Words for passwords.
const PASSWORDS: &str = "password passwd passphrase passcode pass pwd pw";
/// Words for other secrets. A word that ends with one, such as `authtoken`, is one too.
const SECRETS: &str = "token secret credential cred bearer authorization cookie pat mnemonic jwt";
/// Words whose value may be a secret.
const PERHAPS: &str = "key session private sig signature salt auth";
/// Words of quantities: `MAX_TOKENS`.
const QUANTITIES: &str = "max min maximum minimum limit count budget size length len ttl timeout expiry \
    expire expiration lifetime interval window quota rate num number total usage per cost price age retry \
    retries public no";
/// Words at the end of a name whose value is about a secret and is none.
const ABOUT: &str = "file filename name path url uri user username var type kind mode method header prefix \
    suffix format algorithm alg dir directory env scheme provider store storage endpoint host port server \
    strategy enabled disabled required issuer audience scope backend field column flow location version \
    domain region status label description profile manager service vault source policy role ref rotation \
    helper realm style consent broker plugin command check validation support cache ring";
/// Words before `key` that make it no secret: `SORT_KEY`.
const OTHER_KEYS: &str = "sort partition primary foreign cache object map group hot short shortcut \
    registry index lookup row hash range translation message event routing order idempotency dict json \
    composite unique config property metadata modifier leader arrow project issue feature context label \
    dedupe sorting by";
/// Words that end with `key` and are no secrets.
const NO_KEYS: &str = "monkey donkey turkey hockey jockey whiskey mickey hotkey lackey";
/// Words at the end of a name that say which one of several it is.
const WHICH: &str = "prod production dev development staging stage test main secondary new old default \
    live value local";
/// Options whose value is a user and a password.
const LOGINS: &[&str] = &["u", "user", "auth", "basic auth", "proxy user", "http auth", "http user"];
/// The longest name that is looked at, in bytes.
const MAX_NAME: usize = 64;

/// Returns the words of a name, in lower case: of `GITHUB_TOKEN`, `X-Api-Key` and `apiKey`.
pub fn name_words(name: &str) -> Vec<String> {
    let mut separated = String::new();
    let mut before_is_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before_is_lower) {
            separated.push(' ');
        }
        if c.is_alphanumeric() {
            separated.extend(c.to_lowercase());
        }
        before_is_lower = c.is_lowercase();
    }
    separated.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns whether a value that stands under this name is probably a secret, or a reference to one.
pub fn names_secret(name: &str) -> bool {
    !matches!(kind(name), NameKind::Plain | NameKind::Id)
}

/// Returns what a name says about its value.
pub(super) fn kind(name: &str) -> NameKind {
    if name.len() > MAX_NAME {
        return NameKind::Plain;
    }
    let words = name_words(name);
    if LOGINS.contains(&words.join(" ").as_str()) {
        return NameKind::Login;
    }
    let mut words: Vec<&str> =
        words.iter().map(|word| singular(word)).filter(|word| !word.is_empty()).collect();
    while words.len() > 1 && words.last().is_some_and(|word| is_in(WHICH, word)) {
        words.pop();
    }
    let Some(last) = words.last() else { return NameKind::Plain };
    let is_id = matches!(*last, "id" | "uuid" | "guid" | "sid");
    if words.iter().any(|word| is_in(QUANTITIES, word)) || is_in(ABOUT, last) {
        return NameKind::Plain;
    }
    if is_id {
        return if words.contains(&"session") { NameKind::Perhaps } else { NameKind::Id };
    }
    let before = words.len().checked_sub(2).map(|at| words[at]);
    match kind_of_word(last) {
        NameKind::Perhaps if *last == "key" => match before {
            Some(before) if is_in(OTHER_KEYS, before) => NameKind::Plain,
            Some(_) => NameKind::Secret,
            // A member of this name may be the key of anything, an option is not.
            None if name.starts_with('-') => NameKind::Secret,
            None => NameKind::Perhaps,
        },
        NameKind::Plain if words.iter().any(|word| kind_of_word(word) != NameKind::Plain) => {
            NameKind::Perhaps
        }
        kind => kind,
    }
}

fn kind_of_word(word: &str) -> NameKind {
    let is_or_ends =
        |list: &str| list.split(' ').any(|known| word == known || known.len() > 4 && word.ends_with(known));
    if is_or_ends(PASSWORDS) || word.ends_with("pwd") {
        NameKind::Password
    } else if is_or_ends(SECRETS) {
        NameKind::Secret
    } else if is_in(PERHAPS, word) {
        NameKind::Perhaps
    } else if word.len() > 4 && word.ends_with("key") && !is_in(NO_KEYS, word) {
        NameKind::Secret
    } else {
        NameKind::Plain
    }
}

/// Returns a word without the digits and the `s` at its end.
fn singular(word: &str) -> &str {
    let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
    match word.strip_suffix('s') {
        Some(one) if one.len() > 2 && !one.ends_with('s') => one,
        _ => word,
    }
}

/// Returns whether a word is in a list of words, which stand between spaces.
pub(super) fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}
