//! The requester of an admission request.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::nullable::or_default;

/// The requester, as `UserInfo` of `authentication.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// Name of the user.
    pub username: String,
    /// Permanent identifier of the user. Two users with the same name have different identifiers.
    pub uid: String,
    /// Groups of the user.
    #[serde(deserialize_with = "or_default")]
    pub groups: Vec<String>,
    /// Claims of the user, by name. The values of a claim keep their order.
    #[serde(deserialize_with = "claims")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Decodes the claims. Go encodes a claim without values as null.
fn claims<'de, D: Deserializer<'de>>(field: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let claims: BTreeMap<String, Option<Vec<String>>> = or_default(field)?;
    let claims = claims.into_iter();
    Ok(claims
        .map(|(claim, values)| (claim, values.unwrap_or_default()))
        .collect())
}
