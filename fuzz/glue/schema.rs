//! Fuzz targets: schemas with arguments, and signatures.
#![allow(clippy::expect_used, reason = "a panic is what a fuzz target reports")]

use super::signature::signature;
use super::validate::{ArgumentValidator, ArgumentVerdict};
use super::{definition, of_arguments};
use serde::de::IgnoredAny;
use serde_json::Value;
use wire::Raw;

/// Two lines, a definition and arguments: the verdict is the same each time and, for JSON, with white space around the
/// arguments; violations are described briefly, and repaired arguments are JSON.
pub fn schema(data: &[u8]) {
    let split = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (definition, args) =
        (Raw::copy_from_slice(&data[..split]), data.get(split + 1..).unwrap_or_default());
    let validator = ArgumentValidator::default();
    let verdict = validator.validate("t", &definition, args);
    assert_eq!(validator.validate("t", &definition, args), verdict, "from the cache");
    let is_json = serde_json::from_slice::<IgnoredAny>(args).is_ok();
    let spaced = validator.validate("t", &definition, &[b" \t\r\n", args, b" \n"].concat());
    assert!(spaced == verdict || !is_json, "{verdict:?}, but with white space {spaced:?}");
    if let ArgumentVerdict::Misfit(violations) = &verdict {
        let text = violations.to_string();
        assert!(!text.is_empty() && text.chars().count() < 3000, "{} characters", text.chars().count());
    }
    for drops_nulls in [false, true] {
        let Some(repaired) = validator.repair("t", &definition, args, drops_nulls) else { continue };
        assert!(matches!(verdict, ArgumentVerdict::Misfit(_) | ArgumentVerdict::OptionalNulls));
        assert!(serde_json::from_slice::<IgnoredAny>(&repaired).is_ok() || !is_json);
    }
    if definition::listable(&definition).is_ok() {
        assert!(serde_json::from_slice::<Value>(&definition).is_ok_and(|tool| tool.is_object()));
    }
}

/// A definition: its signature has a bounded length, no comment ends early, and one that is called lossless names every
/// parameter.
pub fn signatures(data: &[u8]) {
    let definition = Raw::copy_from_slice(data);
    let written = signature(&definition);
    assert_eq!(signature(&definition), written);
    assert!(written.description.chars().count() <= 15_001 && written.call.chars().count() <= 15_001);
    assert!(!written.description.contains("*/"), "{}", written.description);
    let schema = of_arguments(&definition).and_then(|schema| serde_json::from_slice::<Value>(&schema).ok());
    let properties = schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for name in properties.into_iter().flat_map(|properties| properties.keys()) {
        let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        assert!(
            !written.lossless || !is_plain || written.call.contains(name.as_str()),
            "{name} is missing in {written}"
        );
    }
}
