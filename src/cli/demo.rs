//! `dynamic-mcp demo`.

use std::process::ExitCode;

pub async fn demo() -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}

pub async fn server(_kind: &str) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
