//! The variables that launchers such as `npx`, `uvx` and `docker` need: where their caches, registries and
//! installations are, and which profile or project of a cloud is meant.
//!
//! The list is explicit, because a prefix such as `NPM_CONFIG_` also covers credentials. Credentials that stand in a URL,
//! as in `PIP_INDEX_URL=https://user:password@host/`, are not passed on either.

use std::ffi::OsStr;

/// No name on the list has one of these words, which mark credentials.
pub(super) const SECRET_WORDS: &[&str] = &["TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CRED"];

/// The list. npm reads its variables in any case, and writes them in lower case itself.
const LAUNCHER_VARS: &[&str] = &[
    // uv and pip.
    "PIPX_HOME",
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PYENV_ROOT",
    "UV_CACHE_DIR",
    "UV_CONFIG_FILE",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_LINK_MODE",
    "UV_NATIVE_TLS",
    "UV_OFFLINE",
    "UV_PYTHON",
    "UV_PYTHON_DOWNLOADS",
    "UV_PYTHON_INSTALL_DIR",
    "UV_PYTHON_PREFERENCE",
    "UV_SYSTEM_CERTS",
    "UV_TOOL_BIN_DIR",
    "UV_TOOL_DIR",
    // npm and other launchers of JavaScript.
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "COREPACK_HOME",
    "DENO_DIR",
    "FNM_DIR",
    "FNM_MULTISHELL_PATH",
    "MISE_CACHE_DIR",
    "MISE_CONFIG_DIR",
    "MISE_DATA_DIR",
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_CAFILE",
    "NPM_CONFIG_GLOBALCONFIG",
    "NPM_CONFIG_OFFLINE",
    "NPM_CONFIG_PREFER_OFFLINE",
    "NPM_CONFIG_PREFIX",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_USERCONFIG",
    "NVM_BIN",
    "NVM_DIR",
    "N_PREFIX",
    "PLAYWRIGHT_BROWSERS_PATH",
    "PNPM_HOME",
    "PUPPETEER_CACHE_DIR",
    "PUPPETEER_EXECUTABLE_PATH",
    "VOLTA_HOME",
    "YARN_CACHE_FOLDER",
    // Other languages and containers.
    "CARGO_HOME",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_TLS_VERIFY",
    "DOTNET_ROOT",
    "GOBIN",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOPROXY",
    "JAVA_HOME",
    "RUSTUP_HOME",
    // Certificates.
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NIX_SSL_CERT_FILE",
    // Which account or project of a cloud is meant, not how to log in to it.
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "AZURE_CONFIG_DIR",
    "CLOUDSDK_ACTIVE_CONFIG_NAME",
    "CLOUDSDK_CONFIG",
    "CLOUDSDK_CORE_PROJECT",
    "GCLOUD_PROJECT",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_REGION",
];

/// The prefix of the variables that npm reads in any case.
const NPM_PREFIX: &str = "npm_config_";

/// Returns whether children inherit the variable because launchers need it.
pub(super) fn is_inherited(name: &str, value: &OsStr) -> bool {
    let is_on_list = |name: &str| LAUNCHER_VARS.contains(&name);
    let is_npm = name.get(..NPM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(NPM_PREFIX));
    let is_listed = is_on_list(name) || (is_npm || cfg!(windows)) && is_on_list(&name.to_uppercase());
    is_listed && value.to_str().is_some_and(|value| !has_url_with_credentials(value))
}

/// Returns whether the value contains a URL with a user, a password or a query, which may be a token.
pub(super) fn has_url_with_credentials(value: &str) -> bool {
    value.match_indices("://").any(|(at, separator)| {
        let rest = &value[at + separator.len()..];
        let url = rest.split([' ', ',', '\t', '\n', '|']).next().unwrap_or(rest);
        let authority = url.split(['/', '?', '#']).next().unwrap_or(url);
        authority.contains('@') || url.contains('?')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_on_the_list_is_that_of_a_credential() {
        for name in LAUNCHER_VARS {
            let secret = SECRET_WORDS.iter().find(|word| name.contains(**word));
            assert_eq!(secret, None, "{name}");
        }
    }

    #[test]
    fn a_listed_variable_is_inherited_unless_its_value_has_credentials() {
        for (name, value, expected) in [
            ("UV_CACHE_DIR", "/c", true),
            ("NPM_CONFIG_REGISTRY", "https://npm.example.com/", true),
            ("npm_config_registry", "https://npm.example.com/", true),
            ("uv_cache_dir", "/c", cfg!(windows)),
            ("PIP_INDEX_URL", "https://pypi.example.com/simple", true),
            ("PIP_INDEX_URL", "https://u:p@pypi.example.com/simple", false),
            ("PIP_INDEX_URL", "https://t0k3n@pypi.example.com/simple", false),
            ("PIP_EXTRA_INDEX_URL", "https://a.example/ https://u:p@b.example/", false),
            ("UV_DEFAULT_INDEX", "https://a.example/?token=x", false),
            ("GOPROXY", "https://u:p@a.example,direct", false),
            ("GOPROXY", "https://a.example,direct", true),
            ("PIP_CACHE_DIR", "/home/a@b/c", true),
            ("NPM_CONFIG__AUTH", "x", false),
            ("NPM_TOKEN", "x", false),
            ("AWS_PROFILE", "work", true),
            ("AWS_SECRET_ACCESS_KEY", "x", false),
        ] {
            assert_eq!(is_inherited(name, OsStr::new(value)), expected, "{name}={value}");
        }
    }

    #[test]
    fn the_documentation_has_the_whole_list() {
        let docs = include_str!("../../../../docs/configuration.md");
        for name in LAUNCHER_VARS {
            assert!(docs.contains(&format!("`{name}`")), "docs/configuration.md does not name {name}");
        }
    }
}
