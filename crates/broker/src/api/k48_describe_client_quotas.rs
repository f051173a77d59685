//! DescribeClientQuotas (key 48), versions 0–1.
//!
//! Version 1 is flexible (KIP-482); the API is that of KIP-546.
//!
//! The quotas of the users, client ids and addresses that match the filter; a strict filter
//! excludes entities with parts that the filter does not name.

use levada_metadata::image::QuotaEntity;
use levada_security::acl::Operation;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::describe_client_quotas_request::ComponentData;
use levada_wire::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use levada_wire::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse, StrBytes};

use crate::api::{Context, text};

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

pub(crate) async fn answer(
    context: &Context,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let permitted = if context.may_cluster(Operation::DescribeConfigs) {
        check(&request.components)
    } else {
        Err(ErrorCode::ClusterAuthorizationFailed.into())
    };
    if let Err(failure) = permitted {
        return message!(DescribeClientQuotasResponse {
            error_code: failure.code.code(),
            error_message: failure.message.map(text),
            entries: None,
        });
    }
    let image = context.broker().metadata().image();
    let asked = image.quotas().iter().filter(|(entity, _)| {
        let size = !request.strict || entity.len() == request.components.len();
        size && request.components.iter().all(|component| matches(component, entity))
    });
    let entries = asked.map(|(entity, limits)| {
        let parts = entity.iter().map(|(kind, name)| {
            message!(EntityData {
                entity_type: kind.as_str().into(),
                entity_name: name.as_deref().map(StrBytes::from)
            })
        });
        let values =
            limits.iter().map(|(key, value)| message!(ValueData { key: key.as_str().into(), value: *value }));
        message!(EntryData { entity: parts.collect(), values: values.collect() })
    });
    message!(DescribeClientQuotasResponse {
        entries: Some(entries.collect()),
        error_message: Some("".into())
    })
}

fn check(components: &[ComponentData]) -> Result<(), Failure> {
    let invalid = |message: String| Err(Failure::new(ErrorCode::InvalidRequest, message));
    for (at, component) in components.iter().enumerate() {
        let kind = component.entity_type.as_str();
        match kind {
            "" => return invalid("Invalid empty entity type.".to_owned()),
            "user" | "client-id" | "ip" => {}
            _ => {
                let message = format!("Unsupported entity type {kind}");
                return Err(Failure::new(ErrorCode::UnsupportedVersion, message));
            }
        }
        if components[..at].iter().any(|earlier| earlier.entity_type.as_str() == kind) {
            return invalid(format!("Entity type {kind} cannot appear more than once in the filter."));
        }
        match (component.match_type, &component.match_) {
            (EXACT, Some(_)) | (DEFAULT | ANY, None) => {}
            (EXACT, None) => {
                return invalid(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.".to_owned(),
                );
            }
            (DEFAULT, Some(_)) => {
                return invalid(
                    "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.".to_owned(),
                );
            }
            (ANY, Some(_)) => {
                return invalid(
                    "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.".to_owned(),
                );
            }
            (other, _) => return invalid(format!("Unknown match type {other}")),
        }
    }
    let names = |kind: &str| components.iter().any(|component| component.entity_type.as_str() == kind);
    if names("ip") && (names("user") || names("client-id")) {
        return invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or \
             clientId filter component."
                .to_owned(),
        );
    }
    Ok(())
}

fn matches(component: &ComponentData, entity: &QuotaEntity) -> bool {
    let Some(name) = entity.get(component.entity_type.as_str()) else { return false };
    match component.match_type {
        EXACT => name.as_deref() == component.match_.as_ref().map(StrBytes::as_str),
        DEFAULT => name.is_none(),
        _ => true,
    }
}
