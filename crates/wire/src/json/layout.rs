//! The table of layouts, parsed.

/// A message.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) key: i16,
    pub(super) name: &'static str,
    pub(super) versions: Versions,
    pub(super) flexible: Versions,
    /// True if Kafka calls the highest version unstable.
    pub(super) is_unstable: bool,
    pub(super) fields: Vec<Field>,
}

/// A field of a message or of a part of it.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) versions: Versions,
    nullable: Versions,
    tag: Option<(u32, Versions)>,
    pub(super) default: Option<&'static str>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Int64,
    Float64,
    Text,
    Bytes,
    Uuid,
    Struct(Vec<Field>),
    Array(Box<Self>),
}

/// A range; empty if the first is greater than the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) min: i16,
    pub(super) max: i16,
}

impl Versions {
    const NONE: Self = Self { min: 0, max: -1 };

    pub(super) fn contains(self, version: i16) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// Parses the form of the table: `3+`, `0-12`, `7` or `none`.
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        if let Some(min) = text.strip_suffix('+') {
            return Some(Self { min: min.parse().ok()?, max: i16::MAX });
        }
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        Some(Self { min: min.parse().ok()?, max: max.parse().ok()? })
    }

    /// The range as text, such as `from 3 on`.
    pub(super) fn shown(self) -> String {
        match (self.min, self.max) {
            (min, i16::MAX) => format!("from {min} on"),
            (min, max) if min == max => min.to_string(),
            (min, max) => format!("{min} to {max}"),
        }
    }
}

impl Field {
    /// The number of the tag under which this version has the field; `None` among the others.
    pub(super) fn tag(&self, version: i16) -> Option<u32> {
        self.tag.filter(|(_, versions)| versions.contains(version)).map(|(tag, _)| tag)
    }

    pub(super) fn is_nullable(&self, version: i16) -> bool {
        self.nullable.contains(version)
    }
}

/// Requests and responses alternately, by key.
pub(super) fn table() -> Vec<Layout> {
    let texts = [include_str!("layouts.txt"), include_str!("newer.txt")];
    let parse = |text| parse(text).expect("a table of our own, which the tests read as well");
    texts.into_iter().flat_map(parse).collect()
}

fn parse(text: &'static str) -> Option<Vec<Layout>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    let mut layouts = Vec::new();
    while let Some(line) = lines.next() {
        let mut words = line.split(' ').skip(1);
        layouts.push(Layout {
            key: words.next()?.parse().ok()?,
            name: words.next()?,
            versions: Versions::parse(words.next()?)?,
            flexible: Versions::parse(words.next()?)?,
            is_unstable: words.next() == Some("unstable"),
            fields: fields(&mut lines, 1)?,
        });
    }
    Some(layouts)
}

/// The fields whose lines are indented by `depth`, each with its nested fields.
fn fields(
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'static str>>,
    depth: usize,
) -> Option<Vec<Field>> {
    let indented = |line: &&str| line.len() - line.trim_start().len() == depth;
    let mut fields = Vec::new();
    while let Some(line) = lines.next_if(indented) {
        let mut words = line.trim_start().split(' ');
        let (name, kind) = (words.next()?, words.next()?);
        let mut field = Field {
            name,
            kind: Kind::Bool,
            versions: Versions::parse(words.next()?)?,
            nullable: Versions::NONE,
            tag: None,
            default: None,
        };
        for word in words {
            match word.split_once('=')? {
                ("null", versions) => field.nullable = Versions::parse(versions)?,
                ("default", default) => field.default = Some(default),
                ("tag", place) => {
                    let (tag, versions) = place.split_once('@')?;
                    field.tag = Some((tag.parse().ok()?, Versions::parse(versions)?));
                }
                _ => return None,
            }
        }
        field.kind = match kind.strip_prefix("[]") {
            Some(element) => Kind::Array(Box::new(plain(element, lines, depth)?)),
            None => plain(kind, lines, depth)?,
        };
        fields.push(field);
    }
    Some(fields)
}

fn plain(
    kind: &str,
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'static str>>,
    depth: usize,
) -> Option<Kind> {
    Some(match kind {
        "bool" => Kind::Bool,
        "int8" => Kind::Int8,
        "int16" => Kind::Int16,
        "uint16" => Kind::Uint16,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "float64" => Kind::Float64,
        "string" => Kind::Text,
        "bytes" | "records" => Kind::Bytes,
        "uuid" => Kind::Uuid,
        "struct" => Kind::Struct(fields(lines, depth + 1)?),
        _ => return None,
    })
}
