//! The two text forms of `/metrics`: OpenMetrics, and Prometheus' older text format 0.0.4.

use std::borrow::Cow;
use std::fmt;

use levada_base::is_steering;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder,
    NoLabelSet,
};

use super::catalogue::Family;

/// Text form of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `application/openmetrics-text`.
    OpenMetrics,
    /// `text/plain`, version 0.0.4.
    Plain,
}

impl Form {
    /// Form that a request with this `Accept` header prefers. A request must name OpenMetrics to
    /// get it, as in Prometheus' own libraries.
    pub(crate) fn accepted(accept: &str) -> Self {
        let quality = |media_type: &str| {
            let ranges = accept.split(',').map(|range| range.split(';').map(str::trim));
            let qualities = ranges.filter_map(|mut range| {
                let named = range.next().is_some_and(|name| name.eq_ignore_ascii_case(media_type));
                let quality = range.find_map(|parameter| parameter.strip_prefix("q="));
                named.then(|| quality.map_or(1.0, |quality| quality.parse::<f32>().unwrap_or(0.0)))
            });
            qualities.fold(0.0, f32::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Self::OpenMetrics } else { Self::Plain }
    }

    /// Media type of the form.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A text in OpenMetrics as text of version 0.0.4: the suffixes of counters and infos belong to the
/// names of their families, an info is a gauge, and there is no mark of the end.
pub(super) fn to_plain(open: &str) -> String {
    let mut plain = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            if let Some((_, text)) = help.take() {
                plain.extend(["# HELP ", name, suffix, " ", text, "\n"]);
            }
            plain.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if line != "# EOF" {
            plain.extend([line, "\n"]);
        }
    }
    plain
}

/// The families of one scrape, one after the other.
pub(super) struct Families<'a> {
    pub(super) encoder: DescriptorEncoder<'a>,
}

impl Families<'_> {
    /// Begins a family.
    pub(super) fn family(&mut self, family: &'static Family) -> Result<Series<'_>, fmt::Error> {
        let encoder = self.encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
        Ok(Series { family, encoder })
    }

    /// A counter without labels.
    pub(super) fn counter(&mut self, family: &'static Family, value: u64) -> fmt::Result {
        self.family(family)?.counter(&[], value)
    }

    /// A gauge without labels.
    pub(super) fn gauge(&mut self, family: &'static Family, value: impl EncodeGaugeValue) -> fmt::Result {
        self.family(family)?.gauge(&[], value)
    }
}

/// The series of one family.
pub(super) struct Series<'a> {
    family: &'static Family,
    encoder: MetricEncoder<'a>,
}

impl Series<'_> {
    /// A counter whose labels have these values.
    pub(super) fn counter(&mut self, values: &[&str], value: u64) -> fmt::Result {
        self.with(values, |encoder| encoder.encode_counter::<NoLabelSet, _, u64>(&value, None))
    }

    /// Like [`Series::counter`], for a number that is not an integer.
    pub(super) fn counter_f64(&mut self, values: &[&str], value: f64) -> fmt::Result {
        self.with(values, |encoder| encoder.encode_counter::<NoLabelSet, _, u64>(&value, None))
    }

    /// A gauge whose labels have these values.
    pub(super) fn gauge(&mut self, values: &[&str], value: impl EncodeGaugeValue) -> fmt::Result {
        self.with(values, |encoder| encoder.encode_gauge(&value))
    }

    /// A histogram whose labels have these values: the sum, and the number of values in each bucket
    /// by its upper bound.
    pub(super) fn histogram(&mut self, values: &[&str], sum: f64, buckets: &[(f64, u64)]) -> fmt::Result {
        let count = buckets.iter().map(|(_, count)| count).sum();
        self.with(values, |encoder| encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None))
    }

    /// An info with these values.
    pub(super) fn info(&mut self, values: &[&str]) -> fmt::Result {
        self.encoder.encode_info(&Labels { names: self.family.labels, values })
    }

    fn with(
        &mut self,
        values: &[&str],
        encode: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        debug_assert_eq!(values.len(), self.family.labels.len(), "labels of {}", self.family.name);
        if values.is_empty() {
            return encode(&mut self.encoder);
        }
        encode(&mut self.encoder.encode_family(&Labels { names: self.family.labels, values })?)
    }
}

struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [&'a str],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut pairs = self.names.iter().copied().zip(self.values.iter().map(|value| quiet(value)));
        pairs.try_for_each(|pair| pair.encode(encoder.encode_label()))
    }
}

/// A value of a label, with escapes of characters that steer a terminal. Both forms allow these
/// characters, but a printed scrape would let clients steer the terminal. The encoder escapes ends
/// of lines, quotes and backslashes.
fn quiet(value: &str) -> Cow<'_, str> {
    let steers = |one: char| one != '\n' && is_steering(one);
    if !value.contains(steers) {
        return Cow::Borrowed(value);
    }
    let mut quiet = String::with_capacity(value.len());
    for one in value.chars() {
        if steers(one) {
            quiet.extend(one.escape_unicode());
        } else {
            quiet.push(one);
        }
    }
    Cow::Owned(quiet)
}
