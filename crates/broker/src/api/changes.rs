//! Changes that a request made to the metadata, written to the audit log: the image before the request is compared with the image
//! after it. If two requests change the same resource at the same time, a change may be written twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Context;
use crate::config::{HIDDEN, is_sensitive, topic_key};
use crate::metadata::image::{ConfigResource, Image, QuotaEntity, ResourceKind};
use crate::security::acl::Acl;
use crate::security::audit::{self, Change};
use crate::security::scram;

/// The image before a request that changes something; none if nobody reads what changes.
pub(super) struct Before(Option<Arc<Image>>);

impl Before {
    pub(super) fn of(context: &Context) -> Self {
        Self(audit::is_on().then(|| context.broker().metadata().image()))
    }

    /// True if the audit log is on.
    pub(super) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Tells what has changed of these resources' configuration. Secrets are not told.
    pub(super) fn configs(&self, context: &Context, resources: &[ConfigResource]) {
        let Some(before) = &self.0 else { return };
        let after = context.broker().metadata().image();
        for resource in resources {
            let none = BTreeMap::new();
            let values =
                |image: &Arc<Image>| image.configs(resource).map_or(none.clone(), |set| (**set).clone());
            let hides = |key: &str| match resource.kind {
                ResourceKind::Topic => topic_key(key).is_none(),
                ResourceKind::Broker | ResourceKind::BrokerLogger => is_sensitive(key),
                ResourceKind::Group | ResourceKind::ClientMetrics => false,
            };
            let kind = match resource.kind {
                ResourceKind::Topic => "TOPIC",
                ResourceKind::Broker | ResourceKind::BrokerLogger => "BROKER",
                ResourceKind::Group => "GROUP",
                ResourceKind::ClientMetrics => "CLIENT_METRICS",
            };
            differences(
                context,
                Subject { kind, name: &resource.name },
                (&values(before), &values(&after)),
                hides,
            );
        }
    }

    /// Tells what has changed of these entities' quotas.
    pub(super) fn quotas<'a>(&self, context: &Context, entities: impl Iterator<Item = &'a QuotaEntity>) {
        let Some(before) = &self.0 else { return };
        let after = context.broker().metadata().image();
        for entity in entities {
            let parts = entity
                .iter()
                .map(|(kind, name)| format!("{kind}={}", name.as_deref().unwrap_or("<default>")));
            let name = parts.collect::<Vec<_>>().join(",");
            let values = |image: &Image| -> BTreeMap<String, String> {
                let limits = image.quotas().limits(entity).into_iter().flatten();
                limits.map(|(key, limit)| (key.clone(), limit.to_string())).collect()
            };
            differences(
                context,
                Subject { kind: "CLIENT_QUOTA", name: &name },
                (&values(before), &values(&after)),
                |_| false,
            );
        }
    }

    /// Tells which SCRAM credentials of these users have changed, and nothing of what they are.
    pub(super) fn credentials<'a>(&self, context: &Context, users: impl Iterator<Item = &'a str>) {
        let Some(before) = &self.0 else { return };
        let after = context.broker().metadata().image();
        for user in users {
            for mechanism in scram::ScramMechanism::ALL {
                let of = |image: &Arc<Image>| image.credentials().find(user, mechanism.code()).cloned();
                let (old, new) = (of(before), of(&after));
                if old != new {
                    let (old, new) = (old.map(|_| HIDDEN), new.map(|_| HIDDEN));
                    let change = Change { kind: "USER", name: user, key: mechanism.name(), old, new };
                    audit::changed(context.session(), context.header.api, &change);
                }
            }
        }
    }

    /// Tells of entries of access control that came or went.
    pub(super) fn acls<'a>(&self, context: &Context, acls: impl Iterator<Item = &'a Acl>, came: bool) {
        if !self.is_kept() {
            return;
        }
        for acl in acls {
            let text = acl.to_string();
            let (old, new) = if came { (None, Some(&*text)) } else { (Some(&*text), None) };
            let change =
                Change { kind: acl.resource_type.name(), name: &acl.resource_name, key: "acl", old, new };
            audit::changed(context.session(), context.header.api, &change);
        }
    }
}

/// The resource whose settings have changed.
struct Subject<'a> {
    kind: &'a str,
    name: &'a str,
}

fn differences(
    context: &Context,
    subject: Subject<'_>,
    (before, after): (&BTreeMap<String, String>, &BTreeMap<String, String>),
    hides: impl Fn(&str) -> bool,
) {
    let Subject { kind, name } = subject;
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        if old != new {
            let hidden = hides(key);
            let shown = |value: Option<&String>| {
                value.map(|value| if hidden { HIDDEN.to_owned() } else { value.clone() })
            };
            let (old, new) = (shown(old), shown(new));
            let change = Change { kind, name, key, old: old.as_deref(), new: new.as_deref() };
            audit::changed(context.session(), context.header.api, &change);
        }
    }
}
