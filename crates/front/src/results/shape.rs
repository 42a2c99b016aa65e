//! The shape of JSON: keys and types, lengths of arrays, and a few values, in a few lines however large the JSON is.

use super::content::{decode, is_json};
use super::slices;
use base::text::grouped;
use base::text::{name, quoted, shorten};
use wire::scan::Scanner;

/// The longest shape, in characters.
const MAX_SHAPE: usize = 1500;
/// How deep a shape goes.
const MAX_DEPTH: usize = 5;
/// How many elements of an array are looked at.
const MAX_ELEMENTS: usize = 20;
/// How many members of an object are named.
const MAX_MEMBERS: usize = 40;
/// The longest example, in characters.
const MAX_EXAMPLE: usize = 30;
/// The longest text whose beginning is shown, in characters.
const MAX_BEGINNING: usize = 200;

/// Describes a text: its shape if it is JSON, else its lines and its beginning.
pub fn describe(text: &str) -> String {
    if is_json(text.as_bytes()) {
        return of_json(text.as_bytes());
    }
    let lines = slices::lines_in_words(text);
    let beginning: String = text.chars().take(MAX_BEGINNING + 1).collect();
    format!("text of {lines} that is not JSON: {}", quoted(&shorten(&beginning, MAX_BEGINNING)))
}

/// Describes JSON. With little room, it goes less deep.
pub(crate) fn of_json(json: &[u8]) -> String {
    let mut shape = Shape::default();
    if shape.add(&mut Scanner::new(json), 0).is_none() {
        return "JSON that cannot be read".to_owned();
    }
    let texts = (1..=MAX_DEPTH).rev().map(|depth| shape.render(0, depth));
    let mut last = String::new();
    for text in texts {
        if text.chars().count() <= MAX_SHAPE {
            return text;
        }
        last = text;
    }
    shorten(&last, MAX_SHAPE)
}

/// What the values at one place are like.
#[derive(Default)]
struct Shape {
    /// How many values there are.
    values: usize,
    /// The types of those that are no objects and arrays.
    scalars: Vec<&'static str>,
    /// The first of these.
    example: Option<String>,
    array: Option<ArrayShape>,
    object: Option<ObjectShape>,
}

/// The arrays at one place.
#[derive(Default)]
struct ArrayShape {
    /// `None` before the first one.
    shortest: Option<usize>,
    longest: usize,
    elements: Box<Shape>,
}

/// The objects at one place.
#[derive(Default)]
struct ObjectShape {
    /// How many there are.
    objects: usize,
    members: Vec<(String, Shape)>,
    /// How many members have no place in the list.
    more: usize,
}

