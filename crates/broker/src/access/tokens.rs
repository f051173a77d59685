//! Delegation tokens of the published image under the secret key of the configuration. The SCRAM
//! credential of a token is made at its first login and kept, because it takes milliseconds. The
//! HMACs of all tokens are kept from the first search for one on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use levada_metadata::image::Image;
use levada_metadata::records::DelegationTokenRecord;
use levada_security::delegation::{principal_parts, token_hmac, token_password};
use levada_security::process_secret;
use levada_security::scram::{Credential, ScramMechanism, TokenLogin};
use parking_lot::Mutex;

use crate::access::Access;

#[cfg(test)]
mod tests;

/// Credentials by id of the token and number of the mechanism. The secret key never changes while
/// the broker runs, so that a credential is valid as long as its token exists.
#[derive(Default)]
pub(super) struct TokenCredentials(Mutex<HashMap<(String, i8), Credential>>);

impl TokenCredentials {
    /// The credential of a token that is in `image`.
    fn of(&self, image: &Image, key: (&str, ScramMechanism), secret_key: &str) -> Credential {
        let (id, mechanism) = key;
        let key = (id.to_owned(), mechanism.code());
        if let Some(known) = self.0.lock().get(&key) {
            return known.clone();
        }
        let password = token_password(&token_hmac(secret_key, id));
        let credential = mechanism.token_credential(process_secret(), id, &password);
        let mut all = self.0.lock();
        if all.len() >= ScramMechanism::ALL.len() * image.tokens().len() {
            all.retain(|(id, _), _| image.tokens().contains_key(id));
        }
        all.insert(key, credential.clone());
        credential
    }
}

/// Ids of tokens by their HMACs. The first search after a change of the tokens updates the index,
/// so that searches for unknown HMACs are as fast as others.
#[derive(Default)]
pub(super) struct TokenIds(Mutex<IdsByHmac>);

#[derive(Default)]
struct IdsByHmac {
    /// Tokens by their HMACs.
    tokens: Arc<BTreeMap<String, DelegationTokenRecord>>,
    ids: HashMap<Vec<u8>, String>,
}

impl TokenIds {
    /// The id of the token of `image` with this HMAC.
    fn find(&self, image: &Image, hmac: &[u8], secret_key: &str) -> Option<String> {
        let mut known = self.0.lock();
        let IdsByHmac { tokens, ids } = &mut *known;
        if !Arc::ptr_eq(tokens, image.tokens()) {
            for id in tokens.keys().filter(|id| !image.tokens().contains_key(*id)) {
                ids.remove(&token_hmac(secret_key, id));
            }
            for id in image.tokens().keys().filter(|id| !tokens.contains_key(*id)) {
                ids.insert(token_hmac(secret_key, id), id.clone());
            }
            tokens.clone_from(image.tokens());
        }
        ids.get(hmac).cloned()
    }
}

impl Access {
    /// The HMAC of a token; none if delegation tokens are disabled.
    pub(crate) fn token_hmac(&self, id: &str) -> Option<Vec<u8>> {
        let config = self.config.load();
        Some(token_hmac(config.security.token_secret_key.as_ref()?.reveal(), id))
    }

    /// True if `delegation.token.secret.key` is set.
    pub(crate) fn has_tokens(&self) -> bool {
        self.config.load().security.token_secret_key.is_some()
    }

    /// The token of this HMAC; none if delegation tokens are disabled.
    pub(crate) fn token_of<'a>(&self, image: &'a Image, hmac: &[u8]) -> Option<&'a DelegationTokenRecord> {
        let config = self.config.load();
        let secret_key = config.security.token_secret_key.as_ref()?;
        image.tokens().get(&self.token_ids.find(image, hmac, secret_key.reveal())?)
    }

    /// The login by a token that exists and has not expired. The controller removes expired tokens
    /// some time later.
    pub(crate) fn token_login(&self, id: &str, mechanism: ScramMechanism, now_ms: i64) -> Option<TokenLogin> {
        let config = self.config.load();
        let secret_key = config.security.token_secret_key.as_ref()?;
        let image = self.metadata.image();
        let token = image.tokens().get(id).filter(|token| !token.is_expired(now_ms))?;
        let (_, owner) = principal_parts(&token.owner);
        Some(TokenLogin {
            owner: owner.to_owned(),
            credential: self.token_credentials.of(&image, (id, mechanism), secret_key.reveal()),
            expires_ms: token.expiration_timestamp,
        })
    }
}
