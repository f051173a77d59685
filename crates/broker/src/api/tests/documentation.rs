//! `docs/operating/authorization.md` is made from the table of questions, `docs/apis.md` from that
//! of APIs.

use std::fs;
use std::path::Path;

use levada_metadata::features::FEATURES;
use levada_security::acl::ResourceType;
use levada_wire::ApiKey;
use levada_wire::api::{APIS, Api};

use crate::api::SERVED;
use crate::api::access::{QUESTIONS, Question};
use crate::api::k18_api_versions::{SHOWN_FEATURES, TELEMETRY};

/// The reason why clients are not told of a feature of Kafka's.
const FEATURE_REASONS: &[(&str, &str)] =
    &[("eligible.leader.replicas.version", "kept in the metadata; a single broker has no other leader")];

#[test]
fn documentation_lists_all_served_apis() {
    check_page("docs/apis.md", |page| {
        replace(&replace(page, "<!-- apis -->", &api_table()), "<!-- features -->", &feature_table())
    });
}

/// That a page is as the code would make it.
fn check_page(name: &str, make: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let page = fs::read_to_string(&path).unwrap();
    let expected = make(&page);
    if page != expected && std::env::var_os("LEVADA_BLESS").is_some() {
        fs::write(&path, expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "run LEVADA_BLESS=1 cargo test -p levada-broker documentation, and commit the page"
    );
}

/// The page with `table` between the line `marker` and the next `<!-- end -->`.
fn replace(page: &str, marker: &str, table: &str) -> String {
    let start = page.find(marker).unwrap() + marker.len() + 1;
    let end = start + page[start..].find("<!-- end -->").unwrap();
    format!("{}{table}{}", &page[..start], &page[end..])
}

fn api_table() -> String {
    let row = |api: &Api| {
        let (key, name) = (api.key.wire(), api.name);
        let versions =
            if api.min == api.max { api.min.to_string() } else { format!("{}–{}", api.min, api.max) };
        format!("| {key} | {name} | {versions} | ✓ |\n")
    };
    let rows: String = APIS.iter().map(row).collect();
    let count = SERVED.iter().filter(|key| !TELEMETRY.contains(key)).count();
    format!(
        "\nAll {count} of Kafka's, and the two of [client telemetry](operating/client-telemetry.md), 71 and 72, which a broker lists by `levada.client.telemetry`.\n\n| Key | API | Kafka's versions | Served |\n|---|---|---|---|\n{rows}\n"
    )
}

#[test]
fn every_api_of_the_table_is_served() {
    for api in APIS {
        assert!(SERVED.contains(&api.key), "{}", api.name);
    }
}

fn feature_table() -> String {
    let rows: String = FEATURES
        .iter()
        .map(|feature| {
            let shown = SHOWN_FEATURES.contains(&feature.name);
            let reason = FEATURE_REASONS.iter().find(|(name, _)| *name == feature.name);
            let why = if shown { "" } else { reason.expect("a feature that is not shown has a reason").1 };
            let (tick, levels) = (if shown { "✓" } else { "" }, (feature.min_version, feature.max_version));
            format!("| `{}` | {}–{} | {tick} | {why} |\n", feature.name, levels.0, levels.1)
        })
        .collect();
    format!("\n| Feature | Levels | Reported | Reason, if not |\n|---|---|---|---|\n{rows}\n")
}

#[test]
fn documentation_lists_all_authorization_checks() {
    check_page("docs/operating/authorization.md", |page| {
        replace(page, "<!-- questions -->", &question_table())
    });
}

#[test]
fn authorization_checks_belong_to_served_apis() {
    for question in QUESTIONS {
        assert!(SERVED.contains(&question.api), "{}", question.api);
    }
    // Tokens have their own owners and renewers. As in Kafka, each client may push its metrics.
    let silent = [
        ApiKey::ApiVersions,
        ApiKey::SaslHandshake,
        ApiKey::SaslAuthenticate,
        ApiKey::RenewDelegationToken,
        ApiKey::ExpireDelegationToken,
    ];
    let silent = [&silent[..], &TELEMETRY].concat();
    for api in SERVED.iter().filter(|api| !silent.contains(api)) {
        assert!(QUESTIONS.iter().any(|question| question.api == *api), "{api} asks nothing");
    }
}

fn question_table() -> String {
    let words = |name: &str| {
        let capital = |word: &str| format!("{}{}", &word[..1], word[1..].to_lowercase());
        name.split('_').map(capital).collect::<String>()
    };
    let rows: String = QUESTIONS
        .iter()
        .map(|question| {
            let Question { api, operation, resource, when, refusal } = question;
            let resource = match resource {
                ResourceType::TransactionalId => "transactional id".to_owned(),
                other => other.name().to_lowercase(),
            };
            let operation = words(operation.name());
            format!("| {} | {api} | {operation} | {resource} | {when} | {refusal} |\n", api.wire())
        })
        .collect();
    format!("\n| Key | API | Operation | on | when | if not |\n|---|---|---|---|---|---|\n{rows}\n")
}
