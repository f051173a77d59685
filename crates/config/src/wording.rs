//! Error messages for values that a key does not allow. Tools and test suites compare these
//! messages, so the wording is Kafka's.

use std::borrow::Cow;

use super::key::{ConfigKey, ConfigType, Valid};
use super::words::words;

impl ConfigKey {
    /// The reason why `value` is not allowed, or `None` if it is.
    pub fn refusal(&self, value: &str) -> Option<String> {
        if self.has_empty_item(value) {
            return Some(format!("Configuration '{}' values must not be empty.", self.name));
        }
        if self.normalise(value).is_some() {
            return None;
        }
        Some(format!(
            "Invalid value {} for configuration {}: {}",
            self.culprit(value),
            self.name,
            self.demand(value)
        ))
    }

    /// True if the first item of a list that is not allowed is an empty one. A blank value has no
    /// items.
    fn has_empty_item(&self, value: &str) -> bool {
        if self.kind != ConfigType::List || self.valid == Valid::Replicas || value.trim().is_empty() {
            return false;
        }
        let mut items = value.split(',').map(str::trim);
        items.find(|item| item.is_empty() || !self.allows_word(item)).is_some_and(str::is_empty)
    }

    /// The part of the value that Kafka's message names: the first item of a list that is not
    /// allowed, otherwise the whole value.
    fn culprit<'v>(&self, value: &'v str) -> Cow<'v, str> {
        let value = self.shown(value.trim());
        match (self.kind, self.valid) {
            (_, Valid::SomeOf(allowed)) => {
                words(value).find(|word| !allowed.contains(word)).unwrap_or(value).into()
            }
            // As a number, which always has a decimal point.
            (ConfigType::Double, _) => match value.parse::<f64>() {
                Ok(number) => format!("{number:?}").into(),
                Err(_) => value.into(),
            },
            _ => value.into(),
        }
    }

    fn demand(&self, value: &str) -> String {
        let value = value.trim();
        match (self.kind, self.valid) {
            (ConfigType::Boolean, _) => "Expected value to be either true or false".to_owned(),
            (_, Valid::OneOf(words) | Valid::SomeOf(words)) => {
                format!("String must be one of: {}", words.join(", "))
            }
            (ConfigType::Double, Valid::Ratio(low, high)) => match value.parse::<f64>() {
                Ok(number) if number < low => format!("Value must be at least {low}"),
                Ok(_) => format!("Value must be no more than {high}"),
                Err(_) => "Not a number of type DOUBLE".to_owned(),
            },
            (ConfigType::Int | ConfigType::Short | ConfigType::Long, _) => self.integer_demand(value),
            _ => format!("Value must be {}", self.allowed()),
        }
    }

    fn integer_demand(&self, value: &str) -> String {
        let (kind, least, most) = match self.kind {
            ConfigType::Short => ("SHORT", i64::from(i16::MIN), i64::from(i16::MAX)),
            ConfigType::Int => ("INT", i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => ("LONG", i64::MIN, i64::MAX),
        };
        match (value.parse::<i64>().ok().filter(|number| (least..=most).contains(number)), self.valid) {
            (None, _) => format!("Not a number of type {kind}"),
            (_, Valid::UnsetOr(low, high)) => {
                format!("Value must be between {low} and {high} or equal to -1")
            }
            (Some(number), Valid::Range(low, _)) if number < low => format!("Value must be at least {low}"),
            (_, Valid::Range(_, high)) => format!("Value must be no more than {high}"),
            _ => format!("Value must be {}", self.allowed()),
        }
    }
}
