//! What the shape of a value says: references, paths, ordinary words, and what looks random.

use super::names::{NameKind, is_in, names_secret};

/// How much of a value is looked at, in bytes.
pub(super) const HEAD: usize = 512;
/// The least length of what is a secret by its shape alone, in bytes.
const MIN_RANDOM: usize = 20;
/// How many of 100 neighbours in a random text differ in kind (small letters, capitals, digits), at least.
const MIN_CHANGES: usize = 28;

/// How tokens of well-known services begin. No other words do.
const PREFIXES: &str = "AIza AKIA ASIA ATATT ATCTT CFPAT- EAAA GOCSPX- LS0tLS1CRUdJTi PMAK- SG. apify_api_ \
    ctx7sk- dapi dckr_pat_ dop_v1_ doo_v1_ eyJ figd_ gho_ ghp_ ghr_ ghs_ ghu_ github_pat_ glpat- glrt- \
    gsk_ lin_api_ lin_oauth_ nfp_ ntn_ nvapi- pcsk_ phx_ pk_live_ pplx- pypi- rk_live_ rk_test_ sbp_ \
    shpat_ shpss_ sk_live_ sk_test_ sntrys_ sntryu_ tskey- tvly- whsec_ xapp- xoxa- xoxb- xoxe- xoxp- \
    xoxs- ya29.";
/// How tokens and other words begin.
const COMMON_PREFIXES: &str = "fc- hf_ key- npm_ pk- r8_ re_ secret_ sk- sk_ xai- token_ api- api_";
/// Values that say something about a secret, and are none. Some begin a sentence of an error.
const ORDINARY: &str = "always any anonymous api-key api_key apikey basic bearer cannot cookie could \
    default digest empty enabled env environment error expected expired failed field file header http \
    inline invalid jwt kerberos keychain keyring missing mtls must never ntlm oauth oauth2 oidc optional \
    pkce please provided query rejected required saml should string that this unauthorized unknown unset \
    value with";
/// Values that switch something, or stand for no value.
const SWITCHES: &str = "auto disabled false n nil no none null off on prompt stdin true undefined y yes";
/// The ends of the names of files that have secrets.
const FILE_ENDS: &str = ".cer .crt .env .ini .jks .json .key .keystore .p12 .p8 .pem .pfx .toml .txt .yaml \
    .yml";
/// The schemes of `Authorization` headers.
const SCHEMES: &str = "apikey basic bearer token";

/// Splits a value into the scheme of an `Authorization` header with its space, or nothing, and the secret.
pub fn split_scheme(value: &str) -> (&str, &str) {
    match value.split_once(' ') {
        Some((scheme, _)) if is_scheme(scheme) => value.split_at(scheme.len() + 1),
        _ => ("", value),
    }
}

