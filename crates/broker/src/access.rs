//! Access decisions of the running broker: the authorizer over the published image, the rate limit
//! of the audit log, the keys that verify tokens, and delegation tokens. [`levada_security`] has
//! the state machines and values that it uses.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use levada_metadata::Metadata;
use levada_metadata::image::Image;
use levada_security::Session;
use levada_security::acl::{Operation, ResourceType};
use levada_security::authorizer::Rule;

use crate::live_config::LiveConfig;

mod audit_pace;
mod signing_keys;
mod tokens;

use self::audit_pace::AuditPace;
use self::signing_keys::SigningKeys;
use self::tokens::{TokenCredentials, TokenIds};

/// Access control and the keys of tokens, by the configuration and the metadata in force.
pub(crate) struct Access {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    signing_keys: Arc<SigningKeys>,
    audit: AuditPace,
    token_credentials: TokenCredentials,
    token_ids: TokenIds,
}

impl Access {
    pub(crate) fn new(config: Arc<LiveConfig>, metadata: Arc<Metadata>) -> Self {
        let signing_keys = Arc::new(SigningKeys::new(config.clone()));
        let (audit, token_credentials, token_ids) = Default::default();
        Self { config, metadata, signing_keys, audit, token_credentials, token_ids }
    }

    /// The audit log.
    pub(crate) fn audit(&self) -> &AuditPace {
        &self.audit
    }

    /// Writes an authentication that failed to the audit log, at a pace.
    pub(crate) fn audit_refusal(
        &self,
        user: Option<&str>,
        address: IpAddr,
        listener: &str,
        reason: &dyn Display,
    ) {
        match user.filter(|user| self.has_user(user)) {
            Some(user) => self.audit.refused_user(user, address, listener, reason),
            None => self.audit.refused(user, address, listener, reason),
        }
    }

    /// True if a user has a password on this broker.
    fn has_user(&self, user: &str) -> bool {
        let config = self.config.load();
        config.security.sasl.values().any(|sasl| sasl.passwords.contains_key(user))
            || self.metadata.image().credentials().of(user).is_some()
    }

    /// The keys that tokens are signed with.
    pub(crate) fn signing_keys(&self) -> &Arc<SigningKeys> {
        &self.signing_keys
    }

    /// True if an authorizer is configured.
    pub(crate) fn has_authorizer(&self) -> bool {
        self.config.load().security.authorizer.is_some()
    }

    /// Rule that decides if the client may do that; none without access control.
    pub(crate) fn decide(&self, session: &Session, wanted: (Operation, ResourceType, &str)) -> Option<Rule> {
        let config = self.config.load();
        let authorizer = config.security.authorizer.as_ref()?;
        Some(authorizer.decide(self.metadata.image().acls().index(), session, wanted))
    }

    /// True if the client may do this to at least one resource of that type, existing or not.
    pub(crate) fn allows_some(&self, session: &Session, wanted: (Operation, ResourceType)) -> bool {
        let config = self.config.load();
        let allows = |image: Arc<Image>| {
            let authorizer = config.security.authorizer.as_ref();
            authorizer.is_none_or(|one| one.allows_some(image.acls().index(), session, wanted))
        };
        allows(self.metadata.image())
    }
}
