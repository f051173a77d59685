//! Times and durations as people write and read them: RFC 3339 in UTC, `2h 30m`, ISO 8601's
//! `PT2H30M`.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::{Span, SpanRelativeTo, Timestamp, Unit, civil, tz};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The time at which this duration began, at least 1970: a negative time would name a special
/// offset in Kafka's protocol.
pub(crate) fn before_now(duration_ms: i64) -> i64 {
    now_ms().saturating_sub(duration_ms).max(0)
}

/// A time in milliseconds since 1970: such a number itself, or a date with or without time and
/// offset. Without an offset it is UTC.
pub(crate) fn moment(text: &str) -> Result<i64, String> {
    const EXPECTED: &str =
        "expected a time such as 2026-11-21T06:30:00Z, 2026-11-21 or milliseconds since 1970";
    // Negative numbers are names of offsets in Kafka's protocol: -1 is the end of a log.
    let since_1970 = |moment: i64| if moment < 0 { Err(EXPECTED.to_owned()) } else { Ok(moment) };
    if let Ok(milliseconds) = text.parse::<i64>() {
        return since_1970(milliseconds);
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return since_1970(timestamp.as_millisecond());
    }
    let civil = text.parse::<civil::DateTime>().map_err(|_| EXPECTED.to_owned())?;
    let zoned = civil.to_zoned(tz::TimeZone::UTC).map_err(|_| EXPECTED.to_owned())?;
    since_1970(zoned.timestamp().as_millisecond())
}

/// A duration in milliseconds; a day has 24 hours.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    const EXPECTED: &str = "expected a duration such as 90s, 2h 30m, 7d or PT2H30M";
    let span: Span = text.parse().map_err(|_| EXPECTED.to_owned())?;
    let days_are_even = SpanRelativeTo::days_are_24_hours();
    let milliseconds = span.total((Unit::Millisecond, days_are_even)).map_err(|_| EXPECTED.to_owned())?;
    if milliseconds < 0.0 { Err(EXPECTED.to_owned()) } else { Ok(milliseconds as i64) }
}

/// A time as RFC 3339 in UTC, to the millisecond; the number itself where the calendar ends.
pub(crate) fn shown(milliseconds: i64) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => milliseconds.to_string(),
    }
}

/// A time in UTC in at most 11 characters, for a narrow terminal: the time of day if the date is
/// that of `now_ms`, the date without the year if the year is, otherwise the whole date.
pub(crate) fn shown_briefly(milliseconds: i64, now_ms: i64) -> String {
    let (Ok(moment), Ok(now)) =
        (Timestamp::from_millisecond(milliseconds), Timestamp::from_millisecond(now_ms))
    else {
        return milliseconds.to_string();
    };
    let (date, today) = (moment.to_zoned(tz::TimeZone::UTC).date(), now.to_zoned(tz::TimeZone::UTC).date());
    let form = match (date == today, date.year() == today.year()) {
        (true, _) => "%H:%M:%S",
        (_, true) => "%m-%d %H:%M",
        _ => "%Y-%m-%d",
    };
    moment.strftime(form).to_string()
}

/// A length of time in its two largest units, such as `2h 5m`; under a second in milliseconds.
pub(crate) fn shown_duration(milliseconds: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let Some(first) = UNITS.iter().position(|(size, _)| milliseconds >= *size) else {
        return format!("{milliseconds}ms");
    };
    let (size, unit) = UNITS[first];
    let smaller = UNITS.get(first + 1).map(|(smaller, name)| (milliseconds % size / smaller, name));
    match smaller.filter(|(count, _)| *count > 0) {
        Some((count, name)) => format!("{}{unit} {count}{name}", milliseconds / size),
        None => format!("{}{unit}", milliseconds / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_times_omit_the_current_date() {
        let now = moment("2026-11-30T12:00:00Z").unwrap();
        for (text, expected) in [
            ("2026-11-30T06:30:05.250Z", "06:30:05"),
            ("2026-11-29T23:59:59Z", "11-29 23:59"),
            ("2025-12-31T23:59:59Z", "2025-12-31"),
        ] {
            assert_eq!(shown_briefly(moment(text).unwrap(), now), expected);
        }
        assert_eq!(shown_briefly(i64::MAX, now), i64::MAX.to_string());
    }

    #[test]
    fn points_in_time_are_parsed() {
        fn check(text: &str, expected: i64) {
            assert_eq!(moment(text), Ok(expected), "{text}");
        }
        check("1700000000000", 1_700_000_000_000);
        check("2023-11-14T22:13:20Z", 1_700_000_000_000);
        check("2023-11-14T22:13:20.250", 1_700_000_000_250);
        check("2023-11-14 22:13", 1_699_999_980_000);
        check("2023-11-14T23:13:20+01:00", 1_700_000_000_000);
        check("2023-11-14", 1_699_920_000_000);
        for text in ["", "soon", "-5", "2023-13-01", "22:13", "1969-12-31T23:59:59.999Z", "1960-01-01"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        fn check(text: &str, expected: i64) {
            assert_eq!(duration(text), Ok(expected), "{text}");
        }
        check("90s", 90_000);
        check("2h 30m", 9_000_000);
        check("2h30m", 9_000_000);
        check("7d", 604_800_000);
        check("PT2H30M", 9_000_000);
        check("P1DT1S", 86_401_000);
        check("250ms", 250);
        for text in ["", "5", "a while", "-1h", "1 year", "1mo"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn duration_before_1970_is_refused() {
        assert_eq!(before_now(duration("100000d").unwrap()), 0);
        assert!((1_700_000_000_000..=now_ms()).contains(&before_now(0)));
    }

    #[test]
    fn times_are_shown() {
        assert_eq!(shown(1_700_000_000_250), "2023-11-14T22:13:20.250Z");
        assert_eq!(shown(i64::MAX), i64::MAX.to_string());
        fn check(milliseconds: i64, expected: &str) {
            assert_eq!(shown_duration(milliseconds), expected);
        }
        check(0, "0ms");
        check(999, "999ms");
        check(61_000, "1m 1s");
        check(3_600_000, "1h");
        check(90_061_000, "1d 1h");
    }
}
