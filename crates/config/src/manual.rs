//! The manual page of the keys, `levada.properties(5)`, made from their table.

use std::fmt::Write as _;

use super::key::{ConfigKey, Dynamic};
use super::table::{BROKER_KEYS, TOPIC_KEYS};

const HEAD: &str = r#".SH NAME
levada.properties \- configuration of the Levada broker
.SH SYNOPSIS
.B levada serve \-\-config
.I FILE
.SH DESCRIPTION
The file has the syntax of Kafka's server.properties: KEY=VALUE on each line, # before a comment, and \e at the end
of a line that continues. The packages install /etc/levada/server.properties.
.PP
A flag (\-o KEY=VALUE) takes precedence over an environment variable (LEVADA_ and the key in upper case, with _ for
each dot), and that over the file. Settings of the running cluster take precedence over all of them.
.PP
A key that neither Levada nor Kafka has is an error, unless \-\-lenient is given. Keys of Kafka without an effect
are accepted with a note.
"#;

const TAIL: &str = r".SH SEE ALSO
.BR levada (1),
.BR levada\-serve (1),
.BR levada\-config\-show (1),
.BR levada\-config\-set (1)
";

/// The page, in the language of `man`.
pub fn manual_page() -> String {
    let mut page = format!(".TH LEVADA.PROPERTIES 5 \"\" \"levada {}\"\n{HEAD}", env!("CARGO_PKG_VERSION"));
    page.push_str(
        ".SH KEYS OF THE BROKER\nA key that can change while the broker runs has the word reload.\n",
    );
    let mut keys: Vec<&ConfigKey> = BROKER_KEYS.iter().collect();
    keys.sort_by_key(|key| key.name);
    for key in keys {
        let reload = if key.dynamic == Dynamic::ReadOnly { "" } else { ", reload" };
        entry(&mut page, key, &format!("default {}{reload}", shown(key.default)));
    }
    page.push_str(".SH KEYS OF TOPICS\nlevada config set topic sets them while the broker runs.\n");
    for topic in TOPIC_KEYS {
        let default = match topic.broker {
            [] => format!("default {}", shown(topic.key.default)),
            broker => format!("default {}", broker.join(", ")),
        };
        entry(&mut page, &topic.key, &default);
    }
    page.push_str(TAIL);
    page
}

fn entry(page: &mut String, key: &ConfigKey, default: &str) {
    let text = format!("{} ({}; {default})", key.doc, key.allowed());
    // A String takes every text.
    let _ = writeln!(page, ".TP\n.B {}\n{}", escaped(key.name), escaped(&text));
}

fn shown(default: Option<&str>) -> &str {
    match default {
        None => "unset",
        Some("") => "empty",
        Some(text) => text,
    }
}

/// A text without commands of `man`.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
