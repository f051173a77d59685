//! Changes that a request made to the metadata, written to the log and to the audit log: the image
//! before the request is compared with the image after it. If two requests change the same resource
//! at the same time, a change may be written twice.
//!
//! The log has a line for each change, with the principal, up to a rate; the audit log has all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_config::{HIDDEN, is_sensitive, topic_key};
use levada_metadata::controller::{AlterConfig, AlterQuota, changed};
use levada_metadata::image::{ConfigResource, Image, QuotaEntity, ResourceKind};
use levada_process::clock::steady_ms;
use levada_security::acl::Acl;
use levada_security::audit::{self, Change};
use levada_security::scram;

use crate::api::Context;
use crate::controller::ByConfig;
use crate::controller::ConfigChanges;

/// Writes a line of the log about a change that the client of this request has made, unless there
/// were too many lately. The line has the client's principal and host, these fields, and the number
/// of lines that were left out before it.
macro_rules! log_change {
    ($context:expr, $message:literal, $($field:tt)*) => {
        if let Some(left_out) = $crate::api::changes::admitted($context) {
            let session = $context.session();
            tracing::info!(
                $($field)*
                principal = session.principal(),
                host = session.host(),
                left_out,
                $message
            );
        }
    };
}

pub(super) use log_change;

/// True if a line may be written now; the number of lines left out before it, if there are any.
pub(super) fn admitted(context: &Context) -> Option<Option<u64>> {
    let left_out = context.broker().change_log().admit(steady_ms())?;
    Some(Some(left_out).filter(|count| *count > 0))
}

/// The metadata image before the request changed anything.
pub(super) struct Before(Arc<Image>);

impl Before {
    pub(super) fn of(context: &Context) -> Self {
        Self(context.broker().metadata().image())
    }

    /// The image.
    pub(super) fn image(&self) -> &Image {
        &self.0
    }

    /// Writes the changes of these resources' configuration to the audit log. Secrets are left out.
    pub(super) fn configs(&self, context: &Context, resources: &[ConfigResource]) {
        let before = &self.0;
        let after = context.broker().metadata().image();
        for resource in resources {
            let values = (configs_of(before, resource), configs_of(&after, resource));
            config_differences(context, resource, (&values.0, &values.1));
        }
    }

    /// Writes the changes to the audit log that the controller of a cluster has made to these
    /// resources' configuration.
    pub(super) fn decided_configs(&self, context: &Context, changes: &ConfigChanges) {
        let tell = |resource: &ConfigResource, alter: &dyn Fn(&mut Values)| {
            let before = configs_of(&self.0, resource);
            let mut after = before.clone();
            alter(&mut after);
            config_differences(context, resource, (&before, &after));
        };
        match changes {
            ConfigChanges::Single(changes) => {
                for (resource, changes) in changes {
                    tell(resource, &|values| {
                        changes.iter().for_each(|change| alter(context, resource, change, values));
                    });
                }
            }
            ConfigChanges::Whole(changes) => {
                for (resource, new) in changes {
                    let set = new.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
                    tell(resource, &|values| *values = set.clone().collect());
                }
            }
        }
    }