/// Returns whether a word is the scheme of an `Authorization` header.
pub(super) fn is_scheme(word: &str) -> bool {
    SCHEMES.split(' ').any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Returns whether a text is a path of Windows: one with a drive, one of a share, or a relative one.
pub fn is_windows_path(text: &str) -> bool {
    let has_drive = matches!(text.as_bytes(), [drive, b':', b'/' | b'\\', ..] if drive.is_ascii_alphabetic());
    has_drive || text.starts_with(r"\\") || text.starts_with(r".\")
}

/// Returns whether a whole value is a secret under a name of this kind.
pub(super) fn is_secret(kind: NameKind, value: &str) -> bool {
    let value = head(value.trim());
    if value.is_empty()
        || is_reference(value)
        || is_structure(value)
        || is_path(value)
        || value.contains("://")
    {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    // Versions have digits, too.
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b".-_^~<>=".contains(&byte));
    let is_word = is_in(SWITCHES, &lower);
    match kind {
        NameKind::Password => !is_word,
        NameKind::Secret => {
            let is_word = is_word || is_in(ORDINARY, &lower) || is_variable_name(value);
            value.len() >= 4 && !is_word && !(is_number && value.len() < 8)
        }
        NameKind::Perhaps => value.len() >= 8 && (is_mixed(value) || is_hex(value)),
        NameKind::Login => is_random(value) || is_hex(value),
        NameKind::Id | NameKind::Plain => false,
    }
}

/// Returns the beginning of a text.
pub(super) fn head(text: &str) -> &str {
    let mut end = text.len().min(HEAD);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns whether a value stands for one that is elsewhere, or is yet to be written.
pub(super) fn is_reference(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_variable = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let is_braced = bytes[0] == b'{' && value.ends_with('}') && !value.contains('"');
    is_braced
        || value.contains("${") && is_ordinary(&without_references(value))
        || value.starts_with("$(")
        || value.starts_with("$env:")
        || value.strip_prefix('$').is_some_and(is_variable)
        || value.strip_prefix('%').and_then(|rest| rest.strip_suffix('%')).is_some_and(is_variable)
        || value.starts_with('<') && value.ends_with('>')
        || value.starts_with("op://")
        || value.get(..5).is_some_and(|start| {
            start.is_ascii()
                && start[..4].eq_ignore_ascii_case("your")
                && matches!(bytes[4], b'_' | b'-' | b' ')
        })
}

/// Returns a value without its `${…}`.
fn without_references(value: &str) -> String {
    let mut parts = value.split("${");
    let before = parts.next().unwrap_or_default().to_owned();
    parts.fold(before, |rest, part| rest + part.split_once('}').map_or("", |(_, after)| after))
}

/// Returns whether a text beside a reference is short, or has letters and separators only.
fn is_ordinary(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphabetic() || b"-_./:@ ".contains(&byte);
    text.len() < 8 || text.bytes().all(is_plain)
}

fn is_structure(value: &str) -> bool {
    value.starts_with(['{', '[']) && value.contains(['"', ':', '\''])
}

/// Returns whether a value is the path of a file, or its name.
fn is_path(value: &str) -> bool {
    let starts = value.starts_with('/')
        || value.starts_with("~/")
        || value.starts_with("./")
        || value.starts_with("../");
    let is_file = || FILE_ENDS.split(' ').any(|end| value.len() > end.len() && value.ends_with(end));
    (starts && !is_random(value)) || is_windows_path(value) || (!value.contains(' ') && is_file())
}

/// Returns whether a value is the name of a variable that has a secret, as in `"tokenEnv": "GITHUB_TOKEN"`.
fn is_variable_name(value: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    value.contains('_') && value.bytes().all(is_name) && names_secret(value)
}

/// Returns whether a word without a name begins as a token of a well-known service does.
pub(super) fn is_token(word: &str) -> bool {
    let word = head(word);
    let rest = |prefixes: &str| prefixes.split(' ').find_map(|prefix| word.strip_prefix(prefix));
    if let Some(rest) = rest(PREFIXES) {
        return rest.len() >= 10 && !rest.starts_with("your");
    }
    rest(COMMON_PREFIXES).is_some_and(|rest| {
        let mut runs = rest.split(|c: char| !c.is_ascii_alphanumeric());
        rest.len() >= 16 && runs.any(|run| run.len() >= 8 && has_letter_and_digit(run))
    })
}

fn has_letter_and_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Returns whether a word has no words in it: its letters and digits alternate often.
pub(super) fn is_random(word: &str) -> bool {
    is_random_from(word, MIN_RANDOM)
}

/// As [`is_random`], from another length on.
pub(super) fn is_random_from(word: &str, min: usize) -> bool {
    let word = head(word);
    // Public keys of SSH begin with AAAA.
    word.len() >= min
        && word.is_ascii()
        && !is_hex(word)
        && !word.starts_with("AAAA")
        && changes(word) * 100 >= MIN_CHANGES * word.len()
}

/// Returns whether letters and digits are mixed in a value, as in no word.
pub(super) fn is_mixed(value: &str) -> bool {
    has_letter_and_digit(value) && changes(value) >= 2
}

/// Returns whether a value is a number in hexadecimal: a hash, a UUID or a key.
pub(super) fn is_hex(value: &str) -> bool {
    value.len() >= 20
        && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && has_letter_and_digit(value)
}

/// Counts the neighbours that differ in kind. A capital before a small letter begins a word, and does not count.
fn changes(text: &str) -> usize {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let pairs = text.bytes().zip(text.bytes().skip(1)).map(|(one, next)| (kind(one), kind(next)));
    pairs.filter(|&(one, next)| one != next && one != 0 && next != 0 && (one, next) != (2, 1)).count()
}
