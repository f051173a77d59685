//! Credentials of the file that the programs of Amazon share: `~/.aws/credentials`.

use std::fs;
use std::path::PathBuf;

use crate::cloud::variables::Variables;

/// Variables that name credentials of another kind. They precede the file.
const OTHER_SOURCES: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// Keys of one profile. No `Debug`: a log must not get them.
pub(super) struct SharedCredentials {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
    pub(super) session_token: Option<String>,
}

/// Returns the keys of the profile `AWS_PROFILE` (`default` if unset) in the file
/// `AWS_SHARED_CREDENTIALS_FILE` (`~/.aws/credentials` if unset). None if the environment has other
/// credentials, or the file does not have the profile.
pub(super) fn credentials(variables: &Variables) -> Option<SharedCredentials> {
    if OTHER_SOURCES.iter().any(|name| variables.value(name).is_some()) {
        return None;
    }
    let named = variables.value("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let usual = || Some(PathBuf::from(variables.value("HOME")?).join(".aws/credentials"));
    let text = fs::read_to_string(named.or_else(usual)?).ok()?;
    of_profile(&text, variables.value("AWS_PROFILE").unwrap_or("default"))
}

fn of_profile(text: &str, profile: &str) -> Option<SharedCredentials> {
    let mut inside = false;
    let (mut id, mut secret, mut session_token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == profile;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
            let value = Some(value.trim().to_string());
            match key.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => session_token = value,
                _ => {}
            }
        }
    }
    Some(SharedCredentials { access_key_id: id?, secret_access_key: secret?, session_token })
}

#[cfg(test)]
mod tests;
