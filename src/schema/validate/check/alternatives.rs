//! `anyOf` and `oneOf`.

use super::report::Report;
use super::{Fit, Walk, WalkError};
use crate::schema::validate::node::NodeId;
use crate::schema::validate::reader::JsonReader;
use crate::schema::validate::violation::{Keyword, Violation, Violations};
use std::ops::Range;

impl<'a> Walk<'a> {
    pub(super) fn any_of(
        &mut self,
        alternatives: &'a [NodeId],
        start: JsonReader<'a>,
    ) -> Result<Fit, WalkError> {
        let report = self.report.take();
        let mut best = Fit::Misfit;
        for id in alternatives {
            best = best.min(self.apply_here(*id, start)?);
            if best == Fit::Fits {
                break;
            }
        }
        self.report = report;
        if best == Fit::Misfit {
            self.explain_alternatives(Keyword::AnyOf, alternatives, start)?;
        }
        Ok(best)
    }

    pub(super) fn exactly_one_of(
        &mut self,
        alternatives: &'a [NodeId],
        start: JsonReader<'a>,
    ) -> Result<Fit, WalkError> {
        let report = self.report.take();
        let (mut fitting, mut unknown) = (0, 0);
        for id in alternatives {
            match self.apply_here(*id, start)? {
                Fit::Fits => fitting += 1,
                Fit::Unknown => unknown += 1,
                Fit::Misfit => {}
            }
        }
        self.report = report;
        match (fitting, unknown) {
            (0, 0) => {
                self.explain_alternatives(Keyword::OneOf, alternatives, start)?;
                Ok(Fit::Misfit)
            }
            (1, 0) => Ok(Fit::Fits),
            (0 | 1, _) => Ok(Fit::Unknown),
            _ => Ok(self.violation(Keyword::OneOf, String::new, span_of(start)?)),
        }
    }

    /// Reports why no alternative fits: the violations of the alternative that was probably meant, else the first
    /// violation of each.
    fn explain_alternatives(
        &mut self,
        keyword: Keyword,
        alternatives: &'a [NodeId],
        start: JsonReader<'a>,
    ) -> Result<(), WalkError> {
        let Some(mut report) = self.report.take() else { return Ok(()) };
        let mut reasons = Vec::new();
        for id in alternatives {
            self.report = Some(Report::at(report.path.clone()));
            self.apply_here(*id, start)?;
            reasons.extend(self.report.take().map(|report| report.violations));
        }
        let place = report.pointer();
        match &most_likely(&reasons, &place)[..] {
            [] => {
                let (keyword, types) = expected_types(&reasons, &place);
                report.add(keyword, types, span_of(start)?, self.args);
            }
            [only] => report.extend((*only).clone()),
            several => {
                let texts = several.iter().filter_map(|all| Some(all.first.first()?.to_string()));
                report.add(keyword, distinct(texts).join("; "), span_of(start)?, self.args);
            }
        }
        self.report = Some(report);
        Ok(())
    }
}

/// The alternatives that were probably meant. Alternatives for values of another type were not. If only one of the others
/// has the members with fixed values that the value has, it was: such members often tell alternatives apart.
fn most_likely<'v>(reasons: &'v [Violations], place: &str) -> Vec<&'v Violations> {
    let lacks_type = |violation: &Violation| is_type_violation(violation, place);
    let has_other_tag = |violation: &Violation| {
        violation.path != place && matches!(violation.keyword, Keyword::Const | Keyword::Enum)
    };
    let mut likely: Vec<&Violations> =
        reasons.iter().filter(|all| !all.first.iter().any(lacks_type)).collect();
    let mut tagged = likely.iter().filter(|all| !all.first.iter().any(has_other_tag));
    if let (Some(only), None) = (tagged.next(), tagged.next()) {
        likely = vec![only];
    }
    likely
}

fn is_type_violation(violation: &Violation, place: &str) -> bool {
    violation.path == place && matches!(violation.keyword, Keyword::Type | Keyword::False)
}

/// The types that the alternatives require, as the keyword and the expectation of a violation.
fn expected_types(reasons: &[Violations], place: &str) -> (Keyword, String) {
    let violations = reasons.iter().flat_map(|all| &all.first);
    let types = violations.filter(|violation| is_type_violation(violation, place));
    let types = distinct(types.map(|violation| violation.expected.clone()).filter(|types| !types.is_empty()));
    match types.is_empty() {
        true => (Keyword::False, String::new()),
        false => (Keyword::Type, types.join(" or ")),
    }
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct
}

fn span_of(mut value: JsonReader<'_>) -> Result<Range<usize>, WalkError> {
    value.kind()?;
    let start = value.position();
    value.skip()?;
    Ok(start..value.position())
}
