//! The requester of an admission request.

use std::collections::BTreeMap;

use api::decode::from_str;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::nullable::or_default;

/// Longest requester, in bytes of JSON. The groups and claims of a requester come from a token in an HTTP header, and a
/// header has at most 1 MiB. A group of three bytes needs up to 36 bytes of memory.
const USER_INFO_MAX: usize = 256 << 10;

/// The requester, as `UserInfo` of `authentication.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct UserInfo {
    /// Name of the user.
    pub(crate) username: String,
    /// Permanent identifier of the user. Two users with the same name have different identifiers.
    pub(crate) uid: String,
    /// Groups of the user.
    #[serde(deserialize_with = "or_default")]
    pub(crate) groups: Vec<String>,
    /// Claims of the user, by name. The values of a claim keep their order.
    #[serde(deserialize_with = "claims")]
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// Decodes the claims. Go encodes a claim without values as null.
fn claims<'de, D: Deserializer<'de>>(field: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let claims: BTreeMap<String, Option<Vec<String>>> = or_default(field)?;
    let claims = claims.into_iter();
    Ok(claims
        .map(|(claim, values)| (claim, values.unwrap_or_default()))
        .collect())
}

/// Decodes a requester that is not longer than [`USER_INFO_MAX`].
pub(crate) fn bounded<'de, D: Deserializer<'de>>(field: D) -> Result<UserInfo, D::Error> {
    let text: &RawValue = Deserialize::deserialize(field)?;
    if text.get().len() > USER_INFO_MAX {
        let problem = format_args!("userInfo is longer than {USER_INFO_MAX} bytes");
        return Err(D::Error::custom(problem));
    }
    from_str(text.get()).map_err(|error| D::Error::custom(format_args!("userInfo: {error}")))
}