impl Shape {
    /// Adds a value. `None` if it is no JSON.
    fn add(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Option<()> {
        self.values += 1;
        match scanner.peek()? {
            b'{' => self.object.get_or_insert_default().add(scanner, depth),
            b'[' => self.array.get_or_insert_default().add(scanner, depth),
            first => {
                let text = scanner.text(scanner.clone().value()?);
                scanner.value()?;
                self.add_scalar(first, text);
                Some(())
            }
        }
    }

    fn add_scalar(&mut self, first: u8, text: &[u8]) {
        let kind = match first {
            b'"' => "string",
            b't' | b'f' => "boolean",
            b'n' => "null",
            _ => "number",
        };
        if !self.scalars.contains(&kind) {
            self.scalars.push(kind);
        }
        if kind != "null" {
            self.example.get_or_insert_with(|| example(kind, text));
        }
    }

    /// Writes the shape, `depth` levels of it. Values are shown near the top only.
    fn render(&self, level: usize, depth: usize) -> String {
        let mut kinds = Vec::new();
        if let Some(object) = &self.object {
            kinds.push(object.render(level, depth));
        }
        if let Some(array) = &self.array {
            kinds.push(array.render(level, depth));
        }
        for kind in &self.scalars {
            kinds.push((*kind).to_owned());
        }
        let text = kinds.join("|");
        match &self.example {
            Some(example) if level <= 1 && kinds.len() == 1 => format!("{text} {example}"),
            _ => text,
        }
    }
}

impl ArrayShape {
    fn add(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Option<()> {
        if depth >= MAX_DEPTH {
            return scanner.value().map(drop);
        }
        let mut count = 0;
        scanner.array(|scanner| {
            count += 1;
            match count <= MAX_ELEMENTS {
                true => self.elements.add(scanner, depth + 1),
                false => scanner.value().map(drop),
            }
        })?;
        self.shortest = Some(self.shortest.map_or(count, |shortest| shortest.min(count)));
        self.longest = self.longest.max(count);
        Some(())
    }

    fn render(&self, level: usize, depth: usize) -> String {
        let count = match self.shortest {
            Some(shortest) if shortest < self.longest => {
                format!("{}-{}", grouped(shortest), grouped(self.longest))
            }
            _ => grouped(self.longest),
        };
        match (self.elements.values, depth) {
            (0, _) => "[]".to_owned(),
            (_, 0) => format!("[{count} x …]"),
            (_, depth) => format!("[{count} x {}]", self.elements.render(level + 1, depth - 1)),
        }
    }
}

impl ObjectShape {
    fn add(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Option<()> {
        if depth >= MAX_DEPTH {
            return scanner.value().map(drop);
        }
        self.objects += 1;
        let json = scanner.clone();
        scanner.object(|scanner, key, _| {
            let key = decode(json.text(key.start - 1..key.end + 1));
            if let Some((_, shape)) = self.members.iter_mut().find(|(known, _)| *known == key) {
                return shape.add(scanner, depth + 1);
            }
            if self.members.len() >= MAX_MEMBERS {
                self.more += 1;
                return scanner.value().map(drop);
            }
            let mut shape = Shape::default();
            shape.add(scanner, depth + 1)?;
            self.members.push((key, shape));
            Some(())
        })?;
        Some(())
    }

    fn render(&self, level: usize, depth: usize) -> String {
        if depth == 0 {
            return "{…}".to_owned();
        }
        let member = |(key, shape): &(String, Shape)| {
            let optional = if shape.values < self.objects { "?" } else { "" };
            format!("{}{optional}: {}", name(&shorten(key, MAX_EXAMPLE)), shape.render(level + 1, depth - 1))
        };
        let mut members: Vec<String> = self.members.iter().map(member).collect();
        if self.more > 0 {
            members.push(format!("+{} more", grouped(self.more)));
        }
        format!("{{{}}}", members.join(", "))
    }
}

/// Returns the beginning of a value.
fn example(kind: &str, text: &[u8]) -> String {
    if kind != "string" {
        return shorten(&String::from_utf8_lossy(text), MAX_EXAMPLE);
    }
    let decoded = match text.len() <= 8 * MAX_EXAMPLE {
        true => decode(text),
        // A long string is not decoded, because half of an escape may be left where it is cut.
        false => String::from_utf8_lossy(&text[1..8 * MAX_EXAMPLE]).into_owned(),
    };
    quoted(&shorten(&decoded, MAX_EXAMPLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_types_lengths_and_first_values_are_shown() {
        let items: Vec<_> = (0..1200)
            .map(|n| {
                format!(
                    r#"{{"id":{n},"name":"a b","tags":{},"at":null}}"#,
                    if n % 3 == 1 { "[]" } else { r#"["x"],"odd":true"# }
                )
            })
            .collect();
        let json = format!(
            r#"{{"total":1200,"next":"cursor\n1","items":[{}],"deep":{{"a":{{"b":{{"c":{{"d":{{}}}}}}}}}},"empty":[],"mixed":[1,"a",null,[2]],"odd key":1e400}}"#,
            items.join(",")
        );
        assert_eq!(
            of_json(json.as_bytes()),
            r#"{total: number 1200, next: string "cursor\n1", items: [1,200 x {id: number, name: string, tags: [0-1 x string], odd?: boolean, at: null}], deep: {a: {b: {c: {d: {…}}}}}, empty: [], mixed: [4 x [1 x number]|number|string|null], "odd key": number 1e400}"#
        );
    }

    #[test]
    fn what_is_not_json_is_described_by_its_beginning() {
        assert_eq!(describe("hello\nworld"), r#"text of 2 lines that is not JSON: "hello\nworld""#);
        assert!(describe(&"word ".repeat(1000)).chars().count() < 300);
        assert_eq!(describe("3"), "number 3");
        assert_eq!(describe("\"\\ud800\""), "string \"\u{fffd}\u{fffd}\u{fffd}\"");
    }

    #[test]
    fn a_shape_is_bounded_and_one_line_whatever_the_json_is() {
        let members: Vec<_> = (0..5000).map(|n| format!("\"key\\u202e{n}\":{{\"x\":[[[[{n}]]]]}}")).collect();
        let wide = format!("{{{}}}", members.join(","));
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let long = format!(r#"["{}\u00"]"#, "é\\n".repeat(100_000)).replace("\\u00\"", "\"");
        for json in [wide, deep, long] {
            let shape = of_json(json.as_bytes());
            assert!(shape.chars().count() <= MAX_SHAPE && !shape.contains(['\n', '\u{202e}']), "{shape}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[\\[\\]{}:,\"\\\\u0-9a-fé ]{0,40}") {
            prop_assert!(describe(&text).chars().count() <= MAX_SHAPE);
        }
    }
}