    /// Writes the changes of these entities' quotas.
    pub(super) fn quotas<'a>(&self, context: &Context, entities: impl Iterator<Item = &'a QuotaEntity>) {
        let before = &self.0;
        let after = context.broker().metadata().image();
        for entity in entities {
            let values = (limits_of(before, entity), limits_of(&after, entity));
            quota_differences(context, entity, (&values.0, &values.1));
        }
    }

    /// Writes the changes to the audit log that the controller of a cluster has made to the quotas
    /// of an entity.
    pub(super) fn decided_quotas(&self, context: &Context, altered: &AlterQuota) {
        let before = limits_of(&self.0, &altered.entity);
        let mut after = before.clone();
        for (key, limit) in &altered.changes {
            match limit {
                Some(limit) => after.insert(key.clone(), limit.to_string()),
                None => after.remove(key),
            };
        }
        quota_differences(context, &altered.entity, (&before, &after));
    }

    /// Writes to the audit log which SCRAM credentials of these users have changed, without their
    /// contents.
    pub(super) fn credentials<'a>(&self, context: &Context, users: impl Iterator<Item = &'a str>) {
        let before = &self.0;
        let after = context.broker().metadata().image();
        for user in users {
            for mechanism in scram::ScramMechanism::ALL {
                let of = |image: &Arc<Image>| image.credentials().find(user, mechanism.code()).cloned();
                let (old, new) = (of(before), of(&after));
                if old != new {
                    tell_credential(context, (user, mechanism.name()), (old.is_some(), new.is_some()));
                }
            }
        }
    }

    /// Writes to the audit log that the controller of a cluster has set or removed a credential.
    pub(super) fn decided_credential(&self, context: &Context, (user, mechanism): (&str, i8), is_set: bool) {
        let was_set = self.0.credentials().find(user, mechanism).is_some();
        let known = scram::ScramMechanism::ALL.into_iter().find(|known| known.code() == mechanism);
        tell_credential(context, (user, known.map_or("unknown", |known| known.name())), (was_set, is_set));
    }

    /// Writes created or removed ACLs to the audit log.
    pub(super) fn acls<'a>(context: &Context, acls: impl Iterator<Item = &'a Acl>, came: bool) {
        for acl in acls {
            let text = acl.to_string();
            let (old, new) = if came { (None, Some(&*text)) } else { (Some(&*text), None) };
            let change =
                Change { kind: acl.resource_type.name(), name: &acl.resource_name, key: "acl", old, new };
            audit::changed(context.session(), context.header.api, &change);
            if came {
                log_change!(context, "access control entry added", entry = text,);
            } else {
                log_change!(context, "access control entry removed", entry = text,);
            }
        }
    }
}

fn configs_of(image: &Image, resource: &ConfigResource) -> Values {
    image.configs(resource).map_or_else(Values::new, |set| (**set).clone())
}

fn limits_of(image: &Image, entity: &QuotaEntity) -> Values {
    let limits = image.quotas().limits(entity).into_iter().flatten();
    limits.map(|(key, limit)| (key.clone(), limit.to_string())).collect()
}

/// Makes one change of a key among the set values of a resource, as the controller does.
fn alter(context: &Context, resource: &ConfigResource, change: &AlterConfig, values: &mut Values) {
    let AlterConfig { key, change } = change;
    // The controller has accepted the change. A list that this broker does not have stays as it is.
    let Ok(value) = changed(resource, key, change, values, &ByConfig(&context.broker().config())) else {
        return;
    };
    match value {
        Some(value) => values.insert(key.clone(), value),
        None => values.remove(key),
    };
}

/// Set values by key.
type Values = BTreeMap<String, String>;
/// Set values before and after.
type BeforeAfter<'a> = (&'a Values, &'a Values);

fn config_differences(context: &Context, resource: &ConfigResource, values: BeforeAfter<'_>) {
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
    differences(context, Subject { kind, name: &resource.name }, values, hides);
}

fn quota_differences(context: &Context, entity: &QuotaEntity, values: BeforeAfter<'_>) {
    let parts =
        entity.iter().map(|(kind, name)| format!("{kind}={}", name.as_deref().unwrap_or("<default>")));
    let name = parts.collect::<Vec<_>>().join(",");
    differences(context, Subject { kind: "CLIENT_QUOTA", name: &name }, values, |_| false);
}

fn tell_credential(context: &Context, (user, mechanism): (&str, &str), (was_set, is_set): (bool, bool)) {
    let (old, new) = (was_set.then_some(HIDDEN), is_set.then_some(HIDDEN));
    let change = Change { kind: "USER", name: user, key: mechanism, old, new };
    audit::changed(context.session(), context.header.api, &change);
    let removed = !is_set;
    log_change!(context, "credentials changed", user, mechanism, removed,);
}

/// The resource whose settings have changed.
struct Subject<'a> {
    kind: &'a str,
    name: &'a str,
}

fn differences(
    context: &Context,
    subject: Subject<'_>,
    (before, after): BeforeAfter<'_>,
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
            log_change!(
                context,
                "configuration changed",
                resource_type = kind,
                resource = name,
                key = key.as_str(),
                old = old.as_deref(),
                new = new.as_deref(),
            );
        }
    }
}
